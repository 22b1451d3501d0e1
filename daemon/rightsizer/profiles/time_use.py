"""Use of a device's time between marks and by steps, and origins of its kernels.

Idle causes follow HolisticTraceAnalysis.
"""

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rightsizer.model.profile import (
    LaunchUse,
    ProfileTimeline,
    SpanKind,
    TimelineLane,
    TimeUse,
)
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.profiles.columns import summed
from rightsizer.profiles.host_waits import HostWaits
from rightsizer.profiles.limits import TimeSettings
from rightsizer.profiles.tables import HostSpans
from rightsizer.profiles.timeline import (
    LATEST,
    Column,
    Columns,
    CoveredLength,
    Interval,
    Intervals,
    KernelLine,
    Numbers,
    common,
    in_order,
    outside,
    united,
)

_RULERS: Final = (
    "kernel",
    "collective",
    "compute",
    "copy",
    "either",
    "any",
    "host_wait",
    "loader_wait",
    "synchronization_wait",
    "dispatch_wait",
    "kernel_wait",
    "checkpoint_wait",
    "taken_wait",
)
"""`compute`: any kernel except collectives; `either`: kernel or copy; `any`: fills, too;
`taken_wait`: wait for the host in the loader or beside a copy or fill."""
_LANES: Final[Mapping[TimelineLane, Callable[[TimeUse], float]]] = {
    TimelineLane.COMPUTE: lambda of: of.kernel_seconds - of.exposed_collective_seconds,
    TimelineLane.COLLECTIVE: lambda of: of.collective_seconds,
    TimelineLane.COPY: lambda of: of.copy_seconds,
    TimelineLane.LOADER_WAIT: lambda of: of.loader_wait_seconds,
    TimelineLane.HOST_WAIT: lambda of: of.host_wait_seconds - of.loader_wait_seconds,
    TimelineLane.OTHER_IDLE: lambda of: of.other_idle_seconds,
}

_COLLECTIVES: Final = 200_000
"""Collectives that are compared with those of other ranks."""
_MOST_LANES: Final = 8
_MOST_THREADS: Final = 3


class Gaps(Struct, frozen=True):
    """Idle times of a device between its kernels, by start."""

    starts: Numbers
    ends: Numbers
    is_host_wait: "NDArray[np.bool_]"
    """Whether the kernel that ends it was launched later than it began."""
    is_adjacent: "NDArray[np.bool_]"
    """Whether it only parts kernels that follow each other."""


def gaps(begin: Nanoseconds, kernels: Intervals, launched: Numbers, adjacent: Nanoseconds) -> Gaps:
    """Return the idle times from a beginning between kernels, which are sorted by start.

    Args:
        begin: Time from which idle time counts.
        kernels: Starts and ends.
        launched: Starts of the launches, or `LATEST` if unknown.
        adjacent: Kernels no further apart count as consecutive.
    """
    starts, ends = kernels
    reach = np.maximum.accumulate(np.append(begin, ends))[:-1]
    rows = np.flatnonzero(starts > reach)
    # Of kernels that start together, the first launched one ended the wait.
    groups = np.flatnonzero(np.diff(starts, prepend=starts[0] - 1))
    first = np.minimum.reduceat(launched, groups)[np.searchsorted(groups, rows)]
    is_host_wait = (first != LATEST) & (first > reach[rows])
    is_adjacent = (starts[rows] - reach[rows] <= adjacent) & ~is_host_wait
    return Gaps(reach[rows], starts[rows], is_host_wait, is_adjacent)


def _by_correlation(correlations: Numbers, starts: Numbers, ends: Numbers, _: Numbers) -> Numbers:
    return np.lexsort((ends, starts, correlations))


