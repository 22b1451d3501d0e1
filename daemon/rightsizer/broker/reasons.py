"""Reasons for a choice of slots, against another, and for a refusal, for people."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from rightsizer.broker.lease import GpuRequest, Interconnect
from rightsizer.broker.scoring import PlacementScore
from rightsizer.broker.slot import LeaseSlot, SlotObstacle, SlotVerdict
from rightsizer.model.topology import LinkKind, Topology

_GIBIBYTE: Final = 1 << 30
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
    SlotObstacle.BUSY: "busy for somebody unknown",
    SlotObstacle.UNKNOWN: "of unknown state",
    SlotObstacle.NEEDS: "too busy to be shared, or not measured long enough",
}


def reasons_for(
    verdicts: Sequence[SlotVerdict], topology: Topology, equals: int
) -> tuple[str, ...]:
    """What speaks for a set, in the order of the criteria, and what does not.

    Args:
        verdicts: Of its seats.
        topology: How the GPUs are joined.
        equals: How many other sets are just as good.
    """
    seats = [verdict.seat for verdict in verdicts]
    found = [
        *_freedom(verdicts),
        *_links(seats, topology),
        *_numa(seats),
        *_memory(verdicts),
        *_headroom(seats),
    ]
    if equals:
        found.append(f"{_sets(equals)} just as good; the first by index is taken.")
    return tuple(found)


def why_worse(worse: PlacementScore, better: PlacementScore) -> str:
    """By what a set is worse than another, as a clause: the first criterion that differs."""
    for name, told in _CRITERIA:
        one, other = getattr(worse, name), getattr(better, name)
        if one != other:
            # Where nobody said how much memory is needed, all of it counts, with a minus.
            what = "GiB of memory in all" if name == "spare_gibibytes" and one < 0 else told
            return f"{what}: {abs(one)}, not {abs(other)}"
    return "just as good, and later by index"


_CRITERIA: Final = (
    ("instances", "MIG instances in it"),
    ("uncertain", "GPUs in it that only look empty"),
    ("impaired", "GPUs in it that power, heat or a narrow PCIe link hold back"),
    ("models", "models in it"),
    ("weakest", "score of its weakest link"),
    ("total", "score of all its links"),
    ("numa_nodes", "NUMA nodes"),
    ("spare_gibibytes", "GiB of memory beyond what is asked for"),
    ("opened", "empty GPUs that it would open"),
    ("kept", "score of the links that the free GPUs are left with"),
    ("kept_pcie", "score of the PCIe links that the free GPUs are left with"),
    ("power_steps", "steps of power headroom"),
    ("temperature_steps", "steps of thermal headroom"),
)


def reasons_for_none(
    request: GpuRequest,
    free: Sequence[SlotVerdict],
    occupied: Sequence[SlotVerdict],
    *,
    is_hopeless: bool,
) -> tuple[str, ...]:
    """Why a request cannot be met: what it comes to, what is in the way, and the remedy.

    Args:
        request: What is asked for.
        free: Seats that could be given to it.
        occupied: Seats that could not.
        is_hopeless: Whether it could not be met even if all were free.
    """
    return tuple(_none(request, free, occupied, is_hopeless=is_hopeless))


def _none(
    request: GpuRequest,
    free: Sequence[SlotVerdict],
    occupied: Sequence[SlotVerdict],
    *,
    is_hopeless: bool,
) -> Iterator[str]:
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
    counts = Counter(each.obstacle for each in occupied)
    if counts:
        told = ", ".join(
            f"{number} {_SUMMARIES[obstacle]}"
            for obstacle, number in counts.most_common()
            if obstacle is not None
        )
        yield f"In the way: {told}."
    if is_hopeless:
        seats = [each.seat for each in (*free, *occupied)]
        yield f"Waiting does not help: {_why_never(request, seats)}."
    elif request.interconnect is Interconnect.NVLINK and len(free) >= request.gpus:
        yield "Without NVLink there are enough: ask with --interconnect any."


def _why_never(request: GpuRequest, seats: Sequence[LeaseSlot]) -> str:
    profiles = Counter(seat.device.mig.profile for seat in seats if seat.device.mig is not None)
    if request.mig_profile is None or request.mig_profile.lower() in map(str.lower, profiles):
        return "this node could not give it even if all of it were free"
    if not profiles:
        return "this node has no MIG instances"
    told = ", ".join(f"{number} {profile}" for profile, number in sorted(profiles.items()))
    return f"of MIG instances this node has {told}"


def _wanted(request: GpuRequest) -> str:
    what = "GPU" if request.mig_profile is None else f"MIG instance {request.mig_profile}"
    size = "" if request.memory_bytes is None else f" with {request.memory_bytes / _GIBIBYTE:g} GiB"
    if request.gpus == 1:
        return f"1 {what}{size} is"
    plural = "GPUs" if request.mig_profile is None else f"MIG instances {request.mig_profile}"
    return f"{request.gpus} {plural}{size} are"


def _freedom(verdicts: Sequence[SlotVerdict]) -> Iterator[str]:
    unsure = [each.seat.label for each in verdicts if not each.is_certain]
    shared = [each.seat.label for each in verdicts if each.is_shared]
    rest = len(verdicts) - len(unsure) - len(shared)
    if rest:
        yield (
            f"{'It is' if rest == 1 else f'{rest} are'} empty, as was measured."
            if (rest < len(verdicts) or rest == 1)
            else f"All {rest} are empty, as was measured."
        )
    if unsure:
        yield f"Looks empty, and nobody measured its state: {', '.join(unsure)}."
    if shared:
        yield f"Shared with others, whose measured needs leave room: {', '.join(shared)}."


def _links(seats: Sequence[LeaseSlot], topology: Topology) -> Iterator[str]:
    if len(seats) == 1:
        return
    if any(seat.device.mig is not None for seat in seats):
        yield "MIG instances are not joined: start a process for each."
        return
    ways = [topology.link(one.uuid, other.uuid) for one, other in combinations(seats, 2)]
    labels = Counter("?" if way is None else way.label for way in ways)
    told = ", ".join(f"{number} {label}" for label, number in labels.most_common())
    is_joined = all(way is not None and way.kind is LinkKind.NVLINK for way in ways)
    how = "NVLink joins each to each" if is_joined else "NVLink does not join all of them"
    yield f"{how}; pairs by their links: {told}."


def _numa(seats: Sequence[LeaseSlot]) -> Iterator[str]:
    nodes = {seat.numa_node for seat in seats}
    known = sorted(node for node in nodes if node is not None)
    if not known:
        yield "Nobody tells their NUMA nodes." if len(seats) > 1 else "Nobody tells its NUMA node."
    elif len(nodes) == 1:
        yield f"On NUMA node {known[0]}."
    else:
        unknown = " and one that nobody tells" if None in nodes else ""
        yield f"On NUMA nodes {' and '.join(map(str, known))}{unknown}."


def _memory(verdicts: Sequence[SlotVerdict]) -> Iterator[str]:
    left = [each.memory_left_bytes for each in verdicts if each.memory_left_bytes is not None]
    if len(left) == len(verdicts):
        each = " each" if len(verdicts) > 1 else ""
        yield f"At least {min(left) / _GIBIBYTE:.1f} GiB of memory are left{each}."


def _headroom(seats: Sequence[LeaseSlot]) -> Iterator[str]:
    power = [s.power_headroom_watts for s in seats if s.power_headroom_watts is not None]
    heat = [
        seat.temperature_headroom_celsius
        for seat in seats
        if seat.temperature_headroom_celsius is not None
    ]
    if len(power) == len(seats):
        yield f"At least {min(power):.0f} W are left below the power limit."
    if len(heat) == len(seats):
        yield f"At least {min(heat):.0f} °C are left before the clocks slow down."


def _sets(number: int) -> str:
    return "Another one is" if number == 1 else f"{number} others are"
