"""Steps as parts of a time line that do not overlap."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rightsizer.domain.profile import StepUse
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.profiles.intervals import Interval, Ruler
from rightsizer.profiles.time_use import MeasuredLine

__all__ = ["Step", "apart", "long_collective_starts", "marks_of", "step_uses"]


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """One step, as the profile names it."""

    start: Nanoseconds
    end: Nanoseconds
    name: str


def apart(steps: Iterable[Step]) -> tuple[Step, ...]:
    """In order, each beginning no earlier than the one before ends; none is left of one within."""
    kept: list[Step] = []
    until: Nanoseconds | None = None
    # The longer of two that start together, as the other is within it.
    for step in sorted(steps, key=lambda step: (step.start, -step.end, step.name)):
        start = step.start if until is None else max(step.start, until)
        if start < step.end:
            kept.append(Step(start, step.end, step.name))
            until = step.end
    return tuple(kept)


def marks_of(steps: Iterable[Step]) -> Iterator[Nanoseconds]:
    """Where they start and end."""
    for step in steps:
        yield step.start
        yield step.end


def long_collective_starts(
    steps: Sequence[Step], collectives: Iterable[Interval], minimum_ratio: float
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
    steps: Sequence[Step],
    line: MeasuredLine,
    loader: Ruler,
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
