"""The course that a workload takes: since when it is at work, and whether it does so evenly."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from rightsizer.domain.state import ACTIVE_STATES, State
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds

__all__ = ["Course", "WorkloadSighting", "advanced"]

_NOTHING: Final[Mapping[State, float]] = {}
_LEAST_POINTS: Final = 3


@dataclass(frozen=True, slots=True)
class WorkloadSighting:
    """A workload at one look."""

    time: Nanoseconds
    """On the steady clock."""
    state_seconds: Mapping[State, float]
    """Device seconds in each state so far; they only grow."""
    devices: int = 1
    pids: frozenset[int] | None = None
    """Its processes on its devices; `None` where nobody can tell whose they are."""


@dataclass(frozen=True, slots=True)
class Course:
    """What is known of a workload from looking at it again and again."""

    first_seen: Mapping[int, Nanoseconds]
    """Each process that is there, and when it was first seen."""
    begun: Nanoseconds
    """When the oldest of its processes was first seen, or it was itself where none are known."""
    begun_state_seconds: Mapping[State, float]
    points: tuple[WorkloadSighting, ...] = field(default=())
    """Looks of late, oldest first."""

    @property
    def age_seconds(self) -> float:
        """Since it began."""
        return (self.points[-1].time - self.begun) / NANOSECONDS_PER_SECOND

    @property
    def active_seconds(self) -> float:
        """At work since it began, by the mean of its devices."""
        last = self.points[-1]
        grown = sum(
            last.state_seconds.get(state, 0.0) - self.begun_state_seconds.get(state, 0.0)
            for state in ACTIVE_STATES
        )
        return grown / max(1, last.devices)

    @property
    def covered_seconds(self) -> float:
        """From the first of the looks that are kept to the last."""
        return (self.points[-1].time - self.points[0].time) / NANOSECONDS_PER_SECOND

    @property
    def active_ratio(self) -> float:
        """The part of that time that it was at work, 0 to 1."""
        whole = _shares(self.points[0], self.points[-1])
        return sum(whole.get(state, 0.0) for state in ACTIVE_STATES)

    @property
    def unsteadiness_ratio(self) -> float | None:
        """How far the shares of states between two looks are from those of all looks, at most.

        The total variation distance, 0 to 1: half the sum of the differences. `None` with fewer
        than three looks, for one stretch is always like itself.
        """
        if len(self.points) < _LEAST_POINTS:
            return None
        whole = _shares(self.points[0], self.points[-1])
        return max(_distance(_shares(*each), whole) for each in pairwise(self.points))


def advanced(course: Course | None, seen: WorkloadSighting, span_seconds: float) -> Course:
    """The course with one more look; it begins anew where no process is left of those before.

    Args:
        course: As it was; `None` at the first look.
        seen: The look.
        span_seconds: How far back looks are kept, and one beyond.
    """
    pids = seen.pids or frozenset()
    if course is None or (pids and course.first_seen and not pids & course.first_seen.keys()):
        first = dict.fromkeys(pids, seen.time)
        return Course(first, seen.time, seen.state_seconds, (seen,))
    first = {pid: course.first_seen.get(pid, seen.time) for pid in pids}
    points = course.points
    # A look that nothing was accounted for since tells nothing, and its time goes to the next.
    if seen.state_seconds != points[-1].state_seconds:
        points = _kept((*points, seen), span_seconds)
    return replace(course, first_seen=first or course.first_seen, points=points)


def _kept(
    points: tuple[WorkloadSighting, ...], span_seconds: float
) -> tuple[WorkloadSighting, ...]:
    """What lies within the span, and enough beyond to cover it and to compare."""
    since = points[-1].time - round(span_seconds * NANOSECONDS_PER_SECOND)
    inside = sum(each.time > since for each in points)
    return points[-max(inside + 1, _LEAST_POINTS) :]


def _shares(before: WorkloadSighting, after: WorkloadSighting) -> Mapping[State, float]:
    grown = {
        state: after.state_seconds.get(state, 0.0) - before.state_seconds.get(state, 0.0)
        for state in State
    }
    total = sum(grown.values())
    if total <= 0:
        return _NOTHING
    return {state: value / total for state, value in grown.items()}


def _distance(one: Mapping[State, float], other: Mapping[State, float]) -> float:
    return sum(abs(one.get(state, 0.0) - other.get(state, 0.0)) for state in State) / 2
