"""What can be reclaimed from a pool, and the commands for it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from rightsizer.advice.autoscale_schedule import ReplicaSchedule, hours_of
from rightsizer.advice.rules.rule import Judgement
from rightsizer.fleet.model import FleetDevice, FleetView, FleetWorkload
from rightsizer.model.finding import Action, Instruction, Risk
from rightsizer.model.frozen import dataclass
from rightsizer.model.state import State
from rightsizer.model.units import HOUR_SECONDS, seconds
from rightsizer.model.workload import WorkloadClass, WorkloadKind
from rightsizer.owners.owner import shell
from rightsizer.owners.registry import scheduler_of

_MOST_NODES: Final = 16


def take_out(nodes: Sequence[str], kind: WorkloadKind | None) -> tuple[Instruction, ...]:
    """How to empty nodes, so that they can be released; for a person to review."""
    named = tuple(nodes[:_MOST_NODES])
    if not named:
        return ()
    title = f"Empty {named[0]}" if len(nodes) == 1 else f"Empty {len(nodes)} nodes"
    lines = [scheduler_of(kind).drain_node(node) for node in named]
    if len(nodes) > len(named):
        lines.append(f"# and {len(nodes) - len(named)} more, the next emptiest")
    return shell(title, "\n".join(lines))


def follow_the_load(
    schedule: ReplicaSchedule, kind: WorkloadKind | None
) -> tuple[Instruction, ...]:
    """How to scale nodes: the hours, and the settings of the scheduler's own scaling."""
    lines = [f"{hours} nodes" for hours in hours_of(schedule)]
    least, most = min(schedule.replicas), max(schedule.replicas)
    scaling = scheduler_of(kind).scale_nodes(least, most, schedule.lead_seconds)
    return (Instruction("Nodes by the hour", "\n".join(lines)), scaling)


def sharing_fragments(
    action: Action, most_together: int, slices: tuple[str, ...], kind: WorkloadKind | None
) -> tuple[Instruction, ...]:
    """How GPUs of a node are shared by so many workloads, or cut into MIG profiles."""
    if action is Action.SHARE_MIG:
        text = f"# The GPU must be empty.\nnvidia-smi mig -i UUID -cgi {','.join(slices)} -C\n"
        return shell("Cut a GPU of the pool", text)
    return scheduler_of(kind).share_gpus(action, most_together)


_MOST_RESIDENTS: Final = 12
"""Subsets of twelve are 4096; a node with more is one that packs small work already."""
_MOST_MOVES: Final = 4
"""More are not worth it for one job."""


@dataclass(frozen=True, slots=True, order=True)
class MovableResident:
    """Work that is on one node alone and may be started elsewhere."""

    gpus: int
    key: str


def residents_of(workloads: Iterable[FleetWorkload]) -> dict[str, list[MovableResident]]:
    """By node, the workloads that may be moved off it."""
    found: dict[str, list[MovableResident]] = {}
    for each in workloads:
        if each.is_movable:
            ((node, gpus),) = each.nodes.items()
            found.setdefault(node, []).append(MovableResident(gpus, each.case.key))
    return found


@dataclass(frozen=True, slots=True)
class WorkMove:
    """One piece of work from node to node."""

    key: str
    gpus: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """Moves that leave a node with enough free GPUs."""

    node: str
    moves: tuple[WorkMove, ...]


def is_fragmented(free: Mapping[str, float], wanted: int) -> bool:
    """Whether there are enough GPUs, and not on any one node."""
    return sum(free.values()) >= wanted > max(free.values(), default=0.0)


def room_for(
    wanted: int, free: Mapping[str, int], residents: Mapping[str, Sequence[MovableResident]]
) -> Defragmentation | None:
    """The fewest moves, then the fewest GPUs moved, that free so many on one node.

    `free` and `residents` are by node: GPUs without a holder, and work that may be moved.
    """
    best: tuple[int, int, str] | None = None
    found: Defragmentation | None = None
    for node in sorted(free):
        for chosen in _enough(wanted - free[node], residents.get(node, ())):
            rank = (len(chosen), sum(each.gpus for each in chosen), node)
            if best is not None and rank >= best:
                continue
            if (moves := _placed(node, chosen, free)) is not None:
                best, found = rank, Defragmentation(node, moves)
    return found


def _enough(
    missing: int, residents: Sequence[MovableResident]
) -> Iterator[tuple[MovableResident, ...]]:
    """Subsets that free what is missing, the smallest first."""
    ordered = sorted(residents)[:_MOST_RESIDENTS]
    for count in range(1, min(_MOST_MOVES, len(ordered)) + 1):
        for chosen in combinations(ordered, count):
            if sum(each.gpus for each in chosen) >= missing:
                yield chosen


def _placed(
    node: str, chosen: Sequence[MovableResident], free: Mapping[str, int]
) -> tuple[WorkMove, ...] | None:
    """The largest first, each where it leaves the least; `None` where one finds no place."""
    left = {other: gpus for other, gpus in free.items() if other != node}
    moves = []
    for each in sorted(chosen, reverse=True):
        fitting = [(gpus, other) for other, gpus in left.items() if gpus >= each.gpus]
        if not fitting:
            return None
        gpus, target = min(fitting)
        left[target] = gpus - each.gpus
        moves.append(WorkMove(each.key, each.gpus, node, target))
    return tuple(moves)


