"""Lengths of time that something held, however many things overlapped in it."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TypeAlias

from rightsizer.domain.units import Nanoseconds

__all__ = ["Interval", "Ruler", "Within", "union"]

Interval: TypeAlias = tuple[Nanoseconds, Nanoseconds]


def union(ordered: Iterable[Interval]) -> Iterator[Interval]:
    """What any of the intervals covers, as intervals apart from each other, in order.

    Args:
        ordered: Intervals by rising start.
    """
    rest = iter(ordered)
    first = next(rest, None)
    if first is None:
        return
    start, end = first
    for next_start, next_end in rest:
        if next_start > end:
            yield start, end
            start, end = next_start, next_end
        elif next_end > end:
            end = next_end
    yield start, end


class Within:
    """What intervals cover of one time after another, in one walk over both."""

    __slots__ = ("_rest", "current")

    def __init__(self, apart: Iterable[Interval]) -> None:
        """Begin the walk.

        Args:
            apart: Intervals apart from each other, by rising start.
        """
        self._rest = iter(apart)
        self.current = next(self._rest, None)
        """The next one that may cover anything; `None` at the end."""

    def of(self, start: Nanoseconds, end: Nanoseconds) -> Iterator[Interval]:
        """The parts between; each time begins no earlier than the one before ended."""
        while (current := self.current) is not None and current[0] < end:
            if current[1] > start:
                yield max(current[0], start), min(current[1], end)
            if current[1] > end:
                return
            self.current = next(self._rest, None)


class Ruler:
    """Adds up lengths between marks that were set before, in memory for the marks alone."""

    __slots__ = ("_cell", "_lengths", "_marks", "_sums")

    def __init__(self, marks: Iterable[Nanoseconds]) -> None:
        self._marks = sorted(set(marks))
        # One cell below the first mark and one above the last, which nobody can ask for.
        self._lengths = [0] * (len(self._marks) + 1)
        self._cell = 0
        self._sums: list[int] | None = None

    def add(self, start: Nanoseconds, end: Nanoseconds) -> None:
        """Lay an interval on; cheapest where each starts after the one before."""
        self._sums = None
        marks, cell = self._marks, self._cell
        if (cell and start < marks[cell - 1]) or (cell < len(marks) and start >= marks[cell]):
            cell = bisect_right(marks, start)
        while cell < len(marks) and end > marks[cell]:
            self._lengths[cell] += marks[cell] - start
            start = marks[cell]
            cell += 1
        self._lengths[cell] += end - start
        self._cell = cell

    def add_all(self, intervals: Iterable[Interval]) -> None:
        """Lay them all on."""
        for start, end in intervals:
            self.add(start, end)

    def length(self, start: Nanoseconds, end: Nanoseconds) -> Nanoseconds:
        """What was laid between two of the marks."""
        if self._sums is None:
            self._sums = list(accumulate(self._lengths))
        marks, sums = self._marks, self._sums
        return sums[bisect_right(marks, end) - 1] - sums[bisect_right(marks, start) - 1]
