"""The estate over a span of time, as its own rules look at it, by the hour."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rightsizer.domain.finding import Case
from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.estate import EstateDevice, Waiting

__all__ = ["EstateView", "Hours", "PoolView", "WorkloadView"]


@dataclass(frozen=True, slots=True)
class Hours:
    """A figure by the hour, aligned over all subjects of a view; `None` where unknown."""

    start: Nanoseconds
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A workload over the span."""

    case: Case
    pool: str
    nodes: Mapping[str, int]
    """How many of its devices each node has now."""
    team: str
    busy: Hours
    """GPUs' worth of time with a kernel resident, all its devices together."""
    compute: Hours
    """GPUs' worth of compute, by the upper bound, peak within the hour of the sum."""
    memory_bytes: Hours
    """All its devices together, the peak within the hour."""


@dataclass(frozen=True, slots=True)
class PoolView:
    """Machines that are interchangeable, over the span. Counts are whole GPUs, however divided."""

    name: str
    board: str | None
    """The catalogue's key where all are alike, `None` otherwise."""
    devices: tuple[EstateDevice, ...]
    """Those that are there now; MIG parents are not among them."""
    present: Hours
    held: Hours
    """GPUs that somebody holds, the mean over the hour."""
    held_peak: Hours
    """The most that were held at the same moment of the hour."""
    active: Hours
    free_by_node: Mapping[str, int]
    """Whole GPUs that nobody holds now."""
    size_by_node: Mapping[str, int]
    node_free: Mapping[str, Hours] = field(default_factory=dict, hash=False)
    """By node and hour, GPUs that nobody holds."""


@dataclass(frozen=True, slots=True)
class EstateView:
    """What a rule of the estate judges."""

    start: Nanoseconds
    end: Nanoseconds
    pools: tuple[PoolView, ...]
    workloads: tuple[WorkloadView, ...]
    waiting: tuple[Waiting, ...] = ()
    coverage_ratio: float = 0.0
    """Known time of all devices, over the span."""
