"""The numbered fields of an NVLink, over the generations of drivers that name them differently."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final

import pynvml

from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.library import FieldKey

__all__ = ["LINK_FACTS", "Fact", "Way"]

KeyOf = Callable[[int], FieldKey | None]
"""The field of a link by its number; `None` where there is none for it."""


class Fact(Enum):
    """What is told of a link."""

    STATE = auto()
    SPEED = auto()
    RECEIVED = auto()
    TRANSMITTED = auto()
    CRC_ERRORS = auto()
    REPLAY_ERRORS = auto()
    RECOVERY_ERRORS = auto()


@dataclass(frozen=True, slots=True)
class Way:
    """One way to learn a fact."""

    keys: tuple[KeyOf, ...]
    """The fact is the sum of these fields."""
    scale: float = 1.0
    """To base units."""

    def keys_of(self, link: int) -> list[FieldKey]:
        """The fields to ask for."""
        return [key for key_of in self.keys if (key := key_of(link)) is not None]

    def value(self, link: int, answers: Mapping[FieldKey, Any]) -> float | None:
        """The fact in base units, `None` where it is not told."""
        told = [answers[key] for key in self.keys_of(link)]
        if not told or any(isinstance(answer, Failure) or answer in _BLANKS for answer in told):
            return None
        return float(sum(told)) * self.scale

    def is_refused(self, link: int, answers: Mapping[FieldKey, Any]) -> bool:
        """Whether it is of no use to ask this way again."""
        told = [answers[key] for key in self.keys_of(link)]
        return not told or any(
            isinstance(answer, Failure) and answer.is_unsupported for answer in told
        )


def _by_scope(field: int) -> KeyOf:
    """A field that takes the link's number as its scope."""
    return lambda link: (field, link)


def _by_number(first_row: int, second_row: int) -> KeyOf:
    """An older field, which has a number for each of the first twelve links, in two rows."""

    def key(link: int) -> FieldKey | None:
        if link < _ROW:
            return first_row + link
        return second_row + link - _ROW if link < 2 * _ROW else None

    return key


_ROW: Final = 6
_MEGABYTE: Final = 1e6
_KIBIBYTE: Final = 2.0**10
_BLANKS: Final = frozenset({2**32 - 1, 2**64 - 1})
# Fields of NVLink 5, which the oldest bindings allowed do not name: _COUNT_XMIT_BYTES, _RCV_BYTES,
# _RCV_ERRORS (packets that came damaged) and _LINK_RECOVERY_EVENTS.
_TRANSMITTED_BYTES, _RECEIVED_BYTES, _DAMAGED, _RECOVERIES = 202, 204, 208, 215

LINK_FACTS: Final[Mapping[Fact, tuple[Way, ...]]] = MappingProxyType(
    {
        Fact.STATE: (Way((_by_scope(pynvml.NVML_FI_DEV_NVLINK_GET_STATE),)),),
        Fact.SPEED: (
            Way((_by_scope(pynvml.NVML_FI_DEV_NVLINK_GET_SPEED),), _MEGABYTE),
            Way(
                (
                    _by_number(
                        pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_L0,
                        pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_L6,
                    ),
                ),
                _MEGABYTE,
            ),
        ),
        Fact.RECEIVED: (
            Way((_by_scope(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX),), _KIBIBYTE),
            Way((_by_scope(_RECEIVED_BYTES),)),
        ),
        Fact.TRANSMITTED: (
            Way((_by_scope(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX),), _KIBIBYTE),
            Way((_by_scope(_TRANSMITTED_BYTES),)),
        ),
        Fact.CRC_ERRORS: (
            Way((_by_scope(pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC),)),
            Way((_by_scope(_DAMAGED),)),
            Way(
                (
                    _by_number(
                        pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0,
                        pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6,
                    ),
                    _by_number(
                        pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0,
                        pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6,
                    ),
                )
            ),
        ),
        Fact.REPLAY_ERRORS: (
            Way((_by_scope(pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY),)),
            Way(
                (
                    _by_number(
                        pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0,
                        pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6,
                    ),
                )
            ),
        ),
        Fact.RECOVERY_ERRORS: (
            Way((_by_scope(pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY),)),
            Way((_by_scope(_RECOVERIES),)),
            Way(
                (
                    _by_number(
                        pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0,
                        pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6,
                    ),
                )
            ),
        ),
    }
)
"""Each fact with the ways to learn it, best first."""
