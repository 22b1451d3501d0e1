"""Rule: pools whose usage follows the time of day; scale their nodes by the hour."""

import math
from itertools import chain, repeat
from statistics import fmean
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.accounting.load_patterns import shape_of
from rightsizer.advice.autoscale_schedule import (
    ReplicaSchedule,
    ScalingSettings,
    schedule,
    spans_of,
)
from rightsizer.advice.replica_load import ReplicaLoad
from rightsizer.advice.risk import risk_of
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.fleet.model import FleetPool
from rightsizer.fleet.pools.hourly import HOUR, independent_hours, known_values, series_of
from rightsizer.fleet.pools.pool import PoolRuleSettings, PoolSubject, may_wait_for
from rightsizer.fleet.pools.reclaim import follow_the_load
from rightsizer.fleet.rules.rule import WEEKLY, pool_rule
from rightsizer.model.values import (
    BLOCK_SPAN,
    CONSTANT,
    DAY_SECONDS,
    Action,
    Finding,
    Option,
    Reason,
    Spec,
    percent_text,
)

NAME: Final = "pool_autoscale"
_PLACES: Final = 6
_WHOLE: Final = 1e-6
_WEEKS: Final = 2


def node_load(pool: FleetPool) -> ReplicaLoad | None:
    """Return the load of a pool of equal nodes, in nodes; `None` if unknown.

    By five minutes, each with the maximum of its hour.
    """
    sizes = {size for size in pool.size_by_node.values() if size}
    if len(sizes) != 1 or not known_values(pool.held_peak):
        return None
    (gpus_each,) = sizes
    nodes = len(pool.size_by_node)
    blocks = HOUR // BLOCK_SPAN
    starts = list[int]()
    held = list[int]()
    needed = list[int]()
    presents = chain(pool.present.values, repeat(None))
    for at, (peak, present) in enumerate(zip(pool.held_peak.values, presents, strict=False)):
        if peak is None:
            continue
        there = nodes if present is None else min(nodes, _nodes(present, gpus_each))
        start = pool.held_peak.start + at * HOUR
        starts.extend(range(start, start + HOUR, BLOCK_SPAN))
        held.extend([there] * blocks)
        needed.extend([min(there, _nodes(peak, gpus_each))] * blocks)
    return ReplicaLoad(tuple(starts), tuple(held), tuple(needed), nodes, gpus_each)


def _empty_ratio(pool: FleetPool, gpus_each: int) -> float:
    """Return the share of the nodes' time in which a whole node was empty.

    Unknown nodes count as never empty.
    """
    hours = map(known_values, pool.node_free.values())
    empty = (fmean(free >= gpus_each - _WHOLE for free in hour) for hour in hours if hour)
    # Exact, so that the order of nodes does not change a rounded digit.
    return math.fsum(empty) / len(pool.size_by_node)


def _nodes(gpus: float, gpus_each: int) -> int:
    return math.ceil(round(gpus / gpus_each, _PLACES))


class PoolAutoscaleSettings(PoolRuleSettings, frozen=True):
    """Thresholds for scaling the nodes of a pool.

    Attributes:
        on_ratio: Share of node time that a schedule made from the other days must save.
            Source: as for a service's replicas
        most_short_ratio: Share of time short of a node beyond which the load is too irregular.
            Source: as for a service's replicas
    """

    on_ratio: Annotated[float, Spec(within=(0.01, 1))] = 0.15
    most_short_ratio: Annotated[float, CONSTANT] = 0.02
    # Nodes start more slowly than replicas, and a spare one costs more.
    scaling: Annotated[ScalingSettings, CONSTANT] = ScalingSettings(
        margin_ratio=0.1, lag_seconds=900.0
    )
    conduct: OpeningPolicy = WEEKLY


class _Outlook(Struct, frozen=True):
    load: ReplicaLoad
    empty_ratio: float
    schedule: ReplicaSchedule


