"""The table of states, row by row, at and around each threshold."""

import math
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.accounting.classification import StateMatch, classify, looks_stalled
from rightsizer.accounting.classification_settings import ClassificationSettings
from rightsizer.accounting.signals import StateEvidence, tier_of
from rightsizer.model.signal import Signal
from rightsizer.model.state import State, Tier
from rightsizer.model.units import Unit

BUSY: Final = Signal.GPU_BUSY
POWER: Final = Signal.POWER
SM: Final = Signal.SM_ACTIVE
TENSOR: Final = Signal.TENSOR_ACTIVE
CONTROLLER: Final = Signal.MEMORY_CONTROLLER_BUSY
DRAM: Final = Signal.DRAM_ACTIVE
FP32: Final = Signal.FP32_ACTIVE
TOTAL: Final = 80 * 2.0**30

WORKING: Final = {BUSY: 0.9, POWER: 0.6, SM: 0.6, TENSOR: 0.3, FP32: 0.1, DRAM: 0.3}
"""Working without a limit, on the profiling tier."""
STALLED: Final = {BUSY: 0.95, POWER: 0.1, SM: 0.1, TENSOR: 0.0, FP32: 0.0, DRAM: 0.01}
SPINNING: Final = {BUSY: 0.99, POWER: 0.1}
QUIET: Final = {BUSY: 0.0, POWER: 0.0, Signal.PROCESS_COUNT: 0.0, Signal.MEMORY_USED: 0.001}
GAPS: Final = {BUSY: 0.4, POWER: 0.4}


def below(value: float) -> float:
    """The largest number below a threshold."""
    return math.nextafter(value, 0.0)


def judge(signals: dict[Signal, float], *, peer_stalls: bool = False) -> StateMatch:
    """The verdict under the default thresholds."""
    return classify(
        StateEvidence(signals, TOTAL, peer_stalls=peer_stalls), ClassificationSettings()
    )


