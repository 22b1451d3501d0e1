"""Pools whose held GPUs follow the day: let nodes come and go with them.

The need of an hour is the most that was held at once in it, on as few nodes as would do; what
is saved for certain is only what stood empty as the work was placed. Of a pool that follows the day
nodes that were never needed are told here too, for a schedule leaves them out at every hour.
"""

from dataclasses import dataclass, field
from typing import Final

from rightsizer.advice.autoscale_schedule import (
    Outcome,
    ScalingSettings,
    Schedule,
    followed,
    schedule,
)
from rightsizer.advice.market import Market
from rightsizer.advice.replica_load import ReplicaLoad
from rightsizer.advice.risk import risk_of
from rightsizer.advice.rules.rule import Conduct
from rightsizer.advice.scaled_object import spans_of
from rightsizer.advice.verdict import Complaint, abstain, complain, find_nothing
from rightsizer.domain.finding import Action, Finding, FindingKind, Option, Reason
from rightsizer.domain.pattern import Shape
from rightsizer.domain.settings import setting
from rightsizer.fleet.fleet_rule import EstateRule, Verdict
from rightsizer.fleet.pools.hourly import independent_hours, shape_by_hour
from rightsizer.fleet.pools.node_load import NodeLoad, node_load
from rightsizer.fleet.pools.pool_commands import follow_the_load
from rightsizer.fleet.pools.pool_subject import (
    PoolSubject,
    kind_of,
    of_gpus,
    pool_key,
    pool_subject,
)
from rightsizer.fleet.pools.waiting import may_wait_for
from rightsizer.fleet.rules.span import covered, mostly_covered, weekly_conduct
from rightsizer.fleet.view import EstateView, PoolView

__all__ = ["RULE", "PoolAutoscaleSettings"]

NAME: Final = "pool_autoscale"
_HOUR_SECONDS: Final = 3600.0
_WEEKS: Final = 2
_SEVERAL: Final = 2


def _scaling() -> ScalingSettings:
    """Nodes, not replicas: they take longer to come, and a spare one is dearer."""
    return ScalingSettings(margin_ratio=0.1, lag_seconds=900.0)


@dataclass(frozen=True, slots=True)
class PoolAutoscaleSettings:
    """When it is worth to let nodes come and go."""

    on_ratio: float = setting(
        0.15,
        help="Part of the nodes' time that a schedule made of the other days must save.",
        unit="ratio",
        minimum=0.01,
        maximum=1,
        source="as for a service's replicas",
    )
    minimum_known_seconds: float = covered()
    minimum_coverage_ratio: float = mostly_covered()
    most_short_ratio: float = setting(
        0.02,
        help="Part of the time in which a node would have been missing, beyond which the load is "
        "too irregular.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="as for a service's replicas",
    )
    scaling: ScalingSettings = field(default_factory=_scaling)
    conduct: Conduct = field(default_factory=weekly_conduct)


@dataclass(frozen=True, slots=True)
class _Outlook:
    nodes: NodeLoad
    schedule: Schedule
    followed: Outcome

    @property
    def load(self) -> ReplicaLoad:
        return self.nodes.load


def judge(view: EstateView, settings: PoolAutoscaleSettings, market: Market) -> tuple[Verdict, ...]:
    """Whether a pool would do with fewer nodes at some hours of every day."""
    return tuple(
        Verdict(pool_key(pool.name), _of_pool(view, pool, settings, market)) for pool in view.pools
    )


def conduct(settings: PoolAutoscaleSettings) -> Conduct:
    """The same for every pool."""
    return settings.conduct


def _of_pool(
    view: EstateView, pool: PoolView, settings: PoolAutoscaleSettings, market: Market
) -> Finding:
    subject = pool_subject(view, pool)
    early = _early(view, subject, settings)
    if early is not None:
        return early
    shape = shape_by_hour(pool.held_peak)
    if shape is None or not (shape.is_daily or shape.is_weekly):
        summary = f"{pool.name}: what is held of it does not follow the day."
        return find_nothing(NAME, subject.case, summary, subject.factors(0.0), {})
    nodes = node_load(pool)
    if nodes is None:
        why = "its nodes are not alike, so that their number says little"
        return abstain(NAME, subject.case, Reason.UNSUPPORTED_TELEMETRY, why)
    if nodes.load.size < _SEVERAL:
        return find_nothing(NAME, subject.case, f"{pool.name}: one node is all it needs.", {}, {})
    outlook = _outlook(nodes, shape, subject, settings)
    planned = outlook.schedule.outcome
    saved, short = planned.saved_ratio, planned.short_ratio
    if saved < settings.on_ratio or short > settings.most_short_ratio:
        summary = (
            f"{pool.name}: a schedule would save {max(0.0, saved):.0%} of its nodes' time and "
            f"leave it short {short:.1%} of the time."
        )
        return find_nothing(NAME, subject.case, summary, subject.factors(0.0), _evidence(outlook))
    found = _complaint(view, subject, outlook, settings, market)
    return complain(NAME, subject.case, found)


