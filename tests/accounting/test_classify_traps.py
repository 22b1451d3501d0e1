"""Misleading readings of real boards, and conclusions that must not be drawn from them."""

import math
from typing import Final

import pytest

from rightsizer.accounting.classification import StateMatch, classify
from rightsizer.accounting.classification_settings import ClassificationSettings
from rightsizer.accounting.signals import StateEvidence
from rightsizer.model.signal import Signal
from rightsizer.model.state import State, UnknownReason

BUSY: Final = Signal.GPU_BUSY
POWER: Final = Signal.POWER
SM: Final = Signal.SM_ACTIVE
TENSOR: Final = Signal.TENSOR_ACTIVE
DRAM: Final = Signal.DRAM_ACTIVE
FP32: Final = Signal.FP32_ACTIVE
TOTAL: Final = 80 * 2.0**30

STALLED: Final = {BUSY: 0.95, POWER: 0.1, SM: 0.1, TENSOR: 0.0, FP32: 0.0, DRAM: 0.01}
SPINNING: Final = {BUSY: 0.99, POWER: 0.1}
QUIET: Final = {BUSY: 0.0, POWER: 0.0, Signal.PROCESS_COUNT: 0.0, Signal.MEMORY_USED: 0.001}


def below(value: float) -> float:
    """The largest number below a threshold."""
    return math.nextafter(value, 0.0)


def judge(signals: dict[Signal, float], *, clock_ratio: float = 1.0) -> StateMatch:
    """The verdict under the default thresholds."""
    observation = StateEvidence(signals, TOTAL, clock_ratio=clock_ratio)
    return classify(observation, ClassificationSettings())


@pytest.mark.parametrize(
    ("power", "clock_ratio", "state"),
    [
        # Spinning at the maximum clock, at half of it, and work at half of it.
        (0.13, 1.0, State.HIDDEN_STALL),
        (0.07, 0.45, State.HIDDEN_STALL),
        (0.23, 0.45, State.PRODUCTIVE),
        (below(0.125), 0.5, State.HIDDEN_STALL),
        (0.125, 0.5, State.PRODUCTIVE),
    ],
)
def test_low_clocks_draw_little_for_work_as_well(
    power: float, clock_ratio: float, state: State
) -> None:
    """When power alone indicates a stall, it is compared with what the clock allows."""
    assert judge({BUSY: 1.0, POWER: power}, clock_ratio=clock_ratio).state is state
    assert judge(STALLED | {POWER: below(0.25)}, clock_ratio=clock_ratio).state is (
        State.HIDDEN_STALL
    ), "counters need no clock"


def test_memory_controller_counts_at_the_clock_that_runs() -> None:
    """A third of the time at a twentieth of the clock is a display, not a decode."""
    slow = {Signal.MEMORY_CLOCK_HERTZ: 405e6, Signal.MEMORY_CLOCK_MAXIMUM_HERTZ: 10501e6}
    fast = slow | {Signal.MEMORY_CLOCK_HERTZ: 10501e6}
    spinning = SPINNING | {Signal.MEMORY_CONTROLLER_BUSY: 0.32}
    assert judge(spinning | slow).state is State.HIDDEN_STALL
    assert judge(spinning | fast).state is State.PRODUCTIVE


FILLER: Final = {BUSY: 1.0, POWER: 0.12, SM: 0.02, FP32: 0.008, TENSOR: 0.0, DRAM: 0.001}
"""A loop on two SMs that keeps the GPU from being reclaimed."""


@pytest.mark.parametrize(
    ("signals", "state", "score"),
    [
        (FILLER, State.HIDDEN_STALL, 0.76),
        ({BUSY: 1.0, POWER: 0.12}, State.HIDDEN_STALL, 0.76),
        # With neither power nor counters the state is uncertain, and the score says so.
        ({BUSY: 1.0}, State.PRODUCTIVE, 0.5),
        ({BUSY: 0.4}, State.PRODUCTIVE, 0.75),
    ],
)
def test_busy_without_work_on_each_tier(
    signals: dict[Signal, float], state: State, score: float
) -> None:
    """Equally clear evidence gets the same score, whichever the signals."""
    verdict = judge(signals)
    assert verdict.state is state
    assert verdict.score == pytest.approx(score)


