"""How soon idle workloads go back to work."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from block_cases import blocks_of, busy
from rightsizer.advice.rules.idle import IdleGap, idle_gaps, resumption
from rightsizer.model.block import Measure


def gaps(*minutes: float, open_minutes: float | None = None) -> list[IdleGap]:
    """Idle times that ended, and one that has not."""
    found = [IdleGap(60.0 * each, has_ended=True) for each in minutes]
    if open_minutes is not None:
        found.append(IdleGap(60.0 * open_minutes, has_ended=False))
    return found


def test_probability_is_that_of_the_gaps_that_lasted_as_long() -> None:
    """Of four that lasted for half an hour two ended within the next one."""
    found = resumption(gaps(10, 35, 50, 100, 200), 1800.0, 1800.0)
    assert found is not None
    assert found.probability_ratio == pytest.approx(0.5)
    assert found.gaps == 4


def test_gap_whose_end_nobody_saw_counts_as_long_as_it_was_seen() -> None:
    """It leaves those at risk without an end."""
    found = resumption(gaps(35, 100, open_minutes=40), 1800.0, 1800.0)
    assert found is not None
    assert found.probability_ratio == pytest.approx(1 / 3)
    assert resumption(gaps(10, 20), 1800.0, 1800.0) is None


def test_gaps_are_told_from_blocks() -> None:
    """Whole five minutes with next to nothing; a hole in the telemetry ends what is known."""
    idle = {1, 2, 3, 6, 7, 10, 11}

    def course(number: int) -> dict[Measure, float] | None:
        if number in {8, 9}:
            return None
        return busy(0.001 if number in idle else 0.5)

    found = idle_gaps(blocks_of(course, 12 / 288).each(Measure.BUSY), 0.01)
    assert [(gap.seconds, gap.has_ended) for gap in found] == [
        (900.0, True),
        (600.0, False),
        (600.0, False),
    ]


@given(
    st.lists(st.tuples(st.floats(1, 1e5), st.booleans()), max_size=30),
    st.floats(0, 1e4),
    st.floats(1, 1e4),
    st.floats(1, 1e4),
)
def test_longer_wait_never_makes_work_less_likely(
    given_gaps: list[tuple[float, bool]], idle: float, within: float, more: float
) -> None:
    """And it stays a probability."""
    found = [IdleGap(length, has_ended=ended) for length, ended in given_gaps]
    one, other = resumption(found, idle, within), resumption(found, idle, within + more)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert 0.0 <= one.probability_ratio <= other.probability_ratio + 1e-12 <= 1.0 + 1e-9