def _early(
    view: EstateView, subject: PoolSubject, settings: PoolAutoscaleSettings
) -> Finding | None:
    too_little = subject.too_little(
        NAME, settings.minimum_known_seconds, settings.minimum_coverage_ratio
    )
    if too_little is not None:
        return too_little
    waiting = may_wait_for(view, subject.pool)
    if waiting > 0:
        summary = f"Work waits for {waiting:g} GPUs of {subject.pool.name}; none is to go."
        return find_nothing(NAME, subject.case, summary, {}, {"waiting_gpus": waiting})
    return None


def _outlook(
    nodes: NodeLoad, shape: Shape, subject: PoolSubject, settings: PoolAutoscaleSettings
) -> _Outlook:
    days = subject.known_seconds / _HOUR_SECONDS / 24.0
    is_weekly = shape.is_weekly and days >= _WEEKS * 7 * settings.minimum_coverage_ratio
    return _Outlook(
        nodes,
        schedule(nodes.load, settings.scaling, is_weekly=is_weekly),
        followed(nodes.load, settings.scaling),
    )


def _complaint(
    view: EstateView,
    subject: PoolSubject,
    outlook: _Outlook,
    settings: PoolAutoscaleSettings,
    market: Market,
) -> Complaint:
    pool, load, planned = subject.pool, outlook.load, outlook.schedule.outcome
    gpus = load.size * load.gpus_each
    low = gpus * min(planned.saved_ratio, outlook.nodes.empty_ratio)
    high = gpus * max(planned.saved_ratio, outlook.followed.saved_ratio)
    least, most = min(outlook.schedule.replicas), max(outlook.schedule.replicas)
    risk = risk_of(planned.short_ratio, independent_hours(pool.held_peak.values)).risk
    savings = of_gpus(pool, market, low, high)
    return Complaint(
        finding=FindingKind.OVERPROVISIONED,
        reasons=(Reason.DIURNAL_AUTOSCALE,),
        action=Action.AUTOSCALE,
        summary=(
            f"{pool.name}: what is held comes and goes by the hour; {least} to {most} nodes "
            f"instead of {load.size} would have taken {planned.saved_ratio:.0%} less of their "
            f"time and been short {planned.short_ratio:.1%} of the time."
        ),
        factors=subject.factors(planned.saved_ratio - settings.on_ratio),
        risk=risk,
        evidence=_evidence(outlook),
        options=(
            Option(
                description=f"{least} to {most} nodes by the hour, instead of {load.size}",
                risk=risk,
                action=Action.AUTOSCALE,
                savings=savings,
            ),
        ),
        savings=savings,
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=follow_the_load(outlook.schedule, kind_of(view, pool)),
        affected_gpus=high,
    )


def _evidence(outlook: _Outlook) -> dict[str, object]:
    load = outlook.load
    return {
        "nodes": load.size,
        "gpus_per_node": load.gpus_each,
        "nodes_needed_most": max(load.needed),
        "nodes_needed_mean": round(sum(load.needed) / len(load.needed), 2),
        "nodes_empty_ratio": round(outlook.nodes.empty_ratio, 4),
        "schedule": [
            {"from_hour": start, "to_hour": end, "nodes": nodes}
            for start, end, nodes in spans_of(outlook.schedule)
        ],
        "periods": outlook.schedule.periods,
        "by_schedule": _about(outlook.schedule.outcome, load),
        "following_the_load": _about(outlook.followed, load),
    }


def _about(outcome: Outcome, load: ReplicaLoad) -> dict[str, object]:
    saved = outcome.held_seconds - outcome.scaled_seconds
    return {
        "saved_ratio": round(outcome.saved_ratio, 4),
        "saved_gpu_hours": round(saved * load.gpus_each / _HOUR_SECONDS, 1),
        "short_ratio": round(outcome.short_ratio, 4),
        "short_minutes": round(outcome.short_seconds / 60.0),
    }


RULE: Final = EstateRule(NAME, PoolAutoscaleSettings(), judge, conduct)
