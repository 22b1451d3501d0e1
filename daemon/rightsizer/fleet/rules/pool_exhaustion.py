"""Rule: pools whose usage grows daily and that will soon be full.

By the trend of the daily maximum of held GPUs, if it surely grows and reaches the pool's size
within the horizon. Work that already waits is evidence rather than a forecast.
"""

from typing import Annotated, Final

from rightsizer.advice.rules.rule import OpeningPolicy, RuleSettings
from rightsizer.fleet.pools.hourly import GrowthSettings, growth_of
from rightsizer.fleet.pools.pool import PoolSubject, waiting_gpus
from rightsizer.fleet.rules.rule import WEEKLY, pool_rule
from rightsizer.model.values import (
    CONSTANT,
    DAY_SECONDS,
    Action,
    Finding,
    Instruction,
    Reason,
    Risk,
    Savings,
    Spec,
    percent_text,
)

NAME: Final = "pool_exhaustion"
_SOON_DAYS: Final = 14.0


class PoolExhaustionSettings(RuleSettings, frozen=True):
    """Horizon and requirements of the forecast.

    Attributes:
        on_ratio: Share of the pool's GPUs that the trend must reach within the horizon.
            Source: all of it
        minimum_known_seconds: Known time below which the rule abstains.
            Source: a week of days makes a trend; a day of it may be missing
    """

    on_ratio: Annotated[float, Spec(within=(0.3, 1))] = 1.0
    minimum_known_seconds: Annotated[float, Spec(within=(DAY_SECONDS, None)), CONSTANT] = (
        6 * DAY_SECONDS
    )
    growth: GrowthSettings = GrowthSettings()
    conduct: OpeningPolicy = WEEKLY


def judge(subject: PoolSubject, settings: PoolExhaustionSettings) -> Finding:
    """Whether the allocated GPUs of a pool grow to its size within the horizon."""
    growth = growth_of(subject.pool, settings.growth, settings.on_ratio)
    if growth is None or subject.known_seconds < settings.minimum_known_seconds:
        return subject.abstain("too few days of who held its GPUs to tell a trend")
    trend = growth.trend
    low = growth.days_low
    high = growth.days_high
    slopes = (trend.slope_low, trend.slope_per_day, trend.slope_high)
    evidence: dict[str, object] = {
        "gpus": subject.size,
        "held_peak_now": round(trend.value, 2),
        "gpus_per_day": [round(slope, 3) for slope in slopes],
        "days": trend.days,
        "waiting_gpus": waiting_gpus(subject.view, subject.pool),
    }
    factors = {
        "coverage": subject.coverage_ratio,
        "history": trend.days / (trend.days + 1.0),
        "certainty": trend.level_ratio,
    }
    if low is None or high is None:
        summary = f"{subject.name}: nothing grows to its size within the horizon."
        return subject.find_nothing(summary, factors, evidence)
    # GPUs needed for another month of this growth, at least one.
    missing = max(1.0, trend.value + trend.slope_per_day * 30.0 - subject.size)
    return subject.find_problem(
        reasons=(Reason.EXHAUSTION_FORECAST,),
        action=Action.NONE,
        summary=(
            f"{subject.name}: the most that is held at once grows by "
            f"{trend.slope_per_day:.1f} GPUs a day and reaches all {subject.size} in {low:.0f} "
            f"to {high:.0f} days ({percent_text(trend.level_ratio)} of such forecasts hold)."
        ),
        factors=factors,
        risk=Risk.VERY_LOW,
        evidence=evidence | {"days_low": round(low, 1), "days_high": round(high, 1)},
        target="gpus",
        savings=Savings(reason="capacity shortage"),
        instructions=(
            Instruction(
                "Provide the room in time",
                f"Order or reserve {missing:.0f} GPUs, or move what other "
                "pools have room for, before then.",
            ),
        ),
        affected_gpus=float(subject.size) if low <= _SOON_DAYS else 0.0,
    )


RULE: Final = pool_rule(NAME, PoolExhaustionSettings(), judge)
