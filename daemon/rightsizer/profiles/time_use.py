"""Use of a device's time between marks and by steps, and origins of its kernels.

Idle causes follow HolisticTraceAnalysis.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, pairwise
from typing import Final, TypeAlias

from msgspec import Struct

from rightsizer.model.profile import (
    LaunchUse,
    ProfileTimeline,
    SpanKind,
    TimelineLane,
    TimeUse,
)
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.profiles.host_waits import HostWaits
from rightsizer.profiles.limits import TimeSettings
from rightsizer.profiles.tables import HostSpans
from rightsizer.profiles.timeline import (
    Column,
    CoveredLength,
    Interval,
    KernelLine,
    Numbers,
    SpanLine,
    Within,
    is_ordered,
    order,
    outside,
    union,
)

Started: TypeAlias = tuple[Nanoseconds, Nanoseconds, Nanoseconds | None]
"""Start and end of a kernel, and the start of its launch if known."""
Gap: TypeAlias = tuple[Nanoseconds, Nanoseconds, str]
"""Idle interval with its cause: `host_wait`, `kernel_wait` or empty if unknown."""
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


_SHORT = 1
_OTHER = 2
"""Kinds of observed launches: of a single kernel shorter than its launch, and others."""
_MOST_LANES: Final = 8
_MOST_THREADS: Final = 3


def _gap(
    begin: Nanoseconds, end: Nanoseconds, launched: Nanoseconds | None, adjacent: Nanoseconds
) -> Gap:
    cause = "kernel_wait" if end - begin <= adjacent else ""
    if launched is not None and launched > begin:
        cause = "host_wait"
    return begin, end, cause


def gaps(kernels: Iterable[Started], adjacent: Nanoseconds) -> Iterator[Gap]:
    """Yield the idle times between kernels, which are sorted by start.

    Kernels no further apart than `adjacent` count as consecutive.
    """
    rest = iter(kernels)
    if (first := next(rest, None)) is None:
        return
    busy_until = first[1]
    waiting: Started | None = None
    for start, end, launched in rest:
        if waiting is not None:
            begin, until, earliest = waiting
            if start == until:
                # Of kernels that start together, the first launched one ended the wait.
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
    """Host calls by the correlation that links them to kernels, copies and graphs."""

    def __init__(self) -> None:
        self._correlations: Column = array("q")
        self._starts: Column = array("q")
        self._ends: Column = array("q")
        self._threads: Column = array("q")
        self._of_threads: defaultdict[int, Column] = defaultdict(lambda: array("I"))
        self._is_ordered = True
        self.frames: Column = array("i")
        """By row, if known: frame of the call; -1 for none."""
        self.product_calls: Column = array("i")
        """By row, if known: product call it belongs to; -1 for none."""
        self.products: Column = array("q")
        """Product of each such call."""

    def __len__(self) -> int:
        return len(self._correlations)

    def add(self, correlation: int, start: Nanoseconds, end: Nanoseconds, thread: int = -1) -> None:
        """Add a call."""
        self._correlations.append(correlation)
        self._starts.append(start)
        self._ends.append(end)
        self._threads.append(thread)
        self._is_ordered = False

    def extend(
        self, correlations: Numbers, starts: Numbers, ends: Numbers, threads: Numbers
    ) -> None:
        """Add calls."""
        self._correlations.frombytes(correlations.tobytes())
        self._starts.frombytes(starts.tobytes())
        self._ends.frombytes(ends.tobytes())
        self._threads.frombytes(threads.tobytes())
        self._is_ordered = False

    def row(self, correlation: int) -> int | None:
        """Return the row of a correlation; of several, the earliest."""
        if not self._is_ordered:
            self._put_in_order()
        place = bisect_left(self._correlations, correlation)
        if place < len(self._correlations) and self._correlations[place] == correlation:
            return place
        return None

    def thread(self, row: int) -> int:
        """Return the host thread, or -1 if unknown."""
        return self._threads[row]

    def of_thread(self, thread: int) -> Iterator[Interval]:
        """Yield the calls of a thread by start."""
        if not self._of_threads:
            for row, each, _, _ in self.by_start():
                self._of_threads[each].append(row)
        return map(self.span, self._of_threads[thread])

    def span(self, row: int) -> Interval:
        """Return start and end of a call."""
        return self._starts[row], self._ends[row]

    def by_start(self) -> Iterator[tuple[int, int, Nanoseconds, Nanoseconds]]:
        """Yield row, thread, start and end of calls by start."""
        if not self._is_ordered:
            self._put_in_order()
        for row in order(self._starts):
            yield row, self._threads[row], self._starts[row], self._ends[row]

    def _put_in_order(self) -> None:
        """Sort by correlation, then by start and end."""
        columns = [self._ends, self._starts, self._correlations, self._threads]
        for place in range(3):
            if not is_ordered(columns[place]):
                rows = order(columns[place])
                columns = [
                    array(column.typecode, map(column.__getitem__, rows)) for column in columns
                ]
        self._ends, self._starts, self._correlations, self._threads = columns
        self._of_threads.clear()
        self._is_ordered = True


class FrameTimes:
    """Device time and number of kernels by launching frame."""

    def __init__(self) -> None:
        self.times: Counter[int] = Counter()
        self.kernels: Counter[int] = Counter()

    def add(self, frame: int, time: Nanoseconds) -> None:
        """Add a kernel; frame -1 stands for none."""
        self.times[frame] += time
        self.kernels[frame] += 1


class ProductTimes:
    """Device time and calls by matrix product."""

    def __init__(self, launches: Launches) -> None:
        self._seen = bytearray(len(launches.products))
        self.times: Counter[int] = Counter()
        self.calls: Counter[int] = Counter()

    def add(self, product: int, call: int, time: Nanoseconds) -> None:
        """Add a kernel; a call may launch several."""
        self.times[product] += time
        self.calls[product] += not self._seen[call]
        self._seen[call] = 1


class LaunchCounter:
    """Counts launching calls; a graph's call launches many kernels."""

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self.frame_times = FrameTimes()
        self.product_times = ProductTimes(launches)
        self._seen = bytearray(len(launches))
        self.threads: Counter[int] = Counter()
        """Kernels by launching thread."""
        self._count = self._matched = self._short = self._host = 0

    def started(self, line: KernelLine) -> Iterator[Started]:
        """Yield the kernels with the starts of their launches, and count them."""
        launches = self._launches
        for start, end, correlation in line.launched():
            row = None if correlation is None else launches.row(correlation)
            frames = launches.frames
            self.frame_times.add(frames[row] if row is not None and frames else -1, end - start)
            if row is None:
                yield start, end, None
                continue
            if launches.products and (call := launches.product_calls[row]) >= 0:
                self.product_times.add(launches.products[call], call, end - start)
            began, ended = launches.span(row)
            self.threads[launches.thread(row)] += 1
            call = ended - began
            self._matched += 1
            if not self._seen[row]:
                self._seen[row] = _SHORT if end - start < call else _OTHER
                self._short += end - start < call
                self._count += 1
                self._host += call
            elif self._seen[row] == _SHORT:
                self._seen[row] = _OTHER
                self._short -= 1
            yield start, end, began

    def use(self) -> LaunchUse | None:
        """Return the totals; `None` if no launch is known."""
        if not self._matched:
            return None
        return LaunchUse(self._count, seconds(self._host), self._short, self._matched)


