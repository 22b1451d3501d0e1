"""The present is judged by completed intervals, and each day is read as its samples allow."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cached_fleet import FIRST_DAY, day_frame, subject_of
from readings import DAY, HOUR, MINUTE
from rightsizer.fleet.cache.grid import COARSE_STEP, FINE_STEP
from rightsizer.fleet.columns.subject import Subject
from rightsizer.fleet.source import SampledSeries, StoreUse
from rightsizer.fleet.sources.series import seconds_by_day
from rightsizer.model.state import State
from rightsizer.model.units import Nanoseconds

NOON = FIRST_DAY * DAY + 12 * HOUR


def days(step: Nanoseconds) -> Subject:
    """Days of an idle GPU."""
    frame = day_frame(FIRST_DAY, step, state=State.IDLE_HELD)
    return subject_of(frame)


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (0, (NOON, NOON)),
        (10 * MINUTE, (NOON - HOUR, NOON)),
        (HOUR, (NOON - HOUR, NOON)),
        (90 * MINUTE, (NOON - 2 * HOUR, NOON)),
        (None, (0, NOON)),
    ],
)
def test_ten_minutes_are_the_last_whole_hour(
    span: Nanoseconds | None, expected: tuple[Nanoseconds, Nanoseconds]
) -> None:
    """All of it is known, whatever its age; the current hour is not used."""
    assert days(COARSE_STEP).over(span, NOON + 25 * MINUTE) == expected


@given(st.integers(1, 11 * 60), st.integers(0, 59))
def test_all_of_a_span_is_known(minutes: int, past: int) -> None:
    """This holds at any minute of an hour."""
    known = days(COARSE_STEP)
    start, end = known.over(minutes * MINUTE, NOON + past * MINUTE)
    window = known.window("x", start, end)
    assert window.states[State.IDLE_HELD] == end - start >= minutes * MINUTE


def test_five_minutes_are_as_they_were() -> None:
    """A day at five-minute steps needs no rounding."""
    now = NOON + 7 * MINUTE
    assert days(FINE_STEP).over(10 * MINUTE, now) == (now - 10 * MINUTE, now)


class Counted:
    """Store that counts samples: one in five minutes, recently one a minute."""

    use = StoreUse()

    def __init__(self, since: Nanoseconds) -> None:
        self.since = since

    def range(
        self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
    ) -> Sequence[SampledSeries]:
        """Number of samples in the hour before each time."""
        assert promql == "max(count_over_time(up[3600s]))"
        times = np.arange(start, end + 1, step)
        counts = np.where(times - HOUR >= self.since, 60.0, 12.0)
        return [SampledSeries({}, times, counts)]

    def instant(self, promql: str, time: Nanoseconds) -> Sequence[SampledSeries]:
        """No series."""
        del promql, time
        return []


def test_each_day_is_looked_at_for_itself() -> None:
    """One odd hour does not decide; a sample at midnight belongs to the day before."""
    end = (FIRST_DAY + 3) * DAY
    store = Counted(since=(FIRST_DAY + 2) * DAY + 2 * HOUR)
    found = seconds_by_day(store, "up", end, 2 * DAY)
    assert found == {FIRST_DAY: 300.0, FIRST_DAY + 1: 300.0, FIRST_DAY + 2: 60.0}
