"""Conditions that may hold beside any state."""

import math
from typing import Any, Final

import pytest

from readings import gpu
from rightsizer.accounting.classification_settings import ConditionSettings
from rightsizer.accounting.conditions import ConditionInput, conditions
from rightsizer.accounting.definitions import CONDITIONS
from rightsizer.accounting.signals import StateEvidence, clock_ratio
from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition
from rightsizer.model.workload import Allocator

GPU_IDLE: Final = 0x1
REASONS: Final = Signal.CLOCK_EVENT_REASONS
CLOCK: Final = Signal.SM_CLOCK_HERTZ
SLOW: Final = {Signal.GPU_BUSY: 0.9, CLOCK: 1200e6}
CAPPED: Final = SLOW | {REASONS: float(ClockEvent.SW_POWER_CAP)}
UNUSED_TENSOR: Final = {Signal.SM_ACTIVE: 0.5, Signal.FP32_ACTIVE: 0.2, Signal.TENSOR_ACTIVE: 0.0}


def below(value: float) -> float:
    """The largest number below a threshold."""
    return math.nextafter(value, 0.0)


def holding(
    signals: dict[Signal, float], allocator: Allocator = Allocator.UNKNOWN, **facts: Any
) -> set[Condition]:
    """The conditions of an H100 on PCIe 5 x16 whose link has been observed for long."""
    device = gpu(**facts)
    around = ConditionInput(
        StateEvidence(signals, clock_ratio=clock_ratio(signals, device)),
        device,
        allocator,
        link_generation=signals.get(Signal.PCIE_LINK_GENERATION),
    )
    return set(conditions(around, ConditionSettings()))


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        ({}, set()),
        (CAPPED, {Condition.POWER_THROTTLED}),
        (SLOW | {REASONS: float(GPU_IDLE)}, set()),
        (SLOW | {REASONS: float(ClockEvent.SW_THERMAL_SLOWDOWN)}, {Condition.THERMAL_THROTTLED}),
        (
            SLOW | {REASONS: float(ClockEvent.HW_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN)},
            {Condition.THERMAL_THROTTLED, Condition.HARDWARE_SLOWDOWN},
        ),
        (
            SLOW | {REASONS: float(ClockEvent.HW_POWER_BRAKE_SLOWDOWN)},
            {Condition.HARDWARE_SLOWDOWN},
        ),
        # A power cap matters when it costs work: on a busy GPU whose clock is reduced.
        (CAPPED | {Signal.GPU_BUSY: 0.5}, {Condition.POWER_THROTTLED}),
        (CAPPED | {Signal.GPU_BUSY: below(0.5)}, set()),
        (CAPPED | {CLOCK: below(0.9 * 1980e6)}, {Condition.POWER_THROTTLED}),
        (CAPPED | {CLOCK: 0.9 * 1980e6}, set()),
        ({REASONS: float(ClockEvent.SW_POWER_CAP)}, {Condition.POWER_THROTTLED}),
    ],
)
def test_throttling_follows_the_drivers_reasons(
    signals: dict[Signal, float], expected: set[Condition]
) -> None:
    """Each bit is a condition of its own, and only while it costs work."""
    assert holding(signals) == expected


@pytest.mark.parametrize(
    ("generation", "width", "busy", "is_degraded"),
    [
        (5, 16, 0.9, False),
        (5, 8, 0.0, True),
        (3, 16, 0.0, False),
        (3, 16, 0.1, True),
        (3, 16, 0.0999, False),
        (1, 16, 0.05, False),
    ],
)
def test_link_is_judged_by_width_always_and_by_generation_under_load(
    generation: int,
    width: int,
    busy: float,
    is_degraded: bool,  # noqa: FBT001 - a case.
) -> None:
    """Idle links train down to save power; the number of lanes does not change."""
    signals = {
        Signal.PCIE_LINK_GENERATION: float(generation),
        Signal.PCIE_LINK_WIDTH: float(width),
        Signal.GPU_BUSY: busy,
    }
    assert (Condition.PCIE_LINK_DEGRADED in holding(signals)) == is_degraded


