"""The shape of loads with known cycles."""

import math
from collections.abc import Callable, Sequence
from random import Random

import pytest

from readings import DAY, EPOCH, HOUR
from rightsizer.accounting.load_patterns import hourly_means, observed_hours, shape_of
from rightsizer.model.block import BLOCK_SPAN, Block, Series

MONDAY = EPOCH - 3 * DAY
"""2025-12-29 00:00:00 UTC."""


def blocks_of(
    days: float, load: Callable[[float], float], start: int = MONDAY, noise: float = 0.02
) -> Series:
    """Five-minute blocks of a load by hours since the start."""
    random = Random(7)
    count = round(days * 288)
    means = [min(1.0, max(0.0, load(n / 12) + random.gauss(0.0, noise))) for n in range(count)]
    first = start // BLOCK_SPAN
    return Series(range(first, first + count), [300.0] * count, means, means)


def office(hour: float) -> float:
    """Busy from 8 to 18."""
    return 0.8 if 8 <= hour % 24 < 18 else 0.05


def week(hour: float) -> float:
    """The same, but not on weekends."""
    return office(hour) if hour % 168 < 120 else 0.05


def test_hours_of_the_day_are_distinguished() -> None:
    """Nine in the morning is busy, three at night is not; history began the evening before."""
    found = shape_of(blocks_of(10.25, lambda hour: office(hour + 18), MONDAY + 18 * HOUR))
    assert found is not None
    assert len(found.hours_of_day) == 24
    busy = found.hours_of_day[9]
    quiet = found.hours_of_day[3]
    assert busy == pytest.approx(0.8, abs=0.01)
    assert quiet == pytest.approx(0.05, abs=0.01)
    assert found.known_days == pytest.approx(10.25)


@pytest.mark.parametrize(
    ("load", "is_daily", "is_weekly"),
    [
        (office, True, False),
        (week, True, True),
        (lambda hour: 0.5 + 0.4 * math.sin(2 * math.pi * hour / 24), True, False),
        (lambda _: 0.5, False, False),
        (lambda hour: hour / 1000, False, False),
        (lambda hour: 0.9 if hour % 168 < 84 else 0.1, False, True),
    ],
    ids=["office", "week", "sinus", "steady", "growing", "half-weeks"],
)
def test_cycle_is_found_where_there_is_one(
    load: Callable[[float], float], *, is_daily: bool, is_weekly: bool
) -> None:
    """Over four weeks; noise has no cycle, nor has a load that only changes slowly."""
    found = shape_of(blocks_of(28, load))
    assert found is not None
    assert (found.is_daily, found.is_weekly) == (is_daily, is_weekly)


@pytest.mark.parametrize(("days", "covers"), [(3, False), (6, False), (7, True), (14, True)])
def test_week_must_have_been_seen(days: float, *, covers: bool) -> None:
    """The load of Sundays is unknown on Saturday."""
    found = shape_of(blocks_of(days, week))
    assert found is not None
    assert found.covers_cycle is covers


def test_time_that_is_not_known_is_no_quiet_time() -> None:
    """An agent stopped at night knows nothing about the night."""
    every = map(Block, blocks_of(10, office).starts, *blocks_of(10, office)[1:])
    blocks = [each for each in every if 6 <= each.start % DAY // HOUR < 22]
    found = shape_of(Series.of(blocks))
    assert found is not None
    assert found.hours_of_day[3] is None
    assert not found.covers_cycle
    half = [Block(block.start, 150.0, block.mean, block.peak) for block in blocks]
    halved = shape_of(Series.of(half))
    assert halved is not None
    assert halved.hours_of_day[9] == pytest.approx(found.hours_of_day[9])


def test_too_little_has_no_cycle() -> None:
    """A day and a half cannot be compared with the day before."""
    found = shape_of(blocks_of(1.5, office))
    assert found is not None
    assert not found.is_daily
    assert shape_of(Series.of([])) is None


def test_means_of_hours_count_by_known_time() -> None:
    """An hour without known time is missing."""
    blocks = [
        Block(EPOCH, 300.0, 0.2, 0.2),
        Block(EPOCH + BLOCK_SPAN, 100.0, 0.6, 0.6),
        Block(EPOCH + 2 * HOUR, 300.0, 1.0, 1.0),
    ]
    expected: Sequence[float | None] = [pytest.approx(0.3), None, 1.0]
    assert hourly_means(observed_hours(Series.of(blocks))) == expected
