"""Capture policy: findings that a profile would settle, of a workload at steady work."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Final

from rightsizer.advice.rules.rule import Judgement
from rightsizer.model.finding import Finding
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.state import ACTIVE_STATES, State
from rightsizer.model.units import (
    DAY_SECONDS,
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    elapsed_text,
    percent_text,
)
from rightsizer.profiler.capture.repository import CaptureRecord
from rightsizer.profiler.capture.settings import CaptureTimingSettings

_LEAST_POINTS: Final = 3
_OF_PROFILES: Final = "profile_"
"""How the names of rules over profiles begin."""
_PROFILED: Final = "a profile that still counts says where the time goes"


@dataclass(frozen=True, slots=True)
class WorkloadSample:
    """A workload at one look."""

    time: Nanoseconds
    """On the steady clock."""
    state_seconds: Mapping[State, float]
    """Device seconds in each state so far; they only grow."""
    devices: int = 1
    pids: frozenset[int] | None = None
    """Its processes on its devices; `None` where it is not known whose they are."""


@dataclass(frozen=True, slots=True)
class WorkloadCourse:
    """What is known of a workload from looking at it again and again."""

    first_seen: Mapping[int, Nanoseconds]
    """Each process that is there, and when it was first seen."""
    begun: Nanoseconds
    """When the oldest of its processes was first seen, or it was itself where none are known."""
    begun_state_seconds: Mapping[State, float]
    points: tuple[WorkloadSample, ...] = field(default=())
    """Looks of late, oldest first."""

    @property
    def age_seconds(self) -> float:
        """Since it began."""
        return (self.points[-1].time - self.begun) / NANOSECONDS_PER_SECOND

    @property
    def active_seconds(self) -> float:
        """At work since it began, by the mean of its devices."""
        last = self.points[-1]
        grown = _grown(self.begun_state_seconds, last.state_seconds)
        return sum(grown[state] for state in ACTIVE_STATES) / max(1, last.devices)

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
        return max(
            sum(abs(shares.get(state, 0.0) - whole.get(state, 0.0)) for state in State) / 2
            for shares in (_shares(*each) for each in pairwise(self.points))
        )


def advanced(
    course: WorkloadCourse | None, seen: WorkloadSample, span_seconds: float
) -> WorkloadCourse:
    """The course with one more look; it begins again where no process is left of those before.

    Looks are kept as far back as the span, and one beyond.
    """
    pids = seen.pids or frozenset()
    if course is None or (pids and course.first_seen and not pids & course.first_seen.keys()):
        first = dict.fromkeys(pids, seen.time)
        return WorkloadCourse(first, seen.time, seen.state_seconds, (seen,))
    first = {pid: course.first_seen.get(pid, seen.time) for pid in pids}
    points = course.points
    # A look that nothing was accounted for since tells nothing, and its time goes to the next.
    if seen.state_seconds != points[-1].state_seconds:
        points = (*points, seen)
        # What lies within the span, and enough beyond to cover it and to compare.
        since = seen.time - round(span_seconds * NANOSECONDS_PER_SECOND)
        inside = sum(each.time > since for each in points)
        points = points[-max(inside + 1, _LEAST_POINTS) :]
    return replace(course, first_seen=first or course.first_seen, points=points)


def _grown(before: Mapping[State, float], after: Mapping[State, float]) -> dict[State, float]:
    return {state: after.get(state, 0.0) - before.get(state, 0.0) for state in State}


def _shares(before: WorkloadSample, after: WorkloadSample) -> Mapping[State, float]:
    grown = _grown(before.state_seconds, after.state_seconds)
    total = sum(grown.values())
    return {state: value / total for state, value in grown.items()} if total > 0 else {}


@dataclass(frozen=True, slots=True)
class CaptureCandidate:
    """A finding that a profile would settle."""

    finding: Finding
    key: str
    """The workload's."""
    why_not: str | None
    """Why no profile of it is taken now, `None` where one may be."""


