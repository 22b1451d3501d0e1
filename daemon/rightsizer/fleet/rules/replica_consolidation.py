"""Rule: services of one namespace with several nearly idle replicas; stack them on fewer GPUs."""

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.advice.confidence import sizing_factors
from rightsizer.advice.market import Market
from rightsizer.advice.risk import risk_of
from rightsizer.advice.rules.gpu_count import RULE as GPU_COUNT
from rightsizer.advice.rules.gpu_count import is_known_apart
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.fleet.model import FleetWorkload
from rightsizer.fleet.pools.hourly import filled, independent_hours, known_ratio
from rightsizer.fleet.pools.pool import PoolRuleSettings, PoolSubject, waiting_gpus
from rightsizer.fleet.pools.pool_room import HourlyLoad, PackingLimits, pack
from rightsizer.fleet.pools.reclaim import sharing_fragments
from rightsizer.fleet.pools.sharing import has_room
from rightsizer.fleet.rules.rule import (
    WEEKLY,
    least_certain,
    pool_rule,
)
from rightsizer.model.values import Action, Finding, Option, Reason, Resource, Spec, WorkloadClass

NAME: Final = "replica_consolidation"


class Replicated(Struct, frozen=True):
    """Service of several replicas with one GPU each."""

    view: FleetWorkload
    replicas: int
    load: HourlyLoad
    """Load of its busiest replica."""

    @property
    def key(self) -> str:
        """Key of the workload."""
        return self.view.case.key


def replicated(
    view: FleetWorkload, minimum_coverage_ratio: float, market: Market
) -> Replicated | None:
    """Return a service whose replicas may share GPUs; `None` if it is none.

    Its load is divided by the replicas' needs, and each replica counts as the busiest.
    """
    case = view.case
    count = view.gpus
    if case.workload_class is not WorkloadClass.SERVING or count <= 1 or not has_room(case):
        return None
    is_cut = any(device.mig for device in case.devices)
    if not view.has_separate_pods and (is_cut or not is_known_apart(case, market)):
        return None
    # Largest need of a replica, including its margin; unknown if any is.
    memory_needs = [need for need in view.needs(Resource.MEMORY) if need is not None]
    compute = filled(view.compute)
    if not memory_needs or len(memory_needs) < len(case.provisioning) or compute is None:
        return None
    if known_ratio(view.compute) < minimum_coverage_ratio:
        return None
    needs = [need or 0.0 for need in view.needs(Resource.COMPUTE)]
    # Need of the busiest replica relative to the mean.
    unevenness = max(needs) * len(needs) / sum(needs) if needs and sum(needs) > 0.0 else 1.0
    uneven = unevenness / count
    load = HourlyLoad(
        case.key, [value * uneven for value in compute], [max(memory_needs)] * len(compute)
    )
    return Replicated(view, count, load)


class ReplicaConsolidationSettings(PoolRuleSettings, frozen=True):
    """Thresholds for consolidating replicas of several services.

    Attributes:
        on_ratio: Share of the GPUs of a pool's replicated services that must become free.
            Source: assumed; less does not pay for moving them
    """

    on_ratio: Annotated[float, Spec(within=(0.01, 1))] = 0.25
    limits: PackingLimits = PackingLimits()
    conduct: OpeningPolicy = WEEKLY


def judge(subject: PoolSubject, settings: ReplicaConsolidationSettings) -> Finding:
    """Whether replicas of a pool's services would fit on one another's GPUs."""
    if (too_little := subject.too_little(settings)) is not None:
        return too_little
    if waiting_gpus(subject.view, subject.pool) > 0:
        why = f"Work waits for GPUs of {subject.name}; what is there stays as it is."
        return subject.find_nothing(why)
    market = subject.market
    length = len(subject.pool.held_peak.values)
    rule = GPU_COUNT.in_market(market)
    given = [
        service
        for workload in subject.workloads
        if (service := replicated(workload, settings.minimum_coverage_ratio, market)) is not None
        and len(service.load.compute) == length
        and not rule.judge(workload.case).is_actionable
    ]
    groups = _groups(given, settings.limits)
    gpus = sum(service.replicas for service in given)
    freed = sum(map(_freed, groups))
    if not freed or freed < settings.on_ratio * gpus:
        summary = f"{subject.name}: no replicas of its services fit on one another's GPUs."
        return subject.find_nothing(
            summary, {}, {"services": sorted(service.key for service in given)}
        )
    return _problem(subject, groups, freed, freed / gpus - settings.on_ratio)


def _freed(group: Sequence[Replicated]) -> int:
    counts = [service.replicas for service in group]
    return sum(counts) - max(counts)


def _groups(given: Sequence[Replicated], limits: PackingLimits) -> list[list[Replicated]]:
    by_key = {e.key: e for e in given}
    ordered = sorted(given, key=lambda e: e.view.namespace)
    return [
        [by_key[key] for key in keys]
        for _, some in groupby(ordered, key=lambda service: service.view.namespace)
        for keys in pack((service.load for service in some), limits).bins
        if len(keys) > 1
    ]


def _problem(
    subject: PoolSubject, groups: Sequence[Sequence[Replicated]], freed: int, margin: float
) -> Finding:
    chosen = [service for group in groups for service in group]
    services = len(chosen)
    then = sum(service.replicas for service in chosen) - freed
    risk = risk_of(0.0, min(independent_hours(service.load.compute) for service in chosen))
    together = [[service.key for service in group] for group in groups]
    return subject.about(service.view for service in chosen).find_problem(
        reasons=(Reason.SHARING_CANDIDATE_MPS,),
        action=Action.SHARE_MPS,
        summary=(
            f"{subject.name}: the replicas of {services} services fit on {then} GPUs instead of "
            f"{then + freed}, one of each service on a GPU; {freed} would be free."
        ),
        factors=least_certain(sizing_factors(service.view.case, margin) for service in chosen),
        risk=risk,
        evidence={
            "services": {service.key: service.replicas for service in chosen},
            "together": together,
            "gpus_freed": freed,
        },
        options=tuple(
            Option(
                f"on the same GPUs: {', '.join(keys)}",
                risk,
                action=Action.SHARE_MPS,
                fits=True,
                savings=subject.savings(0, _freed(group)),
            )
            for keys, group in zip(together, groups, strict=True)
        ),
        target=str(freed),
        savings=subject.savings(0, freed),
        instructions=sharing_fragments(
            Action.SHARE_MPS, max(map(len, groups)), (), subject.scheduler
        ),
        affected_gpus=freed,
    )


RULE: Final = pool_rule(NAME, ReplicaConsolidationSettings(), judge)
