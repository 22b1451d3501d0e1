"""The idle draw of a device, learned from its own readings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import HOUR, SECOND
from rightsizer.accounting.power import LearnedPower, PowerRange
from rightsizer.accounting.settings import PowerSettings
from rightsizer.model.state import State


def learned(draws: list[float], state: State = State.IDLE_EMPTY) -> PowerRange:
    """A range that has seen one draw a second, all in one state."""
    power = PowerRange(PowerSettings())
    for watts in draws:
        power.observe(watts)
        power.account(watts, state, SECOND)
    return power


def test_unseen_device_has_no_power_range() -> None:
    """Without a draw there is no range, whatever the limit."""
    assert PowerRange(PowerSettings()).idle_watts(700.0) is None


def test_until_learned_idle_is_the_lower_of_two_guesses() -> None:
    """The lowest draw seen or 15% of the limit, whichever is smaller."""
    assert learned([300.0, 400.0]).idle_watts(700.0) == 105.0
    assert learned([70.0, 400.0]).idle_watts(700.0) == 70.0
    assert learned([300.0, 400.0]).idle_watts(None) == 300.0


def test_idle_draw_is_trusted_after_a_minute_of_emptiness() -> None:
    """59 seconds are not enough; from 60 on, their P5 counts."""
    draws = [float(watts) for watts in range(101, 160)]
    assert learned(draws).idle_watts(700.0) == 101.0
    assert learned([*draws, 160.0]).idle_watts(700.0) == 103.0


def test_only_empty_seconds_teach() -> None:
    """A context keeps clocks up: the resting draw of a held GPU is not its idle draw."""
    assert learned([120.0] * 600, State.IDLE_HELD).idle_watts(700.0) == 105.0
    assert learned([120.0] * 600, State.IDLE_EMPTY).idle_watts(700.0) == 120.0


def test_one_freak_draw_does_not_move_the_idle_draw() -> None:
    """A second of 0 W in ten minutes is below the fifth percentile."""
    assert learned([0.0] + [70.0] * 599).idle_watts(700.0) == 70.0


@given(st.lists(st.floats(0.0, 1000.0), min_size=60, max_size=80))
def test_idle_draw_lies_among_those_seen(draws: list[float]) -> None:
    """To half a watt, since draws are counted in whole watts."""
    idle = learned(draws).idle_watts(700.0)
    assert idle is not None
    assert min(draws) - 0.5 <= idle <= max(draws) + 0.5


def restored(learned: LearnedPower | None) -> PowerRange:
    """A range after a restart."""
    power = PowerRange(PowerSettings())
    assert learned is not None
    power.restore(learned)
    return power


def test_board_that_draws_nothing_teaches_nothing() -> None:
    """A reading of 0 W is from a board that is off."""
    assert learned([0.0, 80.0, 300.0]).idle_watts(None) == 80.0
    assert learned([0.0]).learned() is None


@given(st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=80))
def test_restart_forgets_nothing(draws: list[float]) -> None:
    """Whether or not enough draws were seen to know the idle draw."""
    before = learned(draws)
    after = restored(before.learned())
    for limit in (None, 700.0):
        assert after.idle_watts(limit) == before.idle_watts(limit)
    if len(draws) >= 60:
        assert after.learned() == before.learned()


def test_restored_draw_holds_from_the_first_reading_on() -> None:
    """A service that starts under load right after the agent does not raise the idle draw."""
    power = restored(LearnedPower(70.0, 650.0, 72.0, 3600.0))
    power.observe(600.0)
    assert power.idle_watts(700.0) == 72.0


@pytest.mark.parametrize("hours", [4, 24, 24 * 365])
def test_another_idle_draw_is_learned_in_a_night(hours: int) -> None:
    """Profiling raises an idle A100 from 50 to 100 W; how long it drew 50 W does not matter."""
    power = PowerRange(PowerSettings())
    power.observe(50.0)
    for _ in range(hours):
        power.account(50.0, State.IDLE_EMPTY, HOUR)
    for _ in range(2):
        power.account(100.0, State.IDLE_EMPTY, HOUR)
    assert power.idle_watts(400.0) == 50.0
    for _ in range(22):
        power.account(100.0, State.IDLE_EMPTY, HOUR)
    assert power.idle_watts(400.0) == 100.0
