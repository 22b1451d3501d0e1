"""Services of one namespace that keep replicas for safety, each with next to nothing to do.

Fewer replicas are said by the rule `gpu_count`, which sees one service. Here their number stays:
replicas of different services lie on the same GPUs, as far as their load of the same hours fits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rightsizer.advice.confidence import confidence_of, sizing_factors
from rightsizer.advice.market import Market
from rightsizer.advice.risk import risk_of
from rightsizer.advice.rules.gpu_count import RULE as GPU_COUNT
from rightsizer.advice.rules.rule import Conduct
from rightsizer.advice.verdict import Complaint, complain, find_nothing
from rightsizer.domain.finding import Action, Finding, FindingKind, Option, Reason
from rightsizer.domain.settings import setting
from rightsizer.fleet.fleet_rule import EstateRule, Verdict
from rightsizer.fleet.pools.hourly import independent_hours
from rightsizer.fleet.pools.packing import PackingLimits
from rightsizer.fleet.pools.pool_subject import (
    PoolSubject,
    kind_of,
    of_gpus,
    pool_key,
    pool_subject,
    workloads_in,
)
from rightsizer.fleet.pools.replica_stacks import Replicated, freed_by, replicated, stacks
from rightsizer.fleet.pools.sharing_fragments import sharing_fragments
from rightsizer.fleet.pools.waiting import waiting_gpus
from rightsizer.fleet.rules.span import covered, mostly_covered, weekly_conduct
from rightsizer.fleet.view import EstateView, PoolView

__all__ = ["RULE", "ReplicaConsolidationSettings"]

NAME: Final = "replica_consolidation"


@dataclass(frozen=True, slots=True)
class ReplicaConsolidationSettings:
    """When replicas of several services are worth putting together."""

    on_ratio: float = setting(
        0.25,
        help="Part of the GPUs of a pool's services with replicas that must become free.",
        unit="ratio",
        minimum=0.01,
        maximum=1,
        source="assumed; less does not pay for moving them",
    )
    minimum_known_seconds: float = covered()
    minimum_coverage_ratio: float = mostly_covered()
    limits: PackingLimits = field(default_factory=PackingLimits)
    conduct: Conduct = field(default_factory=weekly_conduct)


@dataclass(frozen=True, slots=True)
class _Stacks:
    given: Mapping[str, Replicated]
    groups: tuple[tuple[str, ...], ...]

    @property
    def gpus(self) -> int:
        return sum(each.replicas for each in self.given.values())

    @property
    def freed(self) -> int:
        return sum(freed_by(group, self.given) for group in self.groups)


def judge(
    view: EstateView, settings: ReplicaConsolidationSettings, market: Market
) -> tuple[Verdict, ...]:
    """Whether replicas of a pool's services would fit on one another's GPUs."""
    return tuple(
        Verdict(pool_key(pool.name), _of_pool(view, pool, settings, market)) for pool in view.pools
    )


def conduct(settings: ReplicaConsolidationSettings) -> Conduct:
    """The same for every pool."""
    return settings.conduct


def _of_pool(
    view: EstateView, pool: PoolView, settings: ReplicaConsolidationSettings, market: Market
) -> Finding:
    subject = pool_subject(view, pool)
    too_little = subject.too_little(
        NAME, settings.minimum_known_seconds, settings.minimum_coverage_ratio
    )
    if too_little is not None:
        return too_little
    if waiting_gpus(view, pool) > 0:
        summary = f"Work waits for GPUs of {pool.name}; what is there stays as it is."
        return find_nothing(NAME, subject.case, summary, {}, {})
    found = _stacks(view, pool, settings, market)
    if not found.freed or found.freed < settings.on_ratio * found.gpus:
        summary = f"{pool.name}: no replicas of its services fit on one another's GPUs."
        return find_nothing(NAME, subject.case, summary, {}, {"services": sorted(found.given)})
    margin = found.freed / found.gpus - settings.on_ratio
    return complain(NAME, subject.case, _complaint(view, subject, found, margin, market))


def _stacks(
    view: EstateView, pool: PoolView, settings: ReplicaConsolidationSettings, market: Market
) -> _Stacks:
    by_namespace: dict[str, list[Replicated]] = {}
    lengths = len(pool.held_peak.values)
    for each in workloads_in(view, pool):
        found = replicated(each, settings.minimum_coverage_ratio, market)
        if found is None or len(found.each.compute) != lengths:
            continue
        if GPU_COUNT.in_market(market).judge(each.case).is_complaint:
            continue
        namespace = each.case.workload.namespace if each.case.workload else ""
        by_namespace.setdefault(namespace, []).append(found)
    groups = [
        keys
        for _, members in sorted(by_namespace.items())
        for keys in stacks(members, settings.limits).bins
        if len(keys) > 1
    ]
    given = {each.each.key: each for members in by_namespace.values() for each in members}
    return _Stacks(given, tuple(groups))


def _complaint(
    view: EstateView, subject: PoolSubject, found: _Stacks, margin: float, market: Market
) -> Complaint:
    pool = subject.pool
    chosen = [found.given[key] for group in found.groups for key in group]
    factors = [sizing_factors(each.view.case, margin) for each in chosen]
    services, then = len(chosen), sum(each.replicas for each in chosen) - found.freed
    savings = of_gpus(pool, market, 0, found.freed)
    risk = risk_of(0.0, min(independent_hours(each.each.compute) for each in chosen)).risk
    return Complaint(
        finding=FindingKind.OVERPROVISIONED,
        reasons=(Reason.SHARING_CANDIDATE_MPS,),
        action=Action.SHARE_MPS,
        summary=(
            f"{pool.name}: the replicas of {services} services fit on {then} GPUs instead of "
            f"{then + found.freed}, one of each service on a GPU; {found.freed} would be free."
        ),
        factors=min(factors, key=lambda each: (confidence_of(each), sorted(each.items()))),
        risk=risk,
        evidence={
            "services": {each.each.key: each.replicas for each in chosen},
            "together": [list(group) for group in found.groups],
            "gpus_freed": found.freed,
        },
        options=tuple(
            Option(
                description=f"on the same GPUs: {', '.join(group)}",
                risk=risk,
                action=Action.SHARE_MPS,
                fits=True,
                savings=of_gpus(pool, market, 0, freed_by(group, found.given)),
            )
            for group in found.groups
        ),
        target=str(found.freed),
        savings=savings,
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=sharing_fragments(
            Action.SHARE_MPS, _most(found.groups), (), kind_of(view, pool)
        ),
        affected_gpus=found.freed,
    )


def _most(groups: Sequence[Sequence[str]]) -> int:
    return max(map(len, groups))


RULE: Final = EstateRule(NAME, ReplicaConsolidationSettings(), judge, conduct)
