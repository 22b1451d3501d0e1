"""When a profile is captured, and each reason for not capturing."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from capture_repositories import record
from cases import NOW, judgement
from rightsizer.advice.rules.rule import Exclusion, Judgement
from rightsizer.model.finding import FindingKind, Reason, Severity
from rightsizer.model.state import State
from rightsizer.model.units import nanoseconds
from rightsizer.profiler.capture.policy import (
    CaptureCandidate,
    WorkloadCourse,
    WorkloadSample,
    advanced,
    capture_candidates,
)
from rightsizer.profiler.capture.repository import CaptureOutcome, CaptureRecord
from rightsizer.profiler.capture.settings import CaptureTimingSettings

KEY: Final = "slurm/llama"
STARVED: Final[Mapping[State, float]] = {State.HOST_BOUND: 0.7, State.PRODUCTIVE: 0.3}
SAVING: Final[Mapping[State, float]] = {State.STORAGE_BOUND: 1.0}
RESTING: Final[Mapping[State, float]] = {State.IDLE_HELD: 1.0}


def host_bound(**facts: Any) -> Judgement:
    """A finding that a profile would settle."""
    usual: dict[str, Any] = {
        "rule": "host_bound",
        "kind": FindingKind.INEFFICIENT,
        "reasons": (Reason.HOST_BOUND,),
    }
    return judgement(**usual | facts)


def course(*minutes: Mapping[State, float], pids: Sequence[int] = (7,)) -> WorkloadCourse:
    """A workload's activity, minute by minute, from its first observation."""
    found = advanced(None, WorkloadSample(0, {}, 1, frozenset(pids)), 300.0)
    totals: dict[State, float] = {}
    for number, shares in enumerate(minutes, 1):
        for state, share in shares.items():
            totals[state] = totals.get(state, 0.0) + 60.0 * share
        seen = WorkloadSample(nanoseconds(60.0 * number), dict(totals), 1, frozenset(pids))
        found = advanced(found, seen, 300.0)
    return found


STEADY: Final = course(*[STARVED] * 20)


def candidates(
    judgements: Sequence[Judgement] = (host_bound(),),
    courses: Mapping[str, WorkloadCourse] | None = None,
    taken: Sequence[tuple[CaptureRecord, float]] = (),
    **more: Any,
) -> tuple[CaptureCandidate, ...]:
    """The candidates for a capture."""
    settings = more.pop("settings", CaptureTimingSettings())
    known = {KEY: STEADY} if courses is None else courses
    return capture_candidates(judgements, known, taken, settings, now=NOW, **more)


def why_not(*arguments: Any, **more: Any) -> str | None:
    """The reason why the only finding is not captured."""
    (found,) = candidates(*arguments, **more)
    return found.why_not


def test_a_finding_on_a_workload_in_its_stride_is_profiled() -> None:
    """The finding and its workload are named."""
    (found,) = candidates()
    assert (found.finding.key, found.finding.reasons, found.why_not) == (
        KEY,
        (Reason.HOST_BOUND,),
        None,
    )


def test_findings_that_no_profile_settles_are_passed_over() -> None:
    """An idle GPU has nothing to profile, and a profile's own finding needs no second one."""
    profiled = host_bound(rule="profile_host_bound")
    satisfied = host_bound(kind=FindingKind.OPTIMIZED)
    assert candidates([judgement(), profiled, satisfied]) == ()


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"confidence": 0.4}, "its confidence of 0.40 is below 0.50"),
        ({"confidence": 0.97}, "its confidence of 0.97 is above 0.95: there is nothing left to"),
        ({"may_open": False}, "it is not true for as long as advice takes, or not of the last"),
    ],
)
def test_a_finding_must_be_worth_it(facts: Mapping[str, Any], why: str) -> None:
    """It must be sure enough, below an optional upper confidence, and still true."""
    settings = CaptureTimingSettings(maximum_confidence_ratio=0.95)
    reason = why_not([host_bound(**facts)], settings=settings)
    assert reason is not None
    assert reason.startswith(why)


def test_nobody_is_disturbed_against_somebodys_word() -> None:
    """Dismissed advice, excluded workloads and contradicted findings get no capture."""
    finding = host_bound()
    ignored = finding.with_exclusions((Exclusion((Reason.HOST_BOUND,), why="known"),), NOW)
    other = finding.with_exclusions((Exclusion((Reason.IDLE_HELD,), why="known"),), NOW)
    assert why_not(quiet={finding.finding.id}) == "its advice was dismissed or snoozed"
    assert why_not([ignored]) == "a policy leaves the workload out"
    assert why_not([other]) is None
    assert why_not([finding.suppressed_by_conflict("so")]) == "another finding contradicts it"


def test_a_profile_that_still_counts_is_enough() -> None:
    """Of the same workload and the same reason; one of another workload does not count."""
    of_profile = host_bound(rule="profile_host_bound", id="b")
    others = [
        host_bound(rule="profile_launch_bound", id="c", reasons=(Reason.LAUNCH_BOUND,)),
        replace(of_profile, finding=replace(of_profile.finding, key="slurm/other")),
    ]
    assert why_not([host_bound(), *others]) is None
    reason = why_not([host_bound(), of_profile])
    assert reason == "a profile that still counts says where the time goes"


