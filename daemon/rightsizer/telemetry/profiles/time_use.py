"""Use of a device's time between marks, and step by step."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain

from rightsizer.model.frozen import dataclass
from rightsizer.model.profile import LaunchUse, StepUse, TimeUse
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.telemetry.profiles.launches import IdleCause, LaunchCounter, Launches, gaps
from rightsizer.telemetry.profiles.tables import HostSpans
from rightsizer.telemetry.profiles.time_line import (
    CoveredLength,
    Interval,
    KernelLine,
    SpanLine,
    Within,
    union,
)


class MeasuredLine:
    """A device's time line, laid on rulers in one walk; whole nanoseconds until the end."""

    __slots__ = (
        "_checkpoint_wait",
        "_collective",
        "_compute",
        "_copy",
        "_either",
        "_host_wait",
        "_kernel",
        "_kernel_wait",
        "_loader_wait",
        "launches",
        "span",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - the lines that are laid beside each other.
        self,
        kernels: KernelLine,
        copies: SpanLine,
        launches: Launches,
        spans: HostSpans,
        marks: Iterable[Nanoseconds],
        adjacent: Nanoseconds,
    ) -> None:
        """Measure.

        Args:
            kernels: At least one.
            copies: Any number.
            launches: Of all devices.
            spans: What the host did.
            marks: Where steps start and end.
            adjacent: Kernels no further apart than this follow each other directly.
        """
        self.span = kernels.span()
        every = sorted({*marks, *self.span})
        self._kernel, self._host_wait, self._kernel_wait = (
            CoveredLength(every),
            CoveredLength(every),
            CoveredLength(every),
        )
        self._loader_wait, self._checkpoint_wait = CoveredLength(every), CoveredLength(every)
        self._collective, self._compute = CoveredLength(every), self._kernel
        self._copy, self._either = CoveredLength(every), self._kernel
        self._kernel.add_all(union(kernels.intervals()))
        self.launches = self._lay_idle(kernels, launches, spans, every[0], adjacent)
        if kernels.collectives:
            apart = (kernels.collective_intervals(is_collective=each) for each in (True, False))
            self._collective.add_all(union(next(apart)))
            self._compute = CoveredLength(every)
            self._compute.add_all(union(next(apart)))
        if len(copies):
            self._copy.add_all(union(copies.intervals()))
            self._either = CoveredLength(every)
            self._either.add_all(union(merge(kernels.intervals(), copies.intervals())))

    def between(self, start: Nanoseconds, end: Nanoseconds) -> TimeUse:
        """Where the time between two of the marks went."""
        kernel = self._kernel.length(start, end)
        host_wait = self._host_wait.length(start, end)
        kernel_wait = self._kernel_wait.length(start, end)
        return TimeUse(
            span_seconds=seconds(end - start),
            kernel_seconds=seconds(kernel),
            collective_seconds=seconds(self._collective.length(start, end)),
            exposed_collective_seconds=seconds(kernel - self._compute.length(start, end)),
            copy_seconds=seconds(self._copy.length(start, end)),
            exposed_copy_seconds=seconds(self._either.length(start, end) - kernel),
            host_wait_seconds=seconds(host_wait),
            loader_wait_seconds=seconds(self._loader_wait.length(start, end)),
            kernel_wait_seconds=seconds(kernel_wait),
            other_idle_seconds=seconds(end - start - kernel - host_wait - kernel_wait),
            checkpoint_wait_seconds=seconds(self._checkpoint_wait.length(start, end)),
        )

    def whole(self) -> TimeUse:
        """Where the time from the first kernel to the last went."""
        return self.between(*self.span)

    def _lay_idle(
        self,
        kernels: KernelLine,
        launches: Launches,
        spans: HostSpans,
        first_mark: Nanoseconds,
        adjacent: Nanoseconds,
    ) -> LaunchUse | None:
        tally = LaunchCounter(launches)
        loader, checkpoints = Within(spans.loader()), Within(spans.checkpoints())
        # Before the first kernel the device waited as well, where a step had begun by then.
        lead_in = ((first_mark, first_mark, None),)
        for begin, end, cause in gaps(chain(lead_in, tally.started(kernels)), adjacent):
            if cause is IdleCause.KERNEL_WAIT:
                self._kernel_wait.add(begin, end)
                continue
            if checkpoints.current is not None:
                self._checkpoint_wait.add_all(checkpoints.of(begin, end))
            if cause is IdleCause.HOST_WAIT:
                self._host_wait.add(begin, end)
                if loader.current is not None:
                    self._loader_wait.add_all(loader.of(begin, end))
        return tally.use()


@dataclass(frozen=True, slots=True, order=True)
class StepSpan:
    """One step, as the profile names it."""

    start: Nanoseconds
    end: Nanoseconds
    name: str


def apart(steps: Iterable[StepSpan]) -> tuple[StepSpan, ...]:
    """In order, each beginning no earlier than the one before ends; none is left of one within."""
    kept: list[StepSpan] = []
    until: Nanoseconds | None = None
    # The longer of two that start together, as the other is within it.
    for step in sorted(steps, key=lambda step: (step.start, -step.end, step.name)):
        start = step.start if until is None else max(step.start, until)
        if start < step.end:
            kept.append(StepSpan(start, step.end, step.name))
            until = step.end
    return tuple(kept)


def marks_of(steps: Iterable[StepSpan]) -> Iterator[Nanoseconds]:
    """Where they start and end."""
    for step in steps:
        yield step.start
        yield step.end


def long_collective_starts(
    steps: Sequence[StepSpan], collectives: Iterable[Interval], minimum_ratio: float
) -> list[Nanoseconds | None]:
    """For each step, the start of its last collective that took that part of it at least.

    Args:
        steps: Apart from each other, in order.
        collectives: By rising start.
        minimum_ratio: Of the step's time.
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


def step_uses(
    steps: Sequence[StepSpan],
    line: MeasuredLine,
    loader: CoveredLength,
    last_long: Sequence[Nanoseconds | None],
) -> tuple[StepUse, ...]:
    """Where the time of each step went."""
    return tuple(
        StepUse(
            name=step.name,
            start=step.start,
            end=step.end,
            time=line.between(step.start, step.end),
            loader_seconds=seconds(loader.length(step.start, step.end)),
            last_long_collective=last,
        )
        for step, last in zip(steps, last_long, strict=True)
    )
