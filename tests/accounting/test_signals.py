"""Conversion of readings to ratios of the device's own capacity."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import GIBIBYTE, gpu, reading
from rightsizer.accounting.classification_settings import SignalSettings
from rightsizer.accounting.signals import (
    StateEvidence,
    clock_ratio,
    derive_signals,
    has_dead_counters,
    layout_of,
    tier_of,
)
from rightsizer.model.signal import Signal
from rightsizer.model.state import Tier
from rightsizer.model.topology import link_bytes_per_second
from rightsizer.model.units import Unit

DEAD = {
    Signal.GPU_BUSY: 0.9,
    Signal.POWER_WATTS: 600.0,
    Signal.SM_ACTIVE: 0.0,
    Signal.TENSOR_ACTIVE: 0.0,
    Signal.DRAM_ACTIVE: 0.0,
}


def memory_work(signals: dict[Signal, float]) -> float | None:
    """Of the memory controller at its highest clock."""
    value: float | None = StateEvidence(signals).values.get("memory_work")
    return value


def derived(
    values: dict[Signal, float],
    host: dict[Signal, float] | None = None,
    idle_watts: float | None = 70.0,
    **facts: Any,
) -> dict[Signal, float]:
    """The signals of a reading of a device with an idle draw of 70 W."""
    device = gpu(**facts)
    return derive_signals(
        reading(device, 0, values),
        device,
        host or {},
        idle_watts,
        SignalSettings(),
    )


def test_quantities_become_ratios_of_the_capacity() -> None:
    """Memory over the total, power within its own range, traffic over the negotiated link."""
    signals = derived(
        {
            Signal.MEMORY_USED_BYTES: 20 * GIBIBYTE,
            Signal.POWER_WATTS: 385.0,
            Signal.PCIE_RECEIVE_BYTES_PER_SECOND: 3.938e9 * 8,
            Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND: 45e9,
        }
    )
    assert signals[Signal.MEMORY_USED] == 0.25
    assert signals[Signal.POWER] == 0.5
    assert signals[Signal.PCIE_RECEIVE] == pytest.approx(0.5, abs=0.001)
    assert signals[Signal.NVLINK_TRANSMIT] == 0.1


def test_reading_takes_precedence_over_the_device() -> None:
    """An enforced limit, a total and a trained-down link are the current ones."""
    signals = derived(
        {
            Signal.MEMORY_USED_BYTES: 20 * GIBIBYTE,
            Signal.MEMORY_TOTAL_BYTES: 40 * GIBIBYTE,
            Signal.POWER_WATTS: 235.0,
            Signal.POWER_LIMIT_WATTS: 400.0,
            Signal.PCIE_RECEIVE_BYTES_PER_SECOND: 0.985e9 * 4,
            Signal.PCIE_LINK_GENERATION: 3.0,
            Signal.PCIE_LINK_WIDTH: 8.0,
        }
    )
    assert signals[Signal.MEMORY_USED] == 0.5
    assert signals[Signal.POWER] == 0.5
    assert signals[Signal.PCIE_RECEIVE] == pytest.approx(0.5, abs=0.001)


def test_ratio_that_was_read_is_not_derived_again() -> None:
    """A recording's own `memory_used` is kept."""
    values = {Signal.MEMORY_USED: 0.7, Signal.MEMORY_USED_BYTES: GIBIBYTE}
    assert derived(values)[Signal.MEMORY_USED] == 0.7


def test_capacity_that_nobody_knows_leaves_the_ratio_out() -> None:
    """The ratio is missing, not zero."""
    signals = derived(
        {
            Signal.MEMORY_USED_BYTES: GIBIBYTE,
            Signal.POWER_WATTS: 100.0,
            Signal.PCIE_RECEIVE_BYTES_PER_SECOND: 1e9,
            Signal.NVLINK_RECEIVE_BYTES_PER_SECOND: 1e9,
        },
        idle_watts=None,
        memory_total_bytes=None,
        pcie_generation_maximum=None,
        nvlink_bytes_per_second=None,
    )
    assert signals.keys().isdisjoint(
        {Signal.MEMORY_USED, Signal.POWER, Signal.PCIE_RECEIVE, Signal.NVLINK_RECEIVE}
    )


def test_power_without_a_limit_is_no_ratio() -> None:
    """The highest draw is no limit: of GPUs that only spin, it is the draw of spinning."""
    signals = derived({Signal.GPU_BUSY: 1.0, Signal.POWER_WATTS: 360.0}, power_limit_watts=None)
    assert Signal.POWER not in signals
    assert tier_of(signals) is Tier.BASIC


def test_host_speaks_where_the_reading_does_not() -> None:
    """The owner's own pressure precedes the node's."""
    host = {Signal.CPU_PRESSURE: 0.4, Signal.IO_PRESSURE: 0.3}
    signals = derived({Signal.CPU_PRESSURE: 0.1}, host)
    assert signals[Signal.CPU_PRESSURE] == 0.1
    assert signals[Signal.IO_PRESSURE] == 0.3


