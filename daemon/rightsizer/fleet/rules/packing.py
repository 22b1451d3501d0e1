"""Small workloads of a pool that would do with fewer GPUs between them: who goes with whom.

Only services and notebooks with one GPU of their own, whose compute and memory are known at nearly
every hour. Strangers are kept apart by MIG slices. Batch jobs are never packed.
"""

from collections.abc import Sequence
from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.risk import rank_of, worst
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.advice.verdict import abstain, complain, confidence_of, find_nothing, sizing_factors
from rightsizer.fleet.model import FleetPool, FleetView, FleetWorkload
from rightsizer.fleet.pools.pool import (
    PoolSubject,
    kind_of,
    of_gpus,
    pool_key,
    pool_subject,
    waiting_gpus,
    workloads_in,
)
from rightsizer.fleet.pools.pool_room import PackingLimits
from rightsizer.fleet.pools.reclaim import sharing_fragments
from rightsizer.fleet.pools.sharing import (
    SharedGpu,
    SharingPlan,
    SmallWorkload,
    plan_sharing,
    small_work,
)
from rightsizer.fleet.rules.rule import (
    FleetRule,
    FleetVerdict,
    covered,
    mostly_covered,
    weekly_conduct,
)
from rightsizer.model.finding import Action, Finding, FindingKind, Instruction, Option, Reason, Risk
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.workload import WorkloadClass

NAME: Final = "packing"
_REASONS: Final = {
    Action.SHARE_MPS: Reason.SHARING_CANDIDATE_MPS,
    Action.SHARE_TIMESLICE: Reason.SHARING_CANDIDATE_TIME_SLICE,
    Action.SHARE_MIG: Reason.SHARING_CANDIDATE_MIG,
}
_WAYS: Final = {
    Action.SHARE_MPS: "side by side (MPS)",
    Action.SHARE_TIMESLICE: "in turns",
    Action.SHARE_MIG: "in MIG slices",
}


@dataclass(frozen=True, slots=True)
class PackingSettings:
    """When putting small workloads together is worth it."""

    on_ratio: float = setting(
        0.25,
        help="Part of the GPUs of all small workloads of a pool that must become free.",
        within=(0.01, 1),
        source="assumed; less does not pay for moving them",
    )
    minimum_known_seconds: float = covered()
    minimum_coverage_ratio: float = mostly_covered()
    busy_ratio: float = setting(
        0.01,
        help="Busy share of an hour from which on a workload was at work.",
        source="docs/definitions.md, sources: busy from 1 % on",
    )
    alternating_ratio: float = setting(
        0.02,
        help="Part of the hours in which two may be at work, for workloads to take turns.",
        source="as for two workloads of a node",
    )
    limits: PackingLimits = field(default_factory=PackingLimits)
    conduct: OpeningPolicy = field(default_factory=weekly_conduct)


def judge(view: FleetView, settings: PackingSettings, market: Market) -> tuple[FleetVerdict, ...]:
    """Whether small workloads of a pool would do with fewer GPUs between them."""
    return tuple(
        FleetVerdict(pool_key(pool.name), _of_pool(view, pool, settings, market))
        for pool in view.pools
    )


def _of_pool(
    view: FleetView, pool: FleetPool, settings: PackingSettings, market: Market
) -> Finding:
    subject = pool_subject(view, pool)
    too_little = subject.too_little(
        NAME, settings.minimum_known_seconds, settings.minimum_coverage_ratio
    )
    if too_little is not None:
        return too_little
    waiting = waiting_gpus(view, pool)
    if waiting > 0:
        summary = f"Work waits for {waiting:g} GPUs of {pool.name}; what is there stays as it is."
        return find_nothing(NAME, subject.case, summary, {}, {"waiting_gpus": waiting})
    here = workloads_in(view, pool)
    small = small_work(here, settings.minimum_coverage_ratio, settings.busy_ratio)
    if len(small) <= 1:
        return _too_few(subject, here)
    plan = plan_sharing(
        small,
        settings.limits,
        market.board(pool.board),
        settings.busy_ratio,
        settings.alternating_ratio,
    )
    factors = _factors(plan, small, plan.freed / len(small) - settings.on_ratio)
    if not plan.freed or plan.freed < settings.on_ratio * len(small):
        summary = f"{pool.name}: its {len(small)} small workloads fill the GPUs that they have."
        return find_nothing(NAME, subject.case, summary, factors, _evidence(plan))
    return _complaint(view, subject, plan, factors, market)


