"""Other tools' rules at their published thresholds."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from evaluation.states.baseline_state import BaselineState
from evaluation.states.baselines import BASELINES, Baseline, BaselineInput, Watched
from readings import HELD, SECOND, gpu, snapshot
from rightsizer.model.reading import Process, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import State
from rightsizer.model.units import seconds

MINUTE: Final = 60.0
AT_REST: Final = Watched(
    BaselineInput(utilization=0.0),
    held_seconds=600 * MINUTE,
    zero_seconds=600 * MINUTE,
    engine_zero_seconds=600 * MINUTE,
    utilization_p95=0.0,
)
AT_WORK: Final = Watched(BaselineInput(utilization=0.9), held_seconds=600 * MINUTE)


def verdict(name: str, device: Watched, *others: Watched) -> State:
    """Verdict of a rule on a device of a workload."""
    rule: Baseline = BASELINES[name]
    return rule(device, (device, *others))


@pytest.mark.parametrize("name", BASELINES)
def test_every_rule_finds_what_is_plain(name: str) -> None:
    """A night without activity is idle, a free GPU is empty, a busy one is neither."""
    free = replace(AT_REST, now=BaselineInput(utilization=0.0, is_held=False))

    assert verdict(name, AT_REST) is State.IDLE_HELD
    assert verdict(name, free) is State.IDLE_EMPTY
    assert verdict(name, AT_WORK) not in (State.IDLE_HELD, State.IDLE_EMPTY)


def test_gpu_pruner_waits_thirty_minutes_and_five_of_grace() -> None:
    """Any GPU of a pod counts for all of them."""
    young = replace(AT_REST, held_seconds=34 * MINUTE)
    short = replace(AT_REST, engine_zero_seconds=29 * MINUTE)

    assert verdict("gpu-pruner", young) is State.PRODUCTIVE
    assert verdict("gpu-pruner", short) is State.PRODUCTIVE
    assert verdict("gpu-pruner", AT_WORK, AT_REST) is State.IDLE_HELD


def test_job_defense_shield_cancels_after_two_hours_or_five() -> None:
    """It is two from the start of a job, five once it has worked."""
    never = replace(AT_REST, held_seconds=120 * MINUTE, zero_seconds=120 * MINUTE)
    later = replace(AT_REST, zero_seconds=299 * MINUTE)

    assert verdict("job_defense_shield", never) is State.IDLE_HELD
    assert verdict("job_defense_shield", later) is State.PRODUCTIVE
    assert verdict("job_defense_shield", AT_WORK, AT_REST) is State.IDLE_HELD


def test_sagemaker_blames_the_host_below_ten_percent() -> None:
    """Disks precede processors; above ten percent there is no finding."""
    low = replace(AT_REST, now=BaselineInput(utilization=0.05, cpu=0.95, io_pressure=0.6))
    processors = replace(low, now=replace(low.now, io_pressure=0.0))
    above = replace(low, now=replace(low.now, utilization=0.10))
    bursty = replace(AT_REST, utilization_p95=0.7)

    assert verdict("SageMaker Debugger", low) is State.STORAGE_BOUND
    assert verdict("SageMaker Debugger", processors) is State.HOST_BOUND
    assert verdict("SageMaker Debugger", above) is State.PRODUCTIVE
    assert verdict("SageMaker Debugger", bursty) is State.PRODUCTIVE


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        ({"engine": 0.04, "sm": 0.02, "dram": 0.01}, State.IDLE_HELD),
        ({"engine": 0.9, "sm": 0.6, "tensor": 0.5}, State.COMPUTE_BOUND),
        ({"engine": 0.9, "sm": 0.5, "fp64": 0.2}, State.COMPUTE_BOUND),
        ({"engine": 0.3, "sm": 0.2, "pcie_bytes_per_second": 1e9}, State.PCIE_BOUND),
        ({"engine": 0.9, "sm": 0.45, "dram": 0.5}, State.MEMORY_BANDWIDTH_BOUND),
        ({"engine": 0.9, "sm": 0.5}, State.COMPUTE_BOUND),
        ({"engine": 0.4, "sm": 0.24}, State.LAUNCH_BOUND),
        ({"engine": 0.3, "sm": 0.2}, State.PRODUCTIVE),
    ],
)
def test_kempner_pulse_has_a_table_of_first_matches(seen: dict[str, Any], state: State) -> None:
    """Its classes map to our states."""
    now = BaselineInput(utilization=seen["engine"], has_counters=True, **seen)

    assert verdict("KempnerPulse", replace(AT_WORK, now=now)) is state


def _watched(watch: BaselineState, second: int, busy: float | None) -> Watched | None:
    values: dict[Signal, float] = {
        name: value for name, value in HELD.items() if name is not Signal.GPU_BUSY
    }
    if busy is not None:
        values[Signal.GPU_BUSY] = busy
    device = gpu()
    seen: Snapshot = snapshot(float(second), [device], {device: values})
    reading = Reading(device.uuid, seen.time, values, processes=(Process(1),))
    seen = replace(seen, readings={device.uuid: reading}, interval=SECOND)
    found = watch.see(seen).get(device.uuid)
    return None if found is None else found[0]


def test_idle_timer_of_a_baseline_restarts_with_work() -> None:
    """Ten idle seconds, one busy, idle again; unread time does not count as idle."""
    watch = BaselineState()
    for second in range(10):
        rested = _watched(watch, second, 0.0)
    worked = _watched(watch, 10, 0.4)
    again = _watched(watch, 11, 0.0)

    assert rested is not None
    assert worked is not None
    assert again is not None
    assert rested.zero_seconds == 10 * seconds(SECOND)
    assert (worked.zero_seconds, again.zero_seconds) == (0.0, 1.0)
    assert _watched(watch, 12, None) is None
