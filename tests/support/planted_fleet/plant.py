"""A case of the planted fleet: some GPUs of a cluster, and what is right to say of them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from planted_fleet.activity import Board, Course, Load, steady
from rightsizer.model.finding import Reason

__all__ = [
    "ANY",
    "EMPTY",
    "HALL",
    "HELD",
    "KUBE",
    "OSLO",
    "PARIS",
    "SERVE",
    "TOO_LARGE",
    "TRAIN",
    "UNHEALTHY",
    "Abstention",
    "Holder",
    "Plant",
    "Style",
    "job",
    "plant",
    "service",
]


class Style(StrEnum):
    """How the series of a cluster name the holder of a GPU; the value names the cluster."""

    KUBERNETES = "paris"
    """`pod`, with honorLabels."""
    EXPORTED = "oslo"
    """`exported_pod`, since `pod` is the exporter's own, as the Prometheus operator scrapes."""
    SLURM = "hall"
    """`hpc_job`, on bare metal."""


class Holder(Struct, frozen=True):
    """The owner of pods, or a Slurm job."""

    kind: str
    name: str
    namespace: str = ""
    gpus_each: int = 1
    """GPUs of each of its pods."""


class Abstention(Struct, frozen=True):
    """What metrics cannot show: the rule that must abstain, and the metric that it must name."""

    rule: str
    metric: str


class Plant(Struct, frozen=True, eq=False):
    """Some GPUs of one cluster, and what is right to say of them."""

    what: str
    styles: frozenset[Style]
    board: Board
    load: Load = Load()
    gpus: int = 1
    holder: Holder | None = None
    reasons: frozenset[Reason] = frozenset()
    """Any of them reports it; none are due of a decoy."""
    also: frozenset[Reason] = frozenset()
    """Further ones that are true."""
    abstains: tuple[Abstention, ...] = ()
    says: str = ""
    """Text that instructions must contain."""
    ranks: Mapping[int, Load] = {}
    """Loads of single GPUs that differ."""
    fields: Mapping[str, Course] = {}
    """Further fields of its last GPU, or other values of usual ones."""
    fields_of_all: bool = False
    since_hours: float = 1e9
    """Before the present: its first sample."""
    held_hours: tuple[tuple[float, float], ...] = ((1e9, 0.0),)
    """Spans before the present, first to last, in which it has its holder; each has new pods."""
    gone_hours: float = 0.0
    """Before the present: the last sample of its last GPU, or of all."""
    are_all_gone: bool = False
    unprofiled_hours: float = 0.0
    """Before the present: since when profiling fields are missing."""
    has_profiling: bool = True
    is_listed: bool = True
    """Whether the scheduler knows its node."""
    pool: str = ""
    on_own_nodes: bool = False
    engine: Mapping[str, Course] = {}
    """Metrics of vLLM in its pods."""

    @property
    def is_decoy(self) -> bool:
        """Whether nothing must be said."""
        return not self.reasons and not self.abstains


PARIS: Final = frozenset({Style.KUBERNETES})
OSLO: Final = frozenset({Style.EXPORTED})
HALL: Final = frozenset({Style.SLURM})
KUBE: Final = PARIS | OSLO
ANY: Final = KUBE | HALL
TRAIN: Final = Load(
    0.99,
    0.93,
    0.48,
    0.06,
    0.42,
    0.93,
    0.83,
    pcie_bytes_per_second=1.5e9,
    nvlink_bytes_per_second=9e10,
    course=steady(0.98),
)
SERVE: Final = Load(0.95, 0.66, 0.34, 0.05, 0.48, 0.68, 0.55)
HELD: Final = Load(memory=0.62, pcie_bytes_per_second=0.0)
_SHARING: Final = frozenset(
    {
        Reason.SHARING_CANDIDATE_MIG,
        Reason.SHARING_CANDIDATE_MPS,
        Reason.SHARING_CANDIDATE_TIME_SLICE,
    }
)
TOO_LARGE: Final = _SHARING | {
    Reason.GPU_OVERPROVISIONED,
    Reason.GPU_MEMORY_OVERPROVISIONED,
    Reason.GPU_COUNT_OVERPROVISIONED,
}
EMPTY: Final = frozenset(
    {
        Reason.IDLE_EMPTY,
        Reason.GPU_COUNT_OVERPROVISIONED,
        Reason.DIURNAL_AUTOSCALE,
    }
)
UNHEALTHY: Final = frozenset({Reason.HARDWARE_UNHEALTHY})


def plant(
    what: str, styles: frozenset[Style], board: Board, *reasons: Reason, **more: Any
) -> Plant:
    """A case with the reasons that report it; none of a decoy."""
    return Plant(what, styles, board, reasons=frozenset(reasons), **more)


def service(name: str, namespace: str = "web") -> Holder:
    """A Deployment with a GPU each pod."""
    return Holder("Deployment", name, namespace)


def job(name: str, namespace: str = "research", gpus_each: int = 8) -> Holder:
    """A job whose pods have several GPUs."""
    return Holder("Job", name, namespace, gpus_each)
