"""The shape of a load: its hours of the day and of the week, and whether it repeats itself."""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.accounting.sample_size import autocorrelation
from rightsizer.domain.block import BLOCK_SPAN, Block
from rightsizer.domain.pattern import HourShape, Shape
from rightsizer.domain.settings import setting
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds

__all__ = ["ShapeSettings", "grid", "hourly_means", "shape_of"]

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


def shape_of(blocks: Iterable[Block], settings: ShapeSettings | None = None) -> Shape | None:
    """The shape of what is known, oldest first; `None` where that is nothing.

    A load that merely changes slowly resembles itself after a day too, and more so after half
    a day; one that has a daily cycle does not.
    """
    settings = settings or ShapeSettings()
    of_week = [_Hour() for _ in range(_WEEK_HOURS)]
    hours = hourly_means(_noted(blocks, of_week))
    if not hours:
        return None
    _pass_time(of_week)
    seen = sum(hour.known_seconds > 0 for hour in of_week) / _WEEK_HOURS
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
        covers_cycle=seen >= settings.covered_ratio,
    )


def grid(
    blocks: Iterable[Block], value: Callable[[Block], float] = lambda block: block.mean
) -> list[float | None]:
    """The means, or another value, at equal distances of five minutes; `None` where unknown."""
    return _spread((block.start // BLOCK_SPAN, value(block)) for block in blocks)


def hourly_means(blocks: Iterable[Block]) -> list[float | None]:
    """The means of hours, by known time, from the first that is known to the last."""
    sums: dict[int, tuple[float, float]] = {}
    for block in blocks:
        hour = block.start // _HOUR
        known, weighted = sums.get(hour, (0.0, 0.0))
        sums[hour] = known + block.known_seconds, weighted + block.known_seconds * block.mean
    return _spread((hour, weighted / known) for hour, (known, weighted) in sums.items() if known)


class _Hour:
    """What is known of one hour of the week."""

    __slots__ = ("first", "known_seconds", "last", "means", "passed_seconds", "weighted")

    def __init__(self) -> None:
        self.known_seconds = self.passed_seconds = self.weighted = 0.0
        self.first: Nanoseconds | None = None
        self.last: Nanoseconds = 0
        self.means = array("d")

    def add(self, block: Block) -> None:
        self.known_seconds += block.known_seconds
        self.weighted += block.known_seconds * block.mean
        self.means.append(block.mean)
        self.first = block.start if self.first is None else self.first
        self.last = block.start


def _noted(blocks: Iterable[Block], of_week: Sequence[_Hour]) -> Iterator[Block]:
    """The blocks, each noted for its hour as it comes by."""
    for block in blocks:
        of_week[(block.start // _HOUR + _EPOCH_HOUR) % _WEEK_HOURS].add(block)
        yield block


def _pass_time(of_week: Sequence[_Hour]) -> None:
    """Tell each hour how much time it had between the first block and the last."""
    start = min(hour.first for hour in of_week if hour.first is not None)
    end = max(hour.last for hour in of_week) + BLOCK_SPAN
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


def _spread(values: Iterable[tuple[int, float]]) -> list[float | None]:
    """Values by ascending place, with `None` at the places between that have none."""
    found: list[float | None] = []
    first = None
    for place, value in values:
        first = place if first is None else first
        found.extend([None] * (place - first - len(found)))
        found.append(value)
    return found
