"""Score of a set of slots, criterion by criterion; the first that differs decides."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from rightsizer.broker.lease import GpuRequest
from rightsizer.broker.settings import ScoringSettings
from rightsizer.broker.slot import LeaseSlot, SlotVerdict
from rightsizer.model.state import Condition
from rightsizer.model.topology import GpuLink, LinkKind, Topology
from rightsizer.sizing.gpu_sets import link_score, pcie_score

_SLOWING: Final = frozenset(
    {Condition.POWER_THROTTLED, Condition.THERMAL_THROTTLED, Condition.PCIE_LINK_DEGRADED}
)
"""Conditions of the board and its place; the others are the work's own."""
_GIBIBYTE: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class PlacementScore:
    """What a set is by each criterion, in their order."""

    instances: int
    """MIG instances in it; fewer are better, for whole GPUs are what a request without a profile
    means."""
    uncertain: int
    """Seats whose state nobody measured; fewer are better."""
    impaired: int
    """Seats that power, heat or a narrow PCIe link hold back; fewer are better."""
    models: int
    """Different GPUs in it; fewer are better."""
    weakest: int
    """The score of its worst pair, 0 for a single seat; larger is better."""
    total: int
    """Over all its pairs; larger is better."""
    numa_nodes: int
    """On so many it is, all of unknown node taken for one; fewer are better."""
    spare_gibibytes: int
    """Memory of its seats beyond what was asked for, fewer are better; where nobody said how much,
    all their memory, with a minus."""
    opened: int
    """GPUs in it that nothing was on; fewer are better."""
    kept: int
    """Link scores among the empty GPUs that stay behind; larger is better."""
    kept_pcie: int
    """The same over PCIe alone."""
    power_steps: int
    """Power headroom of the one that has least, in steps; larger is better."""
    temperature_steps: int
    """Thermal headroom of the one that has least, in steps; larger is better."""

    @property
    def rank(self) -> tuple[int, ...]:
        """To compare by: larger is better."""
        return (
            -self.instances,
            -self.uncertain,
            -self.impaired,
            -self.models,
            self.weakest,
            self.total,
            -self.numa_nodes,
            -self.spare_gibibytes,
            -self.opened,
            self.kept,
            self.kept_pcie,
            self.power_steps,
            self.temperature_steps,
        )


@dataclass(frozen=True, slots=True)
class SlotCandidate:
    """A free seat, and what the criteria need of it."""

    verdict: SlotVerdict
    is_impaired: bool
    is_opened: bool
    """Whether nothing is on its GPU yet."""
    spare_gibibytes: int
    power_steps: int
    temperature_steps: int

    @property
    def seat(self) -> LeaseSlot:
        """Its seat."""
        return self.verdict.seat

    @property
    def is_instance(self) -> bool:
        """Whether it is a MIG instance."""
        return self.seat.device.mig is not None

    @property
    def model(self) -> tuple[str, str]:
        """What kind of GPU it is, or of which size an instance."""
        device = self.seat.device
        return (device.name, "" if device.mig is None else device.mig.profile)


@dataclass(frozen=True, slots=True)
class CandidateTable:
    """The free seats in a stable order, and the scores of their pairs by their places in it."""

    candidates: tuple[SlotCandidate, ...]
    links: tuple[tuple[int, ...], ...]
    joined: tuple[tuple[bool, ...], ...]
    """Whether NVLink joins the two."""
    empty_links: tuple[tuple[int, ...], ...]
    """As `links`, but 0 unless nothing is on either."""
    empty_pcie: tuple[tuple[int, ...], ...]
    """The same over PCIe alone."""


