"""Windows of faults: once, repeated or daily; at any time, in any order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.simulator.faults import DAY, ActivePeriod
from simulated_driver import MIDNIGHT, hour

SECOND = NANOSECONDS_PER_SECOND
LENGTHS = st.none() | st.integers(1, 50).map(lambda seconds: seconds * SECOND)
ONCE = st.builds(ActivePeriod, st.integers(0, 100).map(lambda seconds: seconds * SECOND), LENGTHS)
PERIODIC = st.builds(
    ActivePeriod,
    st.integers(0, 100).map(lambda seconds: seconds * SECOND),
    LENGTHS,
    st.integers(60, 200).map(lambda seconds: seconds * SECOND),
)
DAILY = st.builds(ActivePeriod, st.integers(0, DAY - 1), LENGTHS, st.none(), is_daily=st.just(True))
WINDOWS = ONCE | PERIODIC | DAILY
TIMES = st.integers(MIDNIGHT, MIDNIGHT + 3 * DAY)


@given(WINDOWS, TIMES, TIMES)
def test_condition_that_holds_began_a_window_ago(
    window: ActivePeriod, start: int, time: int
) -> None:
    """A window that holds also held at its start, but not just before."""
    elapsed = window.since(time, start)
    if elapsed is not None:
        assert window.since(time - elapsed, start) == 0
        assert window.length is None or elapsed < window.length


@given(WINDOWS, TIMES, TIMES, TIMES)
def test_beginnings_only_add_up(window: ActivePeriod, start: int, one: int, other: int) -> None:
    """The number of starts never falls, and is 0 before the first."""
    earlier, later = sorted((one, other))
    assert window.begun(earlier, start) <= window.begun(later, start)
    assert window.begun(start - 1, start) == 0


@given(WINDOWS, TIMES, TIMES)
def test_each_beginning_is_counted_once(window: ActivePeriod, start: int, time: int) -> None:
    """At each earlier start the number is one less."""
    begun = window.last_begun(time, start)
    count = window.begun(time, start)
    for expected in range(count, max(0, count - 5), -1):
        assert begun is not None
        assert window.begun(begun, start) == expected
        begun = window.last_begun(begun - 1, start)
    if count <= 5:
        assert begun is None


@pytest.mark.parametrize(
    ("hours", "holds"), [(9.9, False), (10.0, True), (11.9, True), (12.0, False), (34.5, True)]
)
def test_a_daily_window_holds_at_its_hours(hours: float, holds: bool) -> None:  # noqa: FBT001
    """It also holds on the next day."""
    window = ActivePeriod(10 * 3600 * SECOND, 2 * 3600 * SECOND, is_daily=True)
    assert (window.since(hour(hours), MIDNIGHT) is not None) is holds


def test_a_window_that_is_on_at_the_start_holds_and_has_not_begun() -> None:
    """Starts before the driver was loaded are not counted."""
    window = ActivePeriod(10 * 3600 * SECOND, 2 * 3600 * SECOND, is_daily=True)
    assert window.since(hour(11.5), hour(11.0)) == 5400 * SECOND
    assert window.begun(hour(11.5), hour(11.0)) == 0
    assert window.begun(hour(35.0), hour(11.0)) == 1
