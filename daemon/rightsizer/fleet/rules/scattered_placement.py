"""Rule: multi-GPU jobs on more nodes than necessary, though fewer would have room.

Their communication then uses the network instead of NVLink or the host. Only batch jobs are
judged: the replicas of a service are spread on purpose.
"""

from collections.abc import Mapping
from typing import Annotated, Final

from rightsizer.advice.confidence import direct_factors
from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import OpeningPolicy, RuleSettings
from rightsizer.advice.verdict import CaseSubject
from rightsizer.fleet.model import FleetPool, FleetView, FleetWorkload
from rightsizer.fleet.rules.rule import FleetRule
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Finding,
    Option,
    Reason,
    Risk,
    Savings,
    Spec,
    WorkloadClass,
)
from rightsizer.owners.registry import scheduler_of

NAME: Final = "scattered_placement"


class ScatteredPlacementSettings(RuleSettings, frozen=True):
    """Thresholds for scattered jobs.

    Attributes:
        on_ratio: Share of a job's nodes that it does not need.
            Source: assumed; one node of three
        exchange_ratio: Confidence, unmeasured, that GPUs of one batch job exchange data.
            Source: as for GPUs of one node that talk over the host
    """

    on_ratio: Annotated[float, Spec(within=(0.01, 1))] = 0.3
    exchange_ratio: Annotated[float, CONSTANT] = 0.65
    conduct: OpeningPolicy = OpeningPolicy(
        long_seconds=86400.0, short_seconds=21600.0, minimum_known_seconds=3600.0
    )


def judge(
    view: FleetView, settings: ScatteredPlacementSettings, market: Market
) -> tuple[Finding, ...]:
    """Whether a job runs on more nodes than it needs while fewer have room for it."""
    pools = {pool.name: pool for pool in view.pools}
    subjects = ((CaseSubject(NAME, workload.case, market), workload) for workload in view.workloads)
    return tuple(
        _of_workload(subject, workload, pools.get(workload.pool), settings)
        for subject, workload in subjects
    )


def _of_workload(
    subject: CaseSubject,
    view: FleetWorkload,
    pool: FleetPool | None,
    settings: ScatteredPlacementSettings,
) -> Finding:
    case = view.case
    nodes = {node: count for node, count in view.nodes.items() if count}
    if len(nodes) <= 1:
        return subject.find_nothing("It is on one node.")
    if case.workload_class is WorkloadClass.UNKNOWN:
        why = "its class is unknown, and replicas lie apart on purpose; state it in a policy"
        return subject.abstain(why)
    if case.workload_class is not WorkloadClass.BATCH:
        return subject.find_nothing(f"A {case.workload_class} workload may lie on several nodes.")
    if (too_little := subject.abstain_early(settings.minimum_known_seconds)) is not None:
        return too_little
    # The job's own GPUs count as free; it stays on its nodes if possible.
    gpus = sum(nodes.values())
    size = pool.size_by_node if pool else {}
    free = pool.free_by_node if pool else {}
    room = {node: free.get(node, 0) + nodes.get(node, 0) for node in size}
    fewest = len(_place(gpus, size, {})) or None
    evidence: dict[str, object] = {"nodes": dict(sorted(nodes.items())), "fewest_nodes": fewest}
    if fewest is None or 1.0 - fewest / len(nodes) < settings.on_ratio:
        summary = f"On {len(nodes)} nodes, as many as its GPUs need."
        return subject.find_nothing(summary, {}, evidence)
    then = _place(gpus, room, nodes)
    if not then or 1.0 - len(then) / len(nodes) < settings.on_ratio:
        summary = f"On {len(nodes)} nodes instead of {fewest}; no fewer have room for it now."
        return subject.find_nothing(summary, {}, evidence)
    factors = direct_factors(case, 1.0, 0.5) | {"exchange": settings.exchange_ratio}
    return _problem(subject, nodes, then, factors)


def _place(gpus: int, room: Mapping[str, int], held: Mapping[str, int]) -> tuple[str, ...]:
    """Return the fewest nodes with room for the GPUs, its own first; empty without room."""
    chosen = []
    for node in sorted(room, key=lambda node: (-room[node], -held.get(node, 0), node)):
        if gpus <= 0 or not room[node]:
            break
        chosen.append(node)
        gpus -= room[node]
    return tuple(chosen) if gpus <= 0 else ()


def _problem(
    subject: CaseSubject, nodes: Mapping[str, int], then: tuple[str, ...], factors: dict[str, float]
) -> Finding:
    workload = subject.case.workload
    gpus = sum(nodes.values())
    better = sorted(then)
    name = workload.name if workload else subject.case.key
    there = " and ".join(better)
    owner = scheduler_of(workload.kind if workload else None)
    return subject.find_problem(
        reasons=(Reason.NVLINK_ABSENT,),
        action=Action.MOVE_GPUS,
        summary=(
            f"The {gpus} GPUs of {name} lie on {len(nodes)} nodes ({' and '.join(sorted(nodes))}); "
            f"{there} {'has' if len(then) == 1 else 'have'} room for all of them."
        ),
        factors=factors,
        risk=Risk.LOW,
        evidence={"nodes": dict(sorted(nodes.items())), "better_nodes": better},
        options=(Option(f"restart it on {there}", Risk.LOW, target=",".join(better), fits=True),),
        target=str(len(then)),
        savings=Savings(reason="shorter links save time, not GPUs"),
        instructions=(*owner.request_nodes(gpus, len(then)), *owner.pack_tightly()),
        affected_gpus=0.1 * gpus,
    )


RULE: Final = FleetRule(NAME, ScatteredPlacementSettings(), judge)
