"""Value types of a fleet: devices on nodes in pools, holders, the hourly view that rules judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.values import (
    Case,
    Device,
    Nanoseconds,
    Resource,
    Signal,
    Workload,
    WorkloadClass,
    XidLog,
)

if TYPE_CHECKING:  # Rules and settings do without numpy.
    from rightsizer.fleet.cache.day_frame import DayFrame

MOVABLE_CLASSES: Final = frozenset({WorkloadClass.SERVING, WorkloadClass.NOTEBOOK})
"""Workload classes that can restart on another GPU without loss of work."""


class Cluster(Struct, frozen=True):
    """A cluster whose series are in a store."""

    name: str = ""
    """Empty if no label tells."""
    prefix: str = ""
    """Prefix of names that other clusters may share; empty in a fleet of one cluster."""
    matchers: str = ""
    """Matchers of its series; empty if all series are its own."""

    def named(self, name: str) -> str:
        """Return a name unique in the fleet: `CLUSTER/NAME`."""
        return f"{self.prefix}/{name}" if self.prefix and name else name


class NodeWitness(Struct, frozen=True):
    """What other exporters say of a node whose GPUs are not seen any more."""

    is_up: bool | None
    """Whether the node lives; `None` if nothing tells."""
    source: str
    """Who says so."""
    has_shrunk: bool | None = None
    """Whether it offers fewer GPUs than before; `None` if nothing tells."""


class FleetDevice(Struct, frozen=True):
    """A GPU or MIG instance with its location."""

    device: Device
    node: str
    """Hostname by a label, else the instance without port."""
    pool: str
    """Interchangeable machines: a node label, a Slurm partition, else the board."""
    cluster: str = ""
    demands: Mapping[Resource, float] = {}
    """`Provisioning.demand` as exported by its agent now; empty without an agent."""
    readings: Mapping[Signal, float] = {}
    """Last readings of signals that days lack; absent signals are not measured."""
    xids: XidLog | None = None
    """`None` if Xids are not exported."""
    pod: str = ""
    """Name of the only pod that holds it; empty without one, or if unknown."""
    source: str = ""
    """Source that reads it, if several know the fleet."""
    seen: tuple[Nanoseconds, Nanoseconds] = (0, 0)
    """When its source had it first and last within the lookback, to the day."""
    former: str = ""
    """Source that reads the days before."""
    scheduler: str | None = None
    """Scheduler that allocates its node, according to the scheduler's exporter."""
    is_awaited: bool = False
    """Whether it is gone, but not its exporter's target."""
    provider: str = ""
    """Cloud that rents out its node, as in the price list: `aws`, `azure`; empty if unknown."""
    witness: NodeWitness | None = None
    """What others say of its node, if it is gone."""
    slot_ratio: float = 1.0
    """Part of it that one `nvidia.com/gpu` of its node is."""

    @property
    def is_shareable(self) -> bool:
        """Whether its node offers it several times, so that holders have what they requested."""
        return self.slot_ratio < 1.0


class DeviceHolding(Struct, frozen=True):
    """Share of a device that a workload held over intervals of a day."""

    workload: Workload
    first: int
    """First interval of the grid."""
    last: int
    """Last interval, inclusive."""
    share_ratio: float = 1.0


class NodeAdvice(Struct, frozen=True):
    """Advice exported by a node's own agent."""

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


class WaitingWork(Struct, frozen=True):
    """Work that waits for GPUs: pending pods, queued jobs."""

    key: str
    """Owner or partition."""
    pool: str
    """Empty if unknown."""
    gpus: float
    since_seconds: float | None = None
    gpus_each: float | None = None
    """GPUs on one node for its largest part; `None` if unknown."""
    namespace: str = ""
    cluster: str = ""
    team: str = ""
    """Empty if unknown."""


class FleetInventory(Struct, frozen=True):
    """Devices and workloads at one time."""

    devices: Mapping[str, FleetDevice] = {}
    """By uuid."""
    workloads: Mapping[str, Workload] = {}
    """By key, which survives restarts of pods and jobs."""
    teams: Mapping[str, str] = {}
    """Team of each workload by key: a label, its namespace or its account."""
    advice: tuple[NodeAdvice, ...] = ()
    waiting: tuple[WaitingWork, ...] = ()

    def merged(self, other: Self) -> Self:
        """Add what another inventory knows; this one wins."""
        return replace(
            self,
            devices={**other.devices, **self.devices},
            workloads={**other.workloads, **self.workloads},
            teams={**other.teams, **self.teams},
            advice=(*self.advice, *other.advice),
            waiting=(*self.waiting, *other.waiting),
        )