def judge(subject: PoolSubject, settings: PoolAutoscaleSettings) -> Finding:
    """Whether a pool needs fewer nodes at some hours of every day."""
    pool = subject.pool
    waiting = may_wait_for(subject.view, pool)
    if (early := subject.early(settings, waiting, "; none is to go.")) is not None:
        return early
    shape = shape_of(series_of(pool.held_peak))
    if shape is None or not (shape.is_daily or shape.is_weekly):
        summary = f"{pool.name}: what is held of it does not follow the day."
        return subject.find_nothing(summary, subject.factors(0.0))
    load = node_load(pool)
    if load is None:
        why = "its nodes are not alike, so that their number says little"
        return subject.abstain(why, Reason.UNSUPPORTED_TELEMETRY)
    if load.size <= 1:
        return subject.find_nothing(f"{pool.name}: one node is all it needs.")
    days = subject.known_seconds / DAY_SECONDS
    is_weekly = shape.is_weekly and days >= _WEEKS * 7 * settings.minimum_coverage_ratio
    outlook = _Outlook(
        load,
        _empty_ratio(pool, load.gpus_each),
        schedule(load, settings.scaling, is_weekly=is_weekly),
    )
    planned = outlook.schedule.outcome
    saved = planned.saved_ratio
    short = planned.short_ratio
    if saved < settings.on_ratio or short > settings.most_short_ratio:
        summary = (
            f"{pool.name}: a schedule would save {percent_text(max(0.0, saved))} of its nodes' "
            f"time and leave it short {short:.1%} of the time."
        )
        return subject.find_nothing(summary, subject.factors(0.0), _evidence(outlook))
    return _problem(subject, outlook, saved - settings.on_ratio)


def _problem(subject: PoolSubject, outlook: _Outlook, margin: float) -> Finding:
    pool = subject.pool
    load = outlook.load
    planned = outlook.schedule.outcome
    high = planned.saved_mean * load.gpus_each
    # Work must move before a node that is not empty can go.
    low = min(high, load.size * load.gpus_each * outlook.empty_ratio)
    minimum = min(outlook.schedule.replicas)
    maximum = max(outlook.schedule.replicas)
    risk = risk_of(planned.short_ratio, independent_hours(pool.held_peak.values))
    savings = subject.savings(low, high)
    by_hour = f"{minimum} to {maximum} nodes by the hour, instead of {load.size}"
    return subject.find_problem(
        reasons=(Reason.DIURNAL_AUTOSCALE,),
        action=Action.AUTOSCALE,
        summary=(
            f"{pool.name}: diurnal load; {minimum} to {maximum} nodes instead of {load.size} would "
            f"have used {percent_text(planned.saved_ratio)} fewer node-hours, short of "
            f"capacity for {planned.short_ratio:.1%} of the time{outlook.schedule.basis}."
        ),
        factors=subject.factors(margin),
        risk=risk,
        evidence=_evidence(outlook),
        options=(Option(by_hour, risk, action=Action.AUTOSCALE, savings=savings),),
        savings=savings,
        instructions=follow_the_load(outlook.schedule, subject.scheduler),
        affected_gpus=high,
    )


def _evidence(outlook: _Outlook) -> dict[str, object]:
    load = outlook.load
    return {
        "nodes": load.size,
        "gpus_per_node": load.gpus_each,
        "nodes_needed_most": max(load.needed),
        "nodes_needed_mean": round(sum(load.needed) / len(load.needed), 2),
        "nodes_empty_ratio": round(outlook.empty_ratio, 4),
        "schedule": [
            {"from_hour": start, "to_hour": end, "nodes": nodes}
            for start, end, nodes in spans_of(outlook.schedule)
        ],
        "periods": outlook.schedule.periods,
        "by_schedule": outlook.schedule.outcome.evidence(load.gpus_each),
    }


RULE: Final = pool_rule(NAME, PoolAutoscaleSettings(), judge)
