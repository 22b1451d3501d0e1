"""The next run of a job, whatever the wall clock does in between."""

from datetime import UTC, datetime, timedelta
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from rightsizer.io.jobs import IntervalTrigger

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)


def late(_: float, most: float) -> float:
    """The maximum delay."""
    return most


def test_the_first_run_comes_after_an_interval() -> None:
    """Each further one follows an interval later, in rhythm even after a late run."""
    every = IntervalTrigger(60.0)
    first = every.get_next_fire_time(None, START)
    second = every.get_next_fire_time(first, first + timedelta(seconds=2))

    assert (first, second) == (START + MINUTE, START + 2 * MINUTE)


def test_a_shifted_run_shifts_no_other() -> None:
    """Jitter spreads a fleet and does not add up."""
    every = IntervalTrigger(60.0, 10.0, late)
    first = every.get_next_fire_time(None, START)
    second = every.get_next_fire_time(first, first)

    assert first == START + timedelta(seconds=70)
    assert second == START + timedelta(seconds=130)


def test_a_leap_of_decades_misses_one_run() -> None:
    """When the clock of a node booted in 1970 is set, one run makes up for all."""
    every = IntervalTrigger(60.0)
    first = every.get_next_fire_time(None, datetime(1970, 1, 1, tzinfo=UTC))
    after = every.get_next_fire_time(first, START)

    assert after == START + MINUTE


@given(
    interval=st.floats(1.0, 86400.0),
    jitter=st.floats(0.0, 1.0),
    steps=st.lists(st.floats(-1e9, 1e9), max_size=6),
)
def test_the_next_run_is_always_near(interval: float, jitter: float, steps: list[float]) -> None:
    """In the future, at most an interval and its jitter away, through any clock steps."""
    every = IntervalTrigger(interval, jitter * interval)
    now = START
    due = every.get_next_fire_time(None, now)
    for step in steps:
        now += timedelta(seconds=step)
        due = every.get_next_fire_time(due, now)

        assert now < due <= now + timedelta(seconds=interval * (1 + jitter), milliseconds=2)
