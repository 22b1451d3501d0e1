"""Launches by the host, and why a device was idle between them, as HolisticTraceAnalysis says."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from rightsizer.model.profile import LaunchUse
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.telemetry.profiles.time_line import Column, KernelLine, is_ordered, order

Started: TypeAlias = tuple[Nanoseconds, Nanoseconds, Nanoseconds | None]
"""A kernel's start, its end, and when the host began to launch it, where that is known."""


Gap: TypeAlias = tuple[Nanoseconds, Nanoseconds, str]
"""A time in which nothing ran, and what the next kernel waited for: `host_wait`, `kernel_wait`
or nothing that is known."""


def _gap(
    begin: Nanoseconds, end: Nanoseconds, launched: Nanoseconds | None, adjacent: Nanoseconds
) -> Gap:
    cause = "kernel_wait" if end - begin <= adjacent else ""
    if launched is not None and launched > begin:
        cause = "host_wait"
    return begin, end, cause


def gaps(kernels: Iterable[Started], adjacent: Nanoseconds) -> Iterator[Gap]:
    """The times between kernels, which are by rising start, in which none ran.

    Those no further apart than `adjacent` follow each other directly.
    """
    rest = iter(kernels)
    if (first := next(rest, None)) is None:
        return
    busy_until = first[1]
    waiting: tuple[Nanoseconds, Nanoseconds, Nanoseconds | None] | None = None
    for start, end, launched in rest:
        if waiting is not None:
            begin, until, earliest = waiting
            if start == until:
                # Of kernels that start together, the one launched first ended the wait.
                known = [each for each in (earliest, launched) if each is not None]
                waiting = begin, until, min(known, default=None)
            else:
                yield _gap(*waiting, adjacent)
                waiting = None
        if start > busy_until:
            waiting = busy_until, start, launched
        busy_until = max(busy_until, end)
    if waiting is not None:
        yield _gap(*waiting, adjacent)


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
        for key in ("_ends", "_starts", "_correlations"):
            if is_ordered(getattr(self, key)):
                continue
            rows = order(getattr(self, key))
            for name in ("_correlations", "_starts", "_ends"):
                column: Column = getattr(self, name)
                setattr(self, name, array("q", map(column.__getitem__, rows)))
        self._is_ordered = True


class LaunchCounter:
    """Counts the calls that brought kernels; a graph's many kernels come by one."""

    __slots__ = ("_count", "_host", "_launches", "_matched", "_seen", "_short")

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self._seen = bytearray(len(launches))
        self._count = self._matched = self._short = 0
        self._host: Nanoseconds = 0

    def started(self, line: KernelLine) -> Iterator[Started]:
        """The kernels with the starts of their launches; each is counted as it passes."""
        launches = self._launches
        for start, end, correlation in line.launched():
            row = None if correlation is None else launches.row(correlation)
            if row is None:
                yield start, end, None
                continue
            call = launches.duration(row)
            self._matched += 1
            self._short += end - start < call
            if not self._seen[row]:
                self._seen[row] = 1
                self._count += 1
                self._host += call
            yield start, end, launches.start(row)

    def use(self) -> LaunchUse | None:
        """What it comes to; `None` where no launch is known."""
        if not self._matched:
            return None
        return LaunchUse(self._count, seconds(self._host), self._short, self._matched)