def _too_few(subject: PoolSubject, here: Sequence[FleetWorkload]) -> Finding:
    classes = {each.case.workload.workload_class for each in here if each.case.workload}
    if classes and classes <= {WorkloadClass.UNKNOWN}:
        why = "the class of its workloads is unknown; state it in a policy"
        return abstain(NAME, subject.case, Reason.UNSUPPORTED_TELEMETRY, why)
    summary = f"{subject.pool.name}: fewer than two workloads of it may share a GPU."
    return find_nothing(NAME, subject.case, summary)


def _factors(plan: SharingPlan, small: Sequence[SmallWorkload], margin: float) -> dict[str, float]:
    """Of the workload that least is known of, among those that would share."""
    chosen = {key for gpu in plan.gpus for key in gpu.members}
    found = [
        sizing_factors(each.view.case, margin)
        for each in small
        if each.load.key in chosen or not chosen
    ]
    return min(found, key=lambda each: (confidence_of(each), sorted(each.items())))


def _complaint(
    view: FleetView,
    subject: PoolSubject,
    plan: SharingPlan,
    factors: dict[str, float],
    market: Market,
) -> Finding:
    pool, first = subject.pool, plan.gpus[0]
    sure = sum(each.freed for each in plan.gpus if rank_of(each.risk) <= rank_of(Risk.LOW))
    moved = sum(len(each.members) for each in plan.gpus)
    ways = dict.fromkeys(each.action for each in plan.gpus)
    how = " and ".join(_WAYS[way] for way in ways)
    return complain(
        NAME,
        subject.case,
        kind=FindingKind.OVERPROVISIONED,
        reasons=tuple(_REASONS[way] for way in ways),
        action=first.action,
        summary=(
            f"{pool.name}: {moved} small workloads would do with {len(plan.gpus)} "
            f"{'GPU' if len(plan.gpus) == 1 else 'GPUs'}, {how}; {plan.freed} would be free."
        ),
        factors=factors,
        risk=worst(each.risk for each in plan.gpus),
        evidence=_evidence(plan),
        options=tuple(_option(pool, each, market) for each in plan.gpus),
        target=str(plan.freed),
        savings=of_gpus(pool, market, sure, plan.freed),
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=_instructions(view, pool, plan),
        affected_gpus=plan.freed,
    )


def _option(pool: FleetPool, gpu: SharedGpu, market: Market) -> Option:
    names = (
        [f"{key} ({profile})" for key, profile in zip(gpu.members, gpu.slices, strict=True)]
        if gpu.slices
        else gpu.members
    )
    is_sure = rank_of(gpu.risk) <= rank_of(Risk.LOW)
    return Option(
        description=f"on one GPU, {_WAYS[gpu.action]}: {', '.join(names)}",
        risk=gpu.risk,
        target="+".join(gpu.slices),
        action=gpu.action,
        fits=True,
        savings=of_gpus(pool, market, gpu.freed if is_sure else 0, gpu.freed),
    )


def _instructions(view: FleetView, pool: FleetPool, plan: SharingPlan) -> tuple[Instruction, ...]:
    """One for each way, from the first GPU that goes it."""
    kind = kind_of(view, pool)
    by_way: dict[Action, list[SharedGpu]] = {}
    for each in plan.gpus:
        by_way.setdefault(each.action, []).append(each)
    return tuple(
        found
        for action, gpus in by_way.items()
        for found in sharing_fragments(
            action, max(len(each.members) for each in gpus), gpus[0].slices, kind
        )
    )


def _evidence(plan: SharingPlan) -> dict[str, object]:
    return {
        "small_workloads": plan.given,
        "gpus_freed": plan.freed,
        "gpus_at_least": plan.at_least,
        "together": [
            {
                "workloads": list(each.members),
                "how": str(each.action),
                "slices": list(each.slices),
                "risk": str(each.risk),
            }
            for each in plan.gpus
        ],
    }


RULE: Final = FleetRule(NAME, PackingSettings(), judge)
