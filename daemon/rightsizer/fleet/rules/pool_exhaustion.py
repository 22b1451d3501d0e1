"""Pools of which more is held every day, and which will soon be full.

Told by the line through the most that was held at once each day, where it grows for certain and
reaches the pool's size within the horizon. Work that waits already is evidence, no forecast.
"""

from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.advice.verdict import abstain, complain, find_nothing
from rightsizer.fleet.model import FleetPool, FleetView
from rightsizer.fleet.pools.hourly import GrowthSettings, growth_of
from rightsizer.fleet.pools.pool import PoolSubject, pool_key, pool_subject, waiting_gpus
from rightsizer.fleet.rules.rule import FleetRule, FleetVerdict
from rightsizer.model.finding import (
    Action,
    Finding,
    FindingKind,
    Instruction,
    Reason,
    Risk,
    Savings,
)
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.pattern import Trend
from rightsizer.model.settings import setting

NAME: Final = "pool_exhaustion"
_DAY_SECONDS: Final = 86400.0
_DAYS_TO_TELL: Final = 14.0


def _conduct() -> OpeningPolicy:
    return OpeningPolicy(
        long_seconds=14 * _DAY_SECONDS,
        short_seconds=7 * _DAY_SECONDS,
        minimum_known_seconds=6 * _DAY_SECONDS,
        close_after_seconds=_DAY_SECONDS,
    )


@dataclass(frozen=True, slots=True)
class PoolExhaustionSettings:
    """How far ahead it is looked, and what a trend rests on."""

    on_ratio: float = setting(
        1.0,
        help="What the line must reach within the horizon, of the pool's GPUs.",
        within=(0.3, 1),
        source="full is full",
    )
    minimum_known_seconds: float = setting(
        6 * _DAY_SECONDS,
        help="Known time under which the rule abstains.",
        within=(_DAY_SECONDS, None),
        source="a week of days makes a line; a day of it may be missing",
    )
    growth: GrowthSettings = field(default_factory=GrowthSettings)
    conduct: OpeningPolicy = field(default_factory=_conduct)


def judge(
    view: FleetView, settings: PoolExhaustionSettings, market: Market
) -> tuple[FleetVerdict, ...]:
    """Whether what is held of a pool grows to its size within the horizon."""
    return tuple(
        FleetVerdict(pool_key(pool.name), _of_pool(view, pool, settings, market))
        for pool in view.pools
    )


def _of_pool(
    view: FleetView, pool: FleetPool, settings: PoolExhaustionSettings, market: Market
) -> Finding:
    subject = pool_subject(view, pool)
    growth = growth_of(pool, settings.growth, settings.on_ratio)
    if growth is None or subject.known_seconds < settings.minimum_known_seconds:
        why = "too few days of who held its GPUs to tell a trend"
        return abstain(NAME, subject.case, Reason.INSUFFICIENT_DATA, why)
    evidence = _evidence(subject, growth.trend, waiting_gpus(view, pool))
    if growth.days_low is None or growth.days_high is None:
        summary = f"{pool.name}: nothing grows to its size within the horizon."
        factors = _factors(subject, growth.trend)
        return find_nothing(NAME, subject.case, summary, factors, evidence)
    days = (growth.days_low, growth.days_high)
    return _complaint(subject, growth.trend, days, evidence, market)


def _complaint(
    subject: PoolSubject,
    trend: Trend,
    days: tuple[float, float],
    evidence: dict[str, object],
    market: Market,
) -> Finding:
    low, high = days
    return complain(
        NAME,
        subject.case,
        kind=FindingKind.UNDERPROVISIONED,
        reasons=(Reason.EXHAUSTION_FORECAST,),
        action=Action.NONE,
        summary=(
            f"{subject.pool.name}: the most that is held at once grows by "
            f"{trend.slope_per_day:.1f} GPUs a day and reaches all {subject.size} in {low:.0f} "
            f"to {high:.0f} days ({trend.level_ratio:.0%} of such forecasts hold)."
        ),
        factors=_factors(subject, trend),
        risk=Risk.VERY_LOW,
        evidence=evidence | {"days_low": round(low, 1), "days_high": round(high, 1)},
        target="gpus",
        savings=Savings(reason="what runs short saves nothing"),
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=(
            Instruction(
                "Have room when it comes",
                f"Order or reserve {_missing(subject, trend):.0f} GPUs, or move what other "
                "pools have room for, before then.",
            ),
        ),
        affected_gpus=float(subject.size) if low <= _DAYS_TO_TELL else 0.0,
    )


def _missing(subject: PoolSubject, trend: Trend) -> float:
    """What a month more of the same would take, at least one."""
    return max(1.0, trend.value + trend.slope_per_day * 30.0 - subject.size)


def _factors(subject: PoolSubject, trend: Trend) -> dict[str, float]:
    return {
        "coverage": subject.coverage_ratio,
        "history": trend.days / (trend.days + 1.0),
        "certainty": trend.level_ratio,
    }


def _evidence(subject: PoolSubject, trend: Trend, waiting: float) -> dict[str, object]:
    return {
        "gpus": subject.size,
        "held_peak_now": round(trend.value, 2),
        "gpus_per_day": [
            round(each, 3) for each in (trend.slope_low, trend.slope_per_day, trend.slope_high)
        ],
        "days": trend.days,
        "waiting_gpus": waiting,
    }


RULE: Final = FleetRule(NAME, PoolExhaustionSettings(), judge)