_WHOLLY: Final = frozenset({Action.RELEASE, Action.SCALE_TO_ZERO})
"""All that the workload holds."""
_PARTLY: Final = frozenset({Action.REDUCE_REPLICAS, Action.REDUCE_GPU_COUNT})
"""As much as the advice says that it saves at least."""
_SHARED: Final = "together"
"""In the evidence of the rule `packing`: which workloads would be on one GPU."""
_SURE: Final = frozenset({str(Risk.VERY_LOW), str(Risk.LOW)})
_DISRUPTION: Final = (
    *(WorkloadClass.NOTEBOOK, WorkloadClass.SERVING, WorkloadClass.UNKNOWN),
    *(WorkloadClass.BATCH, WorkloadClass.STANDBY),
)
"""A notebook and a replica restart, a job may lose its work, and standby is idle on purpose."""


@dataclass(frozen=True, slots=True)
class Reclaim:
    """One step that frees whole GPUs."""

    advice: str
    """Its id."""
    action: Action
    workloads: tuple[str, ...]
    """Keys of those that it changes."""
    pool: str
    gpus_by_node: Mapping[str, int]
    moves: int
    """Pieces of working work that are started elsewhere for it."""
    disruption: int
    """Of the class that it disturbs most, 0 for the least."""
    idle_gpu_hours: float
    """That were held and not used over the span."""


def disruption_of(view: FleetWorkload) -> int:
    """How much it disturbs to end or move a workload, 0 for the least."""
    return _DISRUPTION.index(view.case.workload_class)


def reclaims_of(view: FleetView, judgements: Iterable[Judgement]) -> tuple[Reclaim, ...]:
    """What the advice would free, each GPU once.

    Only advice that holds over both of its spans counts, so that the grace of a class is over, and
    only GPUs that the workload holds alone. Of what a workload could do without, those on the node
    with most of them are taken. Autoscaling frees nothing that is needed at this hour.
    """
    devices = {each.device.uuid: each for pool in view.pools for each in pool.devices}
    held = Counter(device.uuid for each in view.workloads for device in each.case.devices)
    own: dict[str, _Holder] = {}
    for each in view.workloads:
        alone = (e.uuid for e in each.case.devices if held[e.uuid] == 1 and e.mig is None)
        own[each.case.key] = each, [devices[uuid] for uuid in alone if uuid in devices]
    # What lets go of all comes before what lets go of a part of the same.
    order = {**dict.fromkeys(_PARTLY, 1), **dict.fromkeys(_WHOLLY, 0)}
    sound = [each for each in judgements if each.finding.is_complaint and each.may_open]
    sound.sort(key=lambda each: (order.get(each.finding.action, len(order)), each.finding.id))
    found: list[Reclaim] = []
    spent: set[str] = set()
    for judgement in sound:
        new = [each for each in _of_judgement(judgement, own) if spent.isdisjoint(each.workloads)]
        spent.update(key for each in new for key in each.workloads)
        found += new
    return tuple(found)


_Holder = tuple[FleetWorkload, list[FleetDevice]]
"""A workload, and the whole GPUs that it holds alone."""


def _of_judgement(judgement: Judgement, own: Mapping[str, _Holder]) -> Iterator[Reclaim]:
    finding = judgement.finding
    if (holder := own.get(judgement.key)) is not None and finding.action in _WHOLLY | _PARTLY:
        view, devices = holder
        if finding.action in _WHOLLY:
            about = {*(finding.culprits or finding.devices)}
            leaving = [each for each in devices if each.device.uuid in about]
        else:
            on_node = Counter(each.node for each in devices)
            devices.sort(key=lambda each: (-on_node[each.node], each.node, each.device.uuid))
            count = int(finding.savings.gpus_low or 0.0)
            leaving = devices[: max(0, min(count, len(devices) - 1))]
        yield from _freed(judgement, [view], leaving, 0)
    elif _SHARED in finding.evidence:
        together: Any = finding.evidence[_SHARED]
        for each in together:
            # Replicas of services that would share stand there by their names alone: what that
            # frees is not sure.
            if not isinstance(each, Mapping) or each["risk"] not in _SURE:
                continue
            some = [own[key] for key in each["workloads"] if key in own]
            # All but the first leave the GPU that each has for itself.
            if 1 < len(some) == len(each["workloads"]) and all(len(gpus) == 1 for _, gpus in some):
                leaving = [gpus[0] for _, gpus in some[1:]]
                yield from _freed(judgement, [view for view, _ in some], leaving, len(leaving))


def _freed(
    judgement: Judgement, views: Sequence[FleetWorkload], devices: Sequence[FleetDevice], moves: int
) -> Iterator[Reclaim]:
    """One for each pool; a workload is mostly in one."""
    windows = (window for view in views for window in view.case.windows)
    idle = sum(window.states.get(State.IDLE_HELD, 0) for window in windows)
    for pool in sorted({each.pool for each in devices}):
        nodes = Counter(each.node for each in devices if each.pool == pool)
        yield Reclaim(
            advice=judgement.finding.id,
            action=judgement.finding.action,
            workloads=tuple(each.case.key for each in views),
            pool=pool,
            gpus_by_node=dict(sorted(nodes.items())),
            moves=moves,
            disruption=max(map(disruption_of, views)),
            idle_gpu_hours=seconds(idle) / HOUR_SECONDS,
        )