def test_sm_work_weighs_activity_by_the_clock() -> None:
    """At half the clock, the same share of cycles does half the work."""
    signals = derived({Signal.SM_ACTIVE: 0.8, Signal.SM_CLOCK_HERTZ: 990e6})
    assert signals[Signal.SM_WORK] == pytest.approx(0.4)
    assert derived({Signal.SM_ACTIVE: 0.8})[Signal.SM_WORK] == 0.8


def test_memory_controller_works_at_its_clock() -> None:
    """Its share is of the current clock: 32% at 405 MHz is 1% of the memory's maximum."""
    busy = Signal.MEMORY_CONTROLLER_BUSY
    clock = Signal.MEMORY_CLOCK_HERTZ
    signals = {busy: 0.32, clock: 405e6, Signal.MEMORY_CLOCK_MAXIMUM_HERTZ: 10501e6}
    assert memory_work(signals) == pytest.approx(0.0123, abs=1e-3)
    assert memory_work({busy: 0.32, clock: 405e6}) == 0.32
    assert memory_work({busy: 0.32}) == 0.32
    assert memory_work({}) is None


def test_highest_is_the_largest_of_those_that_are_known() -> None:
    """Missing signals do not count; without any there is none."""
    signals = {Signal.PCIE_RECEIVE: 0.2, Signal.PCIE_TRANSMIT: 0.6}
    values = StateEvidence(signals).values
    assert values["pcie"] == 0.6
    assert "engines" not in values


def test_dead_counters_are_not_believed() -> None:
    """Zeros of a busy GPU that draws power are due to a profiler, not to the GPU."""
    signals = derived(DEAD)
    assert tier_of(signals) is Tier.POWER
    assert Signal.SM_WORK not in signals


def test_dead_counters_stay_dead_until_one_moves() -> None:
    """A GPU with dead counters is not idle once its load falls."""
    light = DEAD | {Signal.GPU_BUSY: 0.3, Signal.POWER_WATTS: 150.0}
    device = gpu()
    for change, is_dead in (({}, True), ({Signal.DRAM_ACTIVE: 0.01}, False)):
        values = reading(device, 0, light | change)
        signals = derive_signals(
            values, device, {}, 70.0, SignalSettings(), counters_were_dead=True
        )
        assert has_dead_counters(values, signals) == is_dead
        assert (tier_of(signals) is Tier.POWER) == is_dead


def test_order_of_signals_makes_no_other_layout() -> None:
    """Owners that change each minute put host signals in another order, 100 KiB for each."""
    values = {Signal.GPU_BUSY: 0.5, Signal.POWER_WATTS: 200.0, Signal.SM_ACTIVE: 0.4}
    assert layout_of(values) is layout_of(dict(reversed(values.items())))
    assert layout_of(values) is not layout_of({Signal.GPU_BUSY: 0.5})


@pytest.mark.parametrize(
    "change",
    [
        {Signal.POWER_WATTS: 70 + 0.2499 * 630},
        {Signal.GPU_BUSY: 0.2},
        {Signal.DRAM_ACTIVE: 0.01},
    ],
)
def test_zeros_that_can_be_true_are_believed(change: dict[Signal, float]) -> None:
    """A stall draws little, an idle GPU is not busy, and one live counter confirms the rest."""
    assert tier_of(derived(DEAD | change)) is Tier.PROFILING


@given(st.dictionaries(st.sampled_from(Signal), st.floats(-1e12, 1e12)))
def test_every_ratio_lies_between_nothing_and_all(values: dict[Signal, float]) -> None:
    """Counters of MIG instances can exceed 1, and drivers can answer below 0."""
    for signal, value in derived(values).items():
        if signal.unit is Unit.RATIO:
            assert 0.0 <= value <= 1.0


@pytest.mark.parametrize(
    ("generation", "width", "expected"),
    [(3, 16, 15.76e9), (4, 16, 31.5e9), (5, 8, 31.5e9), (9, 16, None), (4, 0, None)],
)
def test_link_capacity(generation: int, width: int, expected: float | None) -> None:
    """Lanes times the rate of the generation; an unknown generation has no capacity."""
    found = link_bytes_per_second(generation, width)
    assert found == (None if expected is None else pytest.approx(expected, rel=0.01))


def test_clock_ratio_is_whole_where_nobody_knows() -> None:
    """An unknown clock is not throttling."""
    assert clock_ratio({}, gpu()) == 1.0
    assert clock_ratio({Signal.SM_CLOCK_HERTZ: 1e9}, gpu(sm_clock_maximum_hertz=None)) == 1.0
    assert clock_ratio({Signal.SM_CLOCK_HERTZ: 2.2e9}, gpu()) == 1.0
    assert (
        clock_ratio({Signal.SM_CLOCK_HERTZ: 1e9, Signal.SM_CLOCK_MAXIMUM_HERTZ: 2e9}, gpu()) == 0.5
    )
