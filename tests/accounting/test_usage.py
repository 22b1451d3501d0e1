"""Use of a device, and the causes of what was left unused."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import gpu
from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.accounting.signals import DeviceUsage, StateEvidence, clock_ratio, usage, waste
from rightsizer.model.signal import PIPES, Signal
from rightsizer.model.state import Cause, Condition, Resource, State
from rightsizer.model.units import Unit

BUSY: Final = Signal.GPU_BUSY
TENSOR: Final = Signal.TENSOR_ACTIVE
CLOCK: Final = Signal.SM_CLOCK_HERTZ
NOBODY: Final = frozenset[Condition]()
THROTTLED: Final = frozenset({Condition.POWER_THROTTLED})


def used(signals: dict[Signal, float], **facts: Any) -> DeviceUsage:
    """Use of an H100 that reaches 80% of its peaks."""
    device = gpu(**facts)
    evidence = StateEvidence(signals, clock_ratio=clock_ratio(signals, device))
    return usage(evidence, device, UsageSettings())


def test_compute_has_two_bounds_where_counters_are() -> None:
    """The lower bound is the pipes' share of the achievable, the upper one is SM activity."""
    found = used({BUSY: 1.0, TENSOR: 0.4, Signal.SM_ACTIVE: 0.9, Signal.SM_WORK: 0.9})
    assert found.compute_at_least == 0.5
    assert found.shares[Resource.COMPUTE] == 0.9


def test_clock_scales_both_bounds() -> None:
    """At half the clock, the same share of cycles does half the work."""
    found = used({BUSY: 1.0, TENSOR: 0.4, CLOCK: 990e6, Signal.SM_WORK: 0.4})
    assert found.compute_at_least == 0.25
    assert found.shares[Resource.COMPUTE] == 0.4


def test_lower_bound_never_passes_the_upper_one() -> None:
    """If one counter is ahead of the other, the upper bound rises to it."""
    found = used({BUSY: 1.0, TENSOR: 0.8, Signal.SM_WORK: 0.6})
    assert found.compute_at_least == 1.0
    assert found.shares[Resource.COMPUTE] == 1.0


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        ({BUSY: 0.8, Signal.POWER: 0.3}, 0.4),
        ({BUSY: 0.8, Signal.POWER: 0.9}, 0.8),
        ({BUSY: 0.8}, 0.8),
        ({BUSY: 1.0, Signal.DRAM_ACTIVE: 0.1}, 1.0),
    ],
)
def test_without_pipes_busy_is_weighed_by_power(
    signals: dict[Signal, float], expected: float
) -> None:
    """A GPU that is busy at half of its working power does half of the work."""
    found = used(signals)
    assert found.shares[Resource.COMPUTE] == pytest.approx(expected)
    assert found.compute_at_least is None


def test_resource_that_nobody_measures_is_left_out() -> None:
    """Missing is not zero."""
    assert used({BUSY: 0.5}).shares == {Resource.COMPUTE: 0.5}
    assert used({}).shares == {}
    assert used({}).used_ratio is None


def test_link_counts_by_its_busier_direction() -> None:
    """An idle direction does not relieve a saturated one."""
    found = used({BUSY: 0.5, Signal.PCIE_RECEIVE: 0.1, Signal.PCIE_TRANSMIT: 0.45})
    assert found.shares[Resource.PCIE] == 0.45
    assert found.used_ratio == 0.5


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        ({BUSY: 0.5}, 0.5),
        ({BUSY: 0.5, Signal.DRAM_ACTIVE: 0.6}, 0.75),
        ({BUSY: 0.5, Signal.NVLINK_RECEIVE: 0.72}, 0.8),
        ({BUSY: 0.5, Signal.DRAM_ACTIVE: 0.9}, 1.0),
        ({BUSY: 0.5, Signal.MEMORY_USED: 0.9}, 0.5),
        ({BUSY: 1.0, TENSOR: 0.2, Signal.SM_WORK: 0.9}, 0.25),
        ({BUSY: 0.1, Signal.ENCODER: 0.7, Signal.DECODER: 0.2}, 0.7),
    ],
)
def test_used_is_the_largest_part_of_what_is_achievable(
    signals: dict[Signal, float], expected: float
) -> None:
    """Work, bandwidth, links and media engines count; held memory and waiting SMs do not."""
    assert used(signals).used_ratio == pytest.approx(expected)