CASES: Final = [
    # Each row: a set of signals, the changes to it, the expected state.
    (WORKING, {}, State.PRODUCTIVE),
    # Hidden stall with counters: all conditions are required.
    (STALLED, {}, State.HIDDEN_STALL),
    (STALLED, {BUSY: 0.8}, State.HIDDEN_STALL),
    (STALLED, {BUSY: below(0.8)}, State.LAUNCH_BOUND),
    (STALLED, {POWER: below(0.25)}, State.HIDDEN_STALL),
    (STALLED, {POWER: 0.25}, State.LAUNCH_BOUND),
    (STALLED, {TENSOR: below(0.02)}, State.HIDDEN_STALL),
    (STALLED, {TENSOR: 0.02}, State.LAUNCH_BOUND),
    (STALLED, {FP32: 0.02}, State.LAUNCH_BOUND),
    (STALLED, {DRAM: below(0.05)}, State.HIDDEN_STALL),
    (STALLED, {DRAM: 0.05}, State.LAUNCH_BOUND),
    # NVML counts copies as utilization.
    (STALLED, {Signal.PCIE_RECEIVE: 0.9}, State.PCIE_BOUND),
    (STALLED, {Signal.PCIE_TRANSMIT: 0.2}, State.LAUNCH_BOUND),
    (STALLED, {Signal.PCIE_TRANSMIT: below(0.2)}, State.HIDDEN_STALL),
    (STALLED, {Signal.NVLINK_RECEIVE: 0.2}, State.LAUNCH_BOUND),
    ({BUSY: 1.0, POWER: 0.1, Signal.PCIE_RECEIVE: 0.9}, {}, State.PCIE_BOUND),
    # PCIe: one direction at the link's limit while no pipe is active.
    (WORKING, {Signal.PCIE_RECEIVE: 0.6, TENSOR: below(0.3)}, State.PCIE_BOUND),
    (WORKING, {Signal.PCIE_TRANSMIT: 0.6, TENSOR: 0.1}, State.PCIE_BOUND),
    (WORKING, {Signal.PCIE_RECEIVE: below(0.6), TENSOR: 0.1}, State.PRODUCTIVE),
    (WORKING, {Signal.PCIE_RECEIVE: 0.9, TENSOR: 0.3}, State.PRODUCTIVE),
    (GAPS, {Signal.PCIE_RECEIVE: 0.7}, State.PCIE_BOUND),
    # Memory bandwidth: at its limit, or high while no pipe is high.
    (WORKING, {DRAM: 0.65, TENSOR: 0.9}, State.MEMORY_BANDWIDTH_BOUND),
    (WORKING, {DRAM: below(0.65), TENSOR: 0.5}, State.COMPUTE_BOUND),
    (WORKING, {DRAM: 0.5}, State.MEMORY_BANDWIDTH_BOUND),
    (WORKING, {DRAM: below(0.5)}, State.PRODUCTIVE),
    # Compute: by a pipe alone, never by busy SMs.
    (WORKING, {TENSOR: 0.5}, State.COMPUTE_BOUND),
    (WORKING, {TENSOR: below(0.5)}, State.PRODUCTIVE),
    (WORKING, {Signal.FP64_ACTIVE: 0.5}, State.COMPUTE_BOUND),
    (WORKING, {Signal.FP16_ACTIVE: 0.5}, State.COMPUTE_BOUND),
    (WORKING, {SM: 1.0}, State.PRODUCTIVE),
    # Launches: busy with little of the GPU active.
    (WORKING, {SM: below(0.25)}, State.LAUNCH_BOUND),
    (WORKING, {SM: 0.25}, State.PRODUCTIVE),
    (WORKING, {SM: 0.1, BUSY: 0.5}, State.LAUNCH_BOUND),
    (WORKING, {SM: 0.1, BUSY: below(0.5)}, State.PRODUCTIVE),
    # Gaps between large kernels are not small kernels.
    (WORKING, {SM: 0.2201, BUSY: 0.55}, State.PRODUCTIVE),
    (WORKING, {SM: 0.2199, BUSY: 0.55}, State.LAUNCH_BOUND),
    # An active media engine is no stall, and fills the gaps.
    (STALLED, {Signal.ENCODER: 0.05}, State.LAUNCH_BOUND),
    (STALLED, {Signal.DECODER: below(0.05)}, State.HIDDEN_STALL),
    (GAPS, {Signal.IO_PRESSURE: 0.5, Signal.ENCODER: 0.7}, State.PRODUCTIVE),
    (GAPS, {Signal.IO_PRESSURE: 0.5, Signal.ENCODER: below(0.7)}, State.STORAGE_BOUND),
    # Gaps explained by the host.
    (GAPS, {Signal.IO_PRESSURE: 0.2}, State.STORAGE_BOUND),
    (GAPS, {Signal.IO_PRESSURE: below(0.2)}, State.PRODUCTIVE),
    (GAPS, {Signal.IO_PRESSURE: 0.5, BUSY: 0.7}, State.PRODUCTIVE),
    (GAPS, {Signal.CPU_PRESSURE: 0.2}, State.HOST_BOUND),
    (GAPS, {Signal.CPU_PRESSURE: below(0.2)}, State.PRODUCTIVE),
    (GAPS, {Signal.CPU: 0.9}, State.HOST_BOUND),
    (GAPS, {Signal.CPU: below(0.9)}, State.PRODUCTIVE),
    (GAPS, {Signal.CPU: 1.0, BUSY: 0.7}, State.PRODUCTIVE),
    (GAPS, {Signal.IO_PRESSURE: 0.3, Signal.CPU_PRESSURE: 0.3}, State.STORAGE_BOUND),
    (GAPS, {Signal.IO_PRESSURE: 0.3, Signal.CPU: 1.0}, State.HOST_BOUND),
    # Basic tier: without power only busy and idle are distinguishable.
    ({BUSY: 1.0}, {}, State.PRODUCTIVE),
    ({BUSY: 0.4}, {Signal.IO_PRESSURE: 0.5}, State.STORAGE_BOUND),
    ({BUSY: 0.0}, {}, State.IDLE_HELD),
]


@pytest.mark.parametrize(("base", "change", "state"), CASES)
def test_state(base: dict[Signal, float], change: dict[Signal, float], state: State) -> None:
    """The first matching row decides, at each threshold and just below it."""
    assert judge(base | change).state is state