class MeasuredLine:
    """Timeline of a device, measured in one pass; whole nanoseconds until the end."""

    def __init__(  # noqa: PLR0913, PLR0917 - the lines to be combined.
        self,
        kernels: KernelLine,
        copies: SpanLine,
        fills: SpanLine,
        launches: Launches,
        spans: HostSpans,
        marks: Iterable[Nanoseconds],
        settings: TimeSettings,
    ) -> None:
        """Measure at least one kernel, between marks at starts and ends of steps."""
        self.span = kernels.span()
        every = sorted({*marks, *self.span})
        self.start = every[0]
        self._rulers = {name: CoveredLength(every) for name in _RULERS}
        self._rulers["kernel"].add_all(union(kernels.intervals()))
        counter = LaunchCounter(launches)
        rulers = self._rulers
        checkpoints = Within(spans.times(SpanKind.CHECKPOINT))
        copied = union(merge(copies.intervals(), fills.intervals()))
        self.host_waits = HostWaits(
            rulers, spans, Within(copied), settings.pause_minimum_nanoseconds
        )
        # Time from a step's start to the first kernel is a wait, too.
        lead_in = ((every[0], every[0], None),)
        for begin, end, cause in gaps(
            chain(lead_in, counter.started(kernels)), settings.adjacent_maximum_nanoseconds
        ):
            if cause:
                rulers[cause].add(begin, end)
            if cause == "host_wait":
                self.host_waits.divide(begin, end)
            if cause != "kernel_wait" and checkpoints.current is not None:
                rulers["checkpoint_wait"].add_all(checkpoints.of(begin, end))
        self.launches = counter.use()
        self.frame_times = counter.frame_times
        self.product_times = counter.product_times
        self.threads = tuple(each for each, _ in counter.threads.most_common(_MOST_THREADS))
        for name, is_collective in (("collective", True), ("compute", False)):
            if kernels.collectives:
                apart = kernels.collective_intervals(is_collective=is_collective)
                rulers[name].add_all(union(apart))
        if not kernels.collectives:
            rulers["compute"] = rulers["kernel"]
        rulers["copy"].add_all(union(copies.intervals()))
        self._lay("either", kernels, copies, otherwise="kernel")
        self._lay("any", kernels, copies, fills, otherwise="either")

    def outside(self, phases: Sequence[Interval]) -> TimeUse | None:
        """Return the time use without phases, whose ends are marks; `None` without any."""
        if not phases:
            return None
        parts = [self.between(*part) for part in outside(self.start, self.span[1], phases)]
        sums = {
            name: sum(getattr(part, name) for part in parts) for name in TimeUse.__struct_fields__
        }
        return TimeUse(**sums)

    def _lay(self, name: str, *lines: SpanLine, otherwise: str) -> None:
        """Measure the union of lines; if the last is empty, `otherwise` is the same."""
        if len(lines[-1]):
            self._rulers[name].add_all(union(merge(*(line.intervals() for line in lines))))
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


