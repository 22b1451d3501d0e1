"""Choice of slots for a request now, with reasons."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Final

from rightsizer.broker.availability import judge_slot
from rightsizer.broker.lease import GpuRequest, Interconnect, Lease
from rightsizer.broker.reasons import reasons_for, reasons_for_none, why_worse
from rightsizer.broker.scoring import PlacementScore, score_set, slot_order, table_of
from rightsizer.broker.search import best_sets
from rightsizer.broker.settings import GpuPlacementSettings
from rightsizer.broker.slot import LeaseSlot, SlotVerdict
from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.state import State
from rightsizer.model.topology import Topology

_NO_LEASES: Final[Mapping[str, tuple[Lease, ...]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RejectedSet:
    """Free slots that would have sufficed, and why the chosen ones are better."""

    slots: tuple[LeaseSlot, ...]
    score: PlacementScore
    why: str
    """A clause: `NUMA nodes: 2, not 1`."""


@dataclass(frozen=True, slots=True)
class PlacementChoice:
    """The best slots for a request."""

    request: GpuRequest
    verdicts: tuple[SlotVerdict, ...]
    """Of the chosen slots, by index."""
    score: PlacementScore
    reasons: tuple[str, ...]
    """Sentences."""
    rejected: tuple[RejectedSet, ...] = ()
    """The next best sets, best first, one of each score."""
    occupied: tuple[SlotVerdict, ...] = ()
    """Slots that cannot be granted."""
    equals: int = 0
    """How many other sets have the same score; the first by index is taken."""
    is_exact: bool = True
    """Whether all sets were examined; otherwise a better one may exist."""

    @property
    def slots(self) -> tuple[LeaseSlot, ...]:
        """The chosen ones, by index."""
        return tuple(verdict.slot for verdict in self.verdicts)

    @property
    def uuids(self) -> tuple[str, ...]:
        """Of the slots, as `CUDA_VISIBLE_DEVICES` takes them."""
        return tuple(slot.uuid for slot in self.slots)

    @property
    def memory_bytes(self) -> tuple[float, ...]:
        """To set aside on each slot: the requested memory, or all that is left."""
        if (asked := self.request.memory_bytes) is not None:
            return (asked,) * len(self.verdicts)
        return tuple(each.memory_left_bytes or 0.0 for each in self.verdicts)

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """Of the slots, as far as they are known."""
        return tuple(sorted({s.numa_node for s in self.slots if s.numa_node is not None}))

    @property
    def cpus(self) -> tuple[int, ...]:
        """Those near to any of the slots; empty where those of one are unknown."""
        near = [slot.cpus for slot in self.slots]
        return tuple(sorted(set(chain.from_iterable(near)))) if all(near) else ()


@dataclass(frozen=True, slots=True)
class PlacementRefusal:
    """Why a request cannot be granted now."""

    request: GpuRequest
    reasons: tuple[str, ...]
    """Sentences, the one that sums it up first."""
    occupied: tuple[SlotVerdict, ...] = ()
    """Slots that cannot be granted."""
    free: tuple[SlotVerdict, ...] = ()
    """Slots that could have been granted, had there been enough."""
    is_hopeless: bool = False
    """Whether even a node that is all free and healthy could not grant it."""


def choose(  # noqa: PLR0913 - the node, the request, and who has what of it.
    slots: Sequence[LeaseSlot],
    topology: Topology,
    request: GpuRequest,
    settings: GpuPlacementSettings,
    *,
    leased: Mapping[str, tuple[Lease, ...]] = _NO_LEASES,
    reserved: Collection[str] = frozenset(),
) -> PlacementChoice | PlacementRefusal:
    """The best slots for a request, or why there are none.

    Exact (no set of free slots has a better score, and of equal ones it is the first by index) up
    to the settings' number of sets, which sixteen GPUs never exceed.

    The slots are every GPU and MIG instance in any order, without holders that belong to a lease;
    `leased` has the leases by uuid, `reserved` the uuids that are kept free for others.
    """
    free = settings.free
    verdicts = [
        judge_slot(s, request, free, leased.get(s.uuid, ()), is_reserved=s.uuid in reserved)
        for s in sorted(slots, key=slot_order)
    ]
    occupied = tuple(each for each in verdicts if not each.is_free)
    in_use = frozenset(
        slot.gpu_uuid
        for slot in slots
        if slot.holders
        or leased.get(slot.uuid)
        or slot.state not in (State.IDLE_EMPTY, State.UNKNOWN)
    )
    able = (each for each in verdicts if each.is_free)
    table = table_of(able, topology, request, settings.scoring, in_use)
    must_be_joined = request.interconnect is Interconnect.NVLINK
    found = best_sets(table, request.gpus, settings.search, must_be_joined=must_be_joined)
    if not found.sets:
        granted = tuple(each.verdict for each in table.candidates)
        is_hopeless = not _could_be_met(slots, topology, request, settings)
        reasons = tuple(reasons_for_none(request, granted, occupied, is_hopeless=is_hopeless))
        return PlacementRefusal(request, reasons, occupied, granted, is_hopeless)
    (best, score), *others = ((each, score_set(each, table)) for each in found.sets)
    chosen = tuple(table.candidates[at].verdict for at in best)
    return PlacementChoice(
        request=request,
        verdicts=chosen,
        score=score,
        reasons=reasons_for(chosen, topology, found.equals),
        rejected=tuple(
            RejectedSet(
                tuple(table.candidates[at].slot for at in each), worse, why_worse(worse, score)
            )
            for each, worse in others
        ),
        occupied=occupied,
        equals=found.equals,
        is_exact=found.is_exact,
    )


def _could_be_met(
    slots: Sequence[LeaseSlot],
    topology: Topology,
    request: GpuRequest,
    settings: GpuPlacementSettings,
) -> bool:
    """Whether the node could grant it if all of it were healthy and free."""
    empty = (LeaseSlot(slot.device, slot.placement, State.IDLE_EMPTY) for slot in slots)
    verdicts = [judge_slot(slot, request, settings.free) for slot in empty]
    free = [verdict for verdict in verdicts if verdict.is_free]
    if request.interconnect is not Interconnect.NVLINK or len(free) < request.gpus:
        return len(free) >= request.gpus
    table = table_of(free, topology, request, settings.scoring)
    once = replace(settings.search, rejected_maximum=0)
    return bool(best_sets(table, request.gpus, once, must_be_joined=True).sets)
