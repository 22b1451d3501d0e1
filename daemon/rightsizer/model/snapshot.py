"""Everything that was known at one tick, immutable: what telemetry hands to accounting."""

from collections.abc import Mapping
from typing import NamedTuple

from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.topology import FabricPort, Topology
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Holding


@dataclass(frozen=True, slots=True)
class Down:
    """Why a device gives no readings."""

    reason: Missing
    detail: str
    """What the driver said, for a person."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A GPU whose driver calls take so long that its readings come late or less often."""

    round_seconds: float
    """What its longest round of calls took since it has become slow."""
    postponed: tuple[str, ...]
    """The collectors that are asked less often for it, by name."""


class CollectorOutcome(NamedTuple):
    """How a collector's last pass over all devices went."""

    success: bool
    duration_seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The node, or a recording of one, at one tick."""

    wall_time: Nanoseconds
    """Since the epoch; may step back when the clock is set."""
    time: Nanoseconds
    """On the source's steady clock, the one that readings use."""
    interval: Nanoseconds
    """The source's usual time between two readings of a device."""
    devices: tuple[Device, ...]
    readings: Mapping[str, Reading]
    """By uuid; a device without one is silent at this tick."""
    down: Mapping[str, Down] = field(default_factory=dict)
    host: Mapping[Signal, float] = field(default_factory=dict)
    holdings: Mapping[str, tuple[Holding, ...]] = field(default_factory=dict)
    """Who holds each device, by uuid."""
    collectors: Mapping[str, CollectorOutcome] = field(default_factory=dict)
    """By name; empty for a source that only repeats what others collected."""
    abandoned_workers: int = 0
    """Threads that hang in the driver and were given up."""
    slow: Mapping[str, Slow] = field(default_factory=dict)
    """By uuid, the GPUs whose driver calls are slow."""
    topology: Topology | None = None
    xids: Mapping[str, XidLog] = field(default_factory=dict)
    """By uuid, of devices that are down too."""
    ports: tuple[FabricPort, ...] = ()
    driver: Mapping[str, str] = field(default_factory=dict)
    """Versions: `driver_version`, `cuda_version`, `nvml_version`."""
    released: str | None = None
    """What was let go on request and until when, `None` where nothing was."""
    trouble: str | None = None
    """Why the source offers no devices at all, `None` where it does."""

    def wall_time_of(self, time: Nanoseconds) -> Nanoseconds:
        """The wall time of a point on the steady clock, by this snapshot's pair of clocks."""
        return self.wall_time + time - self.time
