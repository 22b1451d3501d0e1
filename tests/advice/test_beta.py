"""Bayesian bounds of a share, against values known exactly."""

from fractions import Fraction
from math import comb

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rightsizer.advice.risk import probability_above, upper_bound

SHARES = st.floats(0.0, 1.0)
BLOCKS = st.floats(0.0, 5000.0)


def binomial_tail(trials: int, at_least: int, chance: Fraction) -> float:
    """The exact probability of at least the given number of successes."""
    fewer = (comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(at_least))
    return float(1 - sum(fewer))


@pytest.mark.parametrize("blocks", [0.0, 1.0, 6.0, 100.0, 4032.0])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.99])
def test_bound_of_what_never_happened_has_a_closed_form(blocks: float, level: float) -> None:
    """I_x(1, b) is 1 - (1 - x)^b."""
    assert upper_bound(0.0, blocks, level) == pytest.approx(
        1.0 - (1.0 - level) ** (1.0 / (blocks + 1.0)), abs=1e-9
    )


@pytest.mark.parametrize("blocks", [1.0, 6.0, 100.0, 4032.0])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_bound_of_what_always_happened_has_a_closed_form(blocks: float, level: float) -> None:
    """I_x(a, 1) is x^a."""
    assert upper_bound(1.0, blocks, level) == pytest.approx(level ** (1.0 / (blocks + 1.0)))


@pytest.mark.parametrize(
    ("hits", "blocks"), [(1, 4), (3, 20), (10, 20), (50, 288), (200, 288), (40, 2016)]
)
def test_bound_solves_the_binomial_sum(hits: int, blocks: int) -> None:
    """For whole numbers I_x(a, b) is the tail of a binomial distribution."""
    chance = Fraction(upper_bound(hits / blocks, blocks, 0.9)).limit_denominator(10**9)
    # I_x(1 + hits, 1 + blocks - hits) = P(at least 1 + hits of blocks + 1 at chance x).
    assert binomial_tail(blocks + 1, hits + 1, chance) == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize(
    ("share", "blocks", "threshold", "expected"),
    [
        # Beta(1/2, 1/2) is the arcsine law: I_x = 2/pi asin(sqrt x).
        (0.5, 0.0, 0.5, 0.5),
        (0.5, 0.0, 0.25, 2 / 3),
        # Beta(1/2, 3/2) and Beta(3/2, 1/2), integrated by hand.
        (0.0, 1.0, 0.5, 0.1816901138),
        (1.0, 1.0, 0.5, 0.8183098862),
    ],
)
def test_probability_of_known_distributions(
    share: float, blocks: float, threshold: float, expected: float
) -> None:
    """The posterior is Beta(1/2 + hits, 1/2 + misses)."""
    assert probability_above(share, blocks, threshold) == pytest.approx(expected, abs=1e-9)


@given(SHARES, BLOCKS, SHARES)
def test_share_and_its_opposite_are_symmetric(
    share: float, blocks: float, threshold: float
) -> None:
    """The probability above equals that of the complement below."""
    # A threshold that is lost when it is subtracted from 1 has no complement.
    assume(1.0 - (1.0 - threshold) == threshold)
    above = probability_above(share, blocks, threshold)
    assert 0.0 <= above <= 1.0
    assert above == pytest.approx(
        1.0 - probability_above(1.0 - share, blocks, 1.0 - threshold), abs=1e-9
    )


@given(BLOCKS, SHARES, SHARES, SHARES)
def test_larger_share_is_more_likely_above(
    blocks: float, one: float, other: float, threshold: float
) -> None:
    """Monotone in the share, and inversely in the threshold."""
    low = min(one, other)
    high = max(one, other)
    assert probability_above(low, blocks, threshold) <= (
        probability_above(high, blocks, threshold) + 1e-9
    )
    assert probability_above(threshold, blocks, high) <= (
        probability_above(threshold, blocks, low) + 1e-9
    )


@given(SHARES, BLOCKS, SHARES, SHARES)
def test_bound_grows_with_its_level(share: float, blocks: float, one: float, other: float) -> None:
    """A higher level has a higher bound."""
    assert upper_bound(share, blocks, min(one, other)) <= upper_bound(
        share, blocks, max(one, other)
    )


@given(st.floats(0.2, 1.0), st.floats(20.0, 2500.0))
def test_more_blocks_bring_certainty(share: float, blocks: float) -> None:
    """The same share over twice as many blocks exceeds half of itself more certainly."""
    assert probability_above(share, 2 * blocks, share / 2) >= (
        probability_above(share, blocks, share / 2) - 1e-9
    )


def test_half_an_hour_without_exception_is_believed() -> None:
    """Six idle blocks of six make 90% idleness likely; else no batch job would be reported."""
    assert 0.7 < probability_above(1.0, 6.0, 0.9) < 0.8