@pytest.mark.parametrize(
    ("busy", "power", "peer_stalls", "state"),
    [
        (0.98, 0.1, False, State.HIDDEN_STALL),
        (below(0.98), 0.1, False, State.PRODUCTIVE),
        (0.98, below(0.25), False, State.HIDDEN_STALL),
        (0.98, 0.25, False, State.PRODUCTIVE),
        (0.8, 0.1, True, State.HIDDEN_STALL),
        (below(0.8), 0.1, True, State.PRODUCTIVE),
        (1.0, 0.25, True, State.PRODUCTIVE),
    ],
)
def test_stall_without_counters_needs_a_witness(
    busy: float,
    power: float,
    peer_stalls: bool,  # noqa: FBT001 - a case.
    state: State,
) -> None:
    """A single GPU must be busy all the time; a second one of the workload adds certainty."""
    verdict = judge({BUSY: busy, POWER: power}, peer_stalls=peer_stalls)
    assert verdict.state is state


@pytest.mark.parametrize(
    ("controller", "pcie", "state"),
    [
        (0.01, None, State.HIDDEN_STALL),
        (0.02, None, State.PRODUCTIVE),
        (0.02, 0.0, State.HIDDEN_STALL),
        (0.02, 0.9, State.PCIE_BOUND),
        (0.05, 0.0, State.PRODUCTIVE),
    ],
)
def test_copies_are_no_stall_without_counters(
    controller: float, pcie: float | None, state: State
) -> None:
    """A loop of copies reads 100% at low power; its controller, or the link's traffic, shows it."""
    signals = {BUSY: 1.0, POWER: 0.1, Signal.MEMORY_CONTROLLER_BUSY: controller}
    if pcie is not None:
        signals[Signal.PCIE_RECEIVE] = pcie
    assert judge(signals).state is state


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        ({BUSY: 0.8, POWER: below(0.25)}, True),
        ({BUSY: below(0.8), POWER: 0.1}, False),
        ({BUSY: 1.0, POWER: 0.25}, False),
        ({BUSY: 1.0}, False),
        ({POWER: 0.1}, False),
    ],
)
def test_witness_of_a_stall_is_busy_at_low_power(
    signals: dict[Signal, float],
    expected: bool,  # noqa: FBT001 - a case.
) -> None:
    """The second GPU of the workload must be busy at low power, both of them read."""
    assert looks_stalled(StateEvidence(signals), ClassificationSettings()) == expected


def test_possible_stall_is_productive_with_both_hypotheses() -> None:
    """At 0.9 busy and low power, both hypotheses are kept and none is asserted."""
    verdict = judge({BUSY: 0.9, POWER: 0.1})
    assert verdict.state is State.PRODUCTIVE
    assert verdict.second_cause is State.HIDDEN_STALL


@pytest.mark.parametrize(
    "signals",
    [
        {BUSY: 1.0, POWER: 0.2, SM: 0.5, TENSOR: 0.01, DRAM: 0.45},
        {BUSY: 1.0, POWER: 0.2, Signal.MEMORY_CONTROLLER_BUSY: 0.6},
    ],
)
def test_decoding_at_low_clocks_is_no_stall(signals: dict[Signal, float]) -> None:
    """Busy at low power with memory streaming is work, with or without counters."""
    assert judge(signals).state is not State.HIDDEN_STALL


