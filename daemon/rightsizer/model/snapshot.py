"""Immutable state of a node at one tick, passed from telemetry to accounting."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.served_counts import ServedSample
from rightsizer.model.signal import Signal
from rightsizer.model.topology import FabricPort, Topology
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Holding


class Down(Struct, frozen=True):
    """Reason why a device has no readings."""

    reason: Missing
    detail: str
    """Message of the driver, for people."""
    cause: str = ""
    """What the driver said beyond the reason, as `GPU requires reset` or `Xid 79`; few texts."""
    is_of_driver: bool = False
    """Whether the driver as a whole is away, which says nothing about the device itself."""


class Slow(Struct, frozen=True):
    """GPU with slow driver calls, read late or less often."""

    round_seconds: float
    """Longest round of calls since it became slow."""
    postponed: tuple[str, ...]
    """Names of the collectors that run less often for it."""


class Refusal(NamedTuple):
    """Part of an answer that was left out."""

    items: int
    """Number of devices, holders or lines."""
    reason: str
    """What was left out and why, with the remedy."""


class CollectorOutcome(NamedTuple):
    """Result of a collector's last pass over all devices."""

    success: bool
    duration_seconds: float
    failure: str | None = None
    """Device, call and message of the first failure, unless the device is down."""
    refusal: Refusal | None = None
    """Part of the last answer that was left out, or `None`."""


class Snapshot(Struct, frozen=True):
    """State of a node, live or recorded, at one tick."""

    wall_time: Nanoseconds
    """Since the epoch; may step back when the clock is set."""
    time: Nanoseconds
    """Source's monotonic clock, as in readings."""
    interval: Nanoseconds
    """Nominal time between two readings of a device."""
    devices: tuple[Device, ...]
    readings: Mapping[str, Reading]
    """By uuid; a device without a reading is silent at this tick."""
    down: Mapping[str, Down] = {}
    host: Mapping[Signal, float] = {}
    holdings: Mapping[str, tuple[Holding, ...]] = {}
    """Holders of each device, by uuid."""
    collectors: Mapping[str, CollectorOutcome] = {}
    """By name; empty for a source that only replays collected data."""
    abandoned_workers: int = 0
    """Number of threads that hang in the driver and were abandoned."""
    slow: Mapping[str, Slow] = {}
    """GPUs with slow driver calls, by uuid."""
    topology: Topology | None = None
    xids: Mapping[str, XidLog] = {}
    """By uuid, including devices that are down."""
    ports: tuple[FabricPort, ...] = ()
    driver: Mapping[str, str] = {}
    """Versions: `driver_version`, `cuda_version`, `nvml_version`."""
    intervals: Mapping[str, Nanoseconds] = {}
    """By uuid, of devices with an interval of their own at this time."""
    served: tuple[ServedSample, ...] = ()
    """Models of engines that were asked since the last tick."""
    released: str | None = None
    """Resource released on request and end of the release, or `None`."""
    trouble: str | None = None
    """Why the source has no devices, or `None` if it has some."""

    def wall_time_of(self, time: Nanoseconds) -> Nanoseconds:
        """Convert a time of the monotonic clock to wall time, by this snapshot's clock pair."""
        return self.wall_time + time - self.time
