"""The rule for idle GPUs."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from block_cases import Course, at_hours, busy, case_of
from cases import case, histogram, window
from readings import workload
from rightsizer.advice.rules import idle
from rightsizer.advice.rules.idle import RULE, IdleSettings
from rightsizer.model.block import Measure
from rightsizer.model.finding import Action, Case, FindingKind, Node, Reason, Risk, Severity
from rightsizer.model.state import Resource, State
from rightsizer.model.workload import Holding, WorkloadClass

JOB = workload()
EMPTY = State.IDLE_EMPTY
HELD = State.IDLE_HELD
BUSY = State.PRODUCTIVE


def test_held_and_idle_is_a_complaint() -> None:
    """The finding names the holder, the share, the time and the action."""
    found = RULE.judge(case([window({HELD: 2})], JOB))
    assert found.kind is FindingKind.IDLE
    assert found.reasons == (Reason.IDLE_HELD,)
    assert found.action is Action.RELEASE
    assert found.summary == "GPU 0: held by llama but idle 100% of the last 2 h."
    assert found.is_actionable
    assert found.confidence > 0.9
    assert found.risk is Risk.HIGH, "without a past it is that of others: a quarter"
    assert found.evidence["resume_ratio"] == pytest.approx(0.23, abs=0.01)
    assert found.evidence["idle_ratio"] == {"GPU-0": 1.0}


def test_nearly_always_idle_is_not_told_as_always() -> None:
    """A minute of work in ten hours is mentioned."""
    found = RULE.judge(case([window({HELD: 9.98, BUSY: 0.02})], JOB))
    assert found.summary == "GPU 0: held by llama but idle >99% of the last 10 h."


def test_empty_and_idle_is_its_own_reason() -> None:
    """No one holds the GPU, so no one needs to be asked."""
    found = RULE.judge(case([window({EMPTY: 2, HELD: 0.5})]))
    assert found.reasons == (Reason.IDLE_EMPTY,)
    assert found.summary == "GPU 0: empty and idle 100% of the last 2 h 30 min."
    assert found.workload is None


def test_serving_is_scaled_rather_than_released() -> None:
    """Requests will come again."""
    serving = workload(workload_class=WorkloadClass.SERVING)
    assert RULE.judge(case([window({HELD: 3})], serving)).action is Action.SCALE_TO_ZERO


@pytest.mark.parametrize(("idle_hours", "kind"), [(9.9, FindingKind.IDLE), (9.89, "optimized")])
def test_nearly_all_of_the_time_must_be_idle(idle_hours: float, kind: str) -> None:
    """A few active seconds an hour still count as idle; more do not."""
    found = RULE.judge(case([window({HELD: idle_hours, BUSY: 10 - idle_hours})], JOB))
    assert found.kind == kind
    assert found.is_actionable == (kind == "idle")


def test_all_devices_must_be_idle() -> None:
    """One idle GPU among eight indicates a straggler, not a GPU to reclaim."""
    windows = [window({HELD: 5})] * 7
    found = RULE.judge(case([*windows, window({BUSY: 5})], JOB))
    assert found.kind is FindingKind.OPTIMIZED
    assert found.summary == "GPUs 0, 1, 2, 3, 4, 5, 6 and 7: active 100% of the time."
    assert RULE.judge(case([*windows, window({HELD: 5})], JOB)).is_actionable


def test_standby_is_meant_to_be_idle() -> None:
    """A standby is not judged, and its open advice closes."""
    standby = workload(workload_class=WorkloadClass.STANDBY)
    assert RULE.judge(case([window({HELD: 50})], standby)).kind is FindingKind.OPTIMIZED


@pytest.mark.parametrize("known_seconds", [0, 59])
def test_too_little_telemetry_is_no_verdict(known_seconds: float) -> None:
    """At least a minute of telemetry is required, and unknown time is not idle time."""
    hours = known_seconds / 3600
    found = RULE.judge(case([window({HELD: 5}), window({HELD: hours, State.UNKNOWN: 5})], JOB))
    assert found.kind is FindingKind.UNKNOWN
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)
    assert found.abstained == f"only {known_seconds} s of telemetry"


@given(
    st.dictionaries(st.sampled_from(State), st.floats(0.01, 100.0), min_size=1),
    st.floats(0.1, 1000.0),
)
def test_adding_unknown_time_never_creates_advice(
    hours: dict[State, float], unknown: float
) -> None:
    """Unknown time neither creates a finding nor raises its confidence."""
    before = RULE.judge(case([window(hours)], JOB))
    more = hours | {State.UNKNOWN: hours.get(State.UNKNOWN, 0.0) + unknown}
    after = RULE.judge(case([window(more)], JOB))
    assert after.is_actionable <= before.is_actionable
    if after.is_actionable:
        assert after.confidence <= before.confidence


@pytest.mark.parametrize(
    ("workload_class", "minutes"),
    [
        (WorkloadClass.NOTEBOOK, 60),
        (WorkloadClass.BATCH, 30),
        (WorkloadClass.SERVING, 120),
        (WorkloadClass.UNKNOWN, 120),
    ],
)
def test_class_decides_on_the_patience(workload_class: WorkloadClass, minutes: int) -> None:
    """A batch job is reported after half an hour, a service after two."""
    conduct = idle.conduct(workload(workload_class=workload_class), IdleSettings())
    assert conduct.long_seconds == minutes * 60
    assert conduct.minimum_known_seconds == pytest.approx(minutes * 54)
    assert conduct.short_seconds == 1800


def test_device_that_nobody_holds_has_the_patience_of_the_unknown() -> None:
    """Its class is unknown."""
    assert idle.conduct(None, IdleSettings()).long_seconds == 7200


def test_end_of_a_finding_keeps_its_id() -> None:
    """It depends on neither duration nor devices."""
    short, long = (RULE.judge(case([window({HELD: hours})], JOB)) for hours in (1, 100))
    assert short.id == long.id
    other = RULE.judge(case([window({HELD: 1})], workload("other")))
    assert other.id != short.id
    assert short.evidence["known_seconds"] == 3600


def test_gpu_that_was_given_away_and_has_no_process() -> None:
    """The scheduler reports it as allocated, but no process ever started."""
    holdings = {"GPU-0": (Holding(JOB, 1.0, has_process=False),)}
    found = RULE.judge(replace(case([window({EMPTY: 2})], JOB), node=Node(holdings=holdings)))
    assert found.reasons == (Reason.ALLOCATED_WITHOUT_PROCESS,)
    assert found.summary == (
        "GPU 0: allocated to llama, without a process on it, and idle 100% of the last 2 h."
    )
    there = {"GPU-0": (Holding(JOB, 1.0),)}
    found = RULE.judge(replace(case([window({EMPTY: 2})], JOB), node=Node(holdings=there)))
    assert found.reasons == (Reason.IDLE_EMPTY,)


def test_owner_is_told_what_to_type() -> None:
    """With the severity of a whole GPU."""
    found = RULE.judge(case([window({HELD: 2})], JOB))
    assert found.instructions[0].text == "scancel --name=llama"
    assert found.severity is Severity.HIGH


def asleep(course: Course, days: float, hours: float = 2.0) -> Case:
    """A service that was idle for the last hours before midnight."""
    serving = workload(workload_class=WorkloadClass.SERVING)
    return case_of([course], days, serving, windows=[window({HELD: hours})])


def test_service_that_always_sleeps_at_these_hours_is_no_news() -> None:
    """Its hours belong to the rule `diurnal_autoscale`; idle time by day is still reported."""
    found = RULE.judge(asleep(at_hours(8, 20, 0.4), 4))
    assert found.kind is FindingKind.OPTIMIZED
    assert found.summary == "GPU 0: idle, as at these hours of every day."
    assert RULE.judge(asleep(at_hours(8, 20, 0.4), 4, hours=6.0)).is_actionable
    assert RULE.judge(asleep(at_hours(8, 20, 0.4), 1)).is_actionable


def test_jobs_have_no_usual_hours() -> None:
    """A job that is idle at night is left running by mistake every night."""
    night = case_of([at_hours(8, 20, 0.4)], 4, JOB, windows=[window({HELD: 2.0})])
    assert RULE.judge(night).is_actionable


def restless(number: int) -> dict[Measure, float]:
    """A past of pauses that always ended within the hour."""
    return busy(0.0 if (number + 6) % 12 < 9 else 0.5)


def test_device_likely_to_work_again_is_not_advised() -> None:
    """By its own past, releasing it would cost more than it saves."""
    found = RULE.judge(case_of([restless], 4, JOB, windows=[window({HELD: 2.0})]))
    assert not found.is_actionable
    assert found.evidence["resume_ratio"] > 0.7
    assert found.evidence["resume_gaps"] == 96
    assert "likely to work again within 30 min" in found.summary


def test_cost_of_being_wrong_decides() -> None:
    """Where being wrong costs nothing, all idle time is reported."""
    free = RULE.with_settings(replace(RULE.settings, mistake_seconds=0.0))
    assert free.judge(case_of([restless], 4, JOB, windows=[window({HELD: 2.0})])).is_actionable


def test_past_of_others_counts_where_there_is_none_of_its_own() -> None:
    """The past of its class and neighbors; its own current idle time is biased evidence."""
    peers = tuple(
        replace(case_of([restless], 4, workload(f"job-{at}")), key=f"job-{at}") for at in range(3)
    )
    alone = case([window({HELD: 2})], JOB)
    beside = replace(alone, node=Node(cases=(alone, *peers)))
    said = [RULE.judge(each).evidence["resume_ratio"] for each in (alone, beside)]
    assert said[1] > 1.3 * said[0]


def test_idle_since_is_reported_however_long_the_window() -> None:
    """Two days of idleness are reported, although the window shows only two hours."""

    def gone(number: int) -> dict[Measure, float]:
        return busy(0.5 if number < 288 else 0.0)

    found = RULE.judge(case_of([gone], 3, JOB, windows=[window({HELD: 2.0})]))
    assert found.evidence["idle_since"].endswith("T00:00:00Z")
    assert re.fullmatch(r"GPU 0: held by .* but idle since .* 00:00 UTC\.", found.summary)
    assert found.evidence["resume_ratio"] < 0.02


def test_savings_are_what_its_own_history_was_idle() -> None:
    """A job that is active half of every day saves half of the month, not all of it."""
    found = RULE.judge(case_of([at_hours(0, 12, 0.4)], 20, JOB, windows=[window({HELD: 2.0})]))
    low = found.savings.gpu_hours_per_month_low
    high = found.savings.gpu_hours_per_month_high
    assert low is not None
    assert high is not None
    assert 0.3 * 730 < low < 0.5 * 730 < high < 0.7 * 730


def test_what_is_idle_for_good_is_worth_all_that_it_costs() -> None:
    """Days of work before do not make an idle GPU cheaper."""

    def gone(number: int) -> dict[Measure, float]:
        return busy(0.5 if number < 10 * 288 else 0.0)

    found = RULE.judge(case_of([gone], 14, JOB, windows=[window({HELD: 2.0})]))
    assert found.savings.gpus_low == found.savings.gpus_high == 1.0
    assert "usual_hour" not in found.evidence


@pytest.mark.parametrize(
    ("course", "ending"),
    [
        (at_hours(9, 18, 0.4), "18:00 UTC; usually resumes at 09:00 UTC."),
        (lambda number: busy(0.5 if number % 72 < 36 else 0.0), "usually resumes at 00:00 UTC."),
    ],
    ids=["by day", "every six hours"],
)
def test_habits_are_told(course: Course, ending: str) -> None:
    """A notebook of every day, and a job every six hours; the savings are of its idle hours."""
    found = RULE.judge(case_of([course], 6, JOB, windows=[window({HELD: 2.0})]))
    assert found.summary.endswith(ending)
    assert found.savings.gpus_low is not None
    assert found.savings.gpus_low < 1.0


def test_a_hole_of_the_telemetry_does_not_make_idleness_young() -> None:
    """Five minutes without scrapes, in six idle days."""

    def holed(number: int) -> dict[Measure, float] | None:
        return None if number == 5 * 288 else busy(0.5 if number < 288 else 0.0)

    found = RULE.judge(case_of([holed], 7, JOB, windows=[window({HELD: 2.0})]))
    assert found.evidence["idle_since"] == "2026-01-25T00:00:00Z"


def test_device_without_memory_reading_is_not_called_held() -> None:
    """A log without memory and processes cannot tell; with memory it can."""
    unread = window({HELD: 2})
    assert "whether anything holds it is not known" in RULE.judge(case([unread])).summary
    read = replace(unread, demands={Resource.MEMORY: histogram({0.5: 2})})
    assert RULE.judge(case([read])).summary.startswith("GPU 0: held but idle")


@pytest.mark.parametrize(("idle_hours", "is_idle"), [(0.41, True), (0.39, False)])
def test_workload_active_a_fifth_of_half_an_hour_closes_the_advice(
    idle_hours: float,
    is_idle: bool,  # noqa: FBT001 - a case.
) -> None:
    """A few active minutes close nothing; real use does."""
    owner = workload("notebook", WorkloadClass.NOTEBOOK)
    recent = window({State.IDLE_HELD: idle_hours, State.PRODUCTIVE: 0.5 - idle_hours})
    kept = RULE.relaxed(RULE.conduct(owner).close_ratio)
    assert kept.judge(case([recent], owner)).is_actionable == is_idle
