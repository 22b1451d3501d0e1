"""The rule for GPUs slowed down by heat or hardware protection."""

import pytest

from cases import case, window
from readings import HOUR, gpu, workload
from rightsizer.advice.rules.thermal_throttled import RULE
from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.finding import Action, Case, FindingKind, Reason
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, State
from standing_cases import around

JOB = workload()
HOT = {
    "GPU-0": {
        Signal.TEMPERATURE_CELSIUS: 88.0,
        Signal.CLOCK_EVENT_REASONS: float(ClockEvent.SW_THERMAL_SLOWDOWN),
    }
}


def slowed(hours: float, condition: Condition = Condition.THERMAL_THROTTLED) -> Case:
    """Ten hours, some of them slowed down."""
    conditions = {condition: round(hours * HOUR)}
    return case([window({State.COMPUTE_BOUND: 10}, conditions=conditions)], JOB)


def test_a_hot_gpu_is_distinguished_from_a_hot_room() -> None:
    """By its neighbors' temperatures."""
    alone = RULE.judge(around(slowed(5), HOT, others=(gpu(1), gpu(2))))
    assert alone.kind is FindingKind.DEGRADED
    assert alone.reasons == (Reason.THERMAL_THROTTLED,)
    assert alone.action is Action.RESEAT_OR_DRAIN
    assert alone.summary == (
        "GPU 0 of llama: slowed down by heat for 50% of the last 10 h; 88 °C at the last "
        "reading, its "
        "neighbors 60 °C: look at this GPU's own cooling."
    )
    all_hot = HOT | {"GPU-1": {Signal.TEMPERATURE_CELSIUS: 86.0}}
    room = RULE.judge(around(slowed(5), all_hot, others=(gpu(1),)))
    assert "look at the air of the room" in room.summary
    assert room.id == alone.id


def test_a_slurm_job_is_drained_by_slurm() -> None:
    """Commands are those of the workload's scheduler."""
    texts = [instruction.text for instruction in RULE.judge(around(slowed(5), HOT)).instructions]
    assert texts[0] == "nvidia-smi -i GPU-0 -q -d TEMPERATURE,PERFORMANCE,POWER"
    assert any("scontrol update" in text for text in texts)
    assert not any("kubectl" in text for text in texts)


def test_a_power_brake_is_not_heat() -> None:
    """It is asserted by the server's power supply."""
    brake = {"GPU-0": {Signal.CLOCK_EVENT_REASONS: float(ClockEvent.HW_POWER_BRAKE_SLOWDOWN)}}
    found = RULE.judge(around(slowed(5, Condition.HARDWARE_SLOWDOWN), brake))
    assert found.is_actionable
    assert "power brake is on" in found.summary


@pytest.mark.parametrize(("hours", "is_actionable"), [(1.0, True), (0.99, False)])
def test_a_tenth_of_the_time_makes_a_finding(
    hours: float,
    is_actionable: bool,  # noqa: FBT001 - a case.
) -> None:
    """A hot minute does not."""
    assert RULE.judge(around(slowed(hours), HOT)).is_actionable == is_actionable


def test_a_hot_gpu_that_keeps_its_clock_is_fine() -> None:
    """Temperature alone costs nothing."""
    found = RULE.judge(around(slowed(0), HOT))
    assert not found.is_actionable
    assert found.abstained is None


def test_a_driver_that_gives_no_reasons_is_no_proof_of_coolness() -> None:
    """Missing reasons do not count as healthy."""
    blind = around(slowed(0), {"GPU-0": {Signal.CLOCK_EVENT_REASONS: None}})
    assert RULE.judge(blind).reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_a_gpu_that_has_cooled_down_tells_nothing_of_the_room() -> None:
    """Its temperature is from another moment."""
    cool = {"GPU-0": {Signal.CLOCK_EVENT_REASONS: 0.0}}
    found = RULE.judge(around(slowed(5), cool, others=(gpu(1),)))
    assert found.summary.endswith("50% of the last 10 h; 60 °C at the last reading.")


def test_heat_on_one_gpu_and_a_brake_on_another_are_both_named() -> None:
    """Neither is attributed to all GPUs."""
    both = [slowed(5).windows[0], slowed(5, Condition.HARDWARE_SLOWDOWN).windows[0]]
    found = RULE.judge(case(both, JOB))
    assert "GPUs 0 and 1 of llama: slowed down by heat or the board's own protection" in (
        found.summary
    )


def test_conditions_of_a_history_are_enough() -> None:
    """Past conditions count whatever the current state."""
    assert RULE.judge(slowed(5)).is_actionable
