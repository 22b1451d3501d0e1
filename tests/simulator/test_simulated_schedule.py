"""Schedules of tasks and their load shapes: cycles, episodes, nights, growth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.state import State
from rightsizer.model.units import DAY_SECONDS, NANOSECONDS_PER_SECOND
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.simulator.activity import KernelActivity
from rightsizer.simulator.scenario import (
    BurstyLoad,
    ConstantLoad,
    DeviceLocation,
    DiurnalLoad,
    MemoryPlan,
    SimulatedTask,
    TaskPhase,
)
from rightsizer.simulator.workloads import TaskSchedule
from simulated_driver import MIDNIGHT, hour

TRAIN = TaskPhase(KernelActivity(0.9), State.COMPUTE_BOUND, seconds=900.0, jitter_ratio=0.5)
SAVE = TaskPhase(KernelActivity(0.1), State.STORAGE_BOUND, seconds=100.0)
STALL = TaskPhase(
    KernelActivity(1.0), State.HIDDEN_STALL, seconds=1.0, between=(11 * 3600.0, 15.5 * 3600.0)
)
KEYS = st.integers(0, 2**64 - 1)
SECONDS_OF_DAY = st.integers(0, 86399)


def task(*phases: TaskPhase, start: float = 0.0, stop: float = DAY_SECONDS) -> SimulatedTask:
    """A task with phases between two times of day."""
    workload = Workload("simulated/x", WorkloadKind.SIMULATED, "x")
    memory = (MemoryPlan(10.0, 30.0),)
    return SimulatedTask(
        workload, (DeviceLocation(0),), start, stop, memory, 1, 8.0, ConstantLoad(), phases
    )


def second(seconds: int) -> int:
    """A second of the first day."""
    return MIDNIGHT + seconds * NANOSECONDS_PER_SECOND


@given(KEYS, SECONDS_OF_DAY)
def test_a_task_that_runs_all_day_always_has_a_phase(key: int, seconds: int) -> None:
    """Neither phases nor cycles leave a gap."""
    assert TaskSchedule(task(TRAIN, SAVE), key).phase(second(seconds)) in (TRAIN, SAVE)


@given(KEYS)
def test_phases_take_their_share_of_the_time(key: int) -> None:
    """Over many cycles jitter does not change the configured shares."""
    schedule = TaskSchedule(task(TRAIN, SAVE), key)
    saving = sum(schedule.phase(second(at)) is SAVE for at in range(0, 86400, 10)) / 8640
    assert saving == pytest.approx(0.1, abs=0.02)


def test_jitter_moves_the_end_of_a_phase_from_cycle_to_cycle() -> None:
    """A checkpoint begins at different seconds of different cycles."""
    schedule = TaskSchedule(task(TRAIN, SAVE), 5)
    begins = {
        next(at for at in range(1000) if schedule.phase(second(cycle * 1000 + at)) is SAVE)
        for cycle in range(10)
    }
    assert len(begins) > 5


def test_without_jitter_cycles_are_alike() -> None:
    """A phase without jitter ends on the second."""
    still = TaskPhase(KernelActivity(0.9), State.COMPUTE_BOUND, seconds=900.0)
    schedule = TaskSchedule(task(still, SAVE), 5)
    assert schedule.phase(second(899)) is still
    assert schedule.phase(second(900)) is SAVE
    assert schedule.phase(second(1000)) is still


def test_an_episode_takes_the_place_of_the_cycle() -> None:
    """The job stalls from 11:00 to 15:30 every day; before and after it trains."""
    schedule = TaskSchedule(task(TRAIN, STALL), 1)
    found = [schedule.phase(hour(at)) for at in (10.9, 11.0, 15.4, 15.5, 35.5)]
    assert found == [TRAIN, STALL, STALL, TRAIN, STALL]


def test_an_episode_may_span_midnight() -> None:
    """From 22:00 to 02:00 means the night."""
    night = TaskPhase(
        KernelActivity(), State.IDLE_HELD, seconds=1.0, between=(22 * 3600.0, 2 * 3600.0)
    )
    schedule = TaskSchedule(task(TRAIN, night), 1)
    found = [schedule.phase(hour(at)) for at in (21.9, 22.0, 23.9, 24.5, 26.0)]
    assert found == [TRAIN, night, night, night, TRAIN]


def test_a_task_rests_outside_of_its_hours() -> None:
    """Between stop and start it has no phase and no memory."""
    schedule = TaskSchedule(task(TRAIN, start=8 * 3600.0, stop=20 * 3600.0), 1)
    assert [schedule.phase(hour(at)) for at in (7.9, 8.0, 19.9, 20.0)] == [None, TRAIN, TRAIN, None]
    assert schedule.memory_bytes(MemoryPlan(10.0, 30.0), hour(7.9)) == 0.0


def test_a_task_may_run_over_midnight() -> None:
    """A task from 20:00 to 06:00 runs at midnight and not at noon."""
    schedule = TaskSchedule(task(TRAIN, start=20 * 3600.0, stop=6 * 3600.0), 1)
    assert schedule.phase(hour(24.0)) is TRAIN
    assert schedule.phase(hour(12.0)) is None
    assert schedule.elapsed_seconds(hour(25.0)) == pytest.approx(5 * 3600.0)


def test_memory_grows_evenly_over_the_run() -> None:
    """Half way between start and stop, half of the growth is reached."""
    schedule = TaskSchedule(task(TRAIN, start=8 * 3600.0, stop=20 * 3600.0), 1)
    plan = MemoryPlan(10.0, 30.0)
    assert schedule.memory_bytes(plan, hour(8.0)) == pytest.approx(10.0)
    assert schedule.memory_bytes(plan, hour(14.0)) == pytest.approx(20.0)


@given(KEYS, SECONDS_OF_DAY)
def test_shapes_give_ratios(key: int, seconds: int) -> None:
    """No shape gives more than full load or less than none."""
    for shape in (
        ConstantLoad(0.7),
        BurstyLoad(0.9, 0.5, 15.0),
        DiurnalLoad(share=0.95),
        DiurnalLoad(share=0.95, night_ratio=0.3),
    ):
        assert 0.0 <= shape.intensity(key, second(seconds)) <= 1.0


@given(KEYS)
def test_bursts_come_as_often_as_written(key: int) -> None:
    """With a share of 0.6, about six of ten intervals have a burst."""
    shape = BurstyLoad(share=0.6, interval_seconds=10.0)
    busy = sum(shape.intensity(key, second(at)) > 0.0 for at in range(0, 86400, 10)) / 8640
    assert busy == pytest.approx(0.6, abs=0.04)


def test_a_diurnal_service_sleeps_at_night() -> None:
    """Twelve hours from its peak there is no request, at its peak there are many."""
    shape = DiurnalLoad(share=0.95, peak_seconds=14 * 3600.0)
    night = [shape.intensity(9, second(at)) for at in range(3600, 3 * 3600, 20)]
    noon = [shape.intensity(9, second(at)) for at in range(13 * 3600, 15 * 3600, 20)]
    assert max(night) == 0.0
    assert sum(noon) / len(noon) > 0.5


def test_a_diurnal_service_may_keep_a_little_load_at_night() -> None:
    """With a night ratio it has less load at night, but is never idle for long."""
    shape = DiurnalLoad(share=0.95, peak_seconds=14 * 3600.0, night_ratio=0.2)
    night = [shape.intensity(9, second(at)) for at in range(3600, 3 * 3600, 20)]
    noon = [shape.intensity(9, second(at)) for at in range(13 * 3600, 15 * 3600, 20)]
    assert 0.0 < sum(night) / len(night) < 0.5 * sum(noon) / len(noon)