class Launches(Columns):
    """Host calls by the correlation that links them to kernels, copies and graphs.

    Columns are correlations, starts, ends and threads.
    """

    def __init__(self) -> None:
        super().__init__("i8", "i8", "i8", "i8", order=_by_correlation)
        self.frames: Numbers | None = None
        """By row, if known: frame of the call; -1 for none."""
        self.product_calls: Numbers = np.empty(0, np.int64)
        """By row, if frames are known: product call it belongs to; -1 for none."""
        self.products: Column = array("q")
        """Product of each such call."""

    def rows(self, correlations: Numbers) -> Numbers:
        """Return the rows of correlations, -1 for none; of several, the earliest."""
        launches = self.read()[0]
        if not launches.size:
            return np.full(correlations.size, -1)
        places = np.minimum(np.searchsorted(launches, correlations), launches.size - 1)
        return np.where(launches[places] == correlations, places, -1)

    def of_thread(self, thread: int) -> Intervals:
        """Return the calls of a thread."""
        _, starts, ends, threads = self.read()
        return starts[threads == thread], ends[threads == thread]


class CountedTimes:
    """Device time and number of kernels by launching frame, or of calls by product."""

    def __init__(self) -> None:
        self.times: Counter[int] = Counter()
        self.counts: Counter[int] = Counter()

    def add(self, key: int, time: Nanoseconds, count: int) -> None:
        """Time and count by a number, such as a frame's or a product's; -1 for none."""
        self.times[key] += time
        self.counts[key] += count


class LaunchCounter:
    """Counts the calls that launched kernels; a graph's call launches many."""

    def __init__(self, launches: Launches, correlations: Numbers, durations: Numbers) -> None:
        """Count the kernels of a device, given by start."""
        self.rows = launches.rows(correlations)
        """Launch of each kernel; -1 if unknown."""
        self.frame_times = CountedTimes()
        self.product_times = CountedTimes()
        is_matched = self.rows >= 0
        rows = self.rows[is_matched]
        matched = durations[is_matched]
        _, starts, ends, threads = launches.read()
        frames = np.full(self.rows.size, -1)
        if launches.frames is not None:
            frames[is_matched] = launches.frames[rows]
        for frame, time, kernels in summed(frames, durations):
            self.frame_times.add(frame, time, kernels)
        if launches.products:
            calls = launches.product_calls[rows]
            products = np.array(launches.products)
            of_products = products[calls[calls >= 0]]
            for product, time, _ in summed(of_products, matched[calls >= 0]):
                self.product_times.times[product] = time
            once = products[np.unique(calls[calls >= 0])]
            self.product_times.counts.update(once.tolist())
        threads, first, counts = np.unique(threads[rows], return_index=True, return_counts=True)
        self.threads: Sequence[int] = threads[np.lexsort((first, -counts))].tolist()
        """Launching threads, with the most kernels first."""
        called, first, counts = np.unique(rows, return_index=True, return_counts=True)
        lengths = ends[called] - starts[called]
        is_short = (counts == 1) & (matched[first] < lengths)
        self.use = (
            LaunchUse(called.size, seconds(int(lengths.sum())), int(is_short.sum()), rows.size)
            if rows.size
            else None
        )
        """The totals; `None` if no launch is known."""


