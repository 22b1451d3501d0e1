"""Pools with enough free GPUs for a job, and no node that has as many of them.

The jobs are those that wait, and those that were seen in the pool. The moves are of services and
notebooks alone: what trains is not interrupted for it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from rightsizer.advice.confidence import probability_above
from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.advice.verdict import abstain, complain, find_nothing
from rightsizer.fleet.model import FleetPool, FleetView, FleetWorkload
from rightsizer.fleet.pools.hourly import SpareSettings, spare_of
from rightsizer.fleet.pools.pool import (
    PoolSubject,
    kind_of,
    part_of,
    pool_key,
    pool_subject,
    waiting_for,
    workloads_in,
)
from rightsizer.fleet.pools.reclaim import Defragmentation, MovableResident, is_fragmented, room_for
from rightsizer.fleet.rules.rule import FleetRule, FleetVerdict
from rightsizer.model.finding import (
    Action,
    Finding,
    FindingKind,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
)
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.workload import WorkloadClass
from rightsizer.owners.registry import scheduler_of

NAME: Final = "fragmentation"
_MOVABLE: Final = frozenset({WorkloadClass.SERVING, WorkloadClass.NOTEBOOK})
_HOUR_SECONDS: Final = 3600.0


def _conduct() -> OpeningPolicy:
    return OpeningPolicy(
        long_seconds=86400.0,
        short_seconds=6 * _HOUR_SECONDS,
        minimum_known_seconds=12 * _HOUR_SECONDS,
        close_after_seconds=2 * _HOUR_SECONDS,
    )


@dataclass(frozen=True, slots=True)
class FragmentationSettings:
    """When free GPUs count as scattered."""

    on_ratio: float = setting(
        0.3,
        help="Part of the hours in which a job would have found GPUs enough and no node.",
        within=(0.05, 1),
        source="assumed; a night in which no job starts",
    )
    minimum_known_seconds: float = setting(
        3 * _HOUR_SECONDS,
        help="Known time of the nodes under which the rule abstains.",
        within=(_HOUR_SECONDS, None),
        source="half of the short span",
    )
    spare_ratio: float = setting(
        0.1,
        help="Part of a pool's GPUs that nobody ever needed, from which on nobody misses what is "
        "scattered, unless work waits.",
        within=(0.01, 1),
        source="as for a pool that is too large",
    )
    spare: SpareSettings = field(default_factory=SpareSettings)
    conduct: OpeningPolicy = field(default_factory=_conduct)


@dataclass(frozen=True, slots=True)
class _Scatter:
    wanted: int
    """GPUs on one node."""
    is_waited_for: bool
    hours: int
    """Of which all nodes are known."""
    ratio: float
    """Part of those in which the free GPUs were scattered."""
    threshold_ratio: float


def judge(
    view: FleetView, settings: FragmentationSettings, market: Market
) -> tuple[FleetVerdict, ...]:
    """Whether a pool's free GPUs lie on too many nodes for the jobs that it is used for."""
    return tuple(
        FleetVerdict(pool_key(pool.name), _of_pool(view, pool, settings, market))
        for pool in view.pools
    )


def _of_pool(
    view: FleetView, pool: FleetPool, settings: FragmentationSettings, market: Market
) -> Finding:
    subject = pool_subject(view, pool)
    here = workloads_in(view, pool)
    wanted, is_waited_for = _wanted(view, pool, here)
    if wanted <= 1:
        summary = f"{pool.name}: its jobs take one GPU each, which any node can give."
        return find_nothing(NAME, subject.case, summary)
    hours = _free_hours(pool)
    if len(hours) * _HOUR_SECONDS < settings.minimum_known_seconds:
        why = "which of its nodes had free GPUs is not known for long enough"
        return abstain(NAME, subject.case, Reason.INSUFFICIENT_DATA, why)
    ratio = sum(is_fragmented(each, wanted) for each in hours) / len(hours)
    scatter = _Scatter(wanted, is_waited_for, len(hours), ratio, settings.on_ratio)
    if not is_fragmented(pool.free_by_node, wanted) or ratio < settings.on_ratio:
        summary = f"{pool.name}: {sum(pool.free_by_node.values())} free GPUs, not scattered."
        return find_nothing(
            NAME, subject.case, summary, _factors(subject, scatter), _evidence(pool, scatter)
        )
    spare = spare_of(pool, settings.spare).gpus
    if not is_waited_for and spare >= settings.spare_ratio * subject.size:
        summary = f"{pool.name}: its free GPUs are scattered, but nobody has ever needed them."
        return find_nothing(NAME, subject.case, summary, {}, _evidence(pool, scatter))
    found = room_for(wanted, pool.free_by_node, _residents(here))
    return _complaint(view, subject, scatter, found, market)


