"""When the host asked for what a device did."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from rightsizer.domain.units import Nanoseconds
from rightsizer.profiles.columns import Column, is_ordered, order

__all__ = ["Launches"]


class Launches:
    """Calls of the host by the number that ties them to kernels, copies and graphs."""

    __slots__ = ("_correlations", "_ends", "_is_ordered", "_starts")

    def __init__(self) -> None:
        self._correlations: Column = array("q")
        self._starts: Column = array("q")
        self._ends: Column = array("q")
        self._is_ordered = True

    def __len__(self) -> int:
        return len(self._correlations)

    def add(self, correlation: int, start: Nanoseconds, end: Nanoseconds) -> None:
        """One call."""
        self._correlations.append(correlation)
        self._starts.append(start)
        self._ends.append(end)
        self._is_ordered = False

    def row(self, correlation: int) -> int | None:
        """Where the call with this number is; the first that began, then ended, of several."""
        if not self._is_ordered:
            self._put_in_order()
        place = bisect_left(self._correlations, correlation)
        if place < len(self._correlations) and self._correlations[place] == correlation:
            return place
        return None

    def start(self, row: int) -> Nanoseconds:
        """When it began."""
        return self._starts[row]

    def duration(self, row: int) -> Nanoseconds:
        """How long the host was in it."""
        return self._ends[row] - self._starts[row]

    def _put_in_order(self) -> None:
        """By number, and by start and end where one number was used twice."""
        for name in ("_ends", "_starts", "_correlations"):
            column: Column = getattr(self, name)
            if not is_ordered(column):
                self._arrange(order(column))
        self._is_ordered = True

    def _arrange(self, rows: Sequence[int]) -> None:
        for name in ("_correlations", "_starts", "_ends"):
            column: Column = getattr(self, name)
            setattr(self, name, array("q", map(column.__getitem__, rows)))