def test_stall_is_not_claimed_without_power() -> None:
    """A MIG instance has no power of its own: inactive pipes may mean integer arithmetic."""
    signals = {signal: value for signal, value in STALLED.items() if signal is not POWER}
    assert judge(signals | {SM: 0.9}).state is State.PRODUCTIVE


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, State.IDLE_EMPTY),
        ({BUSY: below(0.01)}, State.IDLE_EMPTY),
        ({BUSY: 0.01}, State.PRODUCTIVE),
        # Held: by a process, or by memory of at least max(1%, 512 MiB).
        ({Signal.PROCESS_COUNT: 1.0}, State.IDLE_HELD),
        ({Signal.MEMORY_USED: 0.01}, State.IDLE_HELD),
        ({Signal.MEMORY_USED: below(0.01)}, State.IDLE_EMPTY),
        # Engines other than compute count as well.
        ({Signal.DECODER: 0.05}, State.PRODUCTIVE),
        ({Signal.ENCODER: 0.01}, State.PRODUCTIVE),
        ({Signal.JPEG: 0.5}, State.PRODUCTIVE),
        ({Signal.OFA: 0.5}, State.PRODUCTIVE),
        # So do SMs, and traffic above the counters' noise.
        ({SM: 0.005}, State.PRODUCTIVE),
        ({SM: below(0.005)}, State.IDLE_EMPTY),
        ({DRAM: 0.05}, State.PRODUCTIVE),
        ({DRAM: below(0.05)}, State.IDLE_EMPTY),
        ({Signal.PCIE_RECEIVE: 0.2}, State.PRODUCTIVE),
        ({Signal.NVLINK_TRANSMIT: 0.2}, State.PRODUCTIVE),
        # The memory controller's share is relative to its clock: at idle it is noise.
        ({Signal.MEMORY_CONTROLLER_BUSY: 0.3}, State.IDLE_EMPTY),
        ({Signal.MEMORY_CONTROLLER_BUSY: 0.32, Signal.MEMORY_CLOCK_HERTZ: 405e6}, State.IDLE_EMPTY),
        # Power varies at rest, but not up to half of its range.
        ({POWER: below(0.5)}, State.IDLE_EMPTY),
        ({POWER: 0.5}, State.UNKNOWN),
        ({POWER: 0.5, SM: 0.0, TENSOR: 0.0, DRAM: 0.0}, State.UNKNOWN),
        # Datacenter boards rest in the highest performance state.
        ({Signal.PERFORMANCE_STATE: 0.0, POWER: 0.0}, State.IDLE_EMPTY),
    ],
)
def test_idle_needs_every_witness_at_rest(change: dict[Signal, float], state: State) -> None:
    """A device with any activity is not idle; its holder decides which kind of idle it is."""
    assert judge(QUIET | change).state is state


def test_small_device_is_empty_below_half_a_gibibyte() -> None:
    """On a slice of 10 GiB, 1% would be less than the leftovers of a context."""
    signals = QUIET | {Signal.MEMORY_USED: 0.04}
    settings = ClassificationSettings()
    small = StateEvidence(signals, 10 * 2.0**30)
    assert classify(small, settings).state is State.IDLE_EMPTY
    assert classify(StateEvidence(signals, TOTAL), settings).state is State.IDLE_HELD
    assert classify(StateEvidence(signals, None), settings).state is State.IDLE_HELD


@pytest.mark.parametrize(
    ("missing", "state"),
    [
        ((Signal.PROCESS_COUNT,), State.IDLE_EMPTY),
        ((Signal.MEMORY_USED,), State.IDLE_EMPTY),
        ((Signal.PROCESS_COUNT, Signal.MEMORY_USED), State.IDLE_HELD),
    ],
)
def test_emptiness_must_be_seen(missing: tuple[Signal, ...], state: State) -> None:
    """Where neither processes nor memory are known, a device is not called empty."""
    signals = {signal: value for signal, value in QUIET.items() if signal not in missing}
    assert judge(signals).state is state


@pytest.mark.parametrize(
    "signals",
    [
        {},
        {POWER: 0.5, Signal.MEMORY_USED: 0.5},
        {TENSOR: 0.0},
        {DRAM: 0.0, TENSOR: 0.0, POWER: 0.0},
    ],
)
def test_device_whose_compute_nobody_sees_is_unknown(signals: dict[Signal, float]) -> None:
    """One inactive pipe does not make a GPU idle; unknown is never idle."""
    assert judge(signals).state is State.UNKNOWN


@pytest.mark.parametrize(
    ("signals", "tier"),
    [
        ({BUSY: 1.0, POWER: 0.5, DRAM: 0.1}, Tier.PROFILING),
        ({BUSY: 1.0, POWER: 0.5}, Tier.POWER),
        ({BUSY: 1.0}, Tier.BASIC),
        ({POWER: 0.5}, Tier.NONE),
    ],
)
def test_tier_follows_from_what_is_read(signals: dict[Signal, float], tier: Tier) -> None:
    """Counters, else power, else utilization, else nothing."""
    assert tier_of(signals) is tier


