"""The rule for GPUs with nearly full memory."""

import pytest

from cases import case, window
from readings import HOUR, workload
from rightsizer.advice.rules.near_out_of_memory import RULE
from rightsizer.model.finding import Action, FindingKind, Reason, Severity
from rightsizer.model.state import Condition, Resource, State
from rightsizer.model.window import Window
from rightsizer.model.workload import Allocator, Workload, WorkloadClass

JOB = workload()
UNSTATED = workload(allocator=Allocator.UNKNOWN)
CHANGING = {0.5: 8.0, 0.97: 2.0}


def full(hours: float, memory: dict[float, float] | None = None) -> Window:
    """Ten productive hours, part of them with full memory."""
    return window(
        {State.PRODUCTIVE: 10},
        {Resource.MEMORY: memory or CHANGING},
        conditions={Condition.NEAR_OUT_OF_MEMORY: round(hours * HOUR)},
    )


def test_full_memory_is_under_provisioned() -> None:
    """With the level, the duration and the possible consequence."""
    found = RULE.judge(case([full(2)], JOB))
    assert found.kind is FindingKind.UNDERPROVISIONED
    assert found.reasons == (Reason.GPU_MEMORY_UNDERPROVISIONED,)
    assert found.culprits == ("GPU-0",)
    assert found.summary == (
        "GPU 0 of llama: memory nearly full for 20% of the last 10 h; the next allocation may fail."
    )
    assert found.evidence["memory_peak_ratio"] == {"GPU-0": 0.97}
    assert found.severity is Severity.HIGH
    assert "expandable_segments" in found.instructions[0].text


@pytest.mark.parametrize(("hours", "is_actionable"), [(0.5, True), (0.49, False)])
def test_a_twentieth_of_the_time_makes_a_finding(
    hours: float,
    is_actionable: bool,  # noqa: FBT001 - a case.
) -> None:
    """Design 5.4: under-provisioned from 0.05 of the time on."""
    found = RULE.judge(case([full(hours)], JOB))
    assert found.is_actionable == is_actionable
    assert found.abstained is None


def test_culprits_are_the_devices_that_are_full() -> None:
    """One full GPU is enough, and is named alone."""
    found = RULE.judge(case([full(0), full(5), full(0)], JOB))
    assert found.culprits == ("GPU-1",)
    assert found.summary.startswith("GPU 1 of llama: ")


@pytest.mark.parametrize(
    ("holder", "memory"),
    [
        (workload(allocator=Allocator.PREALLOCATING), CHANGING),
        (UNSTATED, {0.97: 10.0}),
        (None, {0.97: 10.0}),
    ],
)
def test_preallocated_memory_is_no_verdict(
    holder: Workload | None, memory: dict[float, float]
) -> None:
    """Whether configured or detected; a policy can state otherwise."""
    found = RULE.judge(case([full(10, memory)], holder))
    assert found.abstained is not None
    assert "preallocat" in found.abstained
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_policy_that_states_a_growing_allocator_is_believed() -> None:
    """Then full memory is full, however steady."""
    assert RULE.judge(case([full(10, {0.97: 10.0})], JOB)).is_actionable


def test_memory_that_nobody_reads_is_no_verdict() -> None:
    """The same holds for the memory of a GPU without a holder."""
    found = RULE.judge(case([window({State.PRODUCTIVE: 10})], JOB))
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)
    assert RULE.judge(case([window({State.UNKNOWN: 10})], JOB)).reasons == (
        Reason.INSUFFICIENT_DATA,
    )


@pytest.mark.parametrize(
    ("holder", "action"),
    [
        (workload(workload_class=WorkloadClass.SERVING), Action.CHANGE_GPU_TYPE),
        (workload(workload_class=WorkloadClass.BATCH), Action.CHANGE_GPU_TYPE),
        (workload(workload_class=WorkloadClass.UNKNOWN), Action.NONE),
        (None, Action.NONE),
    ],
)
def test_unknown_class_gets_no_advice_on_the_type(holder: Workload | None, action: Action) -> None:
    """The trouble is still reported."""
    found = RULE.judge(case([full(5)], holder))
    assert found.action is action
    assert found.is_actionable
