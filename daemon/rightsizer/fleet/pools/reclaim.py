"""Capacity that can be reclaimed from a pool, and the commands for it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from msgspec import Struct

from rightsizer.advice.autoscale_schedule import ReplicaSchedule, hours_of
from rightsizer.advice.rules.rule import Judgement
from rightsizer.fleet.model import FleetDevice, FleetView, FleetWorkload
from rightsizer.model.values import (
    HOUR_SECONDS,
    Action,
    Instruction,
    Risk,
    WorkloadClass,
)
from rightsizer.owners.owner import shell
from rightsizer.owners.registry import scheduler_of

_MOST_NODES: Final = 16


def take_out(nodes: Sequence[str], kind: str | None) -> tuple[Instruction, ...]:
    """Return commands to drain nodes before they are released, for review."""
    named = tuple(nodes[:_MOST_NODES])
    if not named:
        return ()
    title = f"Empty {named[0]}" if len(nodes) == 1 else f"Empty {len(nodes)} nodes"
    lines = [scheduler_of(kind).drain_node(node) for node in named]
    if len(nodes) > len(named):
        lines.append(f"# and {len(nodes) - len(named)} more, the next emptiest")
    return shell(title, "\n".join(lines))


def follow_the_load(schedule: ReplicaSchedule, kind: str | None) -> tuple[Instruction, ...]:
    """Return instructions to scale nodes: hours, and settings of the scheduler's autoscaler."""
    lines = [f"{hours} nodes" for hours in hours_of(schedule)]
    minimum = min(schedule.replicas)
    maximum = max(schedule.replicas)
    scaling = scheduler_of(kind).scale_nodes(minimum, maximum, schedule.lead_seconds)
    return (Instruction("Nodes by the hour", "\n".join(lines)), scaling)


def sharing_fragments(
    action: Action, most_together: int, slices: tuple[str, ...], kind: str | None
) -> tuple[Instruction, ...]:
    """Return instructions to share a node's GPUs, or cut them into MIG profiles."""
    if action is Action.SHARE_MIG:
        text = f"# The GPU must be empty.\nnvidia-smi mig -i UUID -cgi {','.join(slices)} -C\n"
        return shell("Cut a GPU of the pool", text)
    return scheduler_of(kind).share_gpus(action, most_together)


_MOST_RESIDENTS: Final = 12
"""Twelve have 4096 subsets; a node with more already packs small work."""
_MOST_MOVES: Final = 4
"""More are not worthwhile for one job."""


class MovableResident(Struct, frozen=True, order=True):
    """Work on a single node that may be restarted elsewhere."""

    gpus: int
    key: str


def residents_of(workloads: Iterable[FleetWorkload]) -> dict[str, list[MovableResident]]:
    """Return the workloads that may be moved off each node."""
    residents: dict[str, list[MovableResident]] = {}
    for workload in workloads:
        if workload.is_movable:
            ((node, gpus),) = workload.nodes.items()
            residents.setdefault(node, []).append(MovableResident(gpus, workload.case.key))
    return residents


class WorkMove(Struct, frozen=True):
    """Move of one piece of work between nodes."""

    key: str
    gpus: int
    source: str
    target: str


class Defragmentation(Struct, frozen=True):
    """Moves that leave a node with enough free GPUs."""

    node: str
    moves: tuple[WorkMove, ...]


def is_fragmented(free: Mapping[str, float], wanted: int) -> bool:
    """Whether there are enough free GPUs in total, but not on any one node."""
    return sum(free.values()) >= wanted > max(free.values(), default=0.0)


def room_for(
    wanted: int, free: Mapping[str, int], residents: Mapping[str, Sequence[MovableResident]]
) -> Defragmentation | None:
    """Find the fewest moves, then the fewest GPUs moved, that free GPUs on one node.

    `free` and `residents` are by node: GPUs without a holder, and movable work.
    """
    best: tuple[int, int, str] | None = None
    defragmentation: Defragmentation | None = None
    for node in sorted(free):
        for chosen in _enough(wanted - free[node], residents.get(node, ())):
            rank = (len(chosen), sum(resident.gpus for resident in chosen), node)
            if best is not None and rank >= best:
                continue
            if (moves := _placed(node, chosen, free)) is not None:
                best = rank
                defragmentation = Defragmentation(node, moves)
    return defragmentation


def _enough(
    missing: int, residents: Sequence[MovableResident]
) -> Iterator[tuple[MovableResident, ...]]:
    """Yield subsets that free the missing GPUs, smallest first."""
    ordered = sorted(residents)[:_MOST_RESIDENTS]
    for count in range(1, min(_MOST_MOVES, len(ordered)) + 1):
        for chosen in combinations(ordered, count):
            if sum(resident.gpus for resident in chosen) >= missing:
                yield chosen


def _placed(
    node: str, chosen: Sequence[MovableResident], free: Mapping[str, int]
) -> tuple[WorkMove, ...] | None:
    """Place the largest first, best fit; `None` if one does not fit anywhere."""
    left = {other: gpus for other, gpus in free.items() if other != node}
    moves = []
    for resident in sorted(chosen, reverse=True):
        fitting = [(gpus, other) for other, gpus in left.items() if gpus >= resident.gpus]
        if not fitting:
            return None
        gpus, target = min(fitting)
        left[target] = gpus - resident.gpus
        moves.append(WorkMove(resident.key, resident.gpus, node, target))
    return tuple(moves)


