"""The trend of a load: a straight line through its days that a few odd ones do not bend."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist, median
from typing import Final

from rightsizer.accounting.shape import weighted
from rightsizer.domain.block import Series
from rightsizer.domain.pattern import Trend
from rightsizer.domain.settings import setting
from rightsizer.domain.units import NANOSECONDS_PER_SECOND

__all__ = ["TrendSettings", "daily_means", "daily_peaks", "trend_of"]

_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_DAY_SECONDS: Final = 86400.0


@dataclass(frozen=True, slots=True)
class TrendSettings:
    """What a trend must rest on."""

    minimum_days: int = setting(
        7,
        help="Days under which there is no trend to speak of.",
        minimum=4,
        maximum=30,
        source="a week, so that its end is no trend",
    )
    day_coverage_ratio: float = setting(
        0.5,
        help="Part of a day that must be known for it to count.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="half a day has its busy hours or its quiet ones",
    )
    level_ratio: float = setting(
        0.9,
        help="How sure the interval of the slope is.",
        unit="ratio",
        minimum=0.5,
        maximum=0.999,
        source="docs/definitions.md, conduct",
    )


def trend_of(
    days: Sequence[tuple[int, float]], settings: TrendSettings | None = None
) -> Trend | None:
    """The line through daily values; `None` where there are too few.

    The slope is the median of those between any two days (Theil 1950, Sen 1968); its interval
    is that of Kendall's rank correlation with ties (Gilbert 1987, section 16.4).

    Args:
        days: Number of the day, and its value.
        settings: How many days are asked for, and how sure the interval is.
    """
    settings = settings or TrendSettings()
    if len(days) < settings.minimum_days:
        return None
    slopes = sorted((b - a) / (y - x) for (x, a), (y, b) in combinations(days, 2))
    slope = median(slopes)
    half = _half_width([value for _, value in days], settings.level_ratio)
    low = max(0, math.floor((len(slopes) - half) / 2) - 1)
    high = min(len(slopes) - 1, math.ceil((len(slopes) + half) / 2))
    last = max(day for day, _ in days)
    return Trend(
        slope_per_day=slope,
        slope_low=min(slope, slopes[low]),
        slope_high=max(slope, slopes[high]),
        level_ratio=settings.level_ratio,
        value=median(value + slope * (last - day) for day, value in days),
        days=len(days),
    )


def daily_means(series: Series, settings: TrendSettings) -> list[tuple[int, float]]:
    """The mean of each day that is known well enough, by its number since the epoch."""
    days = _days(series, settings)
    return [(day, weighted(known, series.means[at]) / sum(known)) for day, at, known in days]


def daily_peaks(series: Series, settings: TrendSettings) -> list[tuple[int, float]]:
    """The peak of each day that is known well enough, by its number since the epoch."""
    return [(day, max(series.peaks[at])) for day, at, _ in _days(series, settings)]


def _days(series: Series, settings: TrendSettings) -> Iterator[tuple[int, slice, Sequence[float]]]:
    """The days that count: their number, where they lie, and their known seconds."""
    least = max(1.0, settings.day_coverage_ratio * _DAY_SECONDS)
    days = ((day, at, series.known_seconds[at]) for day, at in series.parts(_DAY))
    return (each for each in days if sum(each[2]) >= least)


def _half_width(values: Sequence[float], level: float) -> float:
    """How many ranks of slopes the interval spans."""
    count = len(values)
    ties = Counter(values).values()
    pairs = count * (count - 1) * (2 * count + 5) - sum(
        tie * (tie - 1) * (2 * tie + 5) for tie in ties
    )
    return NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(pairs / 18)
