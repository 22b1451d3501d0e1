"""Quantiles from buckets against exact ones, and their comparison."""

import math
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.options import Options
from evaluation.states.quantiles import evaluate, exact_quantile, worst_error_bins
from rightsizer.model.histogram import Histogram

READINGS: Final = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.integers(1, 10**12)), min_size=1, max_size=60
)


def bucketed(readings: list[tuple[float, int]]) -> Histogram:
    """Histogram of the readings."""
    histogram = Histogram()
    for value, weight in readings:
        histogram.add(value, weight)
    return histogram


def test_an_exact_quantile_is_a_reading() -> None:
    """It is the first one up to which that share of the time lies."""
    readings = [(0.9, 1), (0.1, 6), (0.5, 3)]

    assert [exact_quantile(readings, share) for share in (0.5, 0.6, 0.61, 0.9, 1.0)] == [
        0.1,
        0.1,
        0.5,
        0.5,
        0.9,
    ]


@given(READINGS)
def test_buckets_are_never_off_by_more_than_one(readings: list[tuple[float, int]]) -> None:
    """This holds for any readings and weights."""
    assert worst_error_bins(bucketed(readings), readings) <= 1.0 + 1e-6


def test_a_wrong_histogram_is_found_out() -> None:
    """One without its upper half is off by many bins, an empty one by all."""
    readings = [(value / 100, 1) for value in range(1, 101)]

    assert worst_error_bins(bucketed(readings[:50]), readings) == pytest.approx(50.0)
    assert worst_error_bins(Histogram(), readings) == math.inf


def test_the_evaluation_finds_no_resource_off_by_more_than_a_bin() -> None:
    """Covers accounts, windows and all between a reading and a gauge."""
    text = "\n".join(evaluate(Options(tick_seconds=7207)))

    assert "compute" in text
    assert "memory_bandwidth" in text
    assert "pass" in text
    assert "FAIL" not in text
