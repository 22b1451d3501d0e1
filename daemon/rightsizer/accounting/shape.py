"""The shape of a load: its hours of the day and of the week, and whether it repeats itself."""

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Final, NamedTuple

from rightsizer.accounting.sample_size import autocorrelation
from rightsizer.domain.block import BLOCK_SPAN, Series
from rightsizer.domain.pattern import HourShape, Shape
from rightsizer.domain.settings import setting
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, seconds

__all__ = [
    "KnownHour",
    "ShapeSettings",
    "covers_week",
    "grid",
    "hourly_means",
    "known_hours",
    "shape_of",
    "weighted",
]

_HOUR: Final = 3600 * NANOSECONDS_PER_SECOND
_DAY_HOURS: Final = 24
_WEEK_HOURS: Final = 168
_EPOCH_HOUR: Final = 3 * 24
"""1970 began on a Thursday; hour 0 is Monday's first."""
_HIGH: Final = 0.95
_DAY_SECONDS: Final = 86400.0


@dataclass(frozen=True, slots=True)
class ShapeSettings:
    """When a load counts as one that repeats itself."""

    autocorrelation_ratio: float = setting(
        0.3,
        help="Likeness of hours with those a day, or a week, before that makes a cycle.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="chance alone gives 0.15 over a week of hours",
    )
    weekly_margin_ratio: float = setting(
        0.1,
        help="By how much weeks must resemble each other more than days do.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="a load of equal days has none",
    )
    covered_ratio: float = setting(
        0.9,
        help="Hours of the week that must have been seen before a week counts as covered.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, conduct",
    )


def shape_of(series: Series, settings: ShapeSettings | None = None) -> Shape | None:
    """The shape of what is known, oldest first; `None` where that is nothing.

    A load that merely changes slowly resembles itself after a day too, and more so after half
    a day; one that has a daily cycle does not.
    """
    settings = settings or ShapeSettings()
    if not series.numbers:
        return None
    known = known_hours(series)
    of_week = [_Hour() for _ in range(_WEEK_HOURS)]
    for each in known:
        of_week[(each.number + _EPOCH_HOUR) % _WEEK_HOURS].add(each)
    _pass_time(of_week, series)
    hours = hourly_means(known)
    day = autocorrelation(hours, _DAY_HOURS)
    half = autocorrelation(hours, _DAY_HOURS // 2)
    week = autocorrelation(hours, _WEEK_HOURS)
    enough = settings.autocorrelation_ratio
    return Shape(
        hours_of_day=tuple(_hour_shape(of_week[hour::_DAY_HOURS]) for hour in range(_DAY_HOURS)),
        hours_of_week=tuple(_hour_shape([hour]) for hour in of_week),
        known_days=sum(hour.known_seconds for hour in of_week) / _DAY_SECONDS,
        daily_autocorrelation=day,
        weekly_autocorrelation=week,
        is_daily=day is not None and half is not None and day >= enough and day > half,
        is_weekly=(
            week is not None
            and day is not None
            and week >= enough
            and week >= day + settings.weekly_margin_ratio
        ),
        covers_cycle=covers_week((each.number for each in known if each.known_seconds), settings),
    )


def covers_week(hours: Iterable[int], settings: ShapeSettings | None = None) -> bool:
    """Whether nearly every hour of a week is among some hours since the epoch."""
    seen = {(hour + _EPOCH_HOUR) % _WEEK_HOURS for hour in hours}
    return len(seen) / _WEEK_HOURS >= (settings or ShapeSettings()).covered_ratio


def grid(series: Series, values: Sequence[float]) -> Sequence[float | None]:
    """One of a series' columns at equal distances of five minutes; `None` where unknown."""
    numbers = series.numbers
    if not numbers or numbers[-1] - numbers[0] + 1 == len(numbers):
        return values
    return _spread(numbers, values)


class KnownHour(NamedTuple):
    """What is known of one hour."""

    number: int
    """Since the epoch."""
    known_seconds: float
    weighted: float
    """The sum of the means, by known time."""
    means: Sequence[float]
    """Of its five minutes."""


def known_hours(series: Series) -> list[KnownHour]:
    """The hours of which anything is known, oldest first."""
    known_seconds, means = series.known_seconds, series.means
    hours = ((hour, known_seconds[at], means[at]) for hour, at in series.parts(_HOUR))
    return [KnownHour(hour, sum(known), weighted(known, of), of) for hour, known, of in hours]


def hourly_means(hours: Iterable[KnownHour]) -> list[float | None]:
    """The means of hours, by known time, from the first that is known to the last."""
    known = [hour for hour in hours if hour.known_seconds]
    return _spread(
        [hour.number for hour in known], [hour.weighted / hour.known_seconds for hour in known]
    )


def weighted(known_seconds: Sequence[float], means: Sequence[float]) -> float:
    """The sum of some means, by known time."""
    total: float = sum(map(mul, known_seconds, means))
    return total


class _Hour:
    """What is known of one hour of the week."""

    __slots__ = ("known_seconds", "means", "passed_seconds", "weighted")

    def __init__(self) -> None:
        self.known_seconds = self.passed_seconds = self.weighted = 0.0
        self.means = array("d")

    def add(self, hour: KnownHour) -> None:
        self.known_seconds += hour.known_seconds
        self.weighted += hour.weighted
        self.means.extend(hour.means)


def _pass_time(of_week: Sequence[_Hour], series: Series) -> None:
    """Tell each hour how much time it had between the first block and the last."""
    start, end = series.numbers[0] * BLOCK_SPAN, (series.numbers[-1] + 1) * BLOCK_SPAN
    for number in range(start // _HOUR, -(-end // _HOUR)):
        inside = min(end, (number + 1) * _HOUR) - max(start, number * _HOUR)
        of_week[(number + _EPOCH_HOUR) % _WEEK_HOURS].passed_seconds += seconds(inside)


def _hour_shape(hours: Sequence[_Hour]) -> HourShape:
    known = sum(hour.known_seconds for hour in hours)
    if known <= 0:
        return HourShape(None, None, 0.0)
    means = sorted(mean for hour in hours for mean in hour.means)
    return HourShape(
        mean=sum(hour.weighted for hour in hours) / known,
        p95=means[math.ceil(_HIGH * len(means)) - 1],
        coverage_ratio=min(1.0, known / sum(hour.passed_seconds for hour in hours)),
    )


def _spread(places: Sequence[int], values: Iterable[float]) -> list[float | None]:
    """Values by ascending place, with `None` at the places between that have none."""
    if not places:
        return []
    first = places[0]
    found: list[float | None] = [None] * (places[-1] - first + 1)
    for place, value in zip(places, values, strict=True):
        found[place - first] = value
    return found
