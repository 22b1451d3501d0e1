"""Load patterns: periodicity over days and weeks, trend, and effective sample size."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from operator import mul
from typing import Final, NamedTuple

from rightsizer.accounting.settings import ShapeSettings, TrendSettings
from rightsizer.model.values import DAY, DAY_SECONDS, HOUR, Blocks, Measure, Series, Shape, Trend

_MOST_LAGS: Final = 2 * 24 * 12
"""Two days of five minutes; a load correlated for longer has only few effective samples."""


def effective_samples(values: Sequence[float | None]) -> float:
    """Number of independent values that would give the same uncertainty of the mean.

    n over the integrated autocorrelation time, summed up to the first non-positive pair of lags
    (Geyer 1992, initial positive sequence). For an AR(1) series it is n (1 - r) / (1 + r). At
    most n; a constant series has no autocorrelation and counts in full. Values are equally
    spaced in time, `None` if unknown.
    """
    series = _Series(values)
    if series.variance <= 0:
        return float(series.known)
    time = -1.0
    for lag in range(0, min(len(values) // 2, _MOST_LAGS), 2):
        if (pair := series.weighed(lag) + series.weighed(lag + 1)) <= 0:
            break
        time += 2 * pair
    return series.known / max(1.0, time)


def autocorrelation(values: Sequence[float | None], lag: int) -> float | None:
    """Autocorrelation of values at a lag, -1 to 1.

    `None` for a constant series, or with fewer known pairs than the lag.
    """
    series = _Series(values)
    if series.pairs(lag) < lag or series.variance <= 0:
        return None
    return series.autocorrelation(lag)


class _Series:
    """Deviations from the mean, 0 if unknown."""

    def __init__(self, values: Sequence[float | None]) -> None:
        is_whole = None not in values
        numbers = [value for value in values if value is not None]
        self.known = len(numbers)
        mean = sum(numbers) / self.known if numbers else 0.0
        # Equal values may differ by rounding.
        is_constant = not numbers or max(numbers) - min(numbers) <= 1e-12 * max(1.0, abs(mean))
        if is_whole:
            self._deviations = [value - mean for value in numbers]
        else:
            self._deviations = [0.0 if value is None else value - mean for value in values]
        # One bit per value, to count the pairs of a lag at once.
        bits = (
            "1" * self.known if is_whole else "".join("01"[value is not None] for value in values)
        )
        self._known_bits = int(bits or "0", 2)
        total = sum(map(mul, self._deviations, self._deviations))
        self.variance = 0.0 if is_constant else total / self.known

    def pairs(self, lag: int) -> int:
        """Number of pairs of known values at a lag."""
        return (self._known_bits & self._known_bits >> lag).bit_count()

    def autocorrelation(self, lag: int) -> float:
        """Autocorrelation over the known pairs; 0 without any."""
        if not (pairs := self.pairs(lag)):
            return 0.0
        products: float = sum(map(mul, self._deviations, self._deviations[lag:]))
        return products / pairs / self.variance

    def weighed(self, lag: int) -> float:
        """Weighted down for few pairs (the usual biased estimate), to keep sums of lags stable."""
        return self.autocorrelation(lag) * (1.0 - lag / len(self._deviations))


_DAY_HOURS: Final = 24
_WEEK_HOURS: Final = 168
_EPOCH_HOUR: Final = 3 * 24
"""1970 began on a Thursday; hour 0 is the first of Monday."""


def shape_of(series: Series, settings: ShapeSettings | None = None) -> Shape | None:
    """Periodicity of a series, oldest first; `None` for an empty one.

    A slowly changing load is also similar after a day, but even more so after half a day; a load
    with a daily cycle is not.
    """
    settings = settings or ShapeSettings()
    if not series.numbers:
        return None
    observed = observed_hours(series)
    known_seconds = [0.0] * _WEEK_HOURS
    totals = [0.0] * _WEEK_HOURS
    for hour in observed:
        place = (hour.number + _EPOCH_HOUR) % _WEEK_HOURS
        known_seconds[place] += hour.known_seconds
        totals[place] += hour.weighted
    hours = hourly_means(observed)
    day = autocorrelation(hours, _DAY_HOURS)
    half = autocorrelation(hours, _DAY_HOURS // 2)
    week = autocorrelation(hours, _WEEK_HOURS)
    enough = settings.autocorrelation_ratio
    of_day = [
        (sum(totals[at::_DAY_HOURS]), sum(known_seconds[at::_DAY_HOURS]))
        for at in range(_DAY_HOURS)
    ]
    return Shape(
        hours_of_day=tuple(total / time if time > 0 else None for total, time in of_day),
        known_days=sum(known_seconds) / DAY_SECONDS,
        is_daily=day is not None and half is not None and day >= enough and day > half,
        is_weekly=(
            week is not None
            and day is not None
            and week >= enough
            and week >= day + settings.weekly_margin_ratio
        ),
        covers_cycle=covers_week(
            (observed_hour.number for observed_hour in observed if observed_hour.known_seconds),
            settings,
        ),
    )


def covers_week(hours: Iterable[int], settings: ShapeSettings | None = None) -> bool:
    """Whether some hours since the epoch include nearly every hour of a week."""
    seen = {(hour + _EPOCH_HOUR) % _WEEK_HOURS for hour in hours}
    return len(seen) / _WEEK_HOURS >= (settings or ShapeSettings()).covered_ratio


def grid(series: Series, values: Sequence[float]) -> Sequence[float | None]:
    """Column of a series at equal five-minute steps; `None` if unknown."""
    if not (numbers := series.numbers) or numbers[-1] - numbers[0] + 1 == len(numbers):
        return values
    return _spread(numbers, values)


class ObservedHour(NamedTuple):
    """Known data of one hour."""

    number: int
    """Number since the epoch."""
    known_seconds: float
    weighted: float
    """Sum of its five-minute means, weighted by known time."""


def observed_hours(series: Series) -> list[ObservedHour]:
    """Hours with known data, oldest first."""
    known_seconds = series.known_seconds
    means = series.means
    hours = ((hour, known_seconds[at], means[at]) for hour, at in series.parts(HOUR))
    return [
        ObservedHour(hour, sum(known_seconds), weighted(known_seconds, of))
        for hour, known_seconds, of in hours
    ]


def hourly_means(hours: Iterable[ObservedHour]) -> list[float | None]:
    """Means of hours, weighted by known time, from the first known hour to the last."""
    known_hours = [hour for hour in hours if hour.known_seconds]
    return _spread(
        [hour.number for hour in known_hours],
        [hour.weighted / hour.known_seconds for hour in known_hours],
    )


def weighted(known_seconds: Sequence[float], means: Sequence[float]) -> float:
    """Sum of means, weighted by known time."""
    total: float = sum(map(mul, known_seconds, means))
    return total


def _spread(places: Sequence[int], values: Iterable[float]) -> list[float | None]:
    """Spread values by ascending position, with `None` at positions without one."""
    if not places:
        return []
    first = places[0]
    spread: list[float | None] = [None] * (places[-1] - first + 1)
    for place, value in zip(places, values, strict=True):
        spread[place - first] = value
    return spread


_HELD: Final = frozenset({Measure.MEMORY, Measure.MEMORY_BYTES})
"""Measures judged by their peaks: memory that is short once is short."""


def load_trend(blocks: Blocks, measure: Measure, settings: TrendSettings) -> Trend | None:
    """Trend of a load: of daily peaks for memory, of daily means otherwise."""
    series = blocks.series(measure)
    days = daily_peaks if measure in _HELD else daily_means
    return trend_of(days(series, settings), settings)


def trend_of(
    days: Sequence[tuple[int, float]], settings: TrendSettings | None = None
) -> Trend | None:
    """Fit a line to daily values, each with its day number; `None` for too few.

    The slope is the median over all pairs of days (Theil 1950, Sen 1968); its interval follows
    from Kendall's rank correlation with ties (Gilbert 1987, section 16.4).
    """
    settings = settings or TrendSettings()
    if len(days) < settings.minimum_days:
        return None
    slopes = sorted((b - a) / (y - x) for (x, a), (y, b) in combinations(days, 2))
    # Not loaded by agents with less than `minimum_days` of data.
    from statistics import median  # noqa: PLC0415

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
    """Mean of each sufficiently known day, by its number since the epoch."""
    return [
        (day, weighted(blocks.known_seconds, blocks.means) / blocks.total_seconds)
        for day, blocks in _days(series, settings)
    ]


def daily_peaks(series: Series, settings: TrendSettings) -> list[tuple[int, float]]:
    """Peak of each sufficiently known day, by its number since the epoch."""
    return [(day, blocks.peak or 0.0) for day, blocks in _days(series, settings)]


def _days(series: Series, settings: TrendSettings) -> Iterator[tuple[int, Series]]:
    """Sufficiently known days with their blocks."""
    least = max(1.0, settings.day_coverage_ratio * DAY_SECONDS)
    days = ((day, series.part(inside)) for day, inside in series.parts(DAY))
    return ((day, blocks) for day, blocks in days if blocks.total_seconds >= least)


def _half_width(values: Sequence[float], level: float) -> float:
    """Width of the slope's interval in ranks."""
    count = len(values)
    ties = Counter(values).values()
    pairs = count * (count - 1) * (2 * count + 5) - sum(
        tie * (tie - 1) * (2 * tie + 5) for tie in ties
    )
    from statistics import NormalDist  # noqa: PLC0415 - see above.

    return NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(pairs / 18)
