"""Capture policy: selects findings that a profile would settle, for workloads at steady work."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.rules.rule import Judgement
from rightsizer.model.values import (
    ACTIVE_STATES,
    DAY_SECONDS,
    NANOSECONDS_PER_SECOND,
    Finding,
    Nanoseconds,
    State,
    elapsed_text,
    percent_text,
)
from rightsizer.profiler.capture.repository import CaptureRecord
from rightsizer.profiler.capture.settings import CaptureTimingSettings

_LEAST_POINTS: Final = 3
_OF_PROFILES: Final = "profile_"
"""Prefix of the names of rules over profiles."""
_PROFILED: Final = "a profile that still counts says where the time goes"


class WorkloadSample(Struct, frozen=True):
    """Observation of a workload."""

    time: Nanoseconds
    """On the steady clock."""
    state_seconds: Mapping[State, float]
    """Cumulative device seconds by state."""
    devices: int = 1
    pids: frozenset[int] | None = None
    """Its processes on its devices; `None` if their owners are unknown."""


class WorkloadCourse(Struct, frozen=True):
    """History of a workload from repeated observations."""

    first_seen: Mapping[int, Nanoseconds]
    """When each present process was first seen."""
    begun: Nanoseconds
    """When its oldest process was first seen, or the workload itself if processes are unknown."""
    begun_state_seconds: Mapping[State, float]
    points: tuple[WorkloadSample, ...] = ()
    """Recent observations, oldest first."""

    @property
    def age_seconds(self) -> float:
        """Time since it began."""
        return (self.points[-1].time - self.begun) / NANOSECONDS_PER_SECOND

    @property
    def active_seconds(self) -> float:
        """Active time since it began, as mean over its devices."""
        last = self.points[-1]
        grown = _grown(self.begun_state_seconds, last.state_seconds)
        return sum(grown[state] for state in ACTIVE_STATES) / max(1, last.devices)

    @property
    def covered_seconds(self) -> float:
        """Time between the first and the last stored observation."""
        return (self.points[-1].time - self.points[0].time) / NANOSECONDS_PER_SECOND

    @property
    def active_ratio(self) -> float:
        """Active share of the covered time, 0 to 1."""
        whole = _shares(self.points[0], self.points[-1])
        return sum(whole.get(state, 0.0) for state in ACTIVE_STATES)

    @property
    def unsteadiness_ratio(self) -> float | None:
        """Largest deviation of state shares between two observations from the overall shares.

        Total variation distance, 0 to 1: half the sum of the differences. `None` with fewer than
        three observations, since a single interval always equals itself.
        """
        if len(self.points) < _LEAST_POINTS:
            return None
        whole = _shares(self.points[0], self.points[-1])
        return max(
            sum(abs(shares.get(state, 0.0) - whole.get(state, 0.0)) for state in State) / 2
            for shares in (_shares(*pair) for pair in pairwise(self.points))
        )


def advanced(
    course: WorkloadCourse | None, seen: WorkloadSample, span_seconds: float
) -> WorkloadCourse:
    """Add an observation; restart the course if none of the earlier processes is left.

    Observations are kept for the span, plus one before it.
    """
    pids = seen.pids or frozenset()
    if course is None or (pids and course.first_seen and not pids & course.first_seen.keys()):
        first = dict.fromkeys(pids, seen.time)
        return WorkloadCourse(first, seen.time, seen.state_seconds, (seen,))
    first = {pid: course.first_seen.get(pid, seen.time) for pid in pids}
    points = course.points
    # Without accounted time since the last one, an observation is dropped.
    if seen.state_seconds != points[-1].state_seconds:
        points = (*points, seen)
        # Keep those within the span, and one before it to cover it.
        since = seen.time - round(span_seconds * NANOSECONDS_PER_SECOND)
        inside = sum(point.time > since for point in points)
        points = points[-max(inside + 1, _LEAST_POINTS) :]
    return replace(course, first_seen=first or course.first_seen, points=points)


def _grown(before: Mapping[State, float], after: Mapping[State, float]) -> dict[State, float]:
    return {state: after.get(state, 0.0) - before.get(state, 0.0) for state in State}


def _shares(before: WorkloadSample, after: WorkloadSample) -> Mapping[State, float]:
    grown = _grown(before.state_seconds, after.state_seconds)
    total = sum(grown.values())
    return {state: value / total for state, value in grown.items()} if total > 0 else {}


class CaptureCandidate(Struct, frozen=True):
    """A finding that a profile would settle."""

    finding: Finding
    why_not: str | None
    """Why no profile of it is captured now, or `None`."""


def capture_candidates(  # noqa: PLR0913 - all inputs of the decision.
    judgements: Sequence[Judgement],
    courses: Mapping[str, WorkloadCourse],
    taken: Sequence[tuple[CaptureRecord, float]],
    settings: CaptureTimingSettings,
    *,
    now: Nanoseconds,
    quiet: AbstractSet[str] = frozenset(),
) -> tuple[CaptureCandidate, ...]:
    """Return the findings that a profile would settle, most severe and most certain first.

    `courses` are by workload key; `taken` are captures with the seconds since their start, by a
    trusted clock; `quiet` are ids of dismissed or snoozed advice.
    """
    settled = {
        (judgement.key, reason)
        for judgement in judgements
        if judgement.finding.is_actionable and judgement.finding.rule.startswith(_OF_PROFILES)
        for reason in judgement.finding.reasons
    }
    return tuple(
        CaptureCandidate(
            judgement.finding,
            _of_the_finding(judgement, settings, quiet, now)
            or (
                _PROFILED
                if settled & {(judgement.key, why) for why in judgement.finding.reasons}
                else None
            )
            or _of_the_past(judgement.key, taken, settings)
            or _of_the_workload(courses.get(judgement.key), settings),
        )
        for judgement in sorted(judgements, key=_rank)
        if judgement.finding.is_actionable
        and not judgement.finding.rule.startswith(_OF_PROFILES)
        and any(reason in settings.reasons for reason in judgement.finding.reasons)
    )


def _rank(judgement: Judgement) -> tuple[int, float, str]:
    return -judgement.finding.severity.rank, -judgement.finding.confidence, judgement.finding.id


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
    if finding.confidence > (confidence_ratio := settings.maximum_confidence_ratio):
        return f"{confidence} above {confidence_ratio:.2f}: there is nothing left to settle"
    if not judgement.may_open:
        return "it is not true for as long as advice takes, or not of the last minutes"
    return None


def _of_the_past(
    key: str, taken: Sequence[tuple[CaptureRecord, float]], settings: CaptureTimingSettings
) -> str | None:
    for capture, ago_seconds in taken:
        has_profile = capture.outcome.has_profile
        rest = settings.cool_down_seconds if has_profile else settings.retry_after_seconds
        if capture.workload == key and ago_seconds < rest:
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
