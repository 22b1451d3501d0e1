"""Properties of the histogram for any readings."""

from fractions import Fraction
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.histogram import BINS, Histogram

RATIOS: Final = st.floats(0.0, 1.0)
WEIGHTS: Final = st.integers(1, 10**12)
READINGS: Final = st.lists(st.tuples(RATIOS, WEIGHTS), max_size=30)
SHARES: Final = st.floats(0.0, 1.0)


def of(readings: list[tuple[float, int]]) -> Histogram:
    """Histogram of (ratio, weight) pairs."""
    histogram = Histogram()
    for value, weight in readings:
        histogram.add(value, weight)
    return histogram


def merged(*histograms: Histogram) -> Histogram:
    """Sum of histograms, which stay unchanged."""
    total = Histogram()
    for histogram in histograms:
        total.merge(histogram)
    return total


def exact_quantile(readings: list[tuple[float, int]], share: float) -> float:
    """The smallest ratio at or below which a share of the weight lies."""
    target = Fraction(share) * sum(weight for _, weight in readings)
    reached = 0
    for value, weight in sorted(readings):
        reached += weight
        if reached >= target:
            return value
    raise AssertionError


@given(READINGS, READINGS, READINGS)
def test_merging_is_associative_and_commutative(
    first: list[tuple[float, int]], second: list[tuple[float, int]], third: list[tuple[float, int]]
) -> None:
    """Histograms of GPUs and weeks merge to the same in any order."""
    a = of(first)
    b = of(second)
    c = of(third)
    expected = merged(merged(a, b), c)
    assert merged(a, merged(b, c)) == expected
    assert merged(c, b, a) == expected
    assert of(first + second + third) == expected


@given(READINGS, READINGS)
def test_subtracting_undoes_merging_exactly(
    kept: list[tuple[float, int]], gone: list[tuple[float, int]]
) -> None:
    """Integer nanoseconds leave no residue."""
    histogram = of(kept)
    histogram.merge(of(gone))
    histogram.subtract(of(gone))
    assert histogram == of(kept)


@given(READINGS.filter(bool), SHARES)
def test_quantile_errs_upwards_by_at_most_a_bin(
    readings: list[tuple[float, int]], share: float
) -> None:
    """Demand is never reported below the truth, and at most 1% above."""
    quantile = of(readings).quantile(share)
    exact = exact_quantile(readings, share)
    assert quantile is not None
    assert exact - 1e-9 <= quantile <= exact + 0.01 + 1e-9


@given(st.lists(st.tuples(st.integers(0, 100), WEIGHTS), min_size=1, max_size=30), SHARES)
def test_whole_percents_are_exact(percents: list[tuple[int, int]], share: float) -> None:
    """NVML's integer percentages are returned unchanged."""
    readings = [(percent / 100, weight) for percent, weight in percents]
    histogram = of(readings)
    assert histogram.quantile(share) == exact_quantile(readings, share)
    assert histogram.maximum() == max(value for value, _ in readings)


@given(READINGS.filter(bool), SHARES, SHARES)
def test_quantile_grows_with_its_share(
    readings: list[tuple[float, int]], one: float, other: float
) -> None:
    """A larger share of the time never needs less."""
    histogram = of(readings)
    low = histogram.quantile(min(one, other))
    high = histogram.quantile(max(one, other))
    assert low is not None
    assert high is not None
    assert low <= high


@given(READINGS.filter(bool))
def test_mean_lies_between_the_extremes(readings: list[tuple[float, int]]) -> None:
    """The mean is exact or up to a bin above."""
    total = sum(weight for _, weight in readings)
    exact = float(sum(Fraction(value) * weight for value, weight in readings) / total)
    mean = of(readings).mean()
    assert mean is not None
    assert exact - 1e-9 <= mean <= exact + 0.01 + 1e-9


@given(READINGS.filter(bool), st.floats(0.01, 1.0), SHARES)
def test_decay_scales_all_weights_alike(
    readings: list[tuple[float, int]], factor: float, share: float
) -> None:
    """Without new readings, decay changes the weight and not the distribution."""
    fresh = of(readings)
    faded = of(readings)
    faded.decay(factor)
    assert faded.total == pytest.approx(fresh.total * factor)
    assert faded.quantile(share) == fresh.quantile(share)


def test_new_readings_outweigh_faded_ones() -> None:
    """After four half-lives the past weighs a sixteenth."""
    histogram = of([(0.9, 100)])
    histogram.decay(0.5**4)
    histogram.add(0.1, 100)
    assert histogram.quantile(0.9) == 0.1
    assert histogram.quantile(0.95) == 0.9


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, 0),
        (1e-6, 1),
        (0.01, 1),
        (0.0100001, 2),
        (0.29, 29),
        (0.57, 57),
        (1.0, 100),
        (-0.5, 0),
        (7.0, 100),
    ],
)
def test_bin_holds_what_is_at_most_its_percent(value: float, expected: int) -> None:
    """Bin 0 is exactly 0; a bin includes its upper edge despite binary fractions."""
    histogram = Histogram()
    histogram.add(value, 1.0)
    assert dict(histogram.items()) == {expected: 1.0}


def test_empty_histogram_has_no_quantiles() -> None:
    """No data is not 0."""
    empty = Histogram()
    assert empty.quantile(0.5) is None
    assert empty.mean() is None
    assert empty.maximum() is None
    assert empty.total == 0


def test_weight_up_to_a_ratio() -> None:
    """It includes readings of exactly that percentage, and none above."""
    weights = of([(0.1, 3), (0.25, 4), (0.26, 5)]).cumulative()
    assert weights[25] == 7
    assert weights[9] == 0
    assert weights[100] == 12


def test_copy_is_independent() -> None:
    """Additions to a copy do not change the original."""
    original = of([(0.5, 1)])
    copy = original.copy()
    copy.add(0.6, 1)
    assert original == of([(0.5, 1)])
    assert copy == of([(0.5, 1), (0.6, 1)])


def test_weights_of_a_bin_that_does_not_exist_are_refused() -> None:
    """A histogram has bins for 0 to 100 percent."""
    assert Histogram({0: 1.0, BINS - 1: 2.0}).total == 3.0
    with pytest.raises(ValueError, match="no bin 101"):
        Histogram({BINS: 1.0})


@given(READINGS)
def test_cumulative_is_every_edge_at_once(readings: list[tuple[float, int]]) -> None:
    """Each integer percentage has the sum of all up to it."""
    histogram = of(readings)
    found = histogram.cumulative()
    weights = dict(histogram.items())
    assert found == pytest.approx(
        [sum(weights.get(each, 0.0) for each in range(percent + 1)) for percent in range(BINS)]
    )
    assert found[-1] == histogram.total
