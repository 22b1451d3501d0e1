"""Timelines in columns, 29 bytes a kernel."""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rightsizer.model.units import Nanoseconds

Column: TypeAlias = "array[int]"
Numbers: TypeAlias = NDArray[np.int64]

Interval: TypeAlias = tuple[Nanoseconds, Nanoseconds]
Intervals: TypeAlias = tuple[Numbers, Numbers]
"""Starts and ends."""
_POINTS: Final = 4096
"""Minimum number of points kept of a memory curve."""
NO_NUMBER: Final = -(2**63)
"""`None` among integers."""
NO_KERNEL: Final = -1
"""Number of what is no single kernel, such as a graph."""
_PROCESS_BITS: Final = 32
"""Bits of a correlation below those of its process, where several share a device."""
LATEST: Final = 2**62
_COLUMN_BITS: Final = 64


def united(starts: Numbers, ends: Numbers) -> Intervals:
    """Return the union of intervals, sorted by start, as disjoint intervals."""
    if not starts.size:
        return starts, ends
    reach = np.maximum.accumulate(ends)
    begins = np.flatnonzero(starts[1:] > reach[:-1]) + 1
    return starts[np.append(0, begins)], reach[np.append(begins, starts.size) - 1]


def reorder(rows: Numbers, *columns: Numbers) -> None:
    """Put columns in the order of rows, one after the other in their place."""
    for column in columns:
        column[:] = column[rows]


def in_order(*lines: Intervals) -> Intervals:
    """Return the intervals of several lines by start."""
    starts, ends = (np.concatenate(columns) for columns in zip(*lines, strict=True))
    rows = np.argsort(starts, kind="stable")
    return starts[rows], ends[rows]


def common(first: Intervals, second: Intervals) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return the intersections of two lines of disjoint intervals, by start, and rows of both."""
    starts, ends = first
    begins, untils = second
    low = np.searchsorted(untils, starts, side="right")
    counts = np.maximum(np.searchsorted(begins, ends) - low, 0)
    rows = np.repeat(np.arange(starts.size), counts)
    others = np.arange(rows.size) + np.repeat(low - np.cumsum(counts) + counts, counts)
    return (
        np.maximum(starts[rows], begins[others]),
        np.minimum(ends[rows], untils[others]),
        rows,
        others,
    )


def outside(first: Intervals, second: Intervals) -> tuple[Numbers, Numbers, Numbers]:
    """Return what a second line of disjoint intervals leaves of a first, and rows of the first."""
    gaps = np.append(-LATEST, second[1]), np.append(second[0], LATEST)
    starts, ends, rows, _ = common(first, gaps)
    is_left = starts < ends
    return starts[is_left], ends[is_left], rows[is_left]


class CoveredLength:
    """Sums interval lengths between fixed marks, with memory for the marks only."""

    def __init__(self, marks: Iterable[Nanoseconds]) -> None:
        self._marks = np.array(sorted(set(marks)), np.int64)
        self._places: dict[Nanoseconds, int] = {}
        self._sums = np.zeros(len(self._marks), np.int64)
        self._lengths: list[int] = []

    def add(self, starts: Numbers, ends: Numbers) -> None:
        """Add intervals."""
        self._lengths = []
        self._sums += self._passed(starts) - self._passed(ends)

    def _passed(self, moments: Numbers) -> Numbers:
        """Return, for each mark, the summed time since those moments that are before it.

        Sums may wrap around, but their differences are exact.
        """
        ordered = np.sort(moments)
        counts = np.searchsorted(ordered, self._marks)
        return counts * self._marks - np.append(0, np.cumsum(ordered))[counts]

    def length(self, start: Nanoseconds, end: Nanoseconds) -> Nanoseconds:
        """Return the total length between two of the marks."""
        if not self._lengths:
            self._lengths = self._sums.tolist()
            self._places = {mark: place for place, mark in enumerate(self._marks.tolist())}
        return self._lengths[self._places[end]] - self._lengths[self._places[start]]


def is_in_time(start: Nanoseconds, end: Nanoseconds) -> bool:
    """Whether a span is valid: it and sums with it fit a column."""
    return -LATEST < start <= end < LATEST


class SpanLine:
    """Copies of a device, or spans of the host."""

    def __init__(self) -> None:
        self._starts: Column = array("q")
        self._ends: Column = array("q")
        self._order: Numbers | None = None

    def __len__(self) -> int:
        return len(self._starts)

    def extend(self, starts: Numbers, ends: Numbers) -> None:
        """Add spans."""
        self._starts.frombytes(starts.tobytes())
        self._ends.frombytes(ends.tobytes())
        self._order = None

    def span(self) -> Interval:
        """Return the first start and the last end."""
        return min(self._starts), max(self._ends)

    def in_order(self) -> Intervals:
        """Return all spans by start."""
        rows = self.rows
        return np.asarray(self._starts)[rows], np.asarray(self._ends)[rows]

    @property
    def rows(self) -> Numbers:
        """Rows by start."""
        if self._order is None:
            self._order = np.argsort(np.asarray(self._starts), kind="stable")
        return self._order


class NamedLine(SpanLine):
    """Spans of the host with numbers of their names."""

    def __init__(self) -> None:
        super().__init__()
        self._names: Column = array("q")

    def extend_named(self, starts: Numbers, ends: Numbers, names: Numbers) -> None:
        """Add spans."""
        self.extend(starts, ends)
        self._names.frombytes(names.tobytes())

    def runs(self) -> Iterator[tuple[Interval, int]]:
        """Yield each span by start, with its name."""
        for row in self.rows.tolist():
            yield (self._starts[row], self._ends[row]), self._names[row]

    def named(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return disjoint times with names, by start; of two at once, the one that began first."""
        starts, ends = self.in_order()
        starts = np.maximum(starts, np.maximum.accumulate(np.append(-LATEST, ends))[:-1])
        is_left = starts < ends
        return starts[is_left], ends[is_left], np.asarray(self._names)[self.rows][is_left]


