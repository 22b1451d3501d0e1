"""Builder of a reading from the answers of the collectors; rejects impossible values."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from sys import float_info
from typing import Any, Final

from rightsizer.model.reading import Missing, Process, ProcessKind, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Nvlink
from rightsizer.model.units import Nanoseconds, Unit
from rightsizer.telemetry.nvml.library import NvmlFailure, is_blank

_BY_UNIT: Final[Mapping[Unit, tuple[float, float]]] = {
    # From the least that NVML can tell, for no board that answers draws nothing, to ten times
    # what the largest draws.
    Unit.WATTS: (1e-3, 20e3),
    # A thousand watts for three centuries.
    Unit.JOULES: (0.0, 1e13),
    Unit.CELSIUS: (-60.0, 200.0),
    Unit.HERTZ: (0.0, 100e9),
    Unit.BYTES: (0.0, 1e15),
}
_BY_SIGNAL: Final[Mapping[Signal, tuple[float, float]]] = {
    Signal.TEMPERATURE_MARGIN_CELSIUS: (-200.0, 200.0),
    Signal.MEMORY_TOTAL_BYTES: (1.0, 1e15),
    Signal.PCIE_LINK_GENERATION: (1.0, 16.0),
    Signal.PCIE_LINK_WIDTH: (1.0, 64.0),
    # Ten times and more what PCIe 7.0 and NVLink 6 carry.
    Signal.PCIE_RECEIVE_BYTES_PER_SECOND: (0.0, 4e12),
    Signal.PCIE_TRANSMIT_BYTES_PER_SECOND: (0.0, 4e12),
    Signal.NVLINK_RECEIVE_BYTES_PER_SECOND: (0.0, 50e12),
    Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND: (0.0, 50e12),
}
"""What a device itself can tell, both ends included; wide enough for boards to come."""
_BOUNDS: Final[Mapping[Signal, tuple[float, float]]] = {
    **{each: _BY_UNIT[each.unit] for each in Signal if each.unit in _BY_UNIT},
    **_BY_SIGNAL,
}

_FINITE: Final = (-float_info.max, float_info.max)
_NO_PART: Final = NvmlFailure(
    Missing.NOT_SUPPORTED, "nvmlDeviceGetMemoryInfo", "the driver tells no reserved memory"
)
_BENIGN: Final = frozenset({Missing.NOT_SUPPORTED, Missing.NO_SAMPLE, Missing.RELEASED})


def is_possible(signal: Signal, value: float) -> bool:
    """Whether a device can have this value, in the signal's unit; not whether it is likely."""
    low, high = _BOUNDS.get(signal, _FINITE)
    return low <= value <= high


