"""Load patterns: hours of day and week, trend over days, and the sample size behind them."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from operator import mul
from typing import Final, NamedTuple

from rightsizer.accounting.settings import ShapeSettings, TrendSettings
from rightsizer.model.block import Blocks, Measure, Series
from rightsizer.model.pattern import Shape, Trend
from rightsizer.model.units import DAY, DAY_SECONDS, HOUR

_MOST_LAGS: Final = 2 * 24 * 12
"""Two days of five minutes; a load that is alike for longer is a handful of samples anyway."""


def effective_samples(values: Sequence[float | None]) -> float:
    """The number of independent values with the same uncertainty of their mean.

    That is n over the integrated autocorrelation time, whose sum ends with the first pair of
    lags that is not positive (Geyer 1992, initial positive sequence). For an AR(1) series it
    is n (1 - r) / (1 + r). At most n; a series that never changes shows no dependence and
    counts in full. Values are at equal distances of time, `None` where unknown.
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
    """How values resemble those some places before, -1 to 1.

    `None` where fewer pairs than that many are known, or nothing ever changes.
    """
    series = _Series(values)
    if series.pairs(lag) < lag or series.variance <= 0:
        return None
    return series.autocorrelation(lag)


class _Series:
    """Deviations from the mean, 0 where unknown."""

    def __init__(self, values: Sequence[float | None]) -> None:
        is_whole = None not in values
        found = [value for value in values if value is not None]
        self.known = len(found)
        mean = sum(found) / self.known if found else 0.0
        # What is left of equal values is rounding.
        is_constant = not found or max(found) - min(found) <= 1e-12 * max(1.0, abs(mean))
        if is_whole:
            self._deviations = [value - mean for value in found]
        else:
            self._deviations = [0.0 if value is None else value - mean for value in values]
        # A bit for each value, so that all pairs of a lag are counted at once.
        bits = "1" * self.known if is_whole else "".join("01"[each is not None] for each in values)
        self._known_bits = int(bits or "0", 2)
        total = sum(map(mul, self._deviations, self._deviations))
        self.variance = 0.0 if is_constant else total / self.known

    def pairs(self, lag: int) -> int:
        """How many values are known together with the one some places before."""
        return (self._known_bits & self._known_bits >> lag).bit_count()

    def autocorrelation(self, lag: int) -> float:
        """Of the pairs that are known; 0 where none are."""
        if not (pairs := self.pairs(lag)):
            return 0.0
        products: float = sum(map(mul, self._deviations, self._deviations[lag:]))
        return products / pairs / self.variance

    def weighed(self, lag: int) -> float:
        """Smaller where there are fewer pairs, as is usual, lest a sum over lags be noise."""
        return self.autocorrelation(lag) * (1.0 - lag / len(self._deviations))


_DAY_HOURS: Final = 24
_WEEK_HOURS: Final = 168
_EPOCH_HOUR: Final = 3 * 24
"""1970 began on a Thursday; hour 0 is Monday's first."""


