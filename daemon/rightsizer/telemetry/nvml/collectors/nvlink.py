"""The NVLinks one by one: which are up, how fast, where they lead, and how they fare."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import pynvml

from rightsizer.domain.nvlink import Nvlink
from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle
from rightsizer.telemetry.nvml.library import FieldKey
from rightsizer.telemetry.nvml.nvlink_fields import LINK_FACTS, Fact, Way
from rightsizer.telemetry.nvml.wiring import link_is_up

__all__ = ["NVLINK"]

_SIGNALS: Final = (Signal.NVLINK_LINKS, Signal.NVLINK_LINKS_UP, Signal.NVLINK_ERRORS)
_CALL: Final = "nvmlDeviceGetFieldValues"
_NO_LINK: Final = Failure(Missing.NOT_SUPPORTED, _CALL, "no NVLink leads anywhere")
_NO_ERRORS: Final = Failure(Missing.NOT_SUPPORTED, _CALL, "errors of NVLinks are not counted")
_ERRORS: Final = (Fact.CRC_ERRORS, Fact.REPLAY_ERRORS, Fact.RECOVERY_ERRORS)
_NO_ADDRESS: Final = "ffffffff:"
_GENERATIONS: Final[Mapping[int, int]] = MappingProxyType(
    # The driver counts its versions: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0, 6.0.
    {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5, 8: 6}
)


class _Links:
    """The links of one device, and which way the driver tells each fact of them."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._ways: dict[Fact, tuple[Way, ...]] = dict(LINK_FACTS)
        self._errors: dict[int, float] = {}

    def read(self) -> tuple[Nvlink, ...] | Failure:
        """All links that lead somewhere."""
        numbers = self._handle.target.wiring.links
        answers = self._handle.ask_fields(self._keys(numbers))
        up: dict[int, bool] = {}
        for number in numbers:
            state = self._state(number, answers)
            if isinstance(state, Failure):
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
        for way in self._ways[Fact.STATE]:
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
            bytes_per_second=told[Fact.SPEED] or None,
            remote_pci_bus_id=address,
            leads_to_switch=leads_to_switch,
            receive_bytes=told[Fact.RECEIVED],
            transmit_bytes=told[Fact.TRANSMITTED],
            crc_errors=_whole(told[Fact.CRC_ERRORS]),
            replay_errors=_whole(told[Fact.REPLAY_ERRORS]),
            recovery_errors=_whole(told[Fact.RECOVERY_ERRORS]),
        )

    def _generation(self, number: int) -> int | None:
        version = self._handle.ask_once("nvmlDeviceGetNvLinkVersion", number)
        return None if isinstance(version, Failure) else _GENERATIONS.get(version)

    def _remote(self, number: int) -> tuple[str | None, bool]:
        """The PCI address at the other end, and whether a switch is there."""
        kind = self._handle.ask_once("nvmlDeviceGetNvLinkRemoteDeviceType", number)
        if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            return None, True
        info = self._handle.ask_once("nvmlDeviceGetNvLinkRemotePciInfo", number)
        if isinstance(info, Failure):
            return None, False
        address = str(info.busId).lower()
        return (None, True) if address.startswith(_NO_ADDRESS) else (address, False)


def _whole(count: float | None) -> int | None:
    return None if count is None else int(count)


def _read(handle: Handle, draft: Draft) -> None:
    if not handle.target.wiring.links:
        found: tuple[Nvlink, ...] | Failure = _NO_LINK
    else:
        links = handle.hold(_Links)
        found = links.read()
    if isinstance(found, Failure):
        for signal in _SIGNALS:
            draft.fail(signal, found)
        return
    draft.nvlinks = found
    draft.put(Signal.NVLINK_LINKS, len(found))
    draft.put(Signal.NVLINK_LINKS_UP, sum(link.is_up for link in found))
    draft.put(Signal.NVLINK_ERRORS, _NO_ERRORS if links.errors is None else links.errors)


NVLINK: Final = Collector("nvlink", _SIGNALS, _read, tells=("nvlinks",), is_slow=True)