class FleetDay(Struct, frozen=True):
    """A day of some devices."""

    frames: Mapping[str, DayFrame]
    """By uuid."""
    holdings: Mapping[str, tuple[DeviceHolding, ...]] = {}
    """By uuid; shares of one interval sum to at most 1."""


class HourlySeries(Struct, frozen=True):
    """Hourly figures, aligned over all subjects of a view; `None` if unknown."""

    start: Nanoseconds
    values: Sequence[float | None]


class FleetWorkload(Struct, frozen=True):
    """A workload over the span."""

    case: Case
    """Without windows, unless a rule of the fleet may read them."""
    pool: str
    nodes: Mapping[str, int]
    """Number of its present devices by node."""
    team: str
    busy: HourlySeries
    """Time with a kernel resident in GPUs, over all its devices."""
    compute: HourlySeries
    """Compute in GPUs by the upper bound; peak within the hour of the sum."""
    memory_bytes: HourlySeries
    """Over all its devices, peak within the hour."""
    cluster: str = ""
    has_separate_pods: bool = False
    """Whether each device is held by a separate pod of a Deployment."""
    idle_held_seconds: float = 0.0
    """How long its devices were held but idle, since it took them."""

    @property
    def gpus(self) -> int:
        """Number of its present devices."""
        return sum(self.nodes.values())

    @property
    def namespace(self) -> str:
        """Namespace of the workload; empty without one."""
        return self.case.workload.namespace if self.case.workload else ""

    def needs(self, resource: Resource) -> list[float | None]:
        """Return the need of a resource on each device judged; `None` if unknown."""
        fits = self.case.provisioning
        return [fit.resources[resource].need for fit in fits if resource in fit.resources]

    @property
    def is_movable(self) -> bool:
        """Whether it is on one node and can be restarted elsewhere."""
        return self.case.workload_class in MOVABLE_CLASSES and len(self.nodes) == 1


class FleetPool(Struct, frozen=True):
    """Interchangeable machines over the span. Counts are whole GPUs, however divided."""

    name: str
    board: str | None
    """Catalogue key if all boards are equal, else `None`."""
    devices: tuple[FleetDevice, ...]
    """Present devices, without MIG parents."""
    present: HourlySeries
    held: HourlySeries
    """GPUs in use or allocated; hourly means."""
    held_peak: HourlySeries
    """Maximum held at once, by hour."""
    active: HourlySeries
    free_by_node: Mapping[str, int]
    """Whole GPUs without a holder now."""
    size_by_node: Mapping[str, int]
    node_free: Mapping[str, HourlySeries] = {}
    """GPUs without a holder, by node and hour."""
    shared_room: Mapping[str, tuple[float, ...]] = {}
    """Parts without a holder now of GPUs that several may share, by node."""
    cluster: str = ""

    def has_room(self, part: float) -> bool:
        """Whether a node has room now for a number of GPUs, or for a part of one."""
        if max(self.free_by_node.values(), default=0) >= part:
            return True
        return any(room >= part for rooms in self.shared_room.values() for room in rooms)

    @property
    def gpus(self) -> float:
        """Capacity of its devices, MIG instances by their share."""
        return sum(device.device.capacity_ratio for device in self.devices)

    @property
    def provider(self) -> str:
        """Cloud of its nodes; empty if unknown, or if they are of several."""
        providers = {device.provider for device in self.devices}
        return providers.pop() if len(providers) == 1 else ""

    @property
    def size(self) -> int:
        """Whole GPUs of all its nodes."""
        return sum(self.size_by_node.values())

    @property
    def free(self) -> int:
        """Whole GPUs without a holder now."""
        return sum(self.free_by_node.values())

    @property
    def largest_node(self) -> int:
        """Number of GPUs of its largest node."""
        return max(self.size_by_node.values(), default=0)


class LostDevice(Struct, frozen=True):
    """A whole GPU that was seen before but not now, or now without profiling."""

    device: FleetDevice
    since: Nanoseconds
    """Time it was last seen."""
    holder: str = ""
    """Key of its workload at that time."""
    is_profiling: bool = False
    """Whether only its profiling is lost."""


class FleetView(Struct, frozen=True):
    """Input of the fleet's rules."""

    start: Nanoseconds
    end: Nanoseconds
    pools: tuple[FleetPool, ...]
    workloads: tuple[FleetWorkload, ...]
    waiting: tuple[WaitingWork, ...] = ()
    coverage_ratio: float = 0.0
    """Known share of the present devices' time over the span."""
    lost: tuple[LostDevice, ...] = ()
    """By pool and uuid."""
    empty: Mapping[str, Nanoseconds] = {}
    """Since when devices without a holder are empty, by uuid."""
