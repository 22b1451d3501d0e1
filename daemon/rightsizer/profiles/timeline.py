"""Timelines in columns, 31 bytes a kernel."""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
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


def in_order(*lines: Sequence[Numbers]) -> Intervals:
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


class Columns:
    """Columns that grow until they are first read; then they are ordered, and never change."""

    def __init__(self, *kinds: str, order: Callable[..., Numbers] | None = None) -> None:
        """Begin empty columns of NumPy's kinds, in the order of starts if no other is given."""
        self._kinds = kinds
        self._order = order or _by_start
        self._growing = [bytearray() for _ in kinds]
        self._count = 0
        self._read: tuple[NDArray[Any], ...] = ()

    def __len__(self) -> int:
        return self._count

    def extend(self, *columns: "NDArray[Any]") -> None:
        """Add rows; raises `ValueError` once they were read."""
        for data, kind, column in zip(self._growing, self._kinds, columns, strict=True):
            data.extend(column.astype(kind, copy=False).tobytes())
        self._count += columns[0].size

    def read(self) -> tuple["NDArray[Any]", ...]:
        """Return the columns, which cannot be written to, in order."""
        if not self._read:
            growing, self._growing = self._growing, []
            columns = [*map(np.frombuffer, growing, self._kinds)]
            growing.clear()
            rows = self._order(*columns)
            is_ordered = bool((rows[1:] > rows[:-1]).all())
            for place, column in enumerate(columns):
                columns[place] = column if is_ordered else column[rows]
                columns[place].setflags(write=False)
            self._read = tuple(columns)
        return self._read


def _by_start(starts: Numbers, *_: "NDArray[Any]") -> Numbers:
    return np.argsort(starts, kind="stable")


class NamedLine(Columns):
    """Spans of the host with numbers of their names."""

    def __init__(self) -> None:
        super().__init__("i8", "i8", "i8")

    def named(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return disjoint times with names, by start; of two at once, the one that began first."""
        starts, ends, names = self.read()
        starts = np.maximum(starts, np.maximum.accumulate(np.append(-LATEST, ends))[:-1])
        is_left = starts < ends
        return starts[is_left], ends[is_left], names[is_left]


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


KERNEL_KINDS: Final = ("i8", "i8", "i8", "i4", "?", "u1", "u1")
"""Of the columns of a line of kernels."""


class KernelLine(Struct, frozen=True):
    """Kernels and graphs of a device, by start."""

    starts: Numbers
    ends: Numbers
    correlations: Numbers
    """Or `NO_NUMBER`."""
    kernels: Numbers
    is_collective: "NDArray[np.bool_]"
    streams: Numbers
    groups: Numbers

    @property
    def span(self) -> Interval:
        """First start and last end."""
        return int(self.starts[0]), int(self.ends.max())

    def collective_runs(self) -> Iterator[tuple[Interval, int, int]]:
        """Yield interval, kernel and group of each collective, by start."""
        columns = (self.starts, self.ends, self.kernels, self.groups)
        rows = (column[self.is_collective].tolist() for column in columns)
        for start, end, kernel, group in zip(*rows, strict=True):
            yield (start, end), kernel, group

    def chosen(self, is_chosen: "NDArray[np.bool_]") -> Intervals:
        """Return the intervals of some rows, by start."""
        return self.starts[is_chosen], self.ends[is_chosen]

    def runs(self) -> Intervals:
        """Return kernel and duration of all runs of kernels."""
        is_kernel = self.kernels != NO_KERNEL
        return self.kernels[is_kernel], (self.ends - self.starts)[is_kernel]

    def _has_overruns(self, is_left: "NDArray[np.bool_]") -> bool:
        """Whether any run outlasts a later launch of its stream."""
        processes = self.correlations >> _PROCESS_BITS
        keys = np.stack((self.streams.astype(np.int64), processes))[:, is_left]
        numbers = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
        for number in range(int(numbers.max(initial=-1)) + 1):
            same = self.correlations[is_left][numbers == number]
            until = self.ends[is_left][numbers == number]
            # The first end of what is launched after the group that ends here.
            begins = np.flatnonzero(same[1:] != same[:-1]) + 1
            earliest = np.minimum.accumulate(until[::-1])[::-1][begins]
            group = np.searchsorted(begins, np.arange(same.size), side="right")
            is_followed = group < begins.size
            if (until[is_followed] > earliest[group[is_followed]]).any():
                return True
        return False

    def without_overruns(
        self, unordered: Collection[int]
    ) -> tuple["KernelLine", dict[int, tuple[int, Nanoseconds]]]:
        """End runs that outlast their successors where these begin; count them, and their time.

        Work of a stream is completed in its order, but for the branches of a graph, which have one
        correlation. `unordered` are the streams of which that is not known.
        """
        overruns: dict[int, tuple[int, Nanoseconds]] = {}
        is_left = (self.correlations != NO_NUMBER) & ~np.isin(self.streams, [*unordered])
        if not self._has_overruns(is_left):
            return self, overruns
        followed: dict[tuple[int, int], _Follower] = {}
        ends = self.ends.copy()
        rows = np.flatnonzero(is_left)[::-1]
        columns = (self.starts, self.ends, self.correlations, self.streams, self.kernels)
        values = (column[rows].tolist() for column in columns)
        for row, start, end, correlation, stream, kernel in zip(
            rows.tolist(), *values, strict=True
        ):
            key = stream, correlation >> _PROCESS_BITS
            follower = followed.get(key)
            if follower is None:
                follower = followed[key] = _Follower(correlation)
            elif follower.correlation != correlation:
                follower.begin(correlation)
            until = end
            if end > follower.next_end:
                until = max(start, follower.next_start)
                ends[row] = until
                count, time = overruns.get(kernel, (0, 0))
                overruns[kernel] = count + 1, time + end - until
            follower.add(start, until)
        ends.setflags(write=False)
        return replace(self, ends=ends), overruns

    def of_streams(self) -> Iterator[tuple[int, Intervals]]:
        """Yield each stream with its times; overlaps on a stream count once."""
        for stream in np.unique(self.streams).tolist():
            yield stream, united(*self.chosen(self.streams == stream))

    def inline_collectives(self, unknown: Collection[int]) -> Nanoseconds:
        """Return the summed time of collectives on streams with other kernels, unknown ones not."""
        shared = np.setdiff1d(self.streams[~self.is_collective], [*unknown])
        starts, ends = self.chosen(self.is_collective & np.isin(self.streams, shared))
        return int((ends - starts).sum())

    def of_stream(self) -> Iterator[tuple[int, int, Nanoseconds]]:
        """Yield stream, kernel and duration of each run by start."""
        columns = (self.streams, self.kernels, self.ends - self.starts)
        return zip(*(column.tolist() for column in columns), strict=True)


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
