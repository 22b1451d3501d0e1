"""Builder of a reading from the collectors' answers; rejects impossible values."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from sys import float_info
from typing import Any, Final

from rightsizer.model.reading import Missing, Process, ProcessKind, Reading, count_computing
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Nvlink
from rightsizer.model.units import Nanoseconds, Unit
from rightsizer.telemetry.nvml.library import NvmlFailure, is_blank

_BY_UNIT: Final[Mapping[Unit, tuple[float, float]]] = {
    # From NVML's resolution, since no responding board draws nothing, to ten times the largest
    # board's draw.
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
    Signal.BAR1_TOTAL_BYTES: (1.0, 1e15),
    Signal.PERFORMANCE_STATE: (0.0, 31.0),
    Signal.PCIE_LINK_GENERATION: (1.0, 16.0),
    Signal.PCIE_LINK_WIDTH: (1.0, 64.0),
    # At least ten times the rates of PCIe 7.0 and NVLink 6.
    Signal.PCIE_RECEIVE_BYTES_PER_SECOND: (0.0, 4e12),
    Signal.PCIE_TRANSMIT_BYTES_PER_SECOND: (0.0, 4e12),
    Signal.NVLINK_RECEIVE_BYTES_PER_SECOND: (0.0, 50e12),
    Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND: (0.0, 50e12),
}
"""Possible values of a device, bounds included; wide enough for future boards."""
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
    """Answers of the collectors for one device; the first value of a signal wins."""

    def __init__(self) -> None:
        self.values: dict[Signal, float] = {}
        self.failures: dict[Signal, NvmlFailure] = {}
        self.origins: dict[Signal, str] = {}
        self.processes: tuple[Process, ...] | None = None
        self.other_processes: tuple[Process, ...] = ()
        """Processes with more than compute; a process may be on both lists."""
        self.process_shares: dict[int, float] = {}
        self.nvlinks: tuple[Nvlink, ...] = ()
        self.collecting = ""
        """Running collector: the origin of values put in."""
        self.lost: NvmlFailure | None = None
        """Failure that shows that the device is gone; further calls are pointless."""
        self.trouble: NvmlFailure | None = None
        """First failure beyond the normal ones, since this was last reset."""

    def put(self, signal: Signal, answer: Any, scale: float = 1.0) -> None:
        """Add a number in the driver's unit, or a failure."""
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
                self.reject(signal, answer)

    def put_percent(self, signal: Signal, answer: Any, overshoot_ratio: float = 0.0) -> None:
        """Add a percentage of capacity, capped at 100, or a failure."""
        if isinstance(answer, NvmlFailure):
            self.fail(signal, answer)
        elif signal not in self.values:
            if 0 <= answer <= 100 * (1 + overshoot_ratio):
                self.values[signal] = min(1.0, answer / 100)
                self.origins[signal] = self.collecting
            else:
                self.reject(signal, answer)

    def reject(self, signal: Signal, answer: Any) -> None:
        """Record that an answer cannot be true."""
        self.fail(signal, NvmlFailure(Missing.INVALID, signal, f"the driver answered {answer}"))

    def put_parts(self, parts: Mapping[Signal, str], answer: Any) -> None:
        """Add members of a structure by signal, or one failure for all."""
        for signal, part in parts.items():
            found = answer if isinstance(answer, NvmlFailure) else getattr(answer, part, _NO_PART)
            self.put(signal, found)

    def fail_all(self, signals: Iterable[Signal], failure: NvmlFailure) -> None:
        """Record why several signals are missing."""
        for signal in signals:
            self.fail(signal, failure)

    def fail(self, signal: Signal, failure: NvmlFailure) -> None:
        """Record why a signal is missing; a failed call outranks an unsupported one."""
        known = self.failures.get(signal)
        if known is None or known.reason is Missing.NOT_SUPPORTED:
            self.failures[signal] = failure
        if failure.reason is Missing.LOST:
            self.lost = failure
        if failure.reason not in _BENIGN:
            self.trouble = self.trouble or failure

    def has_any(self, signals: Iterable[Signal]) -> bool:
        """Whether the device has any of the signals: a value, or a temporary failure."""
        for signal in signals:
            failure = self.failures.get(signal)
            if failure is None or not failure.is_unsupported:
                return True
        return False

    def replace(self, signal: Signal, value: float) -> None:
        """Replace a value that cannot be true."""
        self.values[signal] = value
        self.origins[signal] = self.collecting

    def adopt(self, other: "ReadingBuilder") -> None:
        """Add results of an earlier round that this one lacks."""
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
        """Keep a collector's last results, if it did not run this time."""
        for signal in signals:
            if last.origins.get(signal) == collector and signal not in self.values:
                self.values[signal] = last.values[signal]
                self.origins[signal] = collector
            elif signal in last.failures:
                self.failures.setdefault(signal, last.failures[signal])
        for name in tells:
            setattr(self, name, getattr(last, name))

    def reading(self, uuid: str, time: Nanoseconds) -> Reading:
        """Return the finished reading."""
        missing = {
            signal: failure.reason
            for signal, failure in self.failures.items()
            if signal not in self.values
        }
        processes = self._all_processes()
        if counted := count_computing(processes or ()):
            self.values[Signal.PROCESS_COUNT] = counted
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
                # MPS clients are on the compute list, too.
                found[other.pid] = replace(known, kind=ProcessKind.MPS)
        return tuple(
            replace(process, gpu_busy=self.process_shares.get(process.pid))
            for process in found.values()
        )
