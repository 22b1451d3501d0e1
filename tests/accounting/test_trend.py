"""Trends of loads with known slope."""

from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import DAY, EPOCH
from rightsizer.accounting.load_patterns import daily_means, daily_peaks, trend_of
from rightsizer.accounting.settings import TrendSettings
from rightsizer.model.block import BLOCK_SPAN, Block, Series

SETTINGS: Final = TrendSettings()


def days_of(slope: float, noise: float, seed: int, count: int = 28) -> list[tuple[int, float]]:
    """A value for each day."""
    random = Random(seed)
    return [(day, 0.2 + slope * day + random.gauss(0.0, noise)) for day in range(count)]


@given(st.floats(-1.0, 1.0), st.floats(-10.0, 10.0), st.integers(7, 30))
def test_straight_line_is_found(slope: float, origin: float, count: int) -> None:
    """Without noise the slope is exact, and so is the value of the last day."""
    found = trend_of([(day, origin + slope * day) for day in range(count)])
    assert found is not None
    assert found.slope_per_day == pytest.approx(slope, abs=1e-9)
    assert found.value == pytest.approx(origin + slope * (count - 1), abs=1e-9)
    assert found.days == count
    assert found.slope_low <= found.slope_per_day <= found.slope_high


@pytest.mark.parametrize("slope", [0.0, 0.01, -0.02])
def test_interval_holds_the_truth_as_often_as_it_says(slope: float) -> None:
    """In 90% of the series, within the sampling error of two hundred of them."""
    held = 0
    for seed in range(200):
        found = trend_of(days_of(slope, 0.05, seed))
        assert found is not None
        held += found.slope_low <= slope <= found.slope_high
    assert 0.84 <= held / 200 <= 0.97


def test_odd_days_do_not_bend_the_line() -> None:
    """A quarter of the days may have any value."""
    days = days_of(0.01, 0.002, 3)
    for place in (2, 7, 11, 16, 20, 25):
        days[place] = (place, 5.0 if place % 2 else -5.0)
    found = trend_of(days)
    assert found is not None
    assert found.slope_per_day == pytest.approx(0.01, abs=0.002)


def test_limit_is_reached_between_steepest_and_flattest_slope() -> None:
    """Earliest by the steepest possible line, latest by the flattest."""
    found = trend_of(days_of(0.01, 0.01, 5))
    assert found is not None
    reached = found.days_until(0.9)
    assert reached is not None
    earliest, latest = reached
    assert earliest < (0.9 - found.value) / 0.01 < latest
    assert found.days_until(0.0) == (0.0, 0.0)
    steady = trend_of(days_of(0.0, 0.05, 5))
    assert steady is not None
    assert not steady.is_growing
    assert steady.days_until(0.9) is None


@pytest.mark.parametrize("seed", range(5))
def test_interval_of_a_load_that_falls_mirrors_that_of_one_that_grows(seed: int) -> None:
    """Both ends of the interval are equally far from the line."""
    days = days_of(0.01, 0.05, seed, 7)
    grows = trend_of(days)
    falls = trend_of([(day, -value) for day, value in days])
    assert grows is not None
    assert falls is not None
    assert falls.slope_low == pytest.approx(-grows.slope_high)
    assert falls.slope_high == pytest.approx(-grows.slope_low)


def test_few_days_have_no_trend() -> None:
    """Six days may be the end of a week."""
    assert trend_of(days_of(0.1, 0.0, 1, 6)) is None
    assert trend_of(days_of(0.1, 0.0, 1, 7)) is not None


def test_days_count_that_are_known_for_half() -> None:
    """By their means, weighted by known time, or by their peaks."""
    blocks = [Block(EPOCH + n * BLOCK_SPAN, 300.0, 0.4, 0.5) for n in range(200)]
    blocks.append(Block(EPOCH + 210 * BLOCK_SPAN, 150.0, 1.0, 1.0))
    blocks += [Block(EPOCH + DAY + n * BLOCK_SPAN, 300.0, 0.9, 0.9) for n in range(100)]
    number = EPOCH // DAY
    ((day, mean),) = daily_means(Series.of(blocks), SETTINGS)
    assert (day, mean) == (number, pytest.approx((200 * 300 * 0.4 + 150) / (200 * 300 + 150)))
    assert daily_peaks(Series.of(blocks), SETTINGS) == [(number, 1.0)]