def test_score_is_a_half_at_the_threshold_and_one_far_inside() -> None:
    """The score says how clear a case is."""
    assert judge(WORKING | {TENSOR: 0.5}).score == 0.5
    assert judge(WORKING | {TENSOR: 1.0}).score == 1.0
    assert judge(QUIET).score == 1.0
    assert judge(QUIET | {BUSY: 0.005}).score == 0.75
    assert judge(SPINNING | {BUSY: 0.98}).score == 0.5
    assert judge({BUSY: 1.0, POWER: 0.0}).score == 1.0
    assert judge({BUSY: 1.0, POWER: 0.125}).score == 0.75
    # Outside the span, half and twice the threshold are equally far from it.
    assert judge({BUSY: 0.49, POWER: 0.1}).score == judge({BUSY: 1.0, POWER: 0.5}).score == 0.75


@pytest.mark.parametrize("power", [{}, {POWER: 0.6}])
def test_a_busy_memory_controller_suggests_the_limit_that_it_cannot_prove(
    power: dict[Signal, float],
) -> None:
    """On the basic and the power tier; with counters, traffic is measured."""
    limit = ClassificationSettings().controller_bound_ratio
    working = {BUSY: 1.0, **power}
    suspected = judge({**working, CONTROLLER: limit})
    assert suspected.state is State.PRODUCTIVE
    assert suspected.second_cause is State.MEMORY_BANDWIDTH_BOUND
    assert judge({**working, CONTROLLER: below(limit)}).second_cause is None
    measured = judge({**WORKING, DRAM: 0.1, CONTROLLER: 1.0})
    assert measured.second_cause is not State.MEMORY_BANDWIDTH_BOUND


def test_second_cause_is_the_next_best_state() -> None:
    """Compute-bound with memory close behind; far from everything there is none."""
    verdict = judge(WORKING | {TENSOR: 0.9, DRAM: 0.6})
    assert (verdict.state, verdict.second_cause) == (
        State.COMPUTE_BOUND,
        State.MEMORY_BANDWIDTH_BOUND,
    )
    assert judge(WORKING | {SM: 0.9, TENSOR: 0.2, DRAM: 0.1, FP32: 0.0}).second_cause is None


RATIOS: Final = sorted(signal for signal in Signal if signal.unit is Unit.RATIO)


@given(
    st.dictionaries(st.sampled_from(RATIOS), st.floats(0.0, 1.0)),
    st.booleans(),
    st.integers(0, 3),
)
def test_any_signals_get_one_state_and_a_score(
    signals: dict[Signal, float],
    peer_stalls: bool,  # noqa: FBT001 - drawn.
    processes: int,
) -> None:
    """The score is at least a half; the second cause is another state; unknown is not idle."""
    signals = {**signals, Signal.PROCESS_COUNT: float(processes)}
    verdict = judge(signals, peer_stalls=peer_stalls)
    assert 0.5 <= verdict.score <= 1.0
    assert verdict.second_cause is not verdict.state
    if BUSY not in signals and SM not in signals:
        assert verdict.state not in (State.IDLE_EMPTY, State.IDLE_HELD)
    if signals.get(BUSY, 0.0) >= 0.01:
        assert verdict.state not in (State.IDLE_EMPTY, State.IDLE_HELD)
    if signals.get(POWER, 0.0) >= 0.5:
        assert verdict.state not in (State.IDLE_EMPTY, State.IDLE_HELD)
    if BUSY in signals and processes:
        quiet = signals[BUSY] < 0.01
        assert quiet or verdict.state is not State.UNKNOWN


@given(st.dictionaries(st.sampled_from(RATIOS), st.floats(0.0, 1.0)), st.sampled_from(RATIOS))
def test_more_telemetry_never_makes_an_active_gpu_idle(
    signals: dict[Signal, float], added: Signal
) -> None:
    """A witness can only add activity, never take it away."""
    before = {BUSY: 0.0} | signals
    idle = (State.IDLE_EMPTY, State.IDLE_HELD, State.UNKNOWN)
    if judge(before).state not in idle and added not in before:
        held = before | {added: 0.0, Signal.PROCESS_COUNT: 1.0}
        assert judge(held).state not in idle