@dataclass(slots=True)
class _Follower:
    """Launch that is followed backward on a stream, and what ran after it."""

    correlation: int
    start: Nanoseconds = LATEST
    end: Nanoseconds = LATEST
    """First start and first end of its runs."""
    next_start: Nanoseconds = LATEST
    next_end: Nanoseconds = LATEST
    """The same of all later launches."""

    def begin(self, correlation: int) -> None:
        self.next_start = self.start
        self.next_end = min(self.end, self.next_end)
        self.correlation = correlation
        self.end = LATEST

    def add(self, start: Nanoseconds, end: Nanoseconds) -> None:
        self.start = start
        self.end = min(self.end, end)


class KernelLine(SpanLine):
    """Kernels and graphs of a device."""

    def __init__(self) -> None:
        super().__init__()
        self._correlations: Column = array("q")
        self._collective = bytearray()
        self._streams = bytearray()
        self._groups = bytearray()
        self._kernels: Column = array("i")
        self.collectives = 0

    def extend_runs(  # noqa: PLR0913, PLR0917 - a column each.
        self,
        starts: Numbers,
        ends: Numbers,
        correlations: Numbers,
        kernels: Numbers,
        are_collective: "NDArray[np.bool_]",
        streams: Numbers,
        groups: Numbers,
    ) -> None:
        """Add runs of kernels."""
        self.extend(starts, ends)
        self._kernels.frombytes(kernels.astype(np.int32).tobytes())
        self._correlations.frombytes(correlations.tobytes())
        self._collective.extend(are_collective.tobytes())
        self.collectives += int(are_collective.sum())
        self._streams.extend(streams.astype(np.uint8).tobytes())
        self._groups.extend(groups.astype(np.uint8).tobytes())

    @property
    def is_collective(self) -> "NDArray[np.bool_]":
        """Whether each row is a collective."""
        return np.asarray(self._collective, bool)

    @property
    def streams(self) -> Numbers:
        """Stream of each row."""
        return np.frombuffer(bytes(self._streams), np.uint8).astype(np.int64)

    @property
    def correlations(self) -> Numbers:
        """Correlation of each row, or `NO_NUMBER`."""
        return np.asarray(self._correlations)

    def collective_runs(self) -> Iterator[tuple[Interval, int, int]]:
        """Yield interval, kernel and group of each collective, by start."""
        for row in self.rows[self.is_collective[self.rows]].tolist():
            yield (self._starts[row], self._ends[row]), self._kernels[row], self._groups[row]

    def chosen(self, is_chosen: "NDArray[np.bool_]") -> Intervals:
        """Return the intervals of some rows, by start."""
        rows = self.rows[is_chosen[self.rows]]
        return np.asarray(self._starts)[rows], np.asarray(self._ends)[rows]

    def runs(self) -> Intervals:
        """Return kernel and duration of all runs of kernels."""
        kernels = np.asarray(self._kernels, np.int64)
        durations = np.asarray(self._ends) - np.asarray(self._starts)
        return kernels[kernels != NO_KERNEL], durations[kernels != NO_KERNEL]

    def _has_overruns(self, unordered: Collection[int]) -> bool:
        """Whether any run outlasts a later launch of its stream."""
        rows = self.rows
        streams = self.streams[rows]
        correlations = self.correlations[rows]
        ends = np.asarray(self._ends)[rows]
        is_left = (correlations != NO_NUMBER) & ~np.isin(streams, [*unordered])
        keys = np.stack((streams, correlations >> _PROCESS_BITS))[:, is_left]
        numbers = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
        for number in range(int(numbers.max(initial=-1)) + 1):
            same = correlations[is_left][numbers == number]
            until = ends[is_left][numbers == number]
            # The first end of what is launched after the group that ends here.
            begins = np.flatnonzero(same[1:] != same[:-1]) + 1
            earliest = np.minimum.accumulate(until[::-1])[::-1][begins]
            group = np.searchsorted(begins, np.arange(same.size), side="right")
            is_followed = group < begins.size
            if (until[is_followed] > earliest[group[is_followed]]).any():
                return True
        return False

    def end_overruns(self, unordered: Collection[int]) -> dict[int, tuple[int, Nanoseconds]]:
        """End runs that outlast their successors where these begin; return counts and times taken.

        Work of a stream is completed in its order, but for the branches of a graph, which have one
        correlation. `unordered` are the streams of which that is not known.
        """
        overruns: dict[int, tuple[int, Nanoseconds]] = {}
        if not self._has_overruns(unordered):
            return overruns
        followed: dict[tuple[int, int], _Follower] = {}
        for row in reversed(self.rows.tolist()):
            correlation = self._correlations[row]
            stream = self._streams[row]
            if correlation == NO_NUMBER or stream in unordered:
                continue
            key = stream, correlation >> _PROCESS_BITS
            follower = followed.get(key)
            if follower is None:
                follower = followed[key] = _Follower(correlation)
            elif follower.correlation != correlation:
                follower.begin(correlation)
            start = self._starts[row]
            end = self._ends[row]
            if end > follower.next_end:
                self._ends[row] = max(start, follower.next_start)
                count, time = overruns.get(self._kernels[row], (0, 0))
                overruns[self._kernels[row]] = count + 1, time + end - self._ends[row]
            follower.add(start, self._ends[row])
        return overruns

    def of_streams(self) -> Iterator[tuple[int, Intervals]]:
        """Yield each stream with its times; overlaps on a stream count once."""
        streams = self.streams
        for stream in np.unique(streams).tolist():
            yield stream, united(*self.chosen(streams == stream))

    def inline_collectives(self, unknown: Collection[int]) -> Nanoseconds:
        """Return the summed time of collectives on streams with other kernels, unknown ones not."""
        streams = self.streams
        shared = np.setdiff1d(streams[~self.is_collective], [*unknown])
        starts, ends = self.chosen(self.is_collective & np.isin(streams, shared))
        return int((ends - starts).sum())

    def of_stream(self) -> Iterator[tuple[int, int, Nanoseconds]]:
        """Yield stream, kernel and duration of each run by start."""
        for row in self.rows.tolist():
            yield self._streams[row], self._kernels[row], self._ends[row] - self._starts[row]


