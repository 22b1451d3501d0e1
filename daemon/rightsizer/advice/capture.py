"""When to have a profile taken: a finding that one would settle, of a workload in its stride."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.capture_timing import CaptureTiming
from rightsizer.advice.judgement import Judgement
from rightsizer.advice.workload_course import Course
from rightsizer.domain.finding import Finding, Reason, Severity
from rightsizer.domain.units import Nanoseconds, format_duration

__all__ = ["Candidate", "Taken", "candidates"]

_DAY_SECONDS: Final = 86400.0
_OF_PROFILES: Final = "profile_"
"""How the names of rules over profiles begin."""
_RANKS: Final = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Taken:
    """A capture of the past, or one that is under way."""

    workload: str
    """Its key."""
    ago_seconds: float
    """Since it began; by whichever clock can be trusted."""
    is_fruitful: bool
    """Whether a profile came of it, or still may."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A finding that a profile would settle."""

    finding: Finding
    key: str
    """The workload's."""
    why_not: str | None
    """Why no profile of it is taken now, `None` where one may be."""


def candidates(  # noqa: PLR0913 - all that speaks for it or against it.
    judgements: Sequence[Judgement],
    courses: Mapping[str, Course],
    taken: Sequence[Taken],
    settings: CaptureTiming,
    *,
    now: Nanoseconds,
    quiet: AbstractSet[str] = frozenset(),
) -> tuple[Candidate, ...]:
    """The findings that a profile would settle, most severe and most certain first.

    Args:
        judgements: What the rules said last.
        courses: What the workloads that are there have done of late, by key.
        taken: The captures of the past.
        settings: Thresholds.
        now: Wall time, by which policies are in force.
        quiet: Ids of advice that somebody dismissed or snoozed.
    """
    settled = {
        (each.key, reason)
        for each in judgements
        if each.finding.is_complaint and each.finding.rule.startswith(_OF_PROFILES)
        for reason in each.finding.reasons
    }
    found = [
        Candidate(
            each.finding,
            each.key,
            _of_the_finding(each, settings, quiet, now)
            or _of_profiles(each, settled)
            or _of_the_past(each.key, taken, settings)
            or _of_the_workload(courses.get(each.key), settings),
        )
        for each in judgements
        if each.finding.is_complaint
        and not each.finding.rule.startswith(_OF_PROFILES)
        and any(reason in settings.reasons for reason in each.finding.reasons)
    ]
    return tuple(sorted(found, key=lambda each: _rank(each.finding)))


def _rank(finding: Finding) -> tuple[int, float, str]:
    return -_RANKS[finding.severity], -finding.confidence, finding.id


def _of_the_finding(
    judgement: Judgement, settings: CaptureTiming, quiet: AbstractSet[str], now: Nanoseconds
) -> str | None:
    finding = judgement.finding
    if finding.id in quiet:
        return "its advice was dismissed or snoozed"
    if judgement.is_held_back:
        return "another finding contradicts it"
    if judgement.exclusion_of(finding, now) is not None:
        return "a policy leaves the workload out"
    if finding.confidence < settings.minimum_confidence_ratio:
        return (
            f"its confidence of {finding.confidence:.2f} is below "
            f"{settings.minimum_confidence_ratio:.2f}"
        )
    if finding.confidence > settings.maximum_confidence_ratio:
        return (
            f"its confidence of {finding.confidence:.2f} is above "
            f"{settings.maximum_confidence_ratio:.2f}: there is nothing left to settle"
        )
    if not judgement.may_open:
        return "it is not true for as long as advice takes, or not of the last minutes"
    return None


def _of_profiles(judgement: Judgement, settled: AbstractSet[tuple[str, Reason]]) -> str | None:
    if any((judgement.key, reason) in settled for reason in judgement.finding.reasons):
        return "a profile that still counts says where the time goes"
    return None


def _of_the_past(key: str, taken: Sequence[Taken], settings: CaptureTiming) -> str | None:
    for each in taken:
        rest = settings.cool_down_seconds if each.is_fruitful else settings.retry_after_seconds
        if each.workload == key and each.ago_seconds < rest:
            return f"it was profiled {_told(each.ago_seconds)} ago, and rests for {_told(rest)}"
    today = sum(each.ago_seconds < _DAY_SECONDS for each in taken)
    if today >= settings.maximum_a_day:
        return f"{today} captures were made on this node within 24 hours"
    return None


def _of_the_workload(course: Course | None, settings: CaptureTiming) -> str | None:
    if course is None:
        return "nobody is known to be at work on its GPUs"
    worked_seconds = min(course.age_seconds, course.active_seconds)
    if worked_seconds < settings.minimum_age_seconds:
        return (
            f"it was seen at work for {_told(worked_seconds)}, and is past its start after "
            f"{_told(settings.minimum_age_seconds)}"
        )
    unsteadiness = course.unsteadiness_ratio
    if unsteadiness is None or course.covered_seconds < settings.steady_seconds:
        return f"it was not watched for {_told(settings.steady_seconds)} yet"
    if course.active_ratio < settings.minimum_active_ratio:
        return f"it is at work for {course.active_ratio:.0%} of the time"
    if unsteadiness > settings.unsteadiness_maximum_ratio:
        return (
            f"it is not steady: the shares of its states changed by {unsteadiness:.0%} within "
            f"{_told(course.covered_seconds)}"
        )
    return None


def _told(duration_seconds: float) -> str:
    return format_duration(max(0.0, duration_seconds))