def test_woken_gpu_is_unknown() -> None:
    """An L40S without persistence first reads 100% and 145 W, with no process and 0 MiB."""
    woken = {
        BUSY: 1.0,
        Signal.POWER_WATTS: 145.0,
        Signal.PROCESS_COUNT: 0.0,
        Signal.MEMORY_USED_BYTES: 0.0,
    }
    assert judge(woken).state is State.UNKNOWN
    del woken[Signal.PROCESS_COUNT]
    assert judge(woken).state is State.UNKNOWN
    ratio = {BUSY: 1.0, Signal.POWER_WATTS: 145.0, Signal.MEMORY_USED: 0.0}
    assert judge(ratio).state is State.UNKNOWN
    # A log of only utilization and memory may have read the memory just before.
    assert judge({BUSY: 1.0, Signal.MEMORY_USED: 0.0}).state is State.PRODUCTIVE


@pytest.mark.parametrize(
    "change",
    [
        {Signal.PROCESS_COUNT: 1.0},
        {Signal.MEMORY_USED_BYTES: 64 * 2.0**20},
        {SM: 0.3},
        {TENSOR: 0.3},
        {DRAM: 0.3},
    ],
)
def test_busy_gpu_is_believed_where_anything_bears_it_out(change: dict[Signal, float]) -> None:
    """A process, memory of a program or counters that a waking driver does not move confirm it."""
    signals = {BUSY: 0.9, Signal.PROCESS_COUNT: 0.0, Signal.MEMORY_USED_BYTES: 0.0}
    assert judge(signals | change).state is not State.UNKNOWN


def test_loading_weights_is_no_idleness() -> None:
    """In a job's first minutes data is copied in while no kernel runs."""
    held = QUIET | {Signal.PROCESS_COUNT: 1.0, Signal.MEMORY_USED: 0.3}
    loading = held | {Signal.PCIE_RECEIVE: 0.2}
    assert judge(loading).state is State.PRODUCTIVE
    assert judge(loading | {Signal.IO_PRESSURE: 0.4}).state is State.STORAGE_BOUND


@pytest.mark.parametrize(
    ("pressure", "cause"),
    [
        ({Signal.IO_PRESSURE: 0.4}, State.STORAGE_BOUND),
        ({Signal.CPU: 1.0, Signal.IO_PRESSURE: 0.2}, State.HOST_BOUND),
        ({Signal.CPU_PRESSURE: 0.09}, None),
        ({}, None),
    ],
)
def test_held_gpu_at_rest_says_what_it_may_wait_for(
    pressure: dict[Signal, float], cause: State | None
) -> None:
    """A rank that tokenizes on the host leaves its GPU idle; an empty GPU waits for nothing."""
    held = QUIET | {Signal.PROCESS_COUNT: 1.0} | pressure
    assert (judge(held).state, judge(held).second_cause) == (State.IDLE_HELD, cause)
    assert judge(QUIET | pressure).second_cause is None


def test_encoding_alone_is_work() -> None:
    """NVENC load: utilization at 7 to 9% while the encoder is at 60 to 72%."""
    for busy, encoder in ((0.07, 0.60), (0.09, 0.72), (0.0, 0.60)):
        signals = QUIET | {BUSY: busy, Signal.ENCODER: encoder, Signal.PROCESS_COUNT: 1.0}
        assert judge(signals).state is State.PRODUCTIVE


def test_idle_h100_is_idle() -> None:
    """69.85 W at 345 MHz in P0, with the link at its highest generation and the idle bit set."""
    idle = QUIET | {
        POWER: 0.0,
        Signal.PERFORMANCE_STATE: 0.0,
        Signal.PCIE_LINK_GENERATION: 5.0,
        Signal.CLOCK_EVENT_REASONS: 1.0,
    }
    assert judge(idle, clock_ratio=345 / 1980).state is State.IDLE_EMPTY


def test_preallocated_memory_is_neither_work_nor_need() -> None:
    """A server without requests holds nine tenths of the memory."""
    held = QUIET | {Signal.MEMORY_USED: 0.9, Signal.PROCESS_COUNT: 1.0}
    assert judge(held).state is State.IDLE_HELD


def test_instance_whose_activity_nobody_reads_is_unknown() -> None:
    """NVML reads only memory and processes of a MIG instance; that is no idleness."""
    blind = {Signal.MEMORY_USED: 0.0, Signal.PROCESS_COUNT: 0.0}
    assert judge(blind).state is State.UNKNOWN
    assert judge(blind | {Signal.PROCESS_COUNT: 1.0}).state is State.UNKNOWN


