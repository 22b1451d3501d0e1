"""Rule: small workloads of a pool that would fit on fewer GPUs, and how to combine them.

Only services and notebooks with one GPU of their own, whose compute and memory are known at nearly
every hour. Namespaces are isolated by MIG slices. Batch jobs are never packed.
"""

from typing import Annotated, Final

from rightsizer.advice.confidence import sizing_factors
from rightsizer.advice.risk import worst
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.fleet.pools.pool import PoolRuleSettings, PoolSubject, waiting_gpus
from rightsizer.fleet.pools.pool_room import PackingLimits
from rightsizer.fleet.pools.reclaim import sharing_fragments
from rightsizer.fleet.pools.sharing import SharedGpu, SharingPlan, plan_sharing, small_work
from rightsizer.fleet.rules.rule import (
    WEEKLY,
    least_certain,
    pool_rule,
)
from rightsizer.io.terminal import counted
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Finding,
    Option,
    Reason,
    Risk,
    Spec,
    WorkloadClass,
)

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


class PackingSettings(PoolRuleSettings, frozen=True):
    """Thresholds for packing small workloads.

    Attributes:
        on_ratio: Share of the GPUs of a pool's small workloads that must become free.
            Source: assumed; less does not pay for moving them
        busy_ratio: Utilization over an hour from which a workload was at work.
            Source: docs/definitions.md, sources: idle below 1%
        alternating_ratio: Maximum share of hours with two at work for them to alternate.
            Source: as for two workloads of a node
    """

    on_ratio: Annotated[float, Spec(within=(0.01, 1))] = 0.25
    busy_ratio: Annotated[float, CONSTANT] = 0.01
    alternating_ratio: Annotated[float, CONSTANT] = 0.02
    limits: PackingLimits = PackingLimits()
    conduct: OpeningPolicy = WEEKLY


def judge(subject: PoolSubject, settings: PackingSettings) -> Finding:
    """Whether the small workloads of a pool would fit on fewer GPUs together."""
    pool = subject.pool
    here = subject.workloads
    waiting = waiting_gpus(subject.view, pool)
    if (early := subject.early(settings, waiting, "; what is there stays as it is.")) is not None:
        return early
    small = small_work(here, settings.minimum_coverage_ratio, settings.busy_ratio)
    if len(small) <= 1:
        classes = {
            workload.case.workload.workload_class for workload in here if workload.case.workload
        }
        if classes == {WorkloadClass.UNKNOWN}:
            why = "the class of its workloads is unknown; state it in a policy"
            return subject.abstain(why, Reason.UNSUPPORTED_TELEMETRY)
        few = f"{subject.name}: fewer than two workloads of it may share a GPU."
        return subject.find_nothing(few)
    plan = plan_sharing(
        small,
        settings.limits,
        subject.market.board(pool.board),
        settings.busy_ratio,
        settings.alternating_ratio,
    )
    chosen = {key for gpu in plan.gpus for key in gpu.members}
    margin = plan.freed / len(small) - settings.on_ratio
    factors = least_certain(
        sizing_factors(workload.view.case, margin)
        for workload in small
        if workload.load.key in chosen or not chosen
    )
    if not plan.freed or plan.freed < settings.on_ratio * len(small):
        summary = f"{pool.name}: its {len(small)} small workloads fill the GPUs that they have."
        return subject.find_nothing(summary, factors, _evidence(plan))
    members = [workload.view for workload in small if workload.load.key in chosen]
    return _problem(subject.about(members), plan, factors)


def _problem(subject: PoolSubject, plan: SharingPlan, factors: dict[str, float]) -> Finding:
    sure = {
        shared_gpu: shared_gpu.freed if shared_gpu.risk.rank <= Risk.LOW.rank else 0
        for shared_gpu in plan.gpus
    }
    moved = sum(len(shared_gpu.members) for shared_gpu in plan.gpus)
    options = []
    for gpu in plan.gpus:
        names = gpu.members
        if gpu.slices:
            pairs = zip(gpu.members, gpu.slices, strict=True)
            names = tuple(f"{key} ({profile})" for key, profile in pairs)
        what = f"on one GPU, {_WAYS[gpu.action]}: {', '.join(names)}"
        savings = subject.savings(sure[gpu], gpu.freed)
        slices = "+".join(gpu.slices)
        options.append(Option(what, gpu.risk, slices, gpu.action, fits=True, savings=savings))
    by_way: dict[Action, list[SharedGpu]] = {}
    for gpu in plan.gpus:
        by_way.setdefault(gpu.action, []).append(gpu)
    how = " and ".join(_WAYS[way] for way in by_way)
    return subject.find_problem(
        reasons=tuple(_REASONS[way] for way in by_way),
        action=plan.gpus[0].action,
        summary=(
            f"{subject.name}: {moved} small workloads would do with "
            f"{counted(len(plan.gpus), 'GPU')}, {how}; {plan.freed} would be free."
        ),
        factors=factors,
        risk=worst(shared_gpu.risk for shared_gpu in plan.gpus),
        evidence=_evidence(plan),
        options=tuple(options),
        target=str(plan.freed),
        savings=subject.savings(sum(sure.values()), plan.freed),
        instructions=tuple(
            fragment
            for action, gpus in by_way.items()
            for fragment in sharing_fragments(
                action,
                max(len(shared_gpu.members) for shared_gpu in gpus),
                gpus[0].slices,
                subject.scheduler,
            )
        ),
        affected_gpus=plan.freed,
    )


def _evidence(plan: SharingPlan) -> dict[str, object]:
    return {
        "small_workloads": plan.given,
        "gpus_freed": plan.freed,
        "gpus_at_least": plan.at_least,
        "together": [
            {
                "workloads": list(gpu.members),
                "how": str(gpu.action),
                "slices": list(gpu.slices),
                "risk": str(gpu.risk),
            }
            for gpu in plan.gpus
        ],
    }


RULE: Final = pool_rule(NAME, PackingSettings(), judge)
