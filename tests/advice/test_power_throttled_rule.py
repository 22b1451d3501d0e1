"""The rule for power limits below the default."""

import pytest
from msgspec.structs import replace

from cases import case, window
from readings import HOUR, gpu, workload
from rightsizer.advice.rules.power_throttled import RULE
from rightsizer.model.finding import Action, Case, FindingKind, Reason
from rightsizer.model.signal import Signal
from rightsizer.model.state import Cause, Condition, State
from standing_cases import around, instance

JOB = workload()


def throttled(hours: float, state: State = State.COMPUTE_BOUND) -> Case:
    """Ten hours, some of them throttled at seven tenths of the clock."""
    return case(
        [
            window(
                {state: 10},
                conditions={Condition.POWER_THROTTLED: round(hours * HOUR)},
                waste_seconds={Cause.THROTTLED: 0.3 * hours * 3600},
            )
        ],
        JOB,
    )


CAPPED = {"GPU-0": {Signal.POWER_LIMIT_WATTS: 500.0, Signal.SM_CLOCK_HERTZ: 1.386e9}}


def test_a_lowered_limit_is_restored_to_the_default() -> None:
    """With the difference, the cost and the command."""
    found = RULE.judge(around(throttled(5), CAPPED))
    assert found.kind is FindingKind.DEGRADED
    assert found.reasons == (Reason.POWER_THROTTLED,)
    assert found.action is Action.SET_POWER_LIMIT
    assert found.summary == (
        "GPU 0 of llama: held down by the power limit for 50% of the last 10 h. The limit of GPU 0 "
        "is 500 W, 200 W below the board's default of 700 W; its clock is at 70% of its "
        "maximum."
    )
    assert found.instructions[0].text == "nvidia-smi -i GPU-0 -pl 700"
    assert found.evidence["lost_to_throttling_ratio"] == {"GPU-0": 0.15}


def test_work_at_the_default_limit_is_no_complaint() -> None:
    """Dense matrix products take an H100 to it by themselves."""
    found = RULE.judge(around(throttled(10)))
    assert not found.is_actionable
    assert found.abstained is None
    assert "dense compute gets there by itself" in found.summary


def test_a_limit_that_costs_no_time_is_left_alone() -> None:
    """A limit lowered for a memory-bound load is not to be raised again."""
    found = RULE.judge(around(throttled(5, State.MEMORY_BANDWIDTH_BOUND), CAPPED))
    assert not found.is_actionable
    assert found.abstained is None


@pytest.mark.parametrize(("hours", "is_actionable"), [(1.0, True), (0.99, False)])
def test_a_tenth_of_the_time_makes_a_finding(
    hours: float,
    is_actionable: bool,  # noqa: FBT001 - a case.
) -> None:
    """Peaks touch the limit now and then."""
    assert RULE.judge(around(throttled(hours), CAPPED)).is_actionable == is_actionable


def test_without_the_limits_nobody_can_tell() -> None:
    """A history has none."""
    found = RULE.judge(throttled(5))
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)
    assert "rightsizer_power_limit_watts" in str(found.abstained)


@pytest.mark.parametrize(("watts", "is_actionable"), [(620.0, True), (640.0, False)])
def test_a_default_of_the_catalogue_needs_a_clear_difference(
    watts: float,
    is_actionable: bool,  # noqa: FBT001 - a case.
) -> None:
    """Vendors set boards of one name up to a tenth apart."""
    assumed = replace(throttled(5), devices=(gpu(0, assumed=("power_limit_watts",)),))
    limit = {"GPU-0": {**CAPPED["GPU-0"], Signal.POWER_LIMIT_WATTS: watts}}
    assert RULE.judge(around(assumed, limit)).is_actionable == is_actionable


def test_an_instance_is_held_down_by_its_parents_limit() -> None:
    """The command names the GPU, since an instance has no limit."""
    judged = replace(throttled(5), devices=(instance(),))
    judged = replace(judged, windows=(replace(judged.windows[0], uuid="MIG-0"),))
    found = RULE.judge(around(judged, others=(gpu(0),), values=CAPPED))
    assert found.is_actionable
    assert found.culprits == ("MIG-0",)
    assert found.instructions[0].text == "nvidia-smi -i GPU-0 -pl 700"


def test_a_pause_in_the_work_closes_no_advice() -> None:
    """At rest the limit's cost is unknown; once the limit is restored, it costs nothing."""
    resting = case([window({State.COMPUTE_BOUND: 0.05, State.IDLE_HELD: 0.45})], JOB)
    assert RULE.judge(around(resting, CAPPED)).reasons == (Reason.INSUFFICIENT_DATA,)
    restored = RULE.judge(around(resting))
    assert not restored.is_actionable
    assert restored.abstained is None


def test_half_an_hour_must_be_quiet_before_it_is_over() -> None:
    """Ten minutes of coarse readings are two of them, which prove nothing."""
    assert RULE.conduct(JOB).short_seconds == 1800.0