def _wanted(view: FleetView, pool: FleetPool, here: Sequence[FleetWorkload]) -> tuple[int, bool]:
    """GPUs on one node that the largest job takes which waits, or else is there."""
    largest = max(pool.size_by_node.values(), default=0)
    waiting = [min(largest, round(part_of(each, pool))) for each in waiting_for(view, pool)]
    if max(waiting, default=0) > 1:
        return max(waiting), True
    jobs = [
        max(each.nodes.values(), default=0)
        for each in here
        if each.case.workload and each.case.workload.workload_class is WorkloadClass.BATCH
    ]
    return min(largest, max(jobs, default=0)), False


def _free_hours(pool: FleetPool) -> list[dict[str, float]]:
    """By hour, what was free on each node, where that is known of all of them."""
    nodes = sorted(pool.size_by_node)
    columns = [pool.node_free[node].values for node in nodes if node in pool.node_free]
    if len(columns) < len(nodes):
        return []
    found = []
    for values in zip(*columns, strict=True):
        known = [value for value in values if value is not None]
        if len(known) == len(nodes):
            found.append(dict(zip(nodes, known, strict=True)))
    return found


def _residents(here: Sequence[FleetWorkload]) -> dict[str, list[MovableResident]]:
    found: dict[str, list[MovableResident]] = {}
    for each in here:
        workload = each.case.workload
        if workload is None or workload.workload_class not in _MOVABLE or len(each.nodes) != 1:
            continue
        ((node, gpus),) = each.nodes.items()
        found.setdefault(node, []).append(MovableResident(gpus, each.case.key))
    return found


def _factors(subject: PoolSubject, scatter: _Scatter) -> dict[str, float]:
    return {
        "coverage": subject.coverage_ratio,
        "certainty": probability_above(scatter.ratio, scatter.hours, scatter.threshold_ratio),
    }


def _evidence(pool: FleetPool, scatter: _Scatter) -> dict[str, object]:
    return {
        "gpus_wanted_on_one_node": scatter.wanted,
        "is_waited_for": scatter.is_waited_for,
        "free_by_node": {node: gpus for node, gpus in sorted(pool.free_by_node.items()) if gpus},
        "scattered_ratio": round(scatter.ratio, 4),
        "hours": scatter.hours,
    }


def _complaint(
    view: FleetView,
    subject: PoolSubject,
    scatter: _Scatter,
    found: Defragmentation | None,
    market: Market,
) -> Finding:
    pool = subject.pool
    free, most = sum(pool.free_by_node.values()), max(pool.free_by_node.values())
    who = "that wait" if scatter.is_waited_for else "that were seen"
    return complain(
        NAME,
        subject.case,
        kind=FindingKind.MISPLACED,
        reasons=(Reason.CAPACITY_FRAGMENTED,),
        action=Action.MOVE_GPUS if found else Action.NONE,
        summary=(
            f"{pool.name}: {free} GPUs are free, no node has more than {most} of them, and jobs "
            f"{who} take {scatter.wanted} on one; {_what(found)}."
        ),
        factors=_factors(subject, scatter),
        risk=Risk.LOW if found else Risk.VERY_LOW,
        evidence=_evidence(pool, scatter) | {"moves": _moves(found)},
        options=_options(found),
        target=found.node if found else "",
        savings=Savings(reason="what is free already saves nothing; it becomes usable"),
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=(*_steps(found), *scheduler_of(kind_of(view, pool)).pack_tightly()),
        affected_gpus=float(scatter.wanted if scatter.is_waited_for else 0),
    )


def _what(found: Defragmentation | None) -> str:
    if found is None:
        return "nothing that may be moved would make room"
    count = len(found.moves)
    return f"{count} {'move' if count == 1 else 'moves'} would make room on {found.node}"


def _moves(found: Defragmentation | None) -> list[Mapping[str, object]]:
    return [
        {"workload": each.key, "gpus": each.gpus, "from": each.source, "to": each.target}
        for each in (found.moves if found else ())
    ]


def _options(found: Defragmentation | None) -> tuple[Option, ...]:
    if found is None:
        return ()
    moved = ", ".join(f"{each.key} to {each.target}" for each in found.moves)
    return (Option(f"make room on {found.node}: {moved}", Risk.LOW, target=found.node, fits=True),)


def _steps(found: Defragmentation | None) -> tuple[Instruction, ...]:
    if found is None:
        return ()
    lines = [
        f"{number}. start {each.key} ({each.gpus} GPUs) on {each.target} instead of {each.source}"
        for number, each in enumerate(found.moves, 1)
    ]
    lines.insert(0, f"Keep {found.node} closed to new work until it is done.")
    return (Instruction(f"Make room on {found.node}", "\n".join(lines)),)


RULE: Final = FleetRule(NAME, FragmentationSettings(), judge)
