"""The estate as a store describes it: devices on nodes in pools, and who holds them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rightsizer.domain.device import Device
from rightsizer.domain.state import Resource
from rightsizer.domain.workload import Workload, WorkloadKind
from rightsizer.fleet.kept.track import Track

__all__ = ["Day", "Estate", "EstateDevice", "Held", "NodeAdvice", "Waiting"]


@dataclass(frozen=True, slots=True)
class EstateDevice:
    """A GPU or a MIG instance, and where it stands."""

    device: Device
    node: str
    """The host's name: `Hostname` of dcgm-exporter, the node of the pod, or `instance`
    without its port."""
    pool: str
    """Machines that are interchangeable: a label of the node, a Slurm partition, else the board."""
    cluster: str = ""
    demands: Mapping[Resource, float] = field(default_factory=dict, hash=False)
    """What its agent says is needed of it now, as `Provisioning.demand`; empty without an agent."""
    source: str = ""
    """Name of the source that reads it, where several know the estate."""
    scheduler: WorkloadKind | None = None
    """Who hands out its node, where a scheduler's exporter tells of it."""


@dataclass(frozen=True, slots=True)
class Held:
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


@dataclass(frozen=True, slots=True)
class Waiting:
    """Work that waits for GPUs: pending pods, jobs in a queue."""

    key: str
    """Owner, or partition."""
    pool: str
    """Empty where nobody tells."""
    gpus: float
    since_seconds: float | None = None
    gpus_each: float | None = None
    """Of its largest part, which needs them on one node; `None` where nobody tells."""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Estate:
    """What there is, as of one moment."""

    devices: Mapping[str, EstateDevice] = field(default_factory=dict)
    """By uuid."""
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    """By key; an identity that survives the churn of pods and jobs."""
    teams: Mapping[str, str] = field(default_factory=dict)
    """Who answers for a workload, by its key: a label, its namespace or its account."""
    advice: tuple[NodeAdvice, ...] = ()
    waiting: tuple[Waiting, ...] = ()


@dataclass(frozen=True, slots=True)
class Day:
    """One day of some devices."""

    tracks: Mapping[str, Track]
    """By uuid."""
    holdings: Mapping[str, tuple[Held, ...]] = field(default_factory=dict)
    """By uuid; shares of one stretch sum to at most 1."""