@pytest.mark.parametrize(
    ("minutes", "why"),
    [
        ([STARVED] * 5, "it was seen at work for 5 min, and is past its start after 10 min"),
        ([RESTING] * 30 + [STARVED] * 5, "it was seen at work for 5 min, and is past its start"),
        ([STARVED] * 20 + [RESTING] * 6, "it is at work for 0% of the time"),
        ([STARVED] * 20 + [SAVING], "it is not steady: the shares of its states changed by 80%"),
        ([SAVING] * 20 + [STARVED], "it is not steady: the shares of its states changed by 80%"),
    ],
)
def test_a_workload_must_be_in_its_stride(minutes: Any, why: str) -> None:
    """Past its start-up, active, and in no checkpoint."""
    reason = why_not(courses={KEY: course(*minutes)})
    assert reason is not None
    assert reason.startswith(why)


def test_a_workload_that_is_not_there_is_not_profiled() -> None:
    """It ended, or was never seen."""
    assert why_not(courses={}) == "no process is known to be at work on its GPUs"


def test_a_workload_that_was_not_watched_for_long_is_not_profiled_yet() -> None:
    """Age alone does not prove steady operation."""
    first = WorkloadSample(0, {}, 1, frozenset({7}))
    later = WorkloadSample(nanoseconds(3600.0), {State.HOST_BOUND: 3600.0}, 1, frozenset({7}))
    known = advanced(advanced(None, first, 300.0), later, 300.0)
    assert why_not(courses={KEY: known}) == "it was not watched for 5 min yet"


def test_programs_that_start_again_begin_again() -> None:
    """A workload's name outlives its pods; a process that stays keeps its age."""
    totals = {State.HOST_BOUND: 1300.0}
    restarted = advanced(
        STEADY, WorkloadSample(nanoseconds(1260.0), totals, 1, frozenset({8})), 300.0
    )
    joined = advanced(
        STEADY, WorkloadSample(nanoseconds(1260.0), totals, 1, frozenset({7, 8})), 300.0
    )
    assert (restarted.age_seconds, restarted.active_seconds) == (0.0, 0.0)
    assert joined.age_seconds == 1260.0
    assert why_not(courses={KEY: restarted}) is not None


def test_a_workload_of_several_gpus_is_as_old_as_its_mean_gpu() -> None:
    """Its totals are sums over its devices."""
    first = WorkloadSample(0, {}, 4)
    later = WorkloadSample(nanoseconds(600.0), {State.HOST_BOUND: 2400.0}, 4)
    assert advanced(advanced(None, first, 300.0), later, 300.0).active_seconds == 600.0


def past_capture(
    workload: str, ago_seconds: float, *, has_profile: bool
) -> tuple[CaptureRecord, float]:
    """A capture, and the seconds since it began."""
    outcome = CaptureOutcome.LANDED if has_profile else CaptureOutcome.EMPTY
    return record(workload=workload, outcome=outcome), ago_seconds


@pytest.mark.parametrize(
    ("taken", "why"),
    [
        (past_capture(KEY, 3600.0, has_profile=True), "it was profiled 1 h ago, and rests for 1 d"),
        (
            past_capture(KEY, 60.0, has_profile=False),
            "it was profiled 1 min ago, and rests for 1 h",
        ),
        (past_capture(KEY, 3600.0, has_profile=False), None),
        (past_capture(KEY, 86400.0, has_profile=True), None),
        (past_capture("slurm/other", 60.0, has_profile=True), None),
    ],
)
def test_a_workload_rests_after_a_capture(
    taken: tuple[CaptureRecord, float], why: str | None
) -> None:
    """For a day after a profile, for an hour after a failure."""
    assert why_not(taken=[taken]) == why


def test_a_node_has_so_many_captures_a_day() -> None:
    """Whatever the workloads."""
    taken = [past_capture(f"slurm/{n}", 3600.0 * n, has_profile=True) for n in range(24)]
    assert why_not(taken=taken) == "24 captures were made on this node within 24 hours"
    assert why_not(taken=taken[:3]) is None


def test_the_most_severe_comes_first() -> None:
    """Among equals, the most confident one."""
    low = host_bound(id="low", confidence=0.99)
    sure = host_bound(id="sure", severity=Severity.HIGH, confidence=0.9)
    unsure = host_bound(id="unsure", severity=Severity.HIGH, confidence=0.6)
    assert [candidate.finding.id for candidate in candidates([low, unsure, sure])] == [
        "sure",
        "unsure",
        "low",
    ]


def test_bounds_that_leave_no_room_are_refused() -> None:
    """Nothing would ever be captured."""
    with pytest.raises(ValueError, match="minimum_confidence_ratio is above"):
        CaptureTimingSettings(minimum_confidence_ratio=0.9, maximum_confidence_ratio=0.8)


SHARES: Final = st.sampled_from([STARVED, SAVING, RESTING, {State.PRODUCTIVE: 1.0}])


@given(st.lists(SHARES, min_size=1, max_size=40))
def test_only_recent_looks_are_kept_and_their_figures_are_ratios(
    minutes: list[Mapping[State, float]],
) -> None:
    """For any lifetime and activity of a workload."""
    found = course(*minutes)
    assert len(found.points) <= 7
    assert 0.0 <= found.active_ratio <= 1.0
    unsteadiness = found.unsteadiness_ratio
    assert unsteadiness is None or 0.0 <= unsteadiness <= 1.0
    assert found.active_seconds <= found.age_seconds + 1e-6


@given(st.lists(SHARES, min_size=20, max_size=20), st.floats(0.0, 1e6))
def test_workload_just_profiled_is_not_profiled_again(
    minutes: list[Mapping[State, float]], ago: float
) -> None:
    """For any activity of the workload meanwhile."""
    reason = why_not(
        courses={KEY: course(*minutes)}, taken=[past_capture(KEY, ago, has_profile=True)]
    )
    assert (reason is not None) or ago >= 86400.0