@pytest.mark.parametrize(
    ("signals", "state"),
    [
        ({TENSOR: 0.3}, State.UNKNOWN),
        ({DRAM: 0.2}, State.UNKNOWN),
        ({DRAM: 0.2, Signal.ENCODER: 0.6}, State.UNKNOWN),
        ({TENSOR: 0.3, SM: 0.4}, State.PRODUCTIVE),
        ({TENSOR: 0.3, BUSY: 0.9}, State.PRODUCTIVE),
        # A limit shows in its own signal.
        ({TENSOR: 0.5}, State.COMPUTE_BOUND),
        ({DRAM: 0.65}, State.MEMORY_BANDWIDTH_BOUND),
        ({DRAM: 0.1, Signal.PCIE_RECEIVE: 0.6}, State.PCIE_BOUND),
    ],
)
def test_work_without_utilization_is_unknown_unless_it_is_at_a_limit(
    signals: dict[Signal, float], state: State
) -> None:
    """Without `gpu_busy` and `sm_active` nothing tells stalls and gaps from productive work."""
    match = judge(signals | {Signal.PROCESS_COUNT: 1.0})
    assert match.state is state
    reason = UnknownReason.PARTIAL_COUNTERS if state is State.UNKNOWN else None
    assert match.unknown_reason is reason


def test_a_stall_that_cannot_be_excluded_is_no_launch_bound() -> None:
    """A spinning kernel covers few SMs too; without power the two look alike."""
    spinning = {
        Signal.GPU_BUSY: 1.0,
        Signal.SM_ACTIVE: 0.12,
        Signal.TENSOR_ACTIVE: 0.0,
        Signal.FP32_ACTIVE: 0.006,
        Signal.DRAM_ACTIVE: 0.01,
    }
    assert judge(spinning).state is State.PRODUCTIVE
    assert judge({**spinning, Signal.POWER: 0.1}).state is State.HIDDEN_STALL
    assert judge({**spinning, Signal.POWER: 0.4}).state is State.LAUNCH_BOUND


SPARSE: Final = {BUSY: 0.16, SM: 0.013, TENSOR: 0.001, DRAM: 0.01, POWER: 0.18}
"""Generation of tokens from Python, eagerly, on an H100: kernels of microseconds, and gaps."""
CPU: Final = Signal.PROCESS_CPU


def test_launches_without_rest_are_launch_bound() -> None:
    """At low utilization, small kernels need a launching process that never rests."""
    assert judge(SPARSE | {CPU: 1.0}).state is State.LAUNCH_BOUND
    assert judge(SPARSE | {BUSY: 0.37, SM: 0.0, CPU: 0.95}).state is State.LAUNCH_BOUND
    assert judge(SPARSE).state is State.PRODUCTIVE


@pytest.mark.parametrize(
    "signals",
    [
        pytest.param({CPU: 0.06}, id="service with little to do"),
        pytest.param({CPU: 1.0, SM: 0.12}, id="loader in the same process, large kernels"),
        pytest.param({CPU: 1.0, BUSY: 0.02, SM: 0.001}, id="process that polls, hardly ever asked"),
    ],
)
def test_gaps_of_other_causes_are_not_launch_bound(signals: dict[Signal, float]) -> None:
    """Kernels that fill the GPU, or a process with time to spare, wait for something else."""
    assert judge(SPARSE | signals).state is State.PRODUCTIVE


@pytest.mark.parametrize(
    ("pressure", "state"),
    [(Signal.IO_PRESSURE, State.STORAGE_BOUND), (Signal.CPU_PRESSURE, State.HOST_BOUND)],
)
def test_pressure_explains_gaps_between_small_kernels(pressure: Signal, state: State) -> None:
    """A busy process that loads data by itself is not at its launches."""
    assert judge(SPARSE | {CPU: 1.0, pressure: 0.9}).state is state


def test_traffic_limits_where_the_tensor_cores_are_read() -> None:
    """Tensor cores do most work: unless they are read, half the maximum traffic proves nothing."""
    traffic = {
        Signal.GPU_BUSY: 1.0,
        Signal.SM_ACTIVE: 0.9,
        Signal.FP32_ACTIVE: 0.1,
        Signal.DRAM_ACTIVE: 0.55,
        Signal.POWER: 0.8,
    }
    assert judge(traffic).state is State.PRODUCTIVE
    assert judge({**traffic, Signal.TENSOR_ACTIVE: 0.1}).state is State.MEMORY_BANDWIDTH_BOUND
    assert judge({**traffic, Signal.DRAM_ACTIVE: 0.7}).state is State.MEMORY_BANDWIDTH_BOUND
