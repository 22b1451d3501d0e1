"""Documents of a fleet's answer: public keys, in this order."""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from rightsizer.fleet.model import NodeAdvice, WaitingWork
from rightsizer.fleet.source import StoreUse
from rightsizer.fleet.usage import UseRow
from rightsizer.model.values import Action, Reason, ServedLoad, Tier
from rightsizer.report.advice_document import AdviceDocument, FindingDocument

_Count: TypeAlias = Annotated[int, Meta(ge=0)]
_Amount: TypeAlias = Annotated[float, Meta(ge=0.0)]


class FleetSourceDocument(Struct, frozen=True):
    """Probe of one source."""

    source: str
    cluster: str
    is_found: bool
    devices: _Count
    oldest: float | None
    """Seconds since the epoch."""
    resolution_seconds: float | None
    tier: Tier
    can: tuple[str, ...]
    cannot: tuple[str, ...]
    warnings: tuple[str, ...]


class FleetPoolDocument(Struct, frozen=True):
    """Pool in whole GPUs, its means scaled to its present size."""

    name: str
    cluster: str
    board: str | None
    gpus: _Amount
    nodes: _Count
    held_mean: float | None
    held_peak: float | None
    active_mean: float | None
    free_now: int
    waiting_gpus: float | None


class HeldGpuDocument(Struct, frozen=True):
    """Present GPU, or a part of one, of a holder, and what became of its hours."""

    cluster: str
    team: str
    pool: str
    node: str
    uuid: str
    name: str
    board: str | None
    workload: str
    gpus: _Amount
    held_gpu_hours: float
    unknown_gpu_hours: float
    used_gpu_hours: float
    headroom_gpu_hours: float
    idle_gpu_hours: float
    stalled_gpu_hours: float
    lost_gpu_hours: float
    free_gpu_hours: float
    dollars_per_day: float | None


class StepDocument(Struct, frozen=True):
    """Step that frees GPUs."""

    action: Action
    advice: str | None
    workloads: tuple[str, ...]
    frees: Mapping[str, int]
    """Whole GPUs by node."""
    target: str | None


class OfferDocument(Struct, frozen=True):
    """GPUs of one pool for waiting work."""

    pool: str
    gpus: float
    is_now: bool
    nodes: Mapping[str, float]
    steps: tuple[StepDocument, ...]


class WaitingDocument(Struct, frozen=True):
    """Waiting work, and what it could have."""

    key: str
    cluster: str
    pool: str
    namespace: str
    team: str
    gpus: float
    waiting_seconds: float | None
    memory_bytes: float | None
    now_gpus: float
    after_gpus: float
    left_gpus: float
    why_left: str | None
    offers: tuple[OfferDocument, ...]


class FetchDocument(Struct, frozen=True, kw_only=True):
    """What a run would query."""

    time: float
    sources: tuple[FleetSourceDocument, ...]
    fine_days: int
    coarse_days: int
    kept_device_days: int
    device_days: int
    shards: int
    queries: int
    samples: int


class ReadingDocument(FetchDocument, frozen=True, kw_only=True):
    """What a shard of the nodes has read into its cache."""

    days: str
    """Path of the cache."""
    use: StoreUse
    notes: tuple[str, ...]


class RuleVerdicts(Struct):
    """Verdicts of one rule, counted."""

    complaints: _Count = 0
    well: _Count = 0
    abstained: dict[str, _Count] = {}
    """By reason."""
    missing: dict[str, _Count] = {}
    """By what telemetry is missing, most frequent first."""


class FleetClusterDocument(Struct, frozen=True):
    """Sums over the pools of a cluster."""

    name: str
    pools: _Count
    nodes: _Count
    gpus: _Amount
    workloads: _Count
    held_mean: float | None
    active_mean: float | None
    free_now: int
    waiting_gpus: float


class FleetFindingDocument(FindingDocument, frozen=True):
    """Finding with its place, which is empty if unknown."""

    key: str | None
    cluster: str
    team: str


class FleetAdviceDocument(AdviceDocument, frozen=True):
    """Recommendation with its place, which is empty if unknown."""

    reasons: Annotated[tuple[Reason, ...], Meta(min_length=1)]
    key: str | None
    cluster: str
    team: str


class NodeAdviceDocument(NodeAdvice, frozen=True, kw_only=True):
    """Advice of a node's own agent, with the team of its GPUs."""

    team: str


class ServedOptionDocument(Struct, frozen=True):
    """Change that a finding about an engine advises, as far as a fleet shows it."""

    change: str
    text: str
    probability: float | None
    risk: str
    launch: str | None
    canary: str | None


class ServedFindingDocument(Struct, frozen=True):
    """Finding about an engine."""

    kind: str
    summary: str
    abstained: str | None
    causes: tuple[str, ...]
    evidence: tuple[str, ...]
    options: tuple[ServedOptionDocument, ...]


class ServedFigureDocument(Struct, frozen=True):
    """Figure of an engine, measured and predicted."""

    what: str
    measured: float | None
    predicted: float | None
    predicted_low: float | None
    predicted_high: float | None


class ServedModelDocument(Struct, frozen=True):
    """What a fleet reads of an answer about an engine: a plan, or why there is none."""

    cluster: str
    team: str
    name: str
    load: ServedLoad
    error: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    gpu: str | UnsetType = UNSET
    requests_per_second_peak: float | UnsetType | None = UNSET
    needs: str | UnsetType = UNSET
    savings_dollars_per_hour: float | UnsetType | None = UNSET
    comparisons: tuple[ServedFigureDocument, ...] | UnsetType = UNSET
    findings: tuple[ServedFindingDocument, ...] | UnsetType = UNSET

    def __post_init__(self) -> None:
        absent = [name for name in self.__struct_fields__ if getattr(self, name) is UNSET]
        if self.error is UNSET and absent != ["error"]:
            raise ValueError(f"Object has neither `error` nor `{absent[1]}`")


class UsageDocument(Struct, frozen=True):
    """Hours by owner; tables of them are sums of these."""

    parts: tuple[UseRow, ...]


class FleetAnswerDocument(Struct, frozen=True):
    """Answer about a fleet, of one run or merged; sums, groups and evidence follow from it."""

    time: _Amount
    lookback_seconds: _Amount
    coverage_ratio: Annotated[float, Meta(ge=0.0, le=1.0)]
    devices: _Count
    gpus: _Amount
    workloads: _Count
    clusters: tuple[FleetClusterDocument, ...]
    sources: tuple[FleetSourceDocument, ...]
    pools: tuple[FleetPoolDocument, ...]
    holdings: tuple[HeldGpuDocument, ...]
    findings: tuple[FleetFindingDocument, ...]
    verdicts: Mapping[str, RuleVerdicts]
    advice: tuple[FleetAdviceDocument, ...]
    node_advice: tuple[NodeAdviceDocument, ...]
    waiting: tuple[WaitingWork, ...]
    waiting_work: tuple[WaitingDocument, ...]
    served_models: tuple[ServedModelDocument, ...]
    usage: UsageDocument
    use: StoreUse
    notes: tuple[str, ...]
