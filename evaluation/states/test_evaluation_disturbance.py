"""Disturbances of snapshots before they are judged."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from evaluation.options import SCENARIOS
from evaluation.simulated_day import SimulatedTick, simulated_ticks
from evaluation.states.disturbance import Disturbance, without_power, without_profiling
from evaluation.variation import varied
from readings import TRAINING, gpu, snapshot
from rightsizer.accounting.signals import tier_of
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import Condition, State, Tier
from rightsizer.simulator.scenario_reader import load_scenario

TICK: Final = 1201
TICKS: Final = 60


def lived(name: str, seed: int = 5) -> Iterator[SimulatedTick]:
    """A day of a scenario in long steps."""
    return simulated_ticks(SCENARIOS / f"{name}.yaml", seed, TICK)


def training() -> Snapshot:
    """One busy GPU on the profiling tier."""
    device = gpu()
    return snapshot(0.0, [device], {device: {**TRAINING, Signal.POWER: 0.8}})


def test_each_tier_knows_less_than_the_one_above() -> None:
    """Busy share and memory stay; utilization becomes whole percentages."""
    seen = training()
    [whole] = seen.readings.values()
    [power] = without_profiling(seen).readings.values()
    [basic] = without_power(seen).readings.values()

    assert [tier_of(each.values) for each in (whole, power, basic)] == [
        Tier.PROFILING,
        Tier.POWER,
        Tier.BASIC,
    ]
    assert {Signal.GPU_BUSY, Signal.MEMORY_USED_BYTES} <= basic.values.keys()


def test_profiling_counters_are_lost_with_profiling() -> None:
    """Traffic that only DCGM counts on a board is not available from NVML."""
    seen = training()
    [reading] = seen.readings.values()
    link = {Signal.PCIE_RECEIVE_BYTES_PER_SECOND: 1e9}
    counted = replace(reading, values={**reading.values, **link})
    borrowed = replace(counted, missing=dict.fromkeys(link, Missing.NOT_SUPPORTED))

    for each, is_kept in ((counted, True), (borrowed, False)):
        [left] = without_profiling(replace(seen, readings={each.uuid: each})).readings.values()
        assert (Signal.PCIE_RECEIVE_BYTES_PER_SECOND in left.values) is is_kept


def test_the_same_seed_disturbs_in_the_same_way() -> None:
    """Scores are comparable between versions of the code."""
    seen = training()
    first, again, other = (Disturbance(seed) for seed in (7, 7, 8))
    once = [first.disturbed(seen, seen) for _ in range(TICKS)]

    assert once == [again.disturbed(seen, seen) for _ in range(TICKS)]
    assert once != [other.disturbed(seen, seen) for _ in range(TICKS)]


def test_disturbed_ratios_stay_ratios_and_nothing_is_made_up() -> None:
    """A reading may lose values, and readings may be missing; none is added."""
    seen = training()
    [true] = seen.readings.values()
    disturbance = Disturbance(1)
    found = [disturbance.disturbed(seen, seen).readings.get(true.uuid) for _ in range(400)]
    read = [reading.values for reading in found if reading is not None]

    assert len(read) < len(found)
    assert all(values.keys() <= true.values.keys() for values in read)
    assert any(values.keys() < true.values.keys() for values in read)
    assert all(
        0.0 <= value <= 1.0
        for values in read
        for name, value in values.items()
        if name.endswith("_active") or name is Signal.GPU_BUSY
    )


def test_gains_belong_to_a_gpu_and_noise_to_a_reading() -> None:
    """Over many readings the noise averages out and the gain stays."""
    devices = [gpu(0), gpu(1)]
    seen = snapshot(0.0, devices, dict.fromkeys(devices, TRAINING))
    disturbance = Disturbance(3)
    means = []
    days = [disturbance.disturbed(seen, seen) for _ in range(1000)]
    for device in devices:
        watts = [
            day.readings[device.uuid].values.get(Signal.POWER_WATTS)
            for day in days
            if device.uuid in day.readings
        ]
        known = [watt for watt in watts if watt is not None]
        means.append(sum(known) / len(known) / TRAINING[Signal.POWER_WATTS])

    assert means[0] != pytest.approx(means[1], abs=0.002)
    assert means == pytest.approx([1.0, 1.0], abs=0.08)


def test_dead_counters_stay_dead() -> None:
    """A floor applies at rest; counters of a busy GPU that read 0 are broken."""
    dead = {**TRAINING, Signal.SM_ACTIVE: 0.0, Signal.DRAM_ACTIVE: 0.0}
    device = gpu()
    seen = snapshot(0.0, [device], {device: dead})
    disturbance = Disturbance(2)
    shown = {
        reading.values.get(Signal.DRAM_ACTIVE, 0.0)
        for _ in range(TICKS)
        for reading in disturbance.disturbed(seen, seen).readings.values()
    }

    assert shown == {0.0}


def test_counters_lag_and_memory_does_not() -> None:
    """Activity of a moment ago is combined with present memory."""
    device = gpu()
    now = snapshot(0.0, [device], {device: {**TRAINING, Signal.MEMORY_USED_BYTES: 7e9}})
    late = snapshot(0.0, [device], {device: {**TRAINING, Signal.GPU_BUSY: 0.0}})
    [found] = Disturbance(0).disturbed(now, late).readings.values()

    assert found.values[Signal.GPU_BUSY] == 0.0
    assert found.values[Signal.MEMORY_USED_BYTES] == 7e9


def test_seeds_change_what_kernels_do_and_not_what_they_are() -> None:
    """Labels, devices and names are the file's; ratios stay ratios."""
    written = load_scenario(str(SCENARIOS / "checkpointed-pretraining.yaml"), built_in())
    once, again, other = (varied(written, seed) for seed in (3, 3, 4))

    assert once == again
    assert once.tasks[0].phases[0].activity != other.tasks[0].phases[0].activity
    for task, change in zip(written.tasks, once.tasks, strict=True):
        for phase, moved in zip(task.phases, change.phases, strict=True):
            assert (phase.state, phase.conditions) == (moved.state, moved.conditions)
            assert 0.85 * phase.activity.tensor <= moved.activity.tensor <= 1.0
            assert 0.6 * phase.seconds <= moved.seconds <= 1.4 * phase.seconds


