"""Score of a set of slots by criteria in order; the first difference decides."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Final, get_args, get_type_hints

from msgspec import Struct
from msgspec.structs import asdict

from rightsizer.broker.lease import GpuRequest
from rightsizer.broker.settings import ScoringSettings
from rightsizer.broker.slot import LeaseSlot, SlotVerdict
from rightsizer.model.values import GIB, Condition, LinkKind, Topology
from rightsizer.sizing.gpu_sets import link_score, pcie_score

_SLOWING: Final = frozenset(
    {Condition.POWER_THROTTLED, Condition.THERMAL_THROTTLED, Condition.PCIE_LINK_DEGRADED}
)
"""Conditions of the board, not of its workload."""


class Criterion(Struct, frozen=True):
    """What a value of a score counts, and whether more of it is better."""

    label: str
    sign: int


def _less(label: str) -> Criterion:
    return Criterion(label, -1)


def _more(label: str) -> Criterion:
    return Criterion(label, 1)


class PlacementScore(Struct, frozen=True):
    """Values of a set by criteria in order of precedence, of which less or more is better."""

    instances: Annotated[int, _less("MIG instances in it")]
    uncertain: Annotated[int, _less("GPUs in it that only look empty")]
    impaired: Annotated[int, _less("GPUs in it that power, heat or a narrow PCIe link hold back")]
    models: Annotated[int, _less("models in it")]
    weakest: Annotated[int, _more("score of its weakest link")]
    total: Annotated[int, _more("score of all its links")]
    numa_nodes: Annotated[int, _less("NUMA nodes")]
    spare_gibibytes: Annotated[int, _less("GiB of memory beyond what is asked for")]
    opened: Annotated[int, _less("empty GPUs that it would open")]
    kept: Annotated[int, _more("score of the links that the free GPUs are left with")]
    kept_pcie: Annotated[int, _more("score of the PCIe links that the free GPUs are left with")]
    power_steps: Annotated[int, _more("steps of power headroom")]
    temperature_steps: Annotated[int, _more("steps of thermal headroom")]

    @property
    def rank(self) -> int:
        """Sort key; larger is better."""
        return rank_of(**asdict(self))


_BITS: Final = 32
"""Of a criterion in a rank: far more than any value takes, and a sign."""
CRITERIA: Final[Mapping[str, Criterion]] = {
    name: get_args(hint)[1]
    for name, hint in get_type_hints(PlacementScore, include_extras=True).items()
}
"""Criteria by field of a score, in order of precedence."""
_WEIGHTS: Final = {
    name: criterion.sign << _BITS * place
    for place, (name, criterion) in enumerate(reversed(list(CRITERIA.items())))
}


def rank_of(**values: int) -> int:
    """Rank by values of criteria: the larger, the better; ranks of parts of a set add up."""
    return sum(_WEIGHTS[name] * value for name, value in values.items())


class SlotCandidate(Struct, frozen=True):
    """Free slot with its part of the criteria."""

    verdict: SlotVerdict
    is_impaired: bool
    is_opened: bool
    """Whether its GPU is empty."""
    spare_gibibytes: int
    power_steps: int
    temperature_steps: int

    @property
    def slot(self) -> LeaseSlot:
        """Slot of the verdict."""
        return self.verdict.slot

    @property
    def is_instance(self) -> bool:
        """Whether it is a MIG instance."""
        return self.slot.device.mig is not None

    @property
    def model(self) -> tuple[str, str]:
        """Name of the GPU, and profile of an instance."""
        device = self.slot.device
        return (device.name, "" if device.mig is None else device.mig.profile)


class CandidateTable(Struct, frozen=True):
    """Free slots in a stable order, and the scores of pairs by index."""

    candidates: tuple[SlotCandidate, ...]
    links: tuple[tuple[int, ...], ...]
    joined: tuple[tuple[bool, ...], ...]
    empty_links: tuple[tuple[int, ...], ...]
    """As `links`, but 0 unless both are empty."""
    empty_pcie: tuple[tuple[int, ...], ...]
    """The same over PCIe only."""


def table_of(
    free: Iterable[SlotVerdict],
    topology: Topology,
    request: GpuRequest,
    settings: ScoringSettings,
    in_use: Collection[str] = frozenset(),
) -> CandidateTable:
    """Compute the inputs of scores once.

    `free` are available slots in any order; `in_use` are uuids of GPUs in use, as a whole or by an
    instance.
    """
    ordered = sorted(free, key=lambda slot_verdict: slot_order(slot_verdict.slot))
    warmth = settings.temperature_step_celsius
    candidates = tuple(
        SlotCandidate(
            verdict=slot_verdict,
            is_impaired=not _SLOWING.isdisjoint(slot_verdict.slot.conditions),
            is_opened=slot_verdict.slot.device.board_uuid not in in_use,
            spare_gibibytes=_spare(slot_verdict, request),
            power_steps=_steps(slot_verdict.slot.power_headroom_watts, settings.power_step_watts),
            temperature_steps=_steps(slot_verdict.slot.temperature_headroom_celsius, warmth),
        )
        for slot_verdict in ordered
    )
    by_pair = {frozenset((link.uuid, link.peer_uuid)): link for link in topology.links}
    # MIG instances have neither NVLink nor peer access.
    pairs = [
        [
            None
            if one.is_instance or other.is_instance
            else by_pair.get(frozenset((one.slot.uuid, other.slot.uuid)))
            for other in candidates
        ]
        for one in candidates
    ]
    links = tuple(tuple(link_score(link, settings.links) for link in row) for row in pairs)
    pcie = [[pcie_score(link, settings.links) for link in row] for row in pairs]
    kinds = ((link and link.kind for link in row) for row in pairs)
    joined = tuple(tuple(kind is LinkKind.NVLINK for kind in row) for row in kinds)
    empty = [not candidate.verdict.is_shared for candidate in candidates]
    return CandidateTable(candidates, links, joined, _among(links, empty), _among(pcie, empty))


def score_set(places: Sequence[int], table: CandidateTable) -> PlacementScore:
    """Score a non-empty set of candidates, given by table index."""
    chosen = [table.candidates[at] for at in places]
    pairs = [table.links[one][other] for one, other in combinations(places, 2)]
    behind = [at for at in range(len(table.candidates)) if at not in places]
    return PlacementScore(
        instances=sum(candidate.is_instance for candidate in chosen),
        uncertain=sum(not candidate.verdict.is_certain for candidate in chosen),
        impaired=sum(candidate.is_impaired for candidate in chosen),
        models=len({candidate.model for candidate in chosen}),
        weakest=min(pairs, default=0),
        total=sum(pairs),
        numa_nodes=len({candidate.slot.numa_node for candidate in chosen}),
        spare_gibibytes=sum(candidate.spare_gibibytes for candidate in chosen),
        opened=len(
            {candidate.slot.device.board_uuid for candidate in chosen if candidate.is_opened}
        ),
        kept=sum(table.empty_links[one][other] for one, other in combinations(behind, 2)),
        kept_pcie=sum(table.empty_pcie[one][other] for one, other in combinations(behind, 2)),
        power_steps=min(candidate.power_steps for candidate in chosen),
        temperature_steps=min(candidate.temperature_steps for candidate in chosen),
    )


def slot_order(slot: LeaseSlot) -> tuple[int, int, int, str]:
    """Sort key of slots in output: GPU index, then instance."""
    mig = slot.device.mig
    instance = (0, 0) if mig is None else (mig.gpu_instance_id, mig.compute_instance_id)
    return (slot.device.index, *instance, slot.uuid)


def _spare(verdict: SlotVerdict, request: GpuRequest) -> int:
    """Spare memory in GiB; of an empty slot by its total, which does not vary with use."""
    slot = verdict.slot
    size = verdict.memory_left_bytes if verdict.is_shared else slot.device.memory_total_bytes
    if request.memory_bytes is None:
        return -int((size or 0.0) // GIB)
    return int(max(0.0, (size or 0.0) - request.memory_bytes) // GIB)


def _steps(headroom: float | None, step: float) -> int:
    return 0 if headroom is None else max(0, int(headroom // step))


def _among(rows: Iterable[Sequence[int]], counts: Sequence[bool]) -> tuple[tuple[int, ...], ...]:
    """Scores of pairs, 0 unless both count."""
    return tuple(
        tuple(score * (here and there) for score, there in zip(row, counts, strict=True))
        for row, here in zip(rows, counts, strict=True)
    )
