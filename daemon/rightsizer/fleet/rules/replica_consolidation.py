"""Rule: services of one namespace with several nearly idle replicas; stack them on fewer GPUs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.projection import place_of
from rightsizer.advice.risk import risk_of
from rightsizer.advice.rules.gpu_count import RULE as GPU_COUNT
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.advice.verdict import complain, confidence_of, find_nothing, sizing_factors
from rightsizer.fleet.model import FleetPool, FleetView, FleetWorkload
from rightsizer.fleet.pools.hourly import filled, independent_hours, known_ratio
from rightsizer.fleet.pools.pool import (
    PoolSubject,
    kind_of,
    of_gpus,
    pool_key,
    pool_subject,
    waiting_gpus,
    workloads_in,
)
from rightsizer.fleet.pools.pool_room import HourlyLoad, Packed, PackingLimits, pack
from rightsizer.fleet.pools.reclaim import sharing_fragments
from rightsizer.fleet.rules.rule import (
    FleetRule,
    FleetVerdict,
    covered,
    mostly_covered,
    weekly_conduct,
)
from rightsizer.model.finding import Action, Case, Finding, FindingKind, Option, Reason
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.state import Resource
from rightsizer.model.workload import Allocator, WorkloadClass

_NOISE_RATIO: Final = 0.01
_SEVERAL: Final = 2


@dataclass(frozen=True, slots=True)
class Replicated:
    """A service of several replicas with a GPU each."""

    view: FleetWorkload
    replicas: int
    each: HourlyLoad
    """Of its busiest replica."""


def replicated(
    view: FleetWorkload, minimum_coverage_ratio: float, market: Market
) -> Replicated | None:
    """A service whose replicas may have others beside them; `None` where it is none.

    Its replicas share its load as their needs do, and each is taken for the busiest.
    """
    case, count = view.case, sum(view.nodes.values())
    workload = case.workload
    if workload is None or workload.workload_class is not WorkloadClass.SERVING:
        return None
    if count < _SEVERAL or workload.allocator is Allocator.PREALLOCATING:
        return None
    if not case.devices or not _is_apart(case, market):
        return None
    if any(fit.is_underprovisioned or fit.memory_is_preallocated for fit in case.provisioning):
        return None
    memory = _largest(case, Resource.MEMORY)
    compute = filled(view.compute)
    if memory is None or compute is None or known_ratio(view.compute) < minimum_coverage_ratio:
        return None
    uneven = _unevenness(case) / count
    load = HourlyLoad(case.key, [each * uneven for each in compute], [memory] * len(compute))
    return Replicated(view, count, load)


def stacks(given: Iterable[Replicated], limits: PackingLimits) -> Packed:
    """Which services would put one replica each on the same GPUs."""
    return pack((each.each for each in given), limits)


def freed_by(keys: Iterable[str], given: Mapping[str, Replicated]) -> int:
    """GPUs that are free where replicas of some services lie on one another."""
    counts = [given[key].replicas for key in keys]
    return sum(counts) - max(counts)


def _is_apart(case: Case, market: Market) -> bool:
    """Whether no device has anything to say to another: what is unmeasured may be much."""
    for device, fit in zip(case.devices, case.provisioning, strict=True):
        if device.mig is not None:
            return False
        link, place = fit.resources.get(Resource.NVLINK), place_of(device, market)
        is_silent = link is not None and link.need is not None and link.need <= _NOISE_RATIO
        has_none = place is not None and place.link_bytes_per_second == 0.0
        if not is_silent and not has_none:
            return False
    return True


def _largest(case: Case, resource: Resource) -> float | None:
    """The largest need of a replica, with its margin; `None` where one's is unknown."""
    needs = [fit.resources[resource].need for fit in case.provisioning if resource in fit.resources]
    known = [need for need in needs if need is not None]
    return max(known) if known and len(known) == len(case.provisioning) else None


def _unevenness(case: Case) -> float:
    """Need of the busiest replica over that of the mean one."""
    needs = [
        fit.resources[Resource.COMPUTE].need or 0.0
        for fit in case.provisioning
        if Resource.COMPUTE in fit.resources
    ]
    return max(needs) * len(needs) / sum(needs) if needs and sum(needs) > 0.0 else 1.0


NAME: Final = "replica_consolidation"


@dataclass(frozen=True, slots=True)
class ReplicaConsolidationSettings:
    """When replicas of several services are worth putting together."""

    on_ratio: float = setting(
        0.25,
        help="Part of the GPUs of a pool's services with replicas that must become free.",
        within=(0.01, 1),
        source="assumed; less does not pay for moving them",
    )
    minimum_known_seconds: float = covered()
    minimum_coverage_ratio: float = mostly_covered()
    limits: PackingLimits = field(default_factory=PackingLimits)
    conduct: OpeningPolicy = field(default_factory=weekly_conduct)


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
    view: FleetView, settings: ReplicaConsolidationSettings, market: Market
) -> tuple[FleetVerdict, ...]:
    """Whether replicas of a pool's services would fit on one another's GPUs."""
    return tuple(
        FleetVerdict(pool_key(pool.name), _of_pool(view, pool, settings, market))
        for pool in view.pools
    )


def _of_pool(
    view: FleetView, pool: FleetPool, settings: ReplicaConsolidationSettings, market: Market
) -> Finding:
    subject = pool_subject(view, pool)
    too_little = subject.too_little(
        NAME, settings.minimum_known_seconds, settings.minimum_coverage_ratio
    )
    if too_little is not None:
        return too_little
    if waiting_gpus(view, pool) > 0:
        summary = f"Work waits for GPUs of {pool.name}; what is there stays as it is."
        return find_nothing(NAME, subject.case, summary)
    found = _stacks(view, pool, settings, market)
    if not found.freed or found.freed < settings.on_ratio * found.gpus:
        summary = f"{pool.name}: no replicas of its services fit on one another's GPUs."
        return find_nothing(NAME, subject.case, summary, {}, {"services": sorted(found.given)})
    margin = found.freed / found.gpus - settings.on_ratio
    return _complaint(view, subject, found, margin, market)


def _stacks(
    view: FleetView, pool: FleetPool, settings: ReplicaConsolidationSettings, market: Market
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
    view: FleetView, subject: PoolSubject, found: _Stacks, margin: float, market: Market
) -> Finding:
    pool = subject.pool
    chosen = [found.given[key] for group in found.groups for key in group]
    factors = [sizing_factors(each.view.case, margin) for each in chosen]
    services, then = len(chosen), sum(each.replicas for each in chosen) - found.freed
    savings = of_gpus(pool, market, 0, found.freed)
    risk = risk_of(0.0, min(independent_hours(each.each.compute) for each in chosen)).risk
    return complain(
        NAME,
        subject.case,
        kind=FindingKind.OVERPROVISIONED,
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


RULE: Final = FleetRule(NAME, ReplicaConsolidationSettings(), judge)
