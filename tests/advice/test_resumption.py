"""The probability that idle workloads resume."""

import random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from block_cases import blocks_of, busy, start_of
from cases import NOW
from rightsizer.accounting.idle_gaps import idle_gaps
from rightsizer.advice.resumption import ResumptionModel, usual_hour
from rightsizer.model.block import Measure
from rightsizer.model.pattern import IdleGap

PRIOR: Final = ResumptionModel.of_prior(1.2, 20.0)
HALF_HOUR: Final = 1800.0


def gaps(*minutes: float, has_ended: bool = True) -> list[IdleGap]:
    """Idle times."""
    return [IdleGap(60.0 * minute, has_ended=has_ended) for minute in minutes]


def test_without_a_past_the_longer_idle_the_less_likely_is_work() -> None:
    """Half or more after half an hour, a quarter after two hours."""
    said = [PRIOR.probability(60.0 * each, HALF_HOUR) for each in (30, 60, 120)]
    assert said == pytest.approx([0.55, 0.38, 0.23], abs=0.01)


def test_own_gaps_outweigh_what_is_borrowed() -> None:
    """Resuming within the hour is distinguished from staying away for days."""
    restless = PRIOR.after(gaps(*[40] * 50)).probability(HALF_HOUR, HALF_HOUR)
    asleep = PRIOR.after(gaps(*[3000] * 50)).probability(HALF_HOUR, HALF_HOUR)
    assert restless > 0.75
    assert asleep < 0.25


def test_end_that_nobody_saw_makes_work_less_likely() -> None:
    """An open gap lasted at least so long; pauses within work do not count."""
    ended, cut_off = (
        PRIOR.after(gaps(90, has_ended=each)).probability(7200.0, HALF_HOUR)
        for each in (True, False)
    )
    assert cut_off < PRIOR.probability(7200.0, HALF_HOUR)
    assert cut_off < ended
    assert PRIOR.after(gaps(10, 29)) == PRIOR


def test_past_of_others_counts_like_few_gaps() -> None:
    """However many there are; their distribution stays."""
    fleet = PRIOR.after(gaps(*[50] * 500))
    lent = fleet.borrowed(20.0)
    assert lent.gaps == pytest.approx(20.0)
    assert lent.exposure / lent.gaps == pytest.approx(fleet.exposure / fleet.gaps)
    assert PRIOR.borrowed(50.0) == PRIOR


def test_upper_bound_holds_in_nine_cases_of_ten() -> None:
    """Over workloads with steepness drawn from the prior itself."""
    draw = random.Random(1)
    bound = PRIOR.upper_bound(7200.0, HALF_HOUR)
    truth = [1.0 - 0.8 ** draw.gammavariate(PRIOR.gaps, 1.0 / PRIOR.exposure) for _ in range(4000)]
    assert sum(each <= bound for each in truth) / len(truth) == pytest.approx(0.9, abs=0.02)


def test_gaps_are_distinguished_from_blocks() -> None:
    """Whole five-minute blocks with almost no use; a long telemetry hole ends the known past."""
    idle = {1, 2, 3, 6, 7, 11}

    def course(number: int) -> dict[Measure, float] | None:
        if number in {8, 9, 10}:
            return None
        return busy(0.001 if number in idle else 0.5)

    found = idle_gaps(blocks_of(course, 12 / 288).series(Measure.BUSY), 0.01)
    assert [(gap.seconds, gap.has_ended) for gap in found] == [
        (900.0, True),
        (600.0, False),
        (300.0, False),
    ]
    assert found[-1].start == start_of(11, 12)


def test_a_short_hole_does_not_end_a_gap() -> None:
    """Idle on both sides, and no longer than the idle time before; its own time is not counted."""

    def course(number: int) -> dict[Measure, float] | None:
        return None if number in {5, 6} else busy(0.5 if number < 2 else 0.001)

    (found,) = idle_gaps(blocks_of(course, 12 / 288).series(Measure.BUSY), 0.01)
    assert (found.seconds, found.start) == (8 * 300.0, start_of(2, 12))


@pytest.mark.parametrize(("idle_from", "hour"), [(18, 9), (12, None)])
def test_a_usual_hour_is_one_that_was_not_missed(idle_from: int, hour: int | None) -> None:
    """On the last day it was idle from a usual hour on: the habit is broken."""

    def course(number: int) -> dict[Measure, float]:
        day, hours = divmod(number // 12, 24)
        return busy(0.5 if 9 <= hours < (idle_from if day == 4 else 18) else 0.0)

    series = blocks_of(course, 5).series(Measure.BUSY)
    (*_, gap) = idle_gaps(series, 0.01)
    assert usual_hour(series, 0.01, gap.start, NOW) == hour


@given(
    st.lists(st.tuples(st.floats(1, 1e5), st.booleans()), max_size=30),
    st.floats(0, 1e4),
    st.floats(1, 1e4),
    st.floats(1, 1e4),
)
def test_longer_wait_never_makes_work_less_likely(
    given_gaps: list[tuple[float, bool]], idle: float, within: float, more: float
) -> None:
    """It stays a probability, below its upper bound."""
    model = PRIOR.after(IdleGap(length, has_ended=ended) for length, ended in given_gaps)
    one = model.probability(idle, within)
    other = model.probability(idle, within + more)
    assert 0.0 <= one <= other + 1e-12 <= 1.0 + 1e-9
    assert one <= model.upper_bound(idle, within)


def test_readings_further_apart_than_blocks_are_long_leave_no_holes() -> None:
    """At one reading an hour, four idle hours are one gap; a night without readings is a hole."""

    def course(number: int) -> dict[Measure, float] | None:
        hour, minutes = divmod(number, 12)
        if minutes or hour in {6, 7, 8, 9, 10}:
            return None
        return busy(0.5 if hour == 1 else 0.001)

    found = idle_gaps(blocks_of(course, 0.5).series(Measure.BUSY), 0.01)
    assert [(gap.seconds / 3600.0, gap.has_ended) for gap in found] == [
        (1.0, True),
        (4.0, False),
        (1.0, False),
    ]
