"""Value types of a fleet: devices on nodes in pools, holders, the hourly view that rules judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.finding import Case
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.signal import Signal
from rightsizer.model.state import Resource
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind

if TYPE_CHECKING:  # Rules and settings do without numpy.
    from rightsizer.fleet.cache.day_frame import DayFrame

MOVABLE_CLASSES: Final = frozenset({WorkloadClass.SERVING, WorkloadClass.NOTEBOOK})
"""Workloads that may be restarted on another GPU without loss of their work."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One of the clusters whose series are in a store."""

    name: str = ""
    """Empty where no label tells."""
    prefix: str = ""
    """Of names that other clusters may have too; empty in a fleet of one cluster."""
    matchers: str = ""
    """What selects its series; empty where all are its own."""

    def named(self, name: str) -> str:
        """A name as no other cluster has it: `CLUSTER/NAME`."""
        return f"{self.prefix}/{name}" if self.prefix and name else name


@dataclass(frozen=True, slots=True)
class FleetDevice:
    """A GPU or a MIG instance, and where it stands."""

    device: Device
    node: str
    """The host's name, as a label has it, else the instance without its port."""
    pool: str
    """Machines that are interchangeable: a label of the node, a Slurm partition, else the board."""
    cluster: str = ""
    demands: Mapping[Resource, float] = field(default_factory=dict, hash=False)
    """What its agent exports as `Provisioning.demand` now; empty without an agent."""
    readings: Mapping[Signal, float] = field(default_factory=dict, hash=False)
    """The last of what no day keeps. A signal that is not in it is not measured."""
    xids: XidLog | None = field(default=None, hash=False)
    """`None` where Xids are not exported."""
    pod: str = ""
    """Name of the only pod that holds it now; empty where there is none, or it is not known."""
    source: str = ""
    """Name of the source that reads it, where several know the fleet."""
    scheduler: WorkloadKind | None = None
    """What allocates its node, where a scheduler's exporter has it."""


@dataclass(frozen=True, slots=True)
class DeviceHolding:
    """A workload's part of a device over some stretches of a day."""

    workload: Workload
    first: int
    """The first stretch of the grid."""
    last: int
    """The last one, itself included."""
    share_ratio: float = 1.0


@dataclass(frozen=True, slots=True)
class NodeAdvice:
    """Advice that a node's own agent exports."""

    id: str
    finding: str
    reason: str
    action: str
    workload: str
    devices: tuple[str, ...]
    confidence: float | None
    risk: str = ""
    savings_gpus: float | None = None
    savings_dollars_per_hour: float | None = None
    opened_seconds: float | None = None
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class WaitingWork:
    """Work that waits for GPUs: pending pods, jobs in a queue."""

    key: str
    """Owner, or partition."""
    pool: str
    """Empty where unknown."""
    gpus: float
    since_seconds: float | None = None
    gpus_each: float | None = None
    """Of its largest part, which needs them on one node; `None` where unknown."""
    namespace: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class FleetInventory:
    """What there is, as of one moment."""

    devices: Mapping[str, FleetDevice] = field(default_factory=dict)
    """By uuid."""
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    """By key; an identity that survives the churn of pods and jobs."""
    teams: Mapping[str, str] = field(default_factory=dict)
    """Of each workload, by its key: a label, its namespace or its account."""
    advice: tuple[NodeAdvice, ...] = ()
    waiting: tuple[WaitingWork, ...] = ()

    def merged(self, other: Self) -> Self:
        """With what another one knows; where both do, as it is here."""
        return replace(
            self,
            devices={**other.devices, **self.devices},
            workloads={**other.workloads, **self.workloads},
            teams={**other.teams, **self.teams},
            advice=(*self.advice, *other.advice),
            waiting=(*self.waiting, *other.waiting),
        )