_WHOLLY: Final = frozenset({Action.RELEASE, Action.SCALE_TO_ZERO})
"""Actions that free all GPUs of the workload."""
_PARTLY: Final = frozenset({Action.REDUCE_REPLICAS, Action.REDUCE_GPU_COUNT})
"""Actions that free the lower bound of savings stated in the advice."""
_SHARED: Final = "together"
"""Key in the evidence of the rule `packing`: workloads that would share one GPU."""
_SURE: Final = frozenset({str(Risk.VERY_LOW), str(Risk.LOW)})
_DISRUPTION: Final = (
    WorkloadClass.NOTEBOOK,
    WorkloadClass.SERVING,
    WorkloadClass.UNKNOWN,
    WorkloadClass.BATCH,
    WorkloadClass.STANDBY,
)
"""Notebooks and replicas restart, jobs may lose work, and standby is idle on purpose."""


class Reclaim(Struct, frozen=True):
    """Step that frees whole GPUs."""

    advice: str
    """Advice id."""
    action: Action
    workloads: tuple[str, ...]
    """Keys of affected workloads."""
    pool: str
    gpus_by_node: Mapping[str, int]
    moves: int
    """Pieces of active work that must be restarted elsewhere."""
    disruption: int
    """Highest rank of the affected classes, 0 for the least disruptive."""
    idle_gpu_hours: float
    """GPU-hours held but unused over the span."""


def disruption_of(view: FleetWorkload) -> int:
    """Return the rank of how disruptive ending or moving a workload is, 0 for the least."""
    return _DISRUPTION.index(view.case.workload_class)


def reclaims_of(view: FleetView, judgements: Iterable[Judgement]) -> tuple[Reclaim, ...]:
    """Return what the advice would free, each GPU once.

    Only advice that holds over both spans counts, so that the grace of a class has passed, and only
    GPUs that the workload holds alone. If a workload releases a part, it is taken from the node
    with the most. Autoscaling frees nothing that is needed at this hour.
    """
    devices = {device.device.uuid: device for pool in view.pools for device in pool.devices}
    held = Counter(
        device.uuid for fleet_workload in view.workloads for device in fleet_workload.case.devices
    )
    holders: dict[str, _Holder] = {}
    for workload in view.workloads:
        alone = (e.uuid for e in workload.case.devices if held[e.uuid] == 1 and e.mig is None)
        holders[workload.case.key] = workload, [devices[uuid] for uuid in alone if uuid in devices]
    # Steps that release all of a workload come before those that release a part.
    order = {**dict.fromkeys(_PARTLY, 1), **dict.fromkeys(_WHOLLY, 0)}
    sound = [
        judgement
        for judgement in judgements
        if judgement.finding.is_actionable and judgement.may_open
    ]
    sound.sort(
        key=lambda judgement: (
            order.get(judgement.finding.action, len(order)),
            judgement.finding.id,
        )
    )
    reclaims: list[Reclaim] = []
    spent: set[str] = set()
    for judgement in sound:
        new = [
            reclaim
            for reclaim in _of_judgement(judgement, holders)
            if spent.isdisjoint(reclaim.workloads)
        ]
        spent.update(key for reclaim in new for key in reclaim.workloads)
        reclaims += new
    return tuple(reclaims)


_Holder = tuple[FleetWorkload, list[FleetDevice]]
"""Workload, and the whole GPUs that it holds alone."""


def _of_judgement(judgement: Judgement, holders: Mapping[str, _Holder]) -> Iterator[Reclaim]:
    finding = judgement.finding
    if (holder := holders.get(judgement.key)) is not None and finding.action in _WHOLLY | _PARTLY:
        view, devices = holder
        if finding.action in _WHOLLY:
            about = {*(finding.culprits or finding.devices)}
            leaving = [device for device in devices if device.device.uuid in about]
        else:
            on_node = Counter(device.node for device in devices)
            devices.sort(
                key=lambda device: (-on_node[device.node], device.node, device.device.uuid)
            )
            count = int(finding.savings.gpus_low or 0.0)
            leaving = devices[: max(0, min(count, len(devices) - 1))]
        yield from _freed(judgement, [view], leaving, 0)
    elif _SHARED in finding.evidence:
        together: Any = finding.evidence[_SHARED]
        for group in together:
            # Service replicas that would share a GPU are listed by name only, so what
            # this frees is uncertain.
            if not isinstance(group, Mapping) or group["risk"] not in _SURE:
                continue
            some = [holders[key] for key in group["workloads"] if key in holders]
            # All but the first give up their own GPU.
            if 1 < len(some) == len(group["workloads"]) and all(len(gpus) == 1 for _, gpus in some):
                leaving = [gpus[0] for _, gpus in some[1:]]
                yield from _freed(judgement, [view for view, _ in some], leaving, len(leaving))


def _freed(
    judgement: Judgement, views: Sequence[FleetWorkload], devices: Sequence[FleetDevice], moves: int
) -> Iterator[Reclaim]:
    """Yield one step per pool; a workload is usually in one."""
    idle_seconds = sum(view.idle_held_seconds for view in views)
    for pool in sorted({device.pool for device in devices}):
        nodes = Counter(device.node for device in devices if device.pool == pool)
        yield Reclaim(
            advice=judgement.finding.id,
            action=judgement.finding.action,
            workloads=tuple(view.case.key for view in views),
            pool=pool,
            gpus_by_node=dict(sorted(nodes.items())),
            moves=moves,
            disruption=max(map(disruption_of, views)),
            idle_gpu_hours=idle_seconds / HOUR_SECONDS,
        )
