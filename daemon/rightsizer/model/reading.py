"""Reading of one device at one time: values, reasons for missing ones, plausibility."""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.signal import Signal
from rightsizer.model.topology import Nvlink
from rightsizer.model.units import Nanoseconds, Unit


class Missing(StrEnum):
    """Reason for a missing value; 0, -1 or NaN never stand for one."""

    NOT_SUPPORTED = "not_supported"
    """Not available on the device, in its mode, or in the driver."""
    NOT_READ = "not_read"
    """The source does not read it."""
    NO_PERMISSION = "no_permission"
    """Denied to this user by the driver."""
    NO_SAMPLE = "no_sample"
    """Supported, but not available yet: needs a second sample or a process."""
    INVALID = "invalid"
    """The driver returned an implausible value."""
    STALE = "stale"
    """The last value is too old to be reused."""
    TIMED_OUT = "timed_out"
    """The driver did not respond in time."""
    LOST = "lost"
    """The device fell off the bus, or the driver was unloaded."""
    SUSPENDED = "suspended"
    """The kernel has suspended the device; a query would wake it."""
    RELEASED = "released"
    """The device or its counters were released on request."""
    FAILED = "failed"
    """The driver returned another error."""

    @property
    def is_fault(self) -> bool:
        """Whether the device or its driver failed; it may also be released, asleep or not read."""
        return self in (Missing.LOST, Missing.TIMED_OUT, Missing.FAILED)


_NOTHING: Final[Mapping[Signal, Missing]] = MappingProxyType({})
_NO_ORIGINS: Final[Mapping[Signal, str]] = MappingProxyType({})


class ProcessKind(StrEnum):
    """How a process uses the device."""

    COMPUTE = "compute"
    GRAPHICS = "graphics"
    MPS = "mps"
    """Client of the multi-process service (MPS)."""


class Process(Struct, frozen=True):
    """Process that holds a device; its name, user and arguments are not kept."""

    pid: int
    memory_used_bytes: int | None = None
    kind: ProcessKind = ProcessKind.COMPUTE
    gpu_busy: float | None = None
    """Its own share of time with a kernel resident; unknown on MIG instances."""


def count_computing(processes: Iterable[Process]) -> int:
    """Count processes without those that only draw: a display's server is on every GPU."""
    return sum(process.kind is not ProcessKind.GRAPHICS for process in processes)


class Reading(Struct, frozen=True):
    """Values of one device at one time."""

    uuid: str
    time: Nanoseconds
    """Source's monotonic clock; for a recording, its timestamps."""
    values: Mapping[Signal, float]
    missing: Mapping[Signal, Missing] = _NOTHING
    processes: tuple[Process, ...] | None = None
    """`None` if unknown."""
    nvlinks: tuple[Nvlink, ...] = ()
    origins: Mapping[Signal, str] = _NO_ORIGINS
    """Source of each value if there are several: `gpm`, `dcgm`, `utilization`."""

    def get(self, signal: Signal) -> float | None:
        """Value of a signal, or `None` if missing."""
        return self.values.get(signal)

    def enriched(self, values: Mapping[Signal, float], origin: str) -> "Reading":
        """Copy with values of another origin, which override existing ones."""
        origins = {**self.origins, **dict.fromkeys(values, origin)}
        return replace(self, values={**self.values, **values}, origins=origins)

    def why_missing(self, signal: Signal) -> Missing | None:
        """Reason for a missing signal, or `None` if it has a value."""
        return None if signal in self.values else self.missing.get(signal, Missing.NOT_READ)


def scaled(number: float, factor: float) -> float:
    """Scale to the base unit exactly (83 % is 0.83), so that comparisons with limits hold."""
    return number * factor if factor >= 1 else number / round(1 / factor)


def impossibility(signal: Signal, value: float) -> str:
    """Return why no device has a value, or an empty text."""
    low, high = signal.bounds
    if low <= value <= high:
        return ""
    if signal.unit is Unit.RATIO and value > high:
        return "more than one GPU can have (a sum over several?)"
    return "impossible value"


def plausible(signal: Signal, value: float) -> float | Missing:
    """Return the value, or why it is implausible."""
    low, high = signal.bounds
    if not math.isfinite(value) or not low <= value <= high:
        return Missing.INVALID
    if signal.unit is Unit.RATIO:
        return min(value, 1.0)
    if value == 0 and signal in (Signal.MEMORY_TEMPERATURE_CELSIUS, Signal.MEMORY_TOTAL_BYTES):
        return Missing.NOT_SUPPORTED  # Boards without the sensor, or with the host's memory.
    return value