class MeasuredLine:
    """Timeline of a device, measured in one pass; whole nanoseconds until the end."""

    def __init__(  # noqa: PLR0913, PLR0917 - the lines to be combined.
        self,
        kernels: KernelLine,
        copies: Sequence[Numbers],
        fills: Sequence[Numbers],
        launches: Launches,
        spans: HostSpans,
        marks: Iterable[Nanoseconds],
        settings: TimeSettings,
    ) -> None:
        """Measure at least one kernel, between marks at starts and ends of steps."""
        self.span = kernels.span
        every = sorted({*marks, *self.span})
        self.start = every[0]
        self._rulers = {name: CoveredLength(every) for name in _RULERS}
        rulers = self._rulers
        starts, ends = kernels.starts, kernels.ends
        rulers["kernel"].add(*united(starts, ends))
        counter = LaunchCounter(launches, kernels.correlations, ends - starts)
        launched = np.full(starts.size, LATEST)
        launched[counter.rows >= 0] = launches.read()[1][counter.rows[counter.rows >= 0]]
        # Time from a step's start to the first kernel is a wait, too.
        idle = gaps(every[0], (starts, ends), launched, settings.adjacent_maximum_nanoseconds)
        waits = idle.starts[idle.is_host_wait], idle.ends[idle.is_host_wait]
        rulers["host_wait"].add(*waits)
        rulers["kernel_wait"].add(idle.starts[idle.is_adjacent], idle.ends[idle.is_adjacent])
        self.host_waits = HostWaits(
            waits,
            rulers,
            spans,
            united(*in_order(copies, fills)),
            settings.pause_minimum_nanoseconds,
        )
        apart = idle.starts[~idle.is_adjacent], idle.ends[~idle.is_adjacent]
        rulers["checkpoint_wait"].add(*common(apart, spans.times(SpanKind.CHECKPOINT))[:2])
        self.counter = counter
        self.threads = counter.threads[:_MOST_THREADS]
        if kernels.is_collective.any():
            rulers["collective"].add(*united(*kernels.chosen(kernels.is_collective)))
            rulers["compute"].add(*united(*kernels.chosen(~kernels.is_collective)))
        else:
            rulers["compute"] = rulers["kernel"]
        rulers["copy"].add(*united(*copies))
        self._lay("either", (starts, ends), copies, otherwise="kernel")
        self._lay("any", (starts, ends), copies, fills, otherwise="either")

    def outside(self, phases: Intervals) -> TimeUse | None:
        """Return the time use without phases, whose ends are marks; `None` without any."""
        if not phases[0].size:
            return None
        span = np.array([self.start]), np.array([self.span[1]])
        starts, ends, _ = outside(span, phases)
        parts = [*map(self.between, starts.tolist(), ends.tolist())]
        sums = {
            name: sum(getattr(part, name) for part in parts) for name in TimeUse.__struct_fields__
        }
        return TimeUse(**sums)

    def _lay(self, name: str, *lines: Sequence[Numbers], otherwise: str) -> None:
        """Measure the union of lines; if the last is empty, `otherwise` is the same."""
        if lines[-1][0].size:
            self._rulers[name].add(*united(*in_order(*lines)))
        else:
            self._rulers[name] = self._rulers[otherwise]

    def between(self, start: Nanoseconds, end: Nanoseconds) -> TimeUse:
        """Return the time use between two marks."""
        at = {name: ruler.length(start, end) for name, ruler in self._rulers.items()}
        busy = at["kernel"]
        exposed_collectives = busy - at.pop("compute")
        either = at.pop("either")
        exposed_copies = either - busy
        exposed_fills = at.pop("any") - either
        copy_wait = at.pop("taken_wait") - at["loader_wait"]
        return TimeUse(
            span_seconds=seconds(end - start),
            copy_wait_seconds=seconds(copy_wait),
            exposed_collective_seconds=seconds(exposed_collectives),
            exposed_copy_seconds=seconds(exposed_copies),
            exposed_fill_seconds=seconds(exposed_fills),
            other_idle_seconds=seconds(end - start - busy - at["host_wait"] - at["kernel_wait"]),
            **{f"{name}_seconds": seconds(length) for name, length in at.items()},
        )


