"""One reading of one device: values, why others are missing, and what cannot be true."""

import math
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Nvlink
from rightsizer.model.units import Nanoseconds, Unit


class Missing(StrEnum):
    """Why a value is not there; never 0, -1 or NaN in its place."""

    NOT_SUPPORTED = "not_supported"
    """The device, its mode or the driver does not offer it."""
    NOT_READ = "not_read"
    """The source does not read it."""
    NO_PERMISSION = "no_permission"
    """The driver refuses it to this user."""
    NO_SAMPLE = "no_sample"
    """Supported, but there is nothing yet: a second sample, or a process, is needed."""
    INVALID = "invalid"
    """The driver answered with something that cannot be true."""
    STALE = "stale"
    """Last read too long ago to be held on."""
    TIMED_OUT = "timed_out"
    """The driver did not answer in time."""
    LOST = "lost"
    """The device has left the bus or the driver was unloaded."""
    SUSPENDED = "suspended"
    """The kernel has put the device to sleep; asking would wake it."""
    RELEASED = "released"
    """The device or its counters were released on request."""
    FAILED = "failed"
    """The driver answered with an error of its own."""


_NOTHING: Final[Mapping[Signal, Missing]] = MappingProxyType({})
_NO_ORIGINS: Final[Mapping[Signal, str]] = MappingProxyType({})


class ProcessKind(StrEnum):
    """How a process uses the device."""

    COMPUTE = "compute"
    GRAPHICS = "graphics"
    MPS = "mps"
    """A client of the multi-process service."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that holds a device. Its name, user and arguments do not matter here."""

    pid: int
    memory_used_bytes: int | None = None
    kind: ProcessKind = ProcessKind.COMPUTE
    gpu_busy: float | None = None
    """Its own share of time with a kernel resident; unknown on MIG instances."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of one device at one time."""

    uuid: str
    time: Nanoseconds
    """On the source's own steady clock; a recording's clock is its timestamps."""
    values: Mapping[Signal, float]
    missing: Mapping[Signal, Missing] = field(default_factory=lambda: _NOTHING)
    processes: tuple[Process, ...] | None = None
    """`None` where the processes are not known."""
    nvlinks: tuple[Nvlink, ...] = ()
    origins: Mapping[Signal, str] = field(default_factory=lambda: _NO_ORIGINS)
    """Which way each value came, where there are several: `gpm`, `dcgm`, `utilization`."""

    def get(self, signal: Signal) -> float | None:
        """The value of a signal, `None` where it is missing."""
        return self.values.get(signal)

    def enriched(self, values: Mapping[Signal, float], origin: str) -> "Reading":
        """The same with values that came another way, in place of those that are there."""
        origins = {**self.origins, **dict.fromkeys(values, origin)}
        return replace(self, values={**self.values, **values}, origins=origins)

    def why_missing(self, signal: Signal) -> Missing | None:
        """Why a signal has no value, `None` where it has one."""
        return None if signal in self.values else self.missing.get(signal, Missing.NOT_READ)


def scaled(number: float, factor: float) -> float:
    """A number in its base unit; 83% is 0.83 and nothing beside it, so that limits hold."""
    return number * factor if factor >= 1 else number / round(1 / factor)


def plausible(signal: Signal, value: float) -> float | Missing:
    """The value, or why it cannot be believed."""
    low, high = signal.bounds
    if not math.isfinite(value) or not low <= value <= high:
        return Missing.INVALID
    if signal.unit is Unit.RATIO:
        return min(value, 1.0)
    if signal is Signal.MEMORY_TEMPERATURE_CELSIUS and value == 0:
        return Missing.NOT_SUPPORTED  # Boards without the sensor read 0.
    return value
