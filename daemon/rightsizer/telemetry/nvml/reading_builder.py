"""Builder of a reading from the collectors' answers; rejects impossible values."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from rightsizer.model.values import (
    Missing,
    Nanoseconds,
    Nvlink,
    Process,
    ProcessKind,
    Reading,
    Signal,
    count_computing,
)
from rightsizer.telemetry.nvml.library import NvmlFailure, is_blank

_NO_PART: Final = NvmlFailure(
    Missing.NOT_SUPPORTED, "nvmlDeviceGetMemoryInfo", "the driver tells no reserved memory"
)
_BENIGN: Final = frozenset({Missing.NOT_SUPPORTED, Missing.NO_SAMPLE, Missing.RELEASED})


def is_possible(signal: Signal, value: float) -> bool:
    """Whether a device can have this value, in the signal's unit; not whether it is likely."""
    low, high = signal.bounds
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
            low, high = signal.bounds
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

    def put_parts(self, parts: Mapping[Signal, str], total: str, answer: Any) -> None:
        """Add members of a structure, none above its total, by signal; or one failure for all."""
        if isinstance(answer, NvmlFailure):
            self.fail_all(parts, answer)
            return
        maximum = getattr(answer, total)
        for signal, part in parts.items():
            value = getattr(answer, part, _NO_PART)
            if value is not _NO_PART and value > maximum:
                self.reject(signal, value)
            else:
                self.put(signal, value)

    def fail_all(self, signals: Iterable[Signal], failure: NvmlFailure) -> None:
        """Record why several signals are missing."""
        for signal in signals:
            self.fail(signal, failure)

    def fail(self, signal: Signal, failure: NvmlFailure) -> None:
        """Record why a signal is missing; a failed call outranks an unsupported one."""
        nvml_failure = self.failures.get(signal)
        if nvml_failure is None or nvml_failure.reason is Missing.NOT_SUPPORTED:
            self.failures[signal] = failure
        if failure.device_is_gone:
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

    def add_missing(self, other: "ReadingBuilder") -> None:
        """Add results of an earlier round that this one lacks."""
        self.values = {**other.values, **self.values}
        self.origins = {**other.origins, **self.origins}
        self.failures = {**other.failures, **self.failures}
        self.nvlinks = self.nvlinks or other.nvlinks
        self.other_processes = self.other_processes or other.other_processes
        self.process_shares = self.process_shares or other.process_shares

    def keep_results(
        self,
        collector: str,
        signals: Iterable[Signal],
        attributes: Iterable[str],
        last: "ReadingBuilder",
    ) -> None:
        """Keep a collector's last results, if it did not run this time."""
        for signal in signals:
            if last.origins.get(signal) == collector and signal not in self.values:
                self.values[signal] = last.values[signal]
                self.origins[signal] = collector
            elif signal in last.failures:
                self.failures.setdefault(signal, last.failures[signal])
        for name in attributes:
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
        by_pid = {process.pid: process for process in self.processes}
        for other in self.other_processes:
            listed = by_pid.get(other.pid)
            if listed is None:
                by_pid[other.pid] = other
            elif other.kind is ProcessKind.MPS:
                # MPS clients are on the compute list, too.
                by_pid[other.pid] = replace(listed, kind=ProcessKind.MPS)
        return tuple(
            replace(process, gpu_busy=self.process_shares.get(process.pid))
            for process in by_pid.values()
        )
