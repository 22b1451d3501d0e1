"""The rule for memory and load that grow to their limit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from block_cases import BLOCKS_A_DAY, Course, busy, case_of, steady
from readings import DAY, GIBIBYTE, workload
from rightsizer.advice.rules.exhaustion_forecast import RULE
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.model.workload import Allocator, WorkloadClass

JOB = workload()
SERVICE = workload("chat", WorkloadClass.SERVING)
DAYS = 10


def growing(gib_a_day: float, first_gib: float = 40.0) -> Course:
    """Memory grows every day, and is in use for an hour or two of it."""

    def course(number: int) -> dict[object, float]:
        days = number / BLOCKS_A_DAY
        return busy(0.5, memory_bytes=(first_gib + gib_a_day * days) * GIBIBYTE)

    return course


def test_memory_that_grows_is_reported_before_it_is_full() -> None:
    """With the earliest and latest number of days, and what to check."""
    found = RULE.judge(case_of([growing(2.0)], DAYS, JOB))
    assert found.kind is FindingKind.UNDERPROVISIONED
    assert found.reasons == (Reason.EXHAUSTION_FORECAST,)
    assert found.summary == (
        "GPU 0 of llama: the memory grows by 2.00 GiB a day and reaches its end in 10 to 10 days "
        "(90% of such forecasts hold)."
    )
    assert found.evidence["days_low"] == pytest.approx(10.0, abs=0.3)
    assert "allocated_bytes" in found.instructions[0].text
    assert found.action is Action.NONE


@pytest.mark.parametrize("gib_a_day", [0.0, 0.5, -2.0])
def test_memory_not_growing_to_its_end_is_no_finding(gib_a_day: float) -> None:
    """The same holds for growth beyond the horizon."""
    found = RULE.judge(case_of([growing(gib_a_day)], DAYS, JOB))
    assert found.kind is FindingKind.OPTIMIZED


def test_fullest_gpu_ends_it() -> None:
    """However much room the others have left."""
    alone = RULE.judge(case_of([growing(1.0, 50.0)], DAYS, JOB))
    both = RULE.judge(case_of([growing(1.0, 50.0), steady(0.5, memory_bytes=1e9)], DAYS, JOB))
    assert both.evidence["days_low"] == pytest.approx(alone.evidence["days_low"], rel=0.1)


def test_a_job_that_is_given_more_gpus_does_not_fill_those_it_has() -> None:
    """Its memory grew with them."""
    both = case_of([growing(1.0, 50.0), growing(1.0, 50.0)], DAYS, JOB)
    assert RULE.judge(both).is_actionable
    early, late = both.windows
    joined = replace(late, start=late.start + 3 * DAY)
    assert not RULE.judge(replace(both, windows=(early, joined))).is_actionable


def test_days_that_differ_by_chance_are_no_trend() -> None:
    """A line through noise may also fall."""

    def noisy(number: int) -> dict[object, float]:
        day = number // BLOCKS_A_DAY
        return busy(0.5, memory_bytes=(50 + 10 * (day * 7 % 5)) * GIBIBYTE)

    assert not RULE.judge(case_of([noisy], DAYS, JOB)).is_actionable


def test_preallocated_memory_does_not_grow() -> None:
    """Its real need is unknown."""
    holder = replace(JOB, allocator=Allocator.PREALLOCATING)
    found = RULE.judge(case_of([growing(2.0)], DAYS, holder))
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_few_days_are_no_verdict() -> None:
    """A week is required."""
    found = RULE.judge(case_of([growing(2.0)], 5, JOB))
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)
    assert RULE.judge(case_of([growing(2.0)], DAYS)).kind is FindingKind.OPTIMIZED


def test_load_of_a_service_is_forecast_too() -> None:
    """By its busiest hour; a job that does more work every day only ends sooner."""

    def more(number: int) -> dict[object, float]:
        return busy(0.2 + 0.02 * number / BLOCKS_A_DAY, memory_bytes=8 * GIBIBYTE)

    found = RULE.judge(case_of([more], DAYS, SERVICE))
    assert found.evidence["what"] == "load"
    assert found.evidence["days_low"] == pytest.approx(15.5, abs=1.5)
    assert not RULE.judge(case_of([more], DAYS, JOB)).is_actionable


@pytest.mark.parametrize(("a_day", "is_actionable"), [(0.001, False), (0.006, True)])
def test_load_at_its_limit_that_hardly_grows_is_no_finding(
    a_day: float,
    is_actionable: bool,  # noqa: FBT001 - a case.
) -> None:
    """A certain trend of a thousandth a day ends nothing, however near the limit."""

    def course(number: int) -> dict[object, float]:
        return busy(0.65 + a_day * number / BLOCKS_A_DAY, memory_bytes=8 * GIBIBYTE)

    assert RULE.judge(case_of([course], DAYS, SERVICE)).is_actionable == is_actionable


@given(st.floats(1.2, 3.0), st.floats(1.0, 2.0))
@settings(max_examples=6)
def test_faster_growth_never_ends_later(gib_a_day: float, times: float) -> None:
    """From the same start."""

    def days(growth: float) -> float:
        value = RULE.judge(case_of([growing(growth, 30.0)], 8, JOB)).evidence.get("days_high", 99.0)
        assert isinstance(value, float)
        return value

    assert days(gib_a_day * times) <= days(gib_a_day)
