"""Choice of slots for a request, with the reasons for it, against others, or for none."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, combinations
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.broker.lease import GpuRequest, Interconnect, Lease
from rightsizer.broker.scoring import CRITERIA, PlacementScore, score_set, slot_order, table_of
from rightsizer.broker.search import best_sets
from rightsizer.broker.settings import GpuPlacementSettings
from rightsizer.broker.slot import LeaseSlot, SlotObstacle, SlotVerdict, judge_slot
from rightsizer.model.values import GIB, LinkKind, State, Topology

_SUMMARIES: Final = {
    SlotObstacle.DIVIDED: "divided into MIG instances",
    SlotObstacle.PROFILE: "of another kind",
    SlotObstacle.DOWN: "down or in trouble",
    SlotObstacle.UNHEALTHY: "unhealthy",
    SlotObstacle.RESERVED: "reserved",
    SlotObstacle.MEMORY: "with too little memory",
    SlotObstacle.LEASED: "leased",
    SlotObstacle.HELD: "held",
    SlotObstacle.HELD_IDLE: "held and idle",
    SlotObstacle.ALLOCATED: "given for nothing by a scheduler",
    SlotObstacle.BUSY: "busy for an unknown user",
    SlotObstacle.UNKNOWN: "of unknown state",
    SlotObstacle.NEEDS: "too busy to be shared, or not measured long enough",
}
_NO_LEASES: Final[Mapping[str, tuple[Lease, ...]]] = MappingProxyType({})


def reasons_for(
    verdicts: Sequence[SlotVerdict], topology: Topology, equals: int
) -> tuple[str, ...]:
    """Explain a chosen set by the criteria in order; `equals` other sets are equally good."""
    slots = [verdict.slot for verdict in verdicts]
    reasons = [*_freedom(verdicts), *_links(slots, topology), *_numa(slots), *_room(verdicts)]
    if equals:
        others = "Another one is" if equals == 1 else f"{equals} others are"
        reasons.append(f"{others} just as good; the first by index is taken.")
    return tuple(reasons)


def why_worse(worse: PlacementScore, better: PlacementScore) -> str:
    """First criterion by which a set is worse than another, as a clause."""
    for name, criterion in CRITERIA.items():
        one = getattr(worse, name)
        other = getattr(better, name)
        if one != other:
            what = criterion.label
            if name == "spare_gibibytes" and one < 0:
                # Without a requested size all memory counts, as a negative number.
                what = "GiB of memory in all"
            return f"{what}: {abs(one)}, not {abs(other)}"
    return "just as good, and later by index"


def reasons_for_none(
    request: GpuRequest,
    free: Sequence[SlotVerdict],
    occupied: Sequence[SlotVerdict],
    *,
    is_hopeless: bool,
) -> Iterator[str]:
    """Explain why a request cannot be granted: the count, the obstacles, and the remedy.

    `free` slots are available, `occupied` ones are not; `is_hopeless`: not even if all were free.
    """
    wanted = _wanted(request)
    if not free and not occupied:
        yield f"{wanted} asked for, and this node has no GPU."
        return
    if len(free) >= request.gpus:
        yield (
            f"{wanted} asked for that NVLink joins each to each, and no such set is among the "
            f"{len(free)} free."
        )
    else:
        yield f"{wanted} asked for, {len(free)} of {len(free) + len(occupied)} can be given."
    if counts := Counter(slot_verdict.obstacle for slot_verdict in occupied):
        counted = ", ".join(
            f"{number} {_SUMMARIES[obstacle]}"
            for obstacle, number in counts.most_common()
            if obstacle is not None
        )
        yield f"In the way: {counted}."
    if is_hopeless:
        slots = [slot_verdict.slot for slot_verdict in (*free, *occupied)]
        yield f"Waiting does not help: {_why_never(request, slots)}."
    elif request.interconnect is Interconnect.NVLINK and len(free) >= request.gpus:
        yield "Without NVLink there are enough: ask with --interconnect any."


def _why_never(request: GpuRequest, slots: Sequence[LeaseSlot]) -> str:
    profiles = Counter(slot.device.mig.profile for slot in slots if slot.device.mig is not None)
    if request.mig_profile is None or request.mig_profile.lower() in map(str.lower, profiles):
        return "this node could not give it even if all of it were free"
    if not profiles:
        return "this node has no MIG instances"
    counted = ", ".join(f"{number} {profile}" for profile, number in sorted(profiles.items()))
    return f"of MIG instances this node has {counted}"


def _wanted(request: GpuRequest) -> str:
    what = "GPU" if request.mig_profile is None else f"MIG instance {request.mig_profile}"
    size = "" if request.memory_bytes is None else f" with {request.memory_bytes / GIB:g} GiB"
    if request.gpus == 1:
        return f"1 {what}{size} is"
    plural = "GPUs" if request.mig_profile is None else f"MIG instances {request.mig_profile}"
    return f"{request.gpus} {plural}{size} are"


def _freedom(verdicts: Sequence[SlotVerdict]) -> Iterator[str]:
    unsure = [verdict.slot.label for verdict in verdicts if not verdict.is_certain]
    shared = [verdict.slot.label for verdict in verdicts if verdict.is_shared]
    if rest := len(verdicts) - len(unsure) - len(shared):
        yield (
            f"{'It is' if rest == 1 else f'{rest} are'} empty, as was measured."
            if (rest < len(verdicts) or rest == 1)
            else f"All {rest} are empty, as was measured."
        )
    if unsure:
        yield f"Looks empty, and its state was not measured: {', '.join(unsure)}."
    if shared:
        yield f"Shared with others, whose measured needs leave room: {', '.join(shared)}."


def _links(slots: Sequence[LeaseSlot], topology: Topology) -> Iterator[str]:
    if len(slots) == 1:
        return
    if any(slot.device.mig is not None for slot in slots):
        yield "MIG instances are not joined: start a process for each."
        return
    ways = [topology.link(one.uuid, other.uuid) for one, other in combinations(slots, 2)]
    labels = Counter("?" if way is None else way.label for way in ways)
    counted = ", ".join(f"{number} {label}" for label, number in labels.most_common())
    is_joined = all(way is not None and way.kind is LinkKind.NVLINK for way in ways)
    how = "NVLink joins each to each" if is_joined else "NVLink does not join all of them"
    yield f"{how}; pairs by their links: {counted}."


def _numa(slots: Sequence[LeaseSlot]) -> Iterator[str]:
    nodes = {slot.numa_node for slot in slots}
    if not (known_nodes := sorted(node for node in nodes if node is not None)):
        yield "Their NUMA nodes are unknown." if len(slots) > 1 else "Its NUMA node is unknown."
    elif len(nodes) == 1:
        yield f"On NUMA node {known_nodes[0]}."
    else:
        unknown = " and one that is unknown" if None in nodes else ""
        yield f"On NUMA nodes {' and '.join(map(str, known_nodes))}{unknown}."


def _room(verdicts: Sequence[SlotVerdict]) -> Iterator[str]:
    """Minimum of memory, power and thermal headroom, each if known for all."""
    suffix = " each" if len(verdicts) > 1 else ""
    slots = [verdict.slot for verdict in verdicts]
    memory = [
        None if (left := verdict.memory_left_bytes) is None else left / GIB for verdict in verdicts
    ]
    power = [slot.power_headroom_watts for slot in slots]
    heat = [slot.temperature_headroom_celsius for slot in slots]
    for values, text in (
        (memory, f"{{:.1f}} GiB of memory are left{suffix}"),
        (power, "{:.0f} W are left below the power limit"),
        (heat, "{:.0f} °C are left before the clocks slow down"),
    ):
        known_values = [value for value in values if value is not None]
        if len(known_values) == len(values):
            yield f"At least {text.format(min(known_values))}."


class RejectedSet(Struct, frozen=True):
    """Alternative set of free slots, and why the chosen one is better."""

    slots: tuple[LeaseSlot, ...]
    score: PlacementScore
    why: str
    """Clause, e.g. `NUMA nodes: 2, not 1`."""


class PlacementChoice(Struct, frozen=True):
    """Best slots for a request."""

    request: GpuRequest
    verdicts: tuple[SlotVerdict, ...]
    """Verdicts on the chosen slots, by index."""
    score: PlacementScore
    reasons: tuple[str, ...]
    """Full sentences."""
    rejected: tuple[RejectedSet, ...] = ()
    """Next best sets, best first, one per score."""
    occupied: tuple[SlotVerdict, ...] = ()
    equals: int = 0
    """Number of other sets with the same score; the first by index is chosen."""
    is_exact: bool = True
    """Whether all sets were examined; otherwise a better one may exist."""

    @property
    def slots(self) -> tuple[LeaseSlot, ...]:
        """Chosen slots, by index."""
        return tuple(verdict.slot for verdict in self.verdicts)

    @property
    def uuids(self) -> tuple[str, ...]:
        """Uuids of the slots, for `CUDA_VISIBLE_DEVICES`."""
        return tuple(slot.uuid for slot in self.slots)

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """Known NUMA nodes of the slots."""
        return tuple(sorted({s.numa_node for s in self.slots if s.numa_node is not None}))

    @property
    def cpus(self) -> tuple[int, ...]:
        """CPUs local to any of the slots; empty if unknown for one."""
        near = [slot.cpus for slot in self.slots]
        return tuple(sorted(set(chain.from_iterable(near)))) if all(near) else ()


class PlacementRefusal(Struct, frozen=True):
    """Reasons why a request cannot be granted now."""

    request: GpuRequest
    reasons: tuple[str, ...]
    """Full sentences, summary first."""
    occupied: tuple[SlotVerdict, ...] = ()
    free: tuple[SlotVerdict, ...] = ()
    """Available slots, too few for the request."""
    is_hopeless: bool = False
    """Whether even an entirely free and healthy node could not grant it."""


def choose(  # noqa: PLR0913 - the node, the request, and who has what of it.
    slots: Sequence[LeaseSlot],
    topology: Topology,
    request: GpuRequest,
    settings: GpuPlacementSettings,
    *,
    leased: Mapping[str, tuple[Lease, ...]] = _NO_LEASES,
    reserved: Collection[str] = frozenset(),
) -> PlacementChoice | PlacementRefusal:
    """Choose the best slots for a request, or explain why there are none.

    Exact (no set of free slots scores better, and the first by index wins ties) up to the number
    of sets in the settings, which sixteen GPUs never exceed.

    `slots` are all GPUs and MIG instances in any order, without holders that belong to a lease;
    `leased` maps uuids to leases, `reserved` are uuids kept free for others.
    """
    free = settings.free
    verdicts = [
        judge_slot(s, request, free, leased.get(s.uuid, ()), is_reserved=s.uuid in reserved)
        for s in sorted(slots, key=slot_order)
    ]
    occupied = tuple(verdict for verdict in verdicts if not verdict.is_free)
    in_use = frozenset(
        slot.device.board_uuid
        for slot in slots
        if slot.holders
        or leased.get(slot.uuid)
        or slot.state not in (State.IDLE_EMPTY, State.UNKNOWN)
    )
    able = (verdict for verdict in verdicts if verdict.is_free)
    table = table_of(able, topology, request, settings.scoring, in_use)
    must_be_joined = request.interconnect is Interconnect.NVLINK
    search_result = best_sets(table, request.gpus, settings.search, must_be_joined=must_be_joined)
    if not search_result.sets:
        granted = tuple(candidate.verdict for candidate in table.candidates)
        is_hopeless = not _could_be_met(slots, topology, request, settings)
        reasons = tuple(reasons_for_none(request, granted, occupied, is_hopeless=is_hopeless))
        return PlacementRefusal(request, reasons, occupied, granted, is_hopeless)
    (best, score), *others = ((places, score_set(places, table)) for places in search_result.sets)
    chosen = tuple(table.candidates[at].verdict for at in best)
    return PlacementChoice(
        request=request,
        verdicts=chosen,
        score=score,
        reasons=reasons_for(chosen, topology, search_result.equals),
        rejected=tuple(
            RejectedSet(
                tuple(table.candidates[at].slot for at in places), worse, why_worse(worse, score)
            )
            for places, worse in others
        ),
        occupied=occupied,
        equals=search_result.equals,
        is_exact=search_result.is_exact,
    )


def _could_be_met(
    slots: Sequence[LeaseSlot],
    topology: Topology,
    request: GpuRequest,
    settings: GpuPlacementSettings,
) -> bool:
    """Whether the node could grant the request if it were entirely healthy and free."""
    empty = (LeaseSlot(slot.device, slot.placement, State.IDLE_EMPTY) for slot in slots)
    verdicts = [judge_slot(slot, request, settings.free) for slot in empty]
    free = [verdict for verdict in verdicts if verdict.is_free]
    if request.interconnect is not Interconnect.NVLINK or len(free) < request.gpus:
        return len(free) >= request.gpus
    table = table_of(free, topology, request, settings.scoring)
    once = replace(settings.search, rejected_maximum=0)
    return bool(best_sets(table, request.gpus, once, must_be_joined=True).sets)