def timeline_edges(marks: Iterable[Nanoseconds], moments: int) -> list[Nanoseconds]:
    """Divide the time from first to last mark into moments of at least 1 ns."""
    every = sorted(marks)
    start = every[0]
    length = every[-1] - every[0]
    count = max(1, min(moments, length))
    return [start + length * at // count for at in range(count + 1)]


def _covered(ruler: CoveredLength, edges: Sequence[Nanoseconds]) -> tuple[float, ...]:
    parts = (ruler.length(start, end) / (end - start or 1) for start, end in pairwise(edges))
    return tuple(round(part, 3) for part in parts)


def covered(edges: Sequence[Nanoseconds], *lines: Intervals) -> tuple[float, ...]:
    """Return the share of time between edges that is covered by lines."""
    ruler = CoveredLength(edges)
    ruler.add(*united(*in_order(*lines)))
    return _covered(ruler, edges)


def stream_lanes(
    line: KernelLine, names: Sequence[str], edges: Sequence[Nanoseconds]
) -> dict[str, tuple[float, ...]]:
    """Return the busiest streams, in their order; empty if there is only one."""
    rulers: dict[int, CoveredLength] = {}
    for stream, intervals in line.of_streams():
        if (intervals[1] > intervals[0]).any():
            rulers[stream] = CoveredLength(edges)
            rulers[stream].add(*intervals)
    if len(rulers) == 1:
        return {}
    busiest = sorted(rulers, key=lambda stream: -rulers[stream].length(edges[0], edges[-1]))
    return {
        names[stream]: _covered(rulers[stream], edges) for stream in sorted(busiest[:_MOST_LANES])
    }


def timeline(line: MeasuredLine, edges: Sequence[Nanoseconds]) -> ProfileTimeline:
    """Return the timeline between edges, which must be marks of the line."""
    parts = [line.between(start, end) for start, end in pairwise(edges)]
    lanes = {
        lane: tuple(round(value(part) / (part.span_seconds or 1.0), 3) for part in parts)
        for lane, value in _LANES.items()
    }
    return ProfileTimeline(
        seconds(edges[-1] - edges[0]) / len(parts),
        {lane: shares for lane, shares in lanes.items() if any(shares)},
        start_seconds=seconds(edges[0]),
    )


class StepSpan(Struct, frozen=True, order=True):
    """A step, as named by the profile."""

    start: Nanoseconds
    end: Nanoseconds
    name: str


def apart(steps: Iterable[StepSpan]) -> tuple[StepSpan, ...]:
    """Make steps disjoint and ordered; nested ones disappear."""
    kept: list[StepSpan] = []
    until: Nanoseconds | None = None
    # The longer of two with equal starts comes first, since it contains the other.
    for step in sorted(steps, key=lambda step: (step.start, -step.end, step.name)):
        start = step.start if until is None else max(step.start, until)
        if start < step.end:
            kept.append(StepSpan(start, step.end, step.name))
            until = step.end
    return tuple(kept)


def collectives_by_step(
    steps: Sequence[StepSpan], runs: Iterable[tuple[Interval, str]]
) -> list[Mapping[str, tuple[Interval, ...]]]:
    """Return the collectives of each step by name, from runs by start, without the first of all."""
    starts = [step.start for step in steps]
    intervals = [defaultdict[str, list[Interval]](list) for _ in steps]
    for (start, end), name in islice(runs, 1, _COLLECTIVES):
        place = bisect_right(starts, start) - 1
        if place >= 0 and start < steps[place].end:
            intervals[place][name].append((start, end))
    return [{name: tuple(spans) for name, spans in of_step.items()} for of_step in intervals]


def long_collective_starts(
    steps: Sequence[StepSpan], collectives: Intervals, minimum_ratio: float
) -> list[Nanoseconds | None]:
    """Return, for each step, the start of its last collective above that share of the step.

    Steps are disjoint and ordered, collectives sorted by start.
    """
    if not steps:
        return []
    starts, ends = np.array([(step.start, step.end) for step in steps]).T
    begins, untils = collectives
    places = np.searchsorted(starts, begins, side="right") - 1
    is_within = (places >= 0) & (begins < ends[places])
    rows = is_within & (untils - begins > minimum_ratio * (ends - starts)[places])
    last = dict(zip(places[rows].tolist(), begins[rows].tolist(), strict=True))
    return [last.get(place) for place in range(len(steps))]