class MemoryCurve:
    """Memory in use over time; with many points, only the higher of two neighbors is kept."""

    def __init__(self) -> None:
        self._times: Column = array("q")
        self._used: Column = array("q")
        self.peak: int | None = None

    def add(self, at: Nanoseconds | None, used_bytes: int) -> bool:
        """Add the memory in use; without a time it only counts for the peak.

        Returns whether both fit a column; else nothing is added.
        """
        if not (is_in_time(at or 0, at or 0) and used_bytes.bit_length() < _COLUMN_BITS):
            return False
        self.peak = max(used_bytes, self.peak or 0)
        if at is None:
            return True
        self._times.append(at)
        self._used.append(used_bytes)
        if len(self._times) >= 2 * _POINTS:
            pairs = range(0, len(self._times) - 1, 2)
            rows = [max(place, place + 1, key=self._used.__getitem__) for place in pairs]
            self._times = array("q", map(self._times.__getitem__, rows))
            self._used = array("q", map(self._used.__getitem__, rows))
        return True

    def points(self) -> Iterator[tuple[Nanoseconds, int]]:
        """Yield the points by time."""
        for row in np.argsort(np.asarray(self._times), kind="stable").tolist():
            yield self._times[row], self._used[row]

    def between(self, edges: Sequence[Nanoseconds]) -> tuple[int | None, ...]:
        """Return the maximum between consecutive edges; `None` before the first point."""
        levels: list[int | None] = []
        points = self.points()
        last = None
        following = next(points, None)
        for end in edges[1:]:
            level = last
            while following is not None and following[0] < end:
                last = following[1]
                level = last if following[0] < edges[0] else max(last, level or 0)
                following = next(points, None)
            levels.append(level)
        return tuple(levels) if any(value is not None for value in levels) else ()