@dataclass(frozen=True, slots=True)
class FleetDay:
    """One day of some devices."""

    frames: Mapping[str, DayFrame]
    """By uuid."""
    holdings: Mapping[str, tuple[DeviceHolding, ...]] = field(default_factory=dict)
    """By uuid; shares of one stretch sum to at most 1."""


@dataclass(frozen=True, slots=True)
class HourlySeries:
    """A figure by the hour, aligned over all subjects of a view; `None` where unknown."""

    start: Nanoseconds
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class FleetWorkload:
    """A workload over the span."""

    case: Case
    pool: str
    nodes: Mapping[str, int]
    """How many of its devices each node has now."""
    team: str
    busy: HourlySeries
    """GPUs' worth of time with a kernel resident, all its devices together."""
    compute: HourlySeries
    """GPUs' worth of compute, by the upper bound, peak within the hour of the sum."""
    memory_bytes: HourlySeries
    """All its devices together, the peak within the hour."""
    cluster: str = ""
    has_separate_pods: bool = False
    """Whether each of its devices is held by a pod of its own, of a Deployment."""

    @property
    def gpus(self) -> int:
        """Devices that it has now."""
        return sum(self.nodes.values())

    @property
    def namespace(self) -> str:
        """The workload's; empty without one."""
        return self.case.workload.namespace if self.case.workload else ""

    def needs(self, resource: Resource) -> list[float | None]:
        """Of each device whose need of a resource was looked at; `None` where it is unknown."""
        fits = self.case.provisioning
        return [fit.resources[resource].need for fit in fits if resource in fit.resources]

    @property
    def is_movable(self) -> bool:
        """Whether it is on one node and may be started elsewhere."""
        return self.case.workload_class in MOVABLE_CLASSES and len(self.nodes) == 1


@dataclass(frozen=True, slots=True)
class FleetPool:
    """Machines that are interchangeable, over the span. Counts are whole GPUs, however divided."""

    name: str
    board: str | None
    """The catalogue's key where all are alike, `None` otherwise."""
    devices: tuple[FleetDevice, ...]
    """Those that are there now; MIG parents are not among them."""
    present: HourlySeries
    held: HourlySeries
    """GPUs in use or allocated, the mean over the hour."""
    held_peak: HourlySeries
    """The most that were held at the same moment of the hour."""
    active: HourlySeries
    free_by_node: Mapping[str, int]
    """Whole GPUs without a holder now."""
    size_by_node: Mapping[str, int]
    node_free: Mapping[str, HourlySeries] = field(default_factory=dict, hash=False)
    """By node and hour, GPUs without a holder."""
    cluster: str = ""

    @property
    def gpus(self) -> float:
        """Of its devices, MIG instances by their part."""
        return sum(each.device.capacity_ratio for each in self.devices)

    @property
    def size(self) -> int:
        """Whole GPUs of all its nodes."""
        return sum(self.size_by_node.values())

    @property
    def free(self) -> int:
        """Of these, those without a holder now."""
        return sum(self.free_by_node.values())

    @property
    def largest_node(self) -> int:
        """GPUs of the node that has most."""
        return max(self.size_by_node.values(), default=0)


@dataclass(frozen=True, slots=True)
class LostDevice:
    """A whole GPU that was seen before and is not now, or not with profiling."""

    device: FleetDevice
    since: Nanoseconds
    """When it was seen last."""
    holder: str = ""
    """Key of the workload that had it then."""
    is_profiling: bool = False
    """Whether it is its profiling alone that is lost."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """What a rule of the fleet judges."""

    start: Nanoseconds
    end: Nanoseconds
    pools: tuple[FleetPool, ...]
    workloads: tuple[FleetWorkload, ...]
    waiting: tuple[WaitingWork, ...] = ()
    coverage_ratio: float = 0.0
    """Known time of all devices, over the span."""
    lost: tuple[LostDevice, ...] = ()
    """By pool and uuid."""
    empty: Mapping[str, Nanoseconds] = field(default_factory=dict, hash=False)
    """By uuid, since when devices are empty that nothing holds now."""