class ReadingBuilder:
    """What the collectors found of one device; the first value of a signal stays."""

    def __init__(self) -> None:
        self.values: dict[Signal, float] = {}
        self.failures: dict[Signal, NvmlFailure] = {}
        self.origins: dict[Signal, str] = {}
        self.processes: tuple[Process, ...] | None = None
        self.other_processes: tuple[Process, ...] = ()
        """Those that do more than compute; a process may be on both lists."""
        self.process_shares: dict[int, float] = {}
        self.nvlinks: tuple[Nvlink, ...] = ()
        self.collecting = ""
        """The collector at work: the origin of what is put in."""
        self.lost: NvmlFailure | None = None
        """The answer that says that the device is gone; nothing more need be asked."""
        self.troubled = False
        """Whether an answer was a failure that is no device's normal case."""

    def put(self, signal: Signal, answer: Any, scale: float = 1.0) -> None:
        """Take a number in the driver's unit, or a failure."""
        if isinstance(answer, NvmlFailure):
            self.fail(signal, answer)
        elif signal not in self.values:
            value = answer * scale
            low, high = _BOUNDS.get(signal, _FINITE)
            may_be_negative = signal is Signal.TEMPERATURE_MARGIN_CELSIUS
            is_sound = low <= value <= high and (answer >= 0 or may_be_negative)
            if is_sound and not is_blank(answer):
                self.values[signal] = value
                self.origins[signal] = self.collecting
            else:
                self._reject(signal, answer)

    def put_percent(self, signal: Signal, answer: Any, overshoot_ratio: float = 0.0) -> None:
        """Take a percentage of capacity, or a failure; 1 at most."""
        if isinstance(answer, NvmlFailure):
            self.fail(signal, answer)
        elif signal not in self.values:
            if 0 <= answer <= 100 * (1 + overshoot_ratio):
                self.values[signal] = min(1.0, answer / 100)
                self.origins[signal] = self.collecting
            else:
                self._reject(signal, answer)

    def _reject(self, signal: Signal, answer: Any) -> None:
        self.fail(signal, NvmlFailure(Missing.INVALID, signal, f"the driver answered {answer}"))

    def put_parts(self, parts: Mapping[Signal, str], answer: Any) -> None:
        """Take the named parts of a structure of the driver's, or one failure for all."""
        for signal, part in parts.items():
            found = answer if isinstance(answer, NvmlFailure) else getattr(answer, part, _NO_PART)
            self.put(signal, found)

    def fail_all(self, signals: Iterable[Signal], failure: NvmlFailure) -> None:
        """Note why several signals are missing."""
        for signal in signals:
            self.fail(signal, failure)

    def fail(self, signal: Signal, failure: NvmlFailure) -> None:
        """Note why a signal is missing; a second way that failed says more than an absent one."""
        known = self.failures.get(signal)
        if known is None or known.reason is Missing.NOT_SUPPORTED:
            self.failures[signal] = failure
        if failure.reason is Missing.LOST:
            self.lost = failure
        if failure.reason not in _BENIGN:
            self.troubled = True

    def has_any(self, signals: Iterable[Signal]) -> bool:
        """Whether the device has one of some signals: a value, or a failure that may pass."""
        for signal in signals:
            failure = self.failures.get(signal)
            if failure is None or not failure.is_unsupported:
                return True
        return False

    def replace(self, signal: Signal, value: float) -> None:
        """Put a value in the place of another that cannot be true."""
        self.values[signal] = value
        self.origins[signal] = self.collecting

    def adopt(self, other: "ReadingBuilder") -> None:
        """Take what an earlier round found, where there is nothing newer."""
        for signal, value in other.values.items():
            if signal not in self.values:
                self.values[signal] = value
                self.origins[signal] = other.origins[signal]
        for signal, failure in other.failures.items():
            self.failures.setdefault(signal, failure)
        self.nvlinks = self.nvlinks or other.nvlinks
        self.other_processes = self.other_processes or other.other_processes
        self.process_shares = self.process_shares or other.process_shares

    def keep(
        self,
        collector: str,
        signals: Iterable[Signal],
        tells: Iterable[str],
        last: "ReadingBuilder",
    ) -> None:
        """Take what a collector gave the last time, where it was not asked this time."""
        for signal in signals:
            if last.origins.get(signal) == collector and signal not in self.values:
                self.values[signal] = last.values[signal]
                self.origins[signal] = collector
            elif signal in last.failures:
                self.failures.setdefault(signal, last.failures[signal])
        for name in tells:
            setattr(self, name, getattr(last, name))

    def reading(self, uuid: str, time: Nanoseconds) -> Reading:
        """The finished reading."""
        missing = {
            signal: failure.reason
            for signal, failure in self.failures.items()
            if signal not in self.values
        }
        processes = self._all_processes()
        if processes:
            self.values[Signal.PROCESS_COUNT] = len(processes)
        return Reading(uuid, time, self.values, missing, processes, self.nvlinks, self.origins)

    def _all_processes(self) -> tuple[Process, ...] | None:
        if self.processes is None or not (self.other_processes or self.process_shares):
            return self.processes
        found = {process.pid: process for process in self.processes}
        for other in self.other_processes:
            known = found.get(other.pid)
            if known is None:
                found[other.pid] = other
            elif other.kind is ProcessKind.MPS:
                # Its clients are on the list of those that compute, too.
                found[other.pid] = replace(known, kind=ProcessKind.MPS)
        return tuple(
            replace(process, gpu_busy=self.process_shares.get(process.pid))
            for process in found.values()
        )