def test_datacenter_boards_without_gpm_are_read_with_dcgm() -> None:
    """A GeForce board has neither, and stays on the power tier."""
    tiers = {
        device.board: tier_of({**tick.snapshot.readings[device.uuid].values, Signal.POWER: 0.0})
        for tick in lived("power-capped-training")
        for device in tick.snapshot.devices
    } | {
        device.board: tier_of(tick.snapshot.readings[device.uuid].values)
        for tick in lived("video-transcoding")
        for device in tick.snapshot.devices
    }

    assert tiers == {
        "H100-SXM5-80GB": Tier.PROFILING,
        "RTX4090": Tier.POWER,
        "L4": Tier.PROFILING,
        "T4": Tier.PROFILING,
    }


@pytest.mark.parametrize(
    ("name", "condition", "signal"),
    [
        ("numa-misplaced", Condition.NUMA_MISPLACED, Signal.HOST_MEMORY_LOCAL),
        ("network-bound-all-reduce", Condition.NETWORK_BOUND, Signal.INFINIBAND_RECEIVE),
    ],
)
def test_places_follow_the_label_of_the_phase(
    name: str, condition: Condition, signal: Signal
) -> None:
    """Ranges differ by whether the condition holds."""
    seen: dict[bool, list[float]] = {True: [], False: []}
    for tick in lived(name):
        for uuid, reading in tick.snapshot.readings.items():
            seen[condition in tick.truths[uuid][1]].append(reading.values[signal])
    low, high = sorted(seen.values(), key=min)

    assert max(low) < min(high)


def test_a_gpu_that_nobody_keeps_awake_shows_work_that_nobody_does() -> None:
    """It does so now and then, for one reading, and only with persistence off."""
    shown: dict[int, set[float]] = {0: set(), 1: set()}
    for tick in simulated_ticks(SCENARIOS / "persistence-off.yaml", 5, 61):
        for device in tick.snapshot.devices:
            if tick.truths[device.uuid][0] is State.IDLE_EMPTY:
                busy = tick.snapshot.readings[device.uuid].values[Signal.GPU_BUSY]
                shown[device.index].add(busy)

    assert shown == {0: {0.0, 1.0}, 1: {0.0}}


def test_a_scenario_of_others_is_taken_as_it_is_written(tmp_path: Path) -> None:
    """Its author has defined the kernels; a seed changes only the noise."""
    file = tmp_path / "plain.yaml"
    file.write_text(
        "name: plain\nboards: [{board: L4}]\n"
        "activities: {steady: {residency: 0.5, coverage: 0.5, tensor: 0.5}}\n"
        "workloads: [{name: job, gpus: [0], memory_gib: 4,"
        " phases: [{activity: steady, state: productive}]}]\n"
    )

    def mean(*, is_varied: bool) -> float:
        busy = [
            reading.values[Signal.TENSOR_ACTIVE]
            for tick in simulated_ticks(file, 5, TICK, is_varied=is_varied)
            for reading in tick.snapshot.readings.values()
        ]
        return sum(busy) / len(busy)

    assert mean(is_varied=False) == pytest.approx(0.25, abs=0.005)
    assert mean(is_varied=True) != pytest.approx(0.25, abs=0.005)
