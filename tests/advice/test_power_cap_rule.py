"""The rule for power that does not reduce run time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import case, window
from readings import HOUR, workload
from rightsizer.advice.board_status import board_status_of
from rightsizer.advice.rules.power_cap import RULE, PowerSavingSettings, power_saving
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Case, FindingKind, Reason, Risk
from rightsizer.model.signal import Signal
from rightsizer.model.state import Cause, State, Tier
from rightsizer.model.workload import WorkloadClass
from standing_cases import around, held, instance, ranged

JOB = workload()
BOUND = State.MEMORY_BANDWIDTH_BOUND
IDLE = State.IDLE_HELD


def drawing(
    watts: float,
    state: State = BOUND,
    idle_hours: float = 0.0,
    device: Device | None = None,
    **facts: Any,
) -> Case:
    """Ten hours of work at the given draw, then idleness at 100 W."""
    idle = idle_hours * 3600 * 100.0
    joules = watts * 36000.0 + idle
    seen = window(
        {state: 10, IDLE: idle_hours},
        energy_joules=joules,
        waste_joules={Cause.IDLE: idle},
        **facts,
    )
    return case([seen], JOB, [device or ranged()])


def test_memory_bound_work_at_full_power_gets_a_lower_limit() -> None:
    """With its savings, its possible cost, and the way back."""
    found = RULE.judge(around(drawing(660.0)))
    assert found.kind is FindingKind.INEFFICIENT
    assert found.reasons == (Reason.POWER_CAP_OPPORTUNITY,)
    assert found.action is Action.SET_POWER_LIMIT
    assert found.summary == (
        "GPU 0 of llama: as fast at lower clocks for 100% of the last 10 h. A limit of 560 W "
        "on GPU 0 "
        "saves 44 to 132 W."
    )
    assert [instruction.text for instruction in found.instructions] == [
        "nvidia-smi -i GPU-0 -pl 560",
        "nvidia-smi -i GPU-0 -pl 700",
    ]
    assert found.savings.kilowatt_hours_per_month_low == 32.1
    assert found.options[0].time_ratio_high == 1.1


@pytest.mark.parametrize("state", [State.COMPUTE_BOUND, State.PRODUCTIVE])
def test_work_that_follows_the_clock_keeps_its_limit(state: State) -> None:
    """Compute-bound work slows down with every watt less."""
    found = RULE.judge(around(drawing(660.0, state)))
    assert not found.is_actionable
    assert found.abstained is None


def test_a_limit_above_the_draw_saves_nothing() -> None:
    """Decoding draws 137 to 300 W of an H200's 700 (arXiv:2605.11999)."""
    found = RULE.judge(around(drawing(300.0)))
    assert not found.is_actionable
    assert "draws too little" in found.summary


def test_a_limit_is_lowered_once() -> None:
    """Advice that was followed is not repeated."""
    lowered = {"GPU-0": {Signal.POWER_LIMIT_WATTS: 560.0}}
    assert not RULE.judge(around(drawing(556.0), lowered)).is_actionable


def test_idle_time_saves_nothing() -> None:
    """Watts are averages over the hour."""
    busy = RULE.judge(around(drawing(660.0))).savings.kilowatt_hours_per_month_low
    half = RULE.judge(around(drawing(660.0, idle_hours=10))).savings.kilowatt_hours_per_month_low
    assert busy is not None
    assert half == pytest.approx(busy / 2, rel=0.01)


@pytest.mark.parametrize(
    "judged",
    [
        drawing(660.0),
        around(drawing(660.0, device=instance())),
        around(drawing(660.0, device=ranged(power_limit_minimum_watts=None))),
        around(drawing(660.0, device=ranged(power_limit_minimum_watts=700.0))),
        around(drawing(660.0, tiers={Tier.POWER: 10 * HOUR})),
        around(
            drawing(660.0),
            holdings={"GPU-0": held(JOB, 0)["GPU-0"] + held(workload("b"), 0)["GPU-0"]},
        ),
    ],
    ids=["history", "instance", "no range", "fixed", "no profiling", "shared"],
)
def test_power_cap_abstains_without_evidence_or_at_the_cost_of_others(judged: Case) -> None:
    """Advice is not based on guesses."""
    assert RULE.judge(judged).reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_serving_risks_more_than_batch() -> None:
    """Latency suffers first."""
    serving = replace(drawing(660.0), workload=workload("api", WorkloadClass.SERVING))
    assert RULE.judge(around(serving)).risk is Risk.MEDIUM
    assert RULE.judge(around(drawing(660.0))).risk is Risk.LOW


@given(st.lists(st.floats(50.0, 700.0), min_size=1, max_size=30))
def test_the_truth_lies_within_the_interval(draws: list[float]) -> None:
    """For any distribution of the draw, without loss of time."""
    mean = sum(draws) / len(draws)
    judged = around(drawing(mean))
    standing = board_status_of(judged, judged.devices[0])
    assert standing is not None
    saving = power_saving(judged.windows[0], standing, PowerSavingSettings(time_ratio_high=1.0))
    assert saving is not None
    clipped = sum(max(0.0, draw - saving.cap_watts) for draw in draws) / len(draws)
    assert saving.watts_low - 1e-6 <= clipped <= saving.watts_high + 1e-6


def test_a_proposal_never_leaves_the_range() -> None:
    """The driver would refuse a lower or higher one."""
    narrow = drawing(690.0, device=ranged(power_limit_minimum_watts=600.0))
    found = RULE.judge(around(narrow))
    assert found.options[0].target == "600 W"