def shape_of(series: Series, settings: ShapeSettings | None = None) -> Shape | None:
    """The shape of what is known, oldest first; `None` where that is nothing.

    A load that merely changes slowly resembles itself after a day too, and more so after half
    a day; one that has a daily cycle does not.
    """
    settings = settings or ShapeSettings()
    if not series.numbers:
        return None
    observed = observed_hours(series)
    known, totals = [0.0] * _WEEK_HOURS, [0.0] * _WEEK_HOURS
    for each in observed:
        place = (each.number + _EPOCH_HOUR) % _WEEK_HOURS
        known[place] += each.known_seconds
        totals[place] += each.weighted
    hours = hourly_means(observed)
    day = autocorrelation(hours, _DAY_HOURS)
    half = autocorrelation(hours, _DAY_HOURS // 2)
    week = autocorrelation(hours, _WEEK_HOURS)
    enough = settings.autocorrelation_ratio
    of_day = [(sum(totals[at::_DAY_HOURS]), sum(known[at::_DAY_HOURS])) for at in range(_DAY_HOURS)]
    return Shape(
        hours_of_day=tuple(total / time if time > 0 else None for total, time in of_day),
        known_days=sum(known) / DAY_SECONDS,
        is_daily=day is not None and half is not None and day >= enough and day > half,
        is_weekly=(
            week is not None
            and day is not None
            and week >= enough
            and week >= day + settings.weekly_margin_ratio
        ),
        covers_cycle=covers_week(
            (each.number for each in observed if each.known_seconds), settings
        ),
    )


def covers_week(hours: Iterable[int], settings: ShapeSettings | None = None) -> bool:
    """Whether nearly every hour of a week is among some hours since the epoch."""
    seen = {(hour + _EPOCH_HOUR) % _WEEK_HOURS for hour in hours}
    return len(seen) / _WEEK_HOURS >= (settings or ShapeSettings()).covered_ratio


def grid(series: Series, values: Sequence[float]) -> Sequence[float | None]:
    """One of a series' columns at equal distances of five minutes; `None` where unknown."""
    if not (numbers := series.numbers) or numbers[-1] - numbers[0] + 1 == len(numbers):
        return values
    return _spread(numbers, values)


class ObservedHour(NamedTuple):
    """What is known of one hour."""

    number: int
    """Since the epoch."""
    known_seconds: float
    weighted: float
    """The sum of the means of its five minutes, by known time."""


def observed_hours(series: Series) -> list[ObservedHour]:
    """The hours of which anything is known, oldest first."""
    known_seconds, means = series.known_seconds, series.means
    hours = ((hour, known_seconds[at], means[at]) for hour, at in series.parts(HOUR))
    return [ObservedHour(hour, sum(known), weighted(known, of)) for hour, known, of in hours]


def hourly_means(hours: Iterable[ObservedHour]) -> list[float | None]:
    """The means of hours, by known time, from the first that is known to the last."""
    known = [hour for hour in hours if hour.known_seconds]
    return _spread(
        [hour.number for hour in known], [hour.weighted / hour.known_seconds for hour in known]
    )


def weighted(known_seconds: Sequence[float], means: Sequence[float]) -> float:
    """The sum of some means, by known time."""
    total: float = sum(map(mul, known_seconds, means))
    return total


def _spread(places: Sequence[int], values: Iterable[float]) -> list[float | None]:
    """Values by ascending place, with `None` at the places between that have none."""
    if not places:
        return []
    first = places[0]
    found: list[float | None] = [None] * (places[-1] - first + 1)
    for place, value in zip(places, values, strict=True):
        found[place - first] = value
    return found


_HELD: Final = frozenset({Measure.MEMORY, Measure.MEMORY_BYTES})
"""What is asked for by its peaks: memory that is short once is short."""


def load_trend(blocks: Blocks, measure: Measure, settings: TrendSettings) -> Trend | None:
    """Where a load is heading: by the peaks of its days for memory, by their means otherwise."""
    series = blocks.series(measure)
    days = daily_peaks if measure in _HELD else daily_means
    return trend_of(days(series, settings), settings)


def trend_of(
    days: Sequence[tuple[int, float]], settings: TrendSettings | None = None
) -> Trend | None:
    """The line through daily values, each with the number of its day; `None` for too few.

    The slope is the median of those between any two days (Theil 1950, Sen 1968); its interval
    is that of Kendall's rank correlation with ties (Gilbert 1987, section 16.4).
    """
    settings = settings or TrendSettings()
    if len(days) < settings.minimum_days:
        return None
    slopes = sorted((b - a) / (y - x) for (x, a), (y, b) in combinations(days, 2))
    # Agents whose GPUs were seen for a few days alone never load it.
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
    """The mean of each day that is known well enough, by its number since the epoch."""
    days = _days(series, settings)
    return [(day, weighted(known, series.means[at]) / sum(known)) for day, at, known in days]


def daily_peaks(series: Series, settings: TrendSettings) -> list[tuple[int, float]]:
    """The peak of each day that is known well enough, by its number since the epoch."""
    return [(day, max(series.peaks[at])) for day, at, _ in _days(series, settings)]


def _days(series: Series, settings: TrendSettings) -> Iterator[tuple[int, slice, Sequence[float]]]:
    """The days that count: their number, where they lie, and their known seconds."""
    least = max(1.0, settings.day_coverage_ratio * DAY_SECONDS)
    days = ((day, at, series.known_seconds[at]) for day, at in series.parts(DAY))
    return (each for each in days if sum(each[2]) >= least)


def _half_width(values: Sequence[float], level: float) -> float:
    """How many ranks of slopes the interval spans."""
    count = len(values)
    ties = Counter(values).values()
    pairs = count * (count - 1) * (2 * count + 5) - sum(
        tie * (tie - 1) * (2 * tie + 5) for tie in ties
    )
    from statistics import NormalDist  # noqa: PLC0415 - as said above.

    return NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(pairs / 18)
