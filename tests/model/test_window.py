"""Properties of a window."""

import pytest

from cases import window
from rightsizer.model.state import Condition, State, Tier
from rightsizer.model.window import Window


def test_time_divides_into_accounted_known_and_active() -> None:
    """Unknown time is accounted for and not known; idle time is known and not active."""
    found = window({State.UNKNOWN: 1, State.IDLE_EMPTY: 2, State.IDLE_HELD: 3, State.PRODUCTIVE: 4})
    hour = 3600 * 10**9
    assert (found.accounted, found.known, found.active) == (10 * hour, 9 * hour, 4 * hour)
    assert found.known_seconds == 9 * 3600
    assert found.coverage_ratio == 0.9


def test_shares_are_of_known_time() -> None:
    """Unknown time reduces no share."""
    found = window(
        {State.UNKNOWN: 5, State.IDLE_HELD: 1, State.PRODUCTIVE: 3},
        conditions={Condition.POWER_THROTTLED: 2 * 3600 * 10**9},
    )
    assert found.share(State.IDLE_HELD, State.IDLE_EMPTY) == 0.25
    assert found.condition_share(Condition.POWER_THROTTLED) == 0.5
    assert found.condition_share(Condition.NEAR_OUT_OF_MEMORY) == 0.0


def test_gap_inside_of_a_window_lowers_coverage() -> None:
    """Time between start and end without any state was not covered either."""
    found = window({State.PRODUCTIVE: 1})
    wider = window({State.PRODUCTIVE: 1}, start=found.start - 3 * 3600 * 10**9)
    assert wider.coverage_ratio == 0.25


def test_tier_is_the_one_of_most_of_the_time() -> None:
    """A minute without counters does not lower a day's tier."""
    assert window({State.PRODUCTIVE: 2}, tiers={Tier.POWER: 1, Tier.PROFILING: 2}).tier is (
        Tier.PROFILING
    )


@pytest.mark.parametrize("empty", [Window("GPU-0", 0, 0), window({State.UNKNOWN: 3})])
def test_nothing_known_gives_no_shares(empty: Window) -> None:
    """Unknown is never idle, and its tier allows no conclusions."""
    assert empty.share(*State) == 0.0
    assert empty.condition_share(Condition.POWER_THROTTLED) == 0.0
    assert empty.coverage_ratio == 0.0
    assert empty.tier is Tier.NONE