def test_generation_is_judged_by_the_highest_of_late() -> None:
    """A link that trains up under load is not degraded because it was read too early."""
    signals = {Signal.PCIE_LINK_GENERATION: 1.0, Signal.GPU_BUSY: 0.9}
    for highest, expected in ((5.0, set()), (None, set()), (4.0, {Condition.PCIE_LINK_DEGRADED})):
        around = ConditionInput(StateEvidence(signals), gpu(), link_generation=highest)
        assert set(conditions(around, ConditionSettings())) == expected


def test_slot_is_the_measure_and_guesses_are_none() -> None:
    """A PCIe 5 board in a PCIe 4 slot is fine; a maximum from the catalogue proves nothing."""
    signals = {Signal.PCIE_LINK_GENERATION: 4.0, Signal.PCIE_LINK_WIDTH: 8.0, Signal.GPU_BUSY: 1.0}
    assert holding(signals, pcie_generation_maximum=4, pcie_width_maximum=8) == set()
    assumed = ("pcie_generation_maximum", "pcie_width_maximum")
    assert holding(signals, assumed=assumed) == set()


def test_link_without_a_known_maximum_is_not_degraded() -> None:
    """Slow may be all that the slot offers."""
    signals = {Signal.PCIE_LINK_WIDTH: 4.0, Signal.PCIE_LINK_GENERATION: 3.0, Signal.GPU_BUSY: 1.0}
    assert holding(signals, pcie_width_maximum=None, pcie_generation_maximum=None) == set()


@pytest.mark.parametrize(
    ("used", "allocator", "is_near"),
    [
        (0.95, Allocator.GROWING, True),
        (0.95, Allocator.UNKNOWN, True),
        (below(0.95), Allocator.GROWING, False),
        (0.99, Allocator.PREALLOCATING, False),
    ],
)
def test_full_memory_is_near_its_end_unless_filled_by_design(
    used: float,
    allocator: Allocator,
    is_near: bool,  # noqa: FBT001 - a case.
) -> None:
    """A preallocating framework fills the memory in its first second."""
    assert (
        Condition.NEAR_OUT_OF_MEMORY in holding({Signal.MEMORY_USED: used}, allocator)
    ) == is_near


@pytest.mark.parametrize(
    ("change", "is_unused"),
    [
        ({}, True),
        ({Signal.TENSOR_ACTIVE: 0.02}, False),
        ({Signal.SM_ACTIVE: below(0.5)}, False),
        ({Signal.FP32_ACTIVE: below(0.2)}, False),
    ],
)
def test_unused_tensor_cores_are_told_of_real_arithmetic(
    change: dict[Signal, float],
    is_unused: bool,  # noqa: FBT001 - a case.
) -> None:
    """FP32 arithmetic that tensor cores could do, on active SMs."""
    assert (Condition.NO_TENSOR_CORES in holding(UNUSED_TENSOR | change)) == is_unused


@pytest.mark.parametrize("signal", [*UNUSED_TENSOR, Signal.MEMORY_USED, REASONS])
def test_condition_whose_signals_are_missing_does_not_hold(signal: Signal) -> None:
    """Unmeasured conditions are not reported."""
    everything = UNUSED_TENSOR | CAPPED | {Signal.MEMORY_USED: 1.0}
    less = {each: value for each, value in everything.items() if each is not signal}
    assert holding(less) < holding(everything)


def test_conditions_beyond_the_device_are_passed_on() -> None:
    """Placement, network and balance of the job have rules of their own."""
    far = {Signal.PCIE_RECEIVE: 0.3, Signal.HOST_MEMORY_LOCAL: 0.1}
    assert holding(far) == {Condition.NUMA_MISPLACED}
    full = {Signal.INFINIBAND_RECEIVE: 0.9, Signal.GPU_BUSY: 0.5, Signal.TENSOR_ACTIVE: 0.1}
    assert holding(full) == {Condition.NETWORK_BOUND}
    unbalanced = ConditionInput(StateEvidence({}), gpu(), is_out_of_balance=True)
    assert conditions(unbalanced, ConditionSettings()) == {Condition.RANK_IMBALANCE}


def test_each_condition_is_reported_in_one_way() -> None:
    """The table has every condition once."""
    assert sorted(condition for condition, _ in CONDITIONS) == sorted(Condition)
