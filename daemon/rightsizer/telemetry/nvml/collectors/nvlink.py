"""The NVLinks one by one: state, speed, peer, errors; numbered fields over driver generations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final

import pynvml

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Nvlink
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import FieldKey, NvmlFailure
from rightsizer.telemetry.nvml.nvlink_wiring import link_is_up
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

KeyOf = Callable[[int], FieldKey | None]
"""The field of a link by its number; `None` where there is none for it."""


class NvlinkFact(Enum):
    """What is told of a link."""

    STATE = auto()
    SPEED = auto()
    RECEIVED = auto()
    TRANSMITTED = auto()
    CRC_ERRORS = auto()
    REPLAY_ERRORS = auto()
    RECOVERY_ERRORS = auto()


@dataclass(frozen=True, slots=True)
class NvlinkFieldScheme:
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
        if not told or any(isinstance(answer, NvmlFailure) or answer in _BLANKS for answer in told):
            return None
        return float(sum(told)) * self.scale

    def is_refused(self, link: int, answers: Mapping[FieldKey, Any]) -> bool:
        """Whether it is of no use to ask this way again."""
        told = [answers[key] for key in self.keys_of(link)]
        return not told or any(
            isinstance(answer, NvmlFailure) and answer.is_unsupported for answer in told
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

LINK_FACTS: Final[Mapping[NvlinkFact, tuple[NvlinkFieldScheme, ...]]] = MappingProxyType(
    {
        NvlinkFact.STATE: (NvlinkFieldScheme((_by_scope(pynvml.NVML_FI_DEV_NVLINK_GET_STATE),)),),
        NvlinkFact.SPEED: (
            NvlinkFieldScheme((_by_scope(pynvml.NVML_FI_DEV_NVLINK_GET_SPEED),), _MEGABYTE),
            NvlinkFieldScheme(
                (
                    _by_number(
                        pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_L0,
                        pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_L6,
                    ),
                ),
                _MEGABYTE,
            ),
        ),
        NvlinkFact.RECEIVED: (
            NvlinkFieldScheme(
                (_by_scope(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX),), _KIBIBYTE
            ),
            NvlinkFieldScheme((_by_scope(_RECEIVED_BYTES),)),
        ),
        NvlinkFact.TRANSMITTED: (
            NvlinkFieldScheme(
                (_by_scope(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX),), _KIBIBYTE
            ),
            NvlinkFieldScheme((_by_scope(_TRANSMITTED_BYTES),)),
        ),
        NvlinkFact.CRC_ERRORS: (
            NvlinkFieldScheme((_by_scope(pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC),)),
            NvlinkFieldScheme((_by_scope(_DAMAGED),)),
            NvlinkFieldScheme(
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
        NvlinkFact.REPLAY_ERRORS: (
            NvlinkFieldScheme((_by_scope(pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY),)),
            NvlinkFieldScheme(
                (
                    _by_number(
                        pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0,
                        pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6,
                    ),
                )
            ),
        ),
        NvlinkFact.RECOVERY_ERRORS: (
            NvlinkFieldScheme((_by_scope(pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY),)),
            NvlinkFieldScheme((_by_scope(_RECOVERIES),)),
            NvlinkFieldScheme(
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


_SIGNALS: Final = (Signal.NVLINK_LINKS, Signal.NVLINK_LINKS_UP, Signal.NVLINK_ERRORS)
_CALL: Final = "nvmlDeviceGetFieldValues"
_NO_LINK: Final = NvmlFailure(Missing.NOT_SUPPORTED, _CALL, "no NVLink leads anywhere")
_NO_ERRORS: Final = NvmlFailure(Missing.NOT_SUPPORTED, _CALL, "errors of NVLinks are not counted")
_ERRORS: Final = (NvlinkFact.CRC_ERRORS, NvlinkFact.REPLAY_ERRORS, NvlinkFact.RECOVERY_ERRORS)
_NO_ADDRESS: Final = "ffffffff:"
_GENERATIONS: Final[Mapping[int, int]] = MappingProxyType(
    # The driver counts its versions: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0, 6.0.
    {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5, 8: 6}
)


class _Links:
    """The links of one device, and which way the driver tells each fact of them."""

    def __init__(self, handle: DeviceHandle) -> None:
        self._handle = handle
        self._ways: dict[NvlinkFact, tuple[NvlinkFieldScheme, ...]] = dict(LINK_FACTS)
        self._errors: dict[int, float] = {}

    def read(self) -> tuple[Nvlink, ...] | NvmlFailure:
        """All links that lead somewhere."""
        numbers = self._handle.target.wiring.links
        answers = self._handle.ask_fields(self._keys(numbers))
        up: dict[int, bool] = {}
        for number in numbers:
            state = self._state(number, answers)
            if isinstance(state, NvmlFailure):
                return state
            up[number] = link_is_up(state)
        self._narrow([number for number in numbers if up[number]], answers)
        return tuple(self._link(number, answers, is_up=up[number]) for number in numbers)

    @property
    def errors(self) -> float | None:
        """All errors of all links; one that is down counts with what it last told."""
        return sum(self._errors.values()) if self._errors else None

    def close(self) -> None:
        """Nothing of the driver's is held."""

    def _keys(self, numbers: Sequence[int]) -> list[FieldKey]:
        ways = [way for ways in self._ways.values() for way in ways]
        return [key for number in numbers for way in ways for key in way.keys_of(number)]

    def _state(self, number: int, answers: Mapping[FieldKey, Any]) -> Any:
        for way in self._ways[NvlinkFact.STATE]:
            state = way.value(number, answers)
            if state is not None:
                return int(state)
        return self._handle.ask("nvmlDeviceGetNvLinkState", number)

    def _narrow(self, up: Sequence[int], answers: Mapping[FieldKey, Any]) -> None:
        """Keep to the way that tells each fact; a link that is down tells nothing of that."""
        if not up:
            return
        for fact, ways in self._ways.items():
            offered = [
                way for way in ways if not all(way.is_refused(number, answers) for number in up)
            ]
            telling = (
                way
                for way in offered
                if any(way.value(number, answers) is not None for number in up)
            )
            self._ways[fact] = tuple(offered) if not (one := next(telling, None)) else (one,)

    def _link(self, number: int, answers: Mapping[FieldKey, Any], *, is_up: bool) -> Nvlink:
        if not is_up:
            return Nvlink(number, is_up=False)
        told = {
            fact: next(
                (found for way in ways if (found := way.value(number, answers)) is not None), None
            )
            for fact, ways in self._ways.items()
        }
        errors = [count for fact in _ERRORS if (count := told[fact]) is not None]
        if errors:
            self._errors[number] = sum(errors)
        address, leads_to_switch = self._remote(number)
        return Nvlink(
            number,
            is_up=True,
            generation=self._generation(number),
            bytes_per_second=told[NvlinkFact.SPEED] or None,
            remote_pci_bus_id=address,
            leads_to_switch=leads_to_switch,
            receive_bytes=told[NvlinkFact.RECEIVED],
            transmit_bytes=told[NvlinkFact.TRANSMITTED],
            crc_errors=_whole(told[NvlinkFact.CRC_ERRORS]),
            replay_errors=_whole(told[NvlinkFact.REPLAY_ERRORS]),
            recovery_errors=_whole(told[NvlinkFact.RECOVERY_ERRORS]),
        )

    def _generation(self, number: int) -> int | None:
        version = self._handle.ask_once("nvmlDeviceGetNvLinkVersion", number)
        return None if isinstance(version, NvmlFailure) else _GENERATIONS.get(version)

    def _remote(self, number: int) -> tuple[str | None, bool]:
        """The PCI address at the other end, and whether a switch is there."""
        kind = self._handle.ask_once("nvmlDeviceGetNvLinkRemoteDeviceType", number)
        if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            return None, True
        info = self._handle.ask_once("nvmlDeviceGetNvLinkRemotePciInfo", number)
        if isinstance(info, NvmlFailure):
            return None, False
        address = str(info.busId).lower()
        return (None, True) if address.startswith(_NO_ADDRESS) else (address, False)


def _whole(count: float | None) -> int | None:
    return None if count is None else int(count)


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    if not handle.target.wiring.links:
        found: tuple[Nvlink, ...] | NvmlFailure = _NO_LINK
    else:
        links = handle.hold(_Links)
        found = links.read()
    if isinstance(found, NvmlFailure):
        for signal in _SIGNALS:
            draft.fail(signal, found)
        return
    draft.nvlinks = found
    draft.put(Signal.NVLINK_LINKS, len(found))
    draft.put(Signal.NVLINK_LINKS_UP, sum(link.is_up for link in found))
    draft.put(Signal.NVLINK_ERRORS, _NO_ERRORS if links.errors is None else links.errors)


NVLINK: Final = NvmlCollector("nvlink", _SIGNALS, _read, tells=("nvlinks",), is_slow=True)
