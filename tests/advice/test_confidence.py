"""The probability that a finding is true, factor by factor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import case, window
from rightsizer.advice.confidence import confidence_of, direct_factors, sizing_factors
from rightsizer.model.state import State, Tier


@pytest.mark.parametrize(
    ("tier", "observed", "sized"),
    [
        (Tier.PROFILING, 1.0, 1.0),
        (Tier.POWER, 0.97, 0.85),
        (Tier.BASIC, 0.95, 0.5),
        (Tier.NONE, 0.0, 0.0),
    ],
)
def test_tier_bounds_what_may_be_believed(tier: Tier, observed: float, sized: float) -> None:
    """Utilization alone shows rest nearly as well, and a need half as well."""
    judged = case([window({State.IDLE_HELD: 1}, tiers={tier: 1})])
    assert direct_factors(judged, 1.0, 0.9)["tier"] == observed
    assert sizing_factors(judged, 0.5)["tier"] == sized


def test_an_hour_is_watched_minute_by_minute() -> None:
    """Far beyond the threshold it is nearly certain, at the threshold even."""
    hour = case([window({State.HIDDEN_STALL: 1})])
    assert direct_factors(hour, 0.6, 0.3)["certainty"] > 0.99
    assert direct_factors(hour, 0.3, 0.3)["certainty"] == pytest.approx(0.5, abs=0.05)
    assert direct_factors(hour, 0.1, 0.3)["certainty"] < 0.01


def test_weakest_device_counts() -> None:
    """A workload is known as well as its least known device."""
    good = window({State.IDLE_HELD: 10})
    poor = window({State.IDLE_HELD: 1, State.UNKNOWN: 1}, tiers={Tier.POWER: 1})
    factors = direct_factors(case([good, poor]), 1.0, 0.9)
    assert (factors["tier"], factors["coverage"]) == (0.97, 0.5)
    assert factors["certainty"] == direct_factors(case([poor]), 1.0, 0.9)["certainty"]


def test_direct_observation_needs_no_days() -> None:
    """Idleness is seen, not inferred: history is not a factor."""
    assert direct_factors(case([window({State.IDLE_HELD: 1})]), 1.0, 0.9).keys() == {
        "tier",
        "coverage",
        "certainty",
    }


def test_sizing_grows_with_history_and_margin() -> None:
    """A week proves more than a day, and far beyond the threshold more than at it."""
    day, week = (case([window({State.PRODUCTIVE: hours})]) for hours in (24, 168))
    assert sizing_factors(day, 0.0) == {
        "tier": 1.0,
        "coverage": 1.0,
        "history": pytest.approx(0.2835, abs=1e-4),
        "samples": 0.5,
        "certainty": 0.5,
    }
    assert sizing_factors(week, 0.0)["history"] > 0.9
    assert sizing_factors(week, 0.0)["samples"] == 0.875
    assert sizing_factors(week, 0.05)["certainty"] == 0.75
    assert sizing_factors(week, 0.5)["certainty"] == 1.0


def test_unknown_time_has_no_confidence() -> None:
    """Without known time, confidence is 0."""
    nothing = case([window({State.UNKNOWN: 5})])
    assert confidence_of(direct_factors(nothing, 0.0, 0.9)) == 0.0
    assert confidence_of(sizing_factors(nothing, 0.5)) == 0.0


@given(st.lists(st.floats(0.0, 1.0), max_size=6))
def test_confidence_is_the_product_of_what_is_published(factors: list[float]) -> None:
    """Anyone can multiply the factors; only certainty itself is never published."""
    product = 1.0
    for factor in factors:
        product *= factor
    published = {str(number): factor for number, factor in enumerate(factors)}
    # Rounding to three digits is off by at most 0.0005, which is inexact in binary.
    assert confidence_of(published) == pytest.approx(min(product, 0.999), abs=0.0005 + 1e-9)