def covered(intervals: Iterable[Interval], edges: Sequence[Nanoseconds]) -> tuple[float, ...]:
    """Return the share of time between edges that is covered by intervals, sorted by start."""
    ruler = CoveredLength(edges)
    ruler.add_all(union(intervals))
    return _covered(ruler, edges)


def stream_lanes(
    line: KernelLine, names: Sequence[str], edges: Sequence[Nanoseconds]
) -> dict[str, tuple[float, ...]]:
    """Return the busiest streams, in their order; empty if there is only one."""
    rulers: defaultdict[int, CoveredLength] = defaultdict(lambda: CoveredLength(edges))
    for stream, start, end in line.of_streams():
        rulers[stream].add(start, end)
    if len(rulers) == 1:
        return {}
    busiest = sorted(rulers, key=lambda ruler: -rulers[ruler].length(edges[0], edges[-1]))
    return {names[each]: _covered(rulers[each], edges) for each in sorted(busiest[:_MOST_LANES])}


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


def long_collective_starts(
    steps: Sequence[StepSpan], collectives: Iterable[Interval], minimum_ratio: float
) -> list[Nanoseconds | None]:
    """Return, for each step, the start of its last collective above that share of the step.

    Steps are disjoint and ordered, collectives sorted by start.
    """
    found: list[Nanoseconds | None] = [None] * len(steps)
    starts = [step.start for step in steps]
    for start, end in collectives:
        place = bisect_right(starts, start) - 1
        if place < 0 or start >= steps[place].end:
            continue
        step = steps[place]
        if end - start > minimum_ratio * (step.end - step.start):
            found[place] = start
    return found
