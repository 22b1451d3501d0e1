"""The rule for PCIe links below the capability of board and slot."""

import pytest
from msgspec.structs import replace

from cases import case, window
from readings import HOUR, gpu, workload
from rightsizer.advice.rules.pcie_link_degraded import RULE
from rightsizer.model.finding import Action, Case, FindingKind, Reason
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, State
from rightsizer.model.topology import Bridge, Placement, Topology
from standing_cases import around

JOB = workload()
NARROW = {"GPU-0": {Signal.PCIE_LINK_WIDTH: 8.0}}
SLOW = {"GPU-0": {Signal.PCIE_LINK_GENERATION: 3.0}}


def degraded(hours: float, active: float = 10.0, idle: float = 0.0) -> Case:
    """Hours of a degraded link, active and idle."""
    states = {State.PRODUCTIVE: active, State.IDLE_HELD: idle}
    conditions = {Condition.PCIE_LINK_DEGRADED: round(hours * HOUR)}
    return case([window(states, conditions=conditions)], JOB)


def test_half_a_link_under_load_is_degraded() -> None:
    """With the actual and possible speed, the check to make and the holder to drain."""
    found = RULE.judge(around(degraded(10), NARROW))
    assert found.kind is FindingKind.DEGRADED
    assert found.reasons == (Reason.PCIE_LINK_DEGRADED,)
    assert found.action is Action.RESEAT_OR_DRAIN
    assert found.summary == (
        "GPU 0 of llama: PCIe link below what board and slot allow for 100% of the time at "
        "work: x8 "
        "instead of x16."
    )
    links = found.evidence["links"]
    assert isinstance(links, dict)
    assert links["GPU-0"]["lost_bandwidth_ratio"] == 0.5
    assert "pcie.link.width.current" in found.instructions[0].text


def test_the_bridge_that_is_narrow_is_named_and_one_that_is_old_is_no_fault() -> None:
    """Reseating does not change the slot's maximum."""
    bridges = (
        Bridge("0000:17:00.0", 4, 8, 5, 16),
        Bridge("0000:16:00.0", 4, 16, 4, 16),
    )
    placement = Placement("GPU-0", "0000:18:00.0", bridges=bridges, generation_maximum=5)
    judged = around(degraded(10), NARROW, topology=Topology({"GPU-0": placement}))
    found = RULE.judge(judged)
    assert "narrow at bridge 0000:17:00.0" in found.summary
    assert "bridge 0000:16:00.0 allows generation 4 at most, which is no fault" in found.summary
    assert "lspci -vv -s 0000:18:00.0" in found.instructions[0].text


def test_a_link_that_is_slow_at_rest_is_no_finding() -> None:
    """Idle GPUs train their links down (NVSentinel#890)."""
    found = RULE.judge(around(degraded(0, active=1, idle=9), SLOW))
    assert not found.is_actionable
    assert found.abstained is None


def test_lanes_that_are_missing_at_rest_only_are_no_finding() -> None:
    """The remaining time, outside rest, counts."""
    assert not RULE.judge(around(degraded(9, active=1, idle=9), NARROW)).is_actionable
    assert RULE.judge(around(degraded(10, active=1, idle=9), NARROW)).is_actionable


def test_a_slow_link_counts_by_the_time_at_work() -> None:
    """A GPU that is active one hour of ten is as slow in that hour."""
    assert RULE.judge(around(degraded(1, active=1, idle=9), SLOW)).is_actionable


@pytest.mark.parametrize(("hours", "is_actionable"), [(5.0, True), (4.99, False)])
def test_half_of_the_time_at_work_makes_a_finding(
    hours: float,
    is_actionable: bool,  # noqa: FBT001 - a case.
) -> None:
    """A link that trains up late is no finding."""
    assert RULE.judge(around(degraded(hours), SLOW)).is_actionable == is_actionable


def test_a_slot_of_an_older_generation_is_what_it_is() -> None:
    """Board and slot both support generation 4, and that is negotiated."""
    slot = replace(degraded(0), devices=(gpu(0, pcie_generation_maximum=4),))
    found = RULE.judge(around(slot, {"GPU-0": {Signal.PCIE_LINK_GENERATION: 4.0}}))
    assert not found.is_actionable


def test_without_both_ends_of_the_comparison_nobody_can_tell() -> None:
    """A history, an unread link, an assumed maximum."""
    assumed = replace(degraded(10), devices=(gpu(0, assumed=("pcie_width_maximum",)),))
    for judged in (
        degraded(10),
        around(degraded(10), {"GPU-0": {Signal.PCIE_LINK_WIDTH: None}}),
        around(assumed, NARROW),
    ):
        assert RULE.judge(judged).reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_a_minute_at_work_is_needed() -> None:
    """A short burst sees a link that has not trained up yet."""
    assert not RULE.judge(around(degraded(0.01, active=0.01, idle=9), SLOW)).is_actionable


def test_a_workload_at_rest_is_no_proof_of_a_mended_link() -> None:
    """A pause closes no advice; a full link at rest does."""
    resting = degraded(0, active=0.01, idle=0.2)
    paused = RULE.judge(around(resting, NARROW))
    assert paused.reasons == (Reason.INSUFFICIENT_DATA,)
    mended = RULE.judge(around(resting))
    assert not mended.is_actionable
    assert mended.abstained is None


def test_a_gpu_that_nobody_holds_has_nobody_to_slow_down() -> None:
    """Readings taken as work do not matter without a holder."""
    free = replace(degraded(10), workload=None)
    assert RULE.judge(around(free, NARROW, pids={"GPU-0": (7,)})).is_actionable
    assert not RULE.judge(around(free, NARROW)).is_actionable
