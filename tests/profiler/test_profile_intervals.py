"""Lengths of time, compared with counts of single nanoseconds."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.profiles.timeline import (
    CoveredLength,
    Intervals,
    Numbers,
    common,
    outside,
    united,
)

TIMES = st.integers(0, 60)
INTERVALS = st.lists(st.tuples(TIMES, st.integers(0, 20)), max_size=20).map(
    lambda pairs: [(start, start + length) for start, length in pairs]
)


def covered(intervals: list[tuple[int, int]]) -> set[int]:
    """Every nanosecond within any of the intervals."""
    return {each for start, end in intervals for each in range(start, end)}


def columns(intervals: list[tuple[int, int]]) -> Intervals:
    """Starts and ends."""
    starts, ends = np.array(intervals, np.int64).reshape(-1, 2).T
    return starts, ends


def union(intervals: list[tuple[int, int]]) -> Intervals:
    """Disjoint intervals that cover the same."""
    return united(*columns(sorted(intervals)))


def pairs(starts: Numbers, ends: Numbers, *_: Numbers) -> list[tuple[int, int]]:
    """Intervals of columns."""
    return [*zip(starts.tolist(), ends.tolist(), strict=True)]


@given(INTERVALS)
def test_a_union_covers_what_its_intervals_cover(intervals: list[tuple[int, int]]) -> None:
    """Each nanosecond counts exactly once; adjacent intervals are merged."""
    parts = pairs(*union(intervals))

    assert covered(parts) == covered(intervals)
    assert all(before[1] < after[0] for before, after in pairwise(parts))


@given(INTERVALS, INTERVALS)
def test_one_line_is_divided_by_another(
    intervals: list[tuple[int, int]], times: list[tuple[int, int]]
) -> None:
    """Each nanosecond is in one part, with the rows that it is from."""
    first, second = union(times), union(intervals)
    *within, rows, others = common(first, second)
    left = outside(first, second)

    for parts, expected in (
        (pairs(*within), covered(intervals) & covered(times)),
        (pairs(*left), covered(times) - covered(intervals)),
    ):
        assert covered(parts) == expected
        assert sum(end - start for start, end in parts) == len(expected)
    for start, end, row, other in zip(*within, rows, others, strict=True):
        for line, place in ((first, row), (second, other)):
            assert line[0][place] <= start <= end <= line[1][place]


@given(INTERVALS, st.sets(TIMES, min_size=2), st.data())
def test_a_ruler_measures_between_any_of_its_marks(
    intervals: list[tuple[int, int]], marks: set[int], data: st.DataObject
) -> None:
    """This holds for any marks in any order."""
    ruler = CoveredLength(marks)
    ruler.add(*columns(data.draw(st.permutations(intervals))))
    start, end = sorted(data.draw(st.tuples(*(st.sampled_from(sorted(marks)),) * 2)))

    expected = sum(max(0, min(end, until) - max(start, since)) for since, until in intervals)

    assert ruler.length(start, end) == expected


def test_a_ruler_can_be_read_between_what_is_laid_on_it() -> None:
    """Reading does not freeze it."""
    ruler = CoveredLength([0, 10])
    ruler.add(*columns([(2, 4)]))
    assert ruler.length(0, 10) == 2

    ruler.add(*columns([(8, 30)]))

    assert ruler.length(0, 10) == 4
