"""Rule: pools with enough free GPUs for a job, but on no single node.

The jobs are waiting ones, and those observed in the pool. Only services and notebooks are moved:
training is not interrupted.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from rightsizer.advice.risk import probability_above
from rightsizer.advice.rules.rule import OpeningPolicy, RuleSettings
from rightsizer.fleet.model import FleetPool, FleetWorkload
from rightsizer.fleet.pools.hourly import SpareSettings, spare_of
from rightsizer.fleet.pools.pool import PoolSubject, part_of, waiting_for
from rightsizer.fleet.pools.reclaim import Defragmentation, is_fragmented, residents_of, room_for
from rightsizer.fleet.rules.rule import pool_rule
from rightsizer.io.terminal import counted
from rightsizer.model.values import (
    CONSTANT,
    DAY_SECONDS,
    HOUR_SECONDS,
    Action,
    Finding,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
    Spec,
    WorkloadClass,
)
from rightsizer.owners.registry import scheduler_of

NAME: Final = "fragmentation"


class FragmentationSettings(RuleSettings, frozen=True):
    """Thresholds for scattered free GPUs.

    Attributes:
        on_ratio: Share of hours with enough free GPUs for a job, but not on one node.
            Source: assumed; a night in which no job starts
        minimum_known_seconds: Known time of the nodes required to judge.
            Source: half of the short span
        spare_ratio: Share of a pool's GPUs never needed from which fragmentation is ignored, unless
            work waits.
            Source: as for a pool that is too large
    """

    on_ratio: Annotated[float, Spec(within=(0.05, 1))] = 0.3
    minimum_known_seconds: Annotated[float, Spec(within=(HOUR_SECONDS, None)), CONSTANT] = (
        3 * HOUR_SECONDS
    )
    spare_ratio: Annotated[float, Spec(within=(0.01, 1)), CONSTANT] = 0.1
    spare: Annotated[SpareSettings, CONSTANT] = SpareSettings()
    conduct: OpeningPolicy = OpeningPolicy(
        long_seconds=DAY_SECONDS,
        short_seconds=6 * HOUR_SECONDS,
        minimum_known_seconds=12 * HOUR_SECONDS,
        close_after_seconds=2 * HOUR_SECONDS,
    )


def judge(subject: PoolSubject, settings: FragmentationSettings) -> Finding:
    """Whether a pool's free GPUs are spread over too many nodes for its usual jobs."""
    pool = subject.pool
    here = subject.workloads
    wanted, is_waited_for = _wanted(subject, here)
    if wanted <= 1:
        return subject.find_nothing(
            f"{pool.name}: its jobs take one GPU each, which any node can give."
        )
    hours = _free_hours(pool)
    if len(hours) * HOUR_SECONDS < settings.minimum_known_seconds:
        return subject.abstain("which of its nodes had free GPUs is not known for long enough")
    ratio = sum(is_fragmented(hour, wanted) for hour in hours) / len(hours)
    factors = {
        "coverage": subject.coverage_ratio,
        "certainty": probability_above(ratio, len(hours), settings.on_ratio),
    }
    evidence = {
        "gpus_wanted_on_one_node": wanted,
        "is_waited_for": is_waited_for,
        "free_by_node": {node: gpus for node, gpus in sorted(pool.free_by_node.items()) if gpus},
        "scattered_ratio": round(ratio, 4),
        "hours": len(hours),
    }
    free = pool.free
    largest_free = max(pool.free_by_node.values(), default=0)
    if not is_fragmented(pool.free_by_node, wanted) or ratio < settings.on_ratio:
        summary = f"{pool.name}: {free} free GPUs, not scattered."
        return subject.find_nothing(summary, factors, evidence)
    spare = spare_of(pool, settings.spare).gpus
    if not is_waited_for and spare >= settings.spare_ratio * subject.size:
        summary = f"{pool.name}: its free GPUs are scattered, but they were never needed."
        return subject.find_nothing(summary, {}, evidence)
    defragmentation = room_for(wanted, pool.free_by_node, residents_of(here))
    who = "that wait" if is_waited_for else "that were seen"
    what, options, steps = _advised(defragmentation)
    return subject.find_problem(
        reasons=(Reason.CAPACITY_FRAGMENTED,),
        action=Action.MOVE_GPUS if defragmentation else Action.NONE,
        summary=(
            f"{pool.name}: {free} GPUs are free, no node has more than {largest_free} of them, "
            f"and jobs {who} take {wanted} on one; {what}."
        ),
        factors=factors,
        risk=Risk.LOW if defragmentation else Risk.VERY_LOW,
        evidence=evidence
        | {
            "moves": [
                {"workload": move.key, "gpus": move.gpus, "from": move.source, "to": move.target}
                for move in (defragmentation.moves if defragmentation else ())
            ]
        },
        options=options,
        target=defragmentation.node if defragmentation else "",
        savings=Savings(reason="free GPUs become usable"),
        instructions=(*steps, *scheduler_of(subject.scheduler).pack_tightly()),
        affected_gpus=float(wanted if is_waited_for else 0),
    )


def _wanted(subject: PoolSubject, here: Sequence[FleetWorkload]) -> tuple[int, bool]:
    """Return the GPUs on one node of the largest waiting job, or else the largest present one."""
    pool = subject.pool
    largest = subject.pool.largest_node
    waiting = [
        min(largest, round(part_of(waiting_work, pool)))
        for waiting_work in waiting_for(subject.view, pool)
    ]
    if max(waiting, default=0) > 1:
        return max(waiting), True
    jobs = [
        max(workload.nodes.values(), default=0)
        for workload in here
        if workload.case.workload_class is WorkloadClass.BATCH
    ]
    return min(largest, max(jobs, default=0)), False


def _free_hours(pool: FleetPool) -> list[dict[str, float]]:
    """Return the free GPUs by node for each hour in which all nodes are known."""
    nodes = sorted(pool.size_by_node)
    columns = [pool.node_free[node].values for node in nodes if node in pool.node_free]
    if len(columns) < len(nodes):
        return []
    hours = []
    for values in zip(*columns, strict=True):
        free_gpus = [value for value in values if value is not None]
        if len(free_gpus) == len(nodes):
            hours.append(dict(zip(nodes, free_gpus, strict=True)))
    return hours


def _advised(
    plan: Defragmentation | None,
) -> tuple[str, tuple[Option, ...], list[Instruction]]:
    """Return what moves achieve: the end of a sentence, an option, and steps."""
    if plan is None:
        return "nothing that may be moved would make room", (), []
    lines = [f"Keep {plan.node} closed to new work until it is done."]
    for number, move in enumerate(plan.moves, 1):
        what = f"start {move.key} ({move.gpus} GPUs)"
        lines.append(f"{number}. {what} on {move.target} instead of {move.source}")
    moved = ", ".join(f"{work_move.key} to {work_move.target}" for work_move in plan.moves)
    option = Option(f"make room on {plan.node}: {moved}", Risk.LOW, target=plan.node, fits=True)
    what = f"{counted(len(plan.moves), 'move')} would make room on {plan.node}"
    return what, (option,), [Instruction(f"Make room on {plan.node}", "\n".join(lines))]


RULE: Final = pool_rule(NAME, FragmentationSettings(), judge)