def table_of(
    free: Iterable[SlotVerdict],
    topology: Topology,
    request: GpuRequest,
    settings: ScoringSettings,
    in_use: Collection[str] = frozenset(),
) -> CandidateTable:
    """All that sets are scored by, worked out once.

    Args:
        free: The seats that can be given, in any order.
        topology: How the GPUs are joined.
        request: What is asked for.
        settings: The weights.
        in_use: Uuids of the GPUs on which, or on an instance of which, something is.
    """
    ordered = sorted(free, key=lambda each: slot_order(each.seat))
    candidates = tuple(
        _candidate(each, request, settings, is_opened=each.seat.gpu_uuid not in in_use)
        for each in ordered
    )
    ways = {frozenset((link.uuid, link.peer_uuid)): link for link in topology.links}
    pairs = [[_way(one, other, ways) for other in candidates] for one in candidates]
    links = [[link_score(way, settings.links) for way in row] for row in pairs]
    pcie = [[pcie_score(way, settings.links) for way in row] for row in pairs]
    empty = [not each.verdict.is_shared for each in candidates]
    return CandidateTable(
        candidates=candidates,
        links=_frozen(links),
        joined=tuple(
            tuple(way is not None and way.kind is LinkKind.NVLINK for way in row) for row in pairs
        ),
        empty_links=_frozen(_among(links, empty)),
        empty_pcie=_frozen(_among(pcie, empty)),
    )


def score_set(places: Sequence[int], table: CandidateTable) -> PlacementScore:
    """The score of a set of candidates, named by their places in the table; not of none."""
    chosen = [table.candidates[at] for at in places]
    pairs = [table.links[one][other] for one, other in combinations(places, 2)]
    behind = [at for at in range(len(table.candidates)) if at not in places]
    return PlacementScore(
        instances=sum(each.is_instance for each in chosen),
        uncertain=sum(not each.verdict.is_certain for each in chosen),
        impaired=sum(each.is_impaired for each in chosen),
        models=len({each.model for each in chosen}),
        weakest=min(pairs, default=0),
        total=sum(pairs),
        numa_nodes=len({each.seat.numa_node for each in chosen}),
        spare_gibibytes=sum(each.spare_gibibytes for each in chosen),
        opened=len({each.seat.gpu_uuid for each in chosen if each.is_opened}),
        kept=sum(table.empty_links[one][other] for one, other in combinations(behind, 2)),
        kept_pcie=sum(table.empty_pcie[one][other] for one, other in combinations(behind, 2)),
        power_steps=min(each.power_steps for each in chosen),
        temperature_steps=min(each.temperature_steps for each in chosen),
    )


def slot_order(seat: LeaseSlot) -> tuple[int, int, int, str]:
    """Seats as they are told: by their GPU's index, then by instance."""
    mig = seat.device.mig
    instance = (0, 0) if mig is None else (mig.gpu_instance_id, mig.compute_instance_id)
    return (seat.device.index, *instance, seat.uuid)


def _candidate(
    verdict: SlotVerdict, request: GpuRequest, settings: ScoringSettings, *, is_opened: bool
) -> SlotCandidate:
    seat = verdict.seat
    return SlotCandidate(
        verdict=verdict,
        is_impaired=not _SLOWING.isdisjoint(seat.conditions),
        is_opened=is_opened,
        spare_gibibytes=_spare(verdict, request),
        power_steps=_steps(seat.power_headroom_watts, settings.power_step_watts),
        temperature_steps=_steps(
            seat.temperature_headroom_celsius, settings.temperature_step_celsius
        ),
    )


def _spare(verdict: SlotVerdict, request: GpuRequest) -> int:
    """Of a seat that is empty by its size, which does not flicker as what is in use does."""
    seat = verdict.seat
    size = verdict.memory_left_bytes if verdict.is_shared else seat.memory_total_bytes
    if request.memory_bytes is None:
        return -int((size or 0.0) // _GIBIBYTE)
    return int(max(0.0, (size or 0.0) - request.memory_bytes) // _GIBIBYTE)


def _steps(headroom: float | None, step: float) -> int:
    """What nobody knows is no headroom."""
    return 0 if headroom is None else max(0, int(headroom // step))


def _way(
    one: SlotCandidate, other: SlotCandidate, ways: Mapping[frozenset[str], GpuLink]
) -> GpuLink | None:
    """MIG instances have none: NVLink and peer access are off for them."""
    if one.is_instance or other.is_instance:
        return None
    return ways.get(frozenset((one.seat.uuid, other.seat.uuid)))


def _among(scores: Sequence[Sequence[int]], counts: Sequence[bool]) -> list[list[int]]:
    return [
        [score if here and there else 0 for score, there in zip(row, counts, strict=True)]
        for row, here in zip(scores, counts, strict=True)
    ]


def _frozen(rows: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in rows)