@pytest.mark.parametrize(
    ("signal", "threshold", "resource"),
    [
        (Signal.MEMORY_USED, 0.95, Resource.MEMORY),
        (Signal.DRAM_ACTIVE, 0.65, Resource.MEMORY_BANDWIDTH),
        (Signal.PCIE_RECEIVE, 0.6, Resource.PCIE),
        (Signal.PCIE_TRANSMIT, 0.6, Resource.PCIE),
        (Signal.NVLINK_TRANSMIT, 0.6, Resource.NVLINK),
        (TENSOR, 0.7201, Resource.COMPUTE),
        (BUSY, 0.9, Resource.COMPUTE),
    ],
)
def test_resource_is_saturated_at_its_limit(
    signal: Signal, threshold: float, resource: Resource
) -> None:
    """It is saturated at and above the threshold, not below it."""
    assert resource in used({signal: threshold}).saturated
    assert resource not in used({signal: threshold - 0.001}).saturated


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (State.IDLE_EMPTY, Cause.IDLE),
        (State.IDLE_HELD, Cause.IDLE),
        (State.HIDDEN_STALL, Cause.STALLED),
        (State.HOST_BOUND, Cause.HOST),
        (State.STORAGE_BOUND, Cause.STORAGE),
        (State.PCIE_BOUND, Cause.PCIE),
        (State.LAUNCH_BOUND, Cause.LAUNCH),
        (State.PRODUCTIVE, Cause.HEADROOM),
        (State.COMPUTE_BOUND, Cause.HEADROOM),
        (State.MEMORY_BANDWIDTH_BOUND, Cause.HEADROOM),
    ],
)
def test_rest_goes_to_the_cause_of_the_state(state: State, cause: Cause) -> None:
    """Every state has one cause for what it leaves unused."""
    assert waste(state, NOBODY, 0.3, 1.0) == {cause: 0.7}


@pytest.mark.parametrize(
    ("used_ratio", "clock", "expected"),
    [
        (0.5, 0.8, {Cause.THROTTLED: 0.2, Cause.HEADROOM: 0.3}),
        (0.5, 0.4, {Cause.THROTTLED: 0.5}),
        (0.5, 1.0, {Cause.HEADROOM: 0.5}),
        (1.0, 0.5, {}),
    ],
)
def test_throttling_takes_what_the_clock_lost(
    used_ratio: float, clock: float, expected: dict[Cause, float]
) -> None:
    """Throttling takes up to 1 - clock ratio, headroom the rest; a stall stays a stall."""
    assert waste(State.PRODUCTIVE, THROTTLED, used_ratio, clock) == pytest.approx(expected)
    stalled = waste(State.HIDDEN_STALL, THROTTLED, used_ratio, clock)
    assert stalled == ({} if used_ratio == 1.0 else {Cause.STALLED: 1 - used_ratio})


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        (0.9, {Cause.LAUNCH: 0.1, Cause.HEADROOM: 0.83}),
        (0.05, {Cause.LAUNCH: 0.93}),
        (1.0, {Cause.HEADROOM: 0.93}),
    ],
)
def test_launches_cost_the_time_without_a_kernel(busy: float, expected: dict[Cause, float]) -> None:
    """What a small kernel leaves of the GPU is headroom, as of any other kernel."""
    assert waste(State.LAUNCH_BOUND, NOBODY, 0.07, 1.0, busy) == pytest.approx(expected)


def test_unknown_time_is_not_wasted() -> None:
    """Its use is unknown."""
    assert waste(State.UNKNOWN, NOBODY, 0.3, 1.0) == {}
    assert waste(State.PRODUCTIVE, NOBODY, None, 1.0) == {}


RATIOS: Final = sorted(signal for signal in Signal if signal.unit is Unit.RATIO)


@given(
    st.dictionaries(st.sampled_from(RATIOS), st.floats(0.0, 1.0)),
    st.sampled_from(sorted(set(State) - {State.UNKNOWN})),
    st.sampled_from([NOBODY, THROTTLED]),
    st.floats(0.0, 1.0),
)
def test_used_and_parts_sum_to_the_whole(
    signals: dict[Signal, float], state: State, holding: frozenset[Condition], clock: float
) -> None:
    """They sum to it for any readings and holders."""
    found = used(signals)
    if found.used_ratio is None:
        assert waste(state, holding, None, clock) == {}
        return
    parts = waste(state, holding, found.used_ratio, clock)
    assert found.used_ratio + sum(parts.values()) == pytest.approx(1.0)
    assert all(part > 0.0 for part in parts.values())
    assert all(0.0 <= share <= 1.0 for share in found.shares.values())


@given(
    st.dictionaries(st.sampled_from([BUSY, Signal.SM_WORK, *PIPES]), st.floats(0.0, 1.0)),
    st.sampled_from([BUSY, Signal.SM_WORK, *PIPES]),
    st.floats(0.0, 1.0),
)
def test_more_work_never_uses_less(
    signals: dict[Signal, float], signal: Signal, more: float
) -> None:
    """Raising any activity lowers neither bound."""
    if signal not in signals:
        return
    less = used(signals)
    raised = used(signals | {signal: max(signals[signal], more)})
    assert raised.shares.get(Resource.COMPUTE, 0) >= less.shares.get(Resource.COMPUTE, 0)
    assert (raised.compute_at_least or 0) >= (less.compute_at_least or 0)