def capture_candidates(  # noqa: PLR0913 - all that speaks for it or against it.
    judgements: Sequence[Judgement],
    courses: Mapping[str, WorkloadCourse],
    taken: Sequence[tuple[CaptureRecord, float]],
    settings: CaptureTimingSettings,
    *,
    now: Nanoseconds,
    quiet: AbstractSet[str] = frozenset(),
) -> tuple[CaptureCandidate, ...]:
    """The findings that a profile would settle, most severe and most certain first.

    Courses are by the key of the workload; what was taken comes with the seconds since it began, by
    whichever clock can be trusted; `quiet` are ids of advice that was dismissed or snoozed.
    """
    settled = {
        (each.key, reason)
        for each in judgements
        if each.finding.is_complaint and each.finding.rule.startswith(_OF_PROFILES)
        for reason in each.finding.reasons
    }
    return tuple(
        CaptureCandidate(
            each.finding,
            each.key,
            _of_the_finding(each, settings, quiet, now)
            or (_PROFILED if settled & {(each.key, why) for why in each.finding.reasons} else None)
            or _of_the_past(each.key, taken, settings)
            or _of_the_workload(courses.get(each.key), settings),
        )
        for each in sorted(judgements, key=_rank)
        if each.finding.is_complaint
        and not each.finding.rule.startswith(_OF_PROFILES)
        and any(reason in settings.reasons for reason in each.finding.reasons)
    )


def _rank(each: Judgement) -> tuple[int, float, str]:
    return -each.finding.severity.rank, -each.finding.confidence, each.finding.id


def _of_the_finding(
    judgement: Judgement, settings: CaptureTimingSettings, quiet: AbstractSet[str], now: Nanoseconds
) -> str | None:
    finding = judgement.finding
    if finding.id in quiet:
        return "its advice was dismissed or snoozed"
    if judgement.has_conflict:
        return "another finding contradicts it"
    if judgement.exclusion_of(finding, now) is not None:
        return "a policy leaves the workload out"
    confidence = f"its confidence of {finding.confidence:.2f} is"
    if finding.confidence < (least := settings.minimum_confidence_ratio):
        return f"{confidence} below {least:.2f}"
    if finding.confidence > (most := settings.maximum_confidence_ratio):
        return f"{confidence} above {most:.2f}: there is nothing left to settle"
    if not judgement.may_open:
        return "it is not true for as long as advice takes, or not of the last minutes"
    return None


def _of_the_past(
    key: str, taken: Sequence[tuple[CaptureRecord, float]], settings: CaptureTimingSettings
) -> str | None:
    for each, ago_seconds in taken:
        is_fruitful = each.outcome.is_fruitful
        rest = settings.cool_down_seconds if is_fruitful else settings.retry_after_seconds
        if each.workload == key and ago_seconds < rest:
            ago = elapsed_text(ago_seconds)
            return f"it was profiled {ago} ago, and rests for {elapsed_text(rest)}"
    today = sum(ago_seconds < DAY_SECONDS for _, ago_seconds in taken)
    if today >= settings.maximum_a_day:
        return f"{today} captures were made on this node within 24 hours"
    return None


def _of_the_workload(course: WorkloadCourse | None, settings: CaptureTimingSettings) -> str | None:
    if course is None:
        return "no process is known to be at work on its GPUs"
    worked_seconds = min(course.age_seconds, course.active_seconds)
    if worked_seconds < settings.minimum_age_seconds:
        return (
            f"it was seen at work for {elapsed_text(worked_seconds)}, and is past its start after "
            f"{elapsed_text(settings.minimum_age_seconds)}"
        )
    unsteadiness = course.unsteadiness_ratio
    if unsteadiness is None or course.covered_seconds < settings.steady_seconds:
        return f"it was not watched for {elapsed_text(settings.steady_seconds)} yet"
    if course.active_ratio < settings.minimum_active_ratio:
        return f"it is at work for {percent_text(course.active_ratio)} of the time"
    if unsteadiness > settings.unsteadiness_maximum_ratio:
        return (
            f"it is not steady: the shares of its states changed by {percent_text(unsteadiness)} "
            f"within {elapsed_text(course.covered_seconds)}"
        )
    return None
