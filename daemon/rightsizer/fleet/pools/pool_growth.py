"""Where what is held of a pool is heading, and when it would be all there is."""

from dataclasses import dataclass, field

from rightsizer.accounting.trend import TrendSettings, daily_peaks, trend_of
from rightsizer.domain.pattern import Trend
from rightsizer.domain.settings import setting
from rightsizer.fleet.pools.hourly import series_of
from rightsizer.fleet.view import PoolView

__all__ = ["Growth", "GrowthSettings", "growth_of"]


@dataclass(frozen=True, slots=True)
class GrowthSettings:
    """How far ahead it is looked, and what a trend rests on."""

    horizon_days: float = setting(
        30.0,
        help="How far ahead the end must lie at most.",
        unit="days",
        minimum=1,
        maximum=365,
        source="as long as it takes to have more, and twice the past that it is told from",
    )
    least_growth_ratio: float = setting(
        0.05,
        help="Part of the pool by which the line must have grown over the days seen.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="assumed; less is what a week's end does to a line",
    )
    trend: TrendSettings = field(default_factory=TrendSettings)


@dataclass(frozen=True, slots=True)
class Growth:
    """The line through the most that was held at once each day."""

    trend: Trend
    days_low: float | None
    """Until it reaches the pool's size, at the earliest; `None` where it does not in time."""
    days_high: float | None

    @property
    def is_filling(self) -> bool:
        """Whether all of the pool will be held within the horizon."""
        return self.days_low is not None


def growth_of(pool: PoolView, settings: GrowthSettings, full_ratio: float = 1.0) -> Growth | None:
    """Where a pool is heading; `None` where too few days are known.

    Args:
        pool: Whose held GPUs are looked at.
        settings: How far ahead.
        full_ratio: What the line must reach within the horizon, of all GPUs.
    """
    size = sum(pool.size_by_node.values())
    trend = trend_of(daily_peaks(series_of(pool.held_peak), settings.trend), settings.trend)
    if trend is None or not size:
        return None
    days = trend.days_until(float(size))
    reached = trend.value + trend.slope_per_day * settings.horizon_days
    grown = trend.slope_per_day * trend.days
    if days is None or reached < full_ratio * size or grown < settings.least_growth_ratio * size:
        return Growth(trend, None, None)
    return Growth(trend, *days)
