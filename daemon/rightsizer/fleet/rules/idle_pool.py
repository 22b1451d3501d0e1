"""Pools of which some GPUs were not needed at any moment: how many can go, and which nodes.

Not said before every hour of a week was seen, nor while work waits for the pool or what is held
of it grows to its end. Load that comes and goes by the day is left to the rule `pool_autoscale`.
"""

from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.risk import risk_of
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.advice.verdict import complain, find_nothing
from rightsizer.fleet.model import FleetPool, FleetView
from rightsizer.fleet.pools.hourly import (
    GrowthSettings,
    SpareCapacity,
    SpareSettings,
    growth_of,
    independent_hours,
    spare_of,
)
from rightsizer.fleet.pools.pool import (
    PoolSubject,
    kind_of,
    may_wait_for,
    of_gpus,
    pool_key,
    pool_subject,
)
from rightsizer.fleet.pools.reclaim import take_out
from rightsizer.fleet.rules.rule import (
    FleetRule,
    FleetVerdict,
    covered,
    mostly_covered,
    weekly_conduct,
)
from rightsizer.model.finding import Action, Finding, FindingKind, Option, Reason, Risk
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting

NAME: Final = "idle_pool"
_STEPS: Final = 20
"""Targets of large pools are told in twentieths, so that advice stays the same from day to day."""


@dataclass(frozen=True, slots=True)
class IdlePoolSettings:
    """When GPUs of a pool count as spare."""

    on_ratio: float = setting(
        0.1,
        help="Part of a pool's GPUs that must be spare.",
        within=(0.01, 1),
        source="a node in ten; less is what a pool keeps for a busy day",
    )
    minimum_known_seconds: float = covered()
    minimum_coverage_ratio: float = mostly_covered()
    spare: SpareSettings = field(default_factory=SpareSettings)
    growth: GrowthSettings = field(default_factory=GrowthSettings)
    conduct: OpeningPolicy = field(default_factory=weekly_conduct)


def judge(view: FleetView, settings: IdlePoolSettings, market: Market) -> tuple[FleetVerdict, ...]:
    """Whether a pool has GPUs that nobody needed at any moment."""
    return tuple(
        FleetVerdict(pool_key(pool.name), _of_pool(view, pool, settings, market))
        for pool in view.pools
    )


def _of_pool(
    view: FleetView, pool: FleetPool, settings: IdlePoolSettings, market: Market
) -> Finding:
    subject = pool_subject(view, pool)
    too_little = subject.too_little(
        NAME, settings.minimum_known_seconds, settings.minimum_coverage_ratio
    )
    if too_little is not None:
        return too_little
    waiting = may_wait_for(view, pool)
    if waiting > 0:
        summary = f"Work waits for {waiting:g} GPUs of {pool.name}, so it is not too large."
        return find_nothing(NAME, subject.case, summary, {}, {"waiting_gpus": waiting})
    growth = growth_of(pool, settings.growth)
    if growth is not None and growth.is_filling:
        summary = f"{pool.name}: what is held grows, and all of it will be within the horizon."
        return find_nothing(NAME, subject.case, summary)
    spare = spare_of(pool, settings.spare)
    part = spare.gpus / subject.size
    evidence: dict[str, object] = {
        "gpus": subject.size,
        "held_most": spare.needed,
        "keep": spare.keep,
        "margin_ratio": settings.spare.margin_ratio,
        "spare_nodes": list(spare.nodes),
    }
    if not spare.gpus or part < settings.on_ratio:
        summary = f"{pool.name}: {spare.needed} of its {subject.size} GPUs were held at once."
        return find_nothing(NAME, subject.case, summary, subject.factors(0.0), evidence)
    return _complaint(view, subject, spare, market, evidence)


def _complaint(
    view: FleetView,
    subject: PoolSubject,
    spare: SpareCapacity,
    market: Market,
    evidence: dict[str, object],
) -> Finding:
    pool, size = subject.pool, subject.size
    is_empty = spare.keep == 0
    risk = risk_of(0.0, independent_hours(pool.held_peak.values)).risk
    action = Action.RELEASE if is_empty else Action.REDUCE_GPU_COUNT
    return complain(
        NAME,
        subject.case,
        kind=FindingKind.IDLE if is_empty else FindingKind.OVERPROVISIONED,
        reasons=(Reason.IDLE_EMPTY if is_empty else Reason.GPU_COUNT_OVERPROVISIONED,),
        action=action,
        summary=_summary(subject, spare),
        factors=subject.factors(spare.gpus / size),
        risk=risk,
        evidence=evidence,
        culprits=_culprits(subject, spare),
        options=_options(pool, spare, market, risk, action),
        target=_rounded(spare.keep, size),
        savings=of_gpus(pool, market, spare.gpus, spare.gpus),
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=take_out(spare.nodes, kind_of(view, pool)),
        affected_gpus=spare.gpus,
    )


def _summary(subject: PoolSubject, spare: SpareCapacity) -> str:
    name, size = subject.pool.name, subject.size
    if spare.keep == 0:
        return f"{name}: none of its {size} GPUs was held at any moment."
    nodes = f", {_count(len(spare.nodes), 'whole node')} among them" if spare.nodes else ""
    return (
        f"{name}: at no moment were more than {spare.needed} of its {size} GPUs held; "
        f"{_count(spare.gpus, 'GPU')} can go{nodes}, and {spare.keep} leave room."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _options(
    pool: FleetPool, spare: SpareCapacity, market: Market, risk: Risk, action: Action
) -> tuple[Option, ...]:
    """All that is spare; and whole nodes alone, where those are fewer."""
    of_nodes = sum(pool.size_by_node[node] for node in spare.nodes)
    found = []
    if of_nodes:
        found.append(
            Option(
                description=f"{_count(len(spare.nodes), 'whole node')}: {', '.join(spare.nodes)}",
                risk=risk,
                target=f"{len(spare.nodes)} nodes",
                action=action,
                fits=True,
                savings=of_gpus(pool, market, of_nodes, of_nodes),
            )
        )
    if of_nodes != spare.gpus:
        found.append(
            Option(
                description=f"{_count(spare.gpus, 'GPU')} less, {spare.keep} in all",
                risk=risk,
                target=str(spare.keep),
                action=action,
                fits=True,
                savings=of_gpus(pool, market, spare.gpus, spare.gpus),
            )
        )
    return tuple(found)


def _culprits(subject: PoolSubject, spare: SpareCapacity) -> tuple[str, ...]:
    named = {device.uuid for device in subject.case.devices}
    found = (
        each.device.uuid
        for each in subject.pool.devices
        if each.node in spare.nodes and each.device.uuid in named
    )
    return tuple(sorted(found))


def _rounded(keep: int, size: int) -> str:
    step = max(1, size // _STEPS)
    return str(min(size, -(-keep // step) * step))


RULE: Final = FleetRule(NAME, IdlePoolSettings(), judge)
