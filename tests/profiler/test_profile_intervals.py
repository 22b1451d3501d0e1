"""Lengths of time, compared with counts of single nanoseconds."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rightsizer.profiles.timeline import CoveredLength, Within, union

TIMES = st.integers(0, 60)
INTERVALS = st.lists(st.tuples(TIMES, st.integers(0, 20)), max_size=20).map(
    lambda pairs: [(start, start + length) for start, length in pairs]
)


def covered(intervals: list[tuple[int, int]]) -> set[int]:
    """Every nanosecond within any of the intervals."""
    return {each for start, end in intervals for each in range(start, end)}


@given(INTERVALS)
def test_a_union_covers_what_its_intervals_cover(intervals: list[tuple[int, int]]) -> None:
    """Each nanosecond counts exactly once."""
    united = list(union(sorted(intervals)))

    assert covered(united) == covered(intervals)
    assert sum(end - start for start, end in united) == len(covered(intervals))


@given(INTERVALS, INTERVALS)
def test_a_walk_finds_what_one_line_covers_of_another(
    intervals: list[tuple[int, int]], times: list[tuple[int, int]]
) -> None:
    """Each nanosecond is in one part, wherever the intervals begin and end."""
    within = Within(union(sorted(intervals)))
    found = [part for start, end in union(sorted(times)) for part in within.of(start, end)]

    assert covered(found) == covered(intervals) & covered(times)
    assert sum(end - start for start, end in found) == len(covered(found))


@given(INTERVALS)
def test_parts_of_a_union_are_apart_and_in_order(intervals: list[tuple[int, int]]) -> None:
    """Adjacent intervals are merged."""
    united = list(union(sorted(intervals)))

    assert all(before[1] < after[0] for before, after in pairwise(united))


@given(INTERVALS, st.sets(TIMES, min_size=2), st.data())
def test_a_ruler_measures_between_any_of_its_marks(
    intervals: list[tuple[int, int]], marks: set[int], data: st.DataObject
) -> None:
    """This holds for any marks in any order."""
    ruler = CoveredLength(marks)
    ruler.add_all(data.draw(st.permutations(intervals)))
    start, end = sorted(data.draw(st.tuples(*(st.sampled_from(sorted(marks)),) * 2)))

    expected = sum(max(0, min(end, until) - max(start, since)) for since, until in intervals)

    assert ruler.length(start, end) == expected


def test_a_ruler_can_be_read_between_what_is_laid_on_it() -> None:
    """Reading does not freeze it."""
    ruler = CoveredLength([0, 10])
    ruler.add(2, 4)
    assert ruler.length(0, 10) == 2

    ruler.add(8, 30)

    assert ruler.length(0, 10) == 4
