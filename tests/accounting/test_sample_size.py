"""Effective sample size of a series, against series with known truth."""

import math
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.accounting.load_patterns import autocorrelation, effective_samples

COUNT: Final = 4032
"""Fourteen days of five-minute blocks."""


def autoregressive(likeness: float, seed: int, count: int = COUNT) -> list[float]:
    """Each value is a fraction of the previous one plus noise."""
    random = Random(seed)
    value = 0.0
    values = []
    for _ in range(count + 500):
        value = likeness * value + random.gauss(0.0, 1.0)
        values.append(value)
    return values[500:]


@pytest.mark.parametrize(("likeness", "tolerance"), [(0.0, 0.1), (0.5, 0.2), (0.9, 0.3)])
def test_autoregressive_series_is_worth_what_theory_says(likeness: float, tolerance: float) -> None:
    """The expected size is n (1 - r) / (1 + r), compared with the mean over ten series."""
    found = [effective_samples(autoregressive(likeness, seed)) for seed in range(10)]
    expected = COUNT * (1 - likeness) / (1 + likeness)
    assert sum(found) / len(found) == pytest.approx(expected, rel=tolerance)


def test_hours_without_readings_do_not_make_samples() -> None:
    """With a third missing, about two thirds of the samples remain."""
    whole = [effective_samples(autoregressive(0.8, seed)) for seed in range(10)]
    gaps = [
        effective_samples(
            [
                None if place % 300 < 100 else value
                for place, value in enumerate(autoregressive(0.8, seed))
            ]
        )
        for seed in range(10)
    ]
    assert sum(gaps) / sum(whole) == pytest.approx(2 / 3, rel=0.2)


def test_slow_load_is_a_handful_of_samples() -> None:
    """Two weeks of identical days are about a dozen samples, not four thousand."""
    days = [math.sin(2 * math.pi * place / 288) for place in range(COUNT)]
    assert effective_samples(days) < 60


def test_series_that_never_changes_counts_in_full() -> None:
    """No value depends on the previous ones."""
    assert effective_samples([0.1] * 100) == 100
    assert effective_samples([None, 0.5, None]) == 1
    assert effective_samples([]) == 0


@given(st.lists(st.one_of(st.none(), st.floats(0.0, 1.0)), max_size=60))
def test_there_are_never_more_samples_than_values(values: list[float | None]) -> None:
    """And at least a fraction of one if anything is known."""
    known = sum(value is not None for value in values)
    assert (0 < effective_samples(values) <= known) if known else effective_samples(values) == 0


@given(st.floats(0.1, 100.0), st.floats(-10.0, 10.0))
def test_unit_and_origin_do_not_matter(factor: float, offset: float) -> None:
    """Percent or ratio, above idle or in total."""
    values = autoregressive(0.6, 1, 500)
    moved = [factor * value + offset for value in values]
    assert effective_samples(moved) == pytest.approx(effective_samples(values), rel=1e-6)


def test_likeness_of_a_wave_with_itself() -> None:
    """Correlation is 1 after a period, and -1 after half a period."""
    wave = [math.cos(2 * math.pi * hour / 24) for hour in range(24 * 50)]
    assert autocorrelation(wave, 24) == pytest.approx(1.0, abs=0.03)
    assert autocorrelation(wave, 12) == pytest.approx(-1.0, abs=0.03)
    assert autocorrelation(wave[:47], 24) is None
    assert autocorrelation([0.5] * 100, 24) is None
