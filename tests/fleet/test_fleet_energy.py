"""Energy where power was read: of time with unknown state, and of the parts of a GPU."""

import re
from typing import Any, Final

import numpy as np
import pytest

from cached_fleet import subject_of
from dcgm_estate import YESTERDAY
from readings import gpu
from rightsizer.accounting.settings import EntrySettings
from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.model import FleetDevice
from rightsizer.fleet.source import SampledSeries
from rightsizer.fleet.sources.day_accounting import DeviceReadings, WatchedDevices, accounted_days
from rightsizer.fleet.sources.dcgm_exporter.readings import DayQueries, part_watts, read_devices
from rightsizer.fleet.usage import HeldDevice, UseSum, holder_hours
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.signal import Signal
from rightsizer.model.state import State
from rightsizer.model.units import JOULES_PER_KILOWATT_HOUR

COUNT: Final = YESTERDAY.count
KNOWN: Final = np.full((1, COUNT), 300.0)


def used(device: Device, read: DeviceReadings) -> UseSum:
    """All hours of a day of a device that nothing is known to hold."""
    watched = WatchedDevices([device], [()], KNOWN, YESTERDAY)
    (frame,) = accounted_days(watched, read, EntrySettings())
    days = subject_of(frame)
    whole = UseSum()
    span = YESTERDAY.start, YESTERDAY.end
    held = HeldDevice(FleetDevice(device, "n", "p"), days, ())
    for use in holder_hours([held], span)[device.uuid].values():
        whole.add(use)
    return whole


def test_energy_is_known_where_the_state_is_not() -> None:
    """Utilization is exported for half of the day, power for all of it."""
    busy = np.full((1, COUNT), np.nan)
    busy[:, : COUNT // 2] = 0.97
    read = DeviceReadings({Signal.GPU_BUSY: busy, Signal.POWER_WATTS: np.full((1, COUNT), 400.0)})
    found = used(gpu(), read)
    assert (found.held, found.unknown) == pytest.approx((12.0, 12.0))
    assert found.joules / JOULES_PER_KILOWATT_HOUR == pytest.approx(0.4 * 24, rel=1e-3)


class BoardStore:
    """Each instance of a GPU with the power of the whole, as an exporter repeats it."""

    def range(self, *_: object) -> list[SampledSeries]:
        """Four instances."""
        times = np.array([YESTERDAY.time(place + 1) for place in range(COUNT)])
        return [
            SampledSeries(
                {"UUID": "GPU-0", "GPU_I_ID": str(number), "GPU_I_PROFILE": "1g.6gb"},
                times,
                np.full(COUNT, 52.6),
            )
            for number in range(3, 7)
        ]


class AskedStore:
    """A GPU at work and one at rest; it records who was asked for which metric."""

    def __init__(self, levels: dict[str, float]) -> None:
        self.levels = levels
        self.asked: dict[str, set[str]] = {}

    def range(self, promql: str, *_: object) -> list[SampledSeries]:
        """A constant for each GPU in the query."""
        mean = re.match(r".*?(max|sum)_over_time\((DCGM_\w+)", promql)
        assert mean is not None
        named = set(re.findall(r"GPU-\d", promql))
        self.asked[f"{mean[1]} {mean[2]}"] = named
        times = np.array([YESTERDAY.time(place + 1) for place in range(COUNT)])
        return [
            SampledSeries(
                {"UUID": uuid}, times, np.full(COUNT, self.levels[mean[2]] * (uuid == "GPU-0"))
            )
            for uuid in sorted(named)
        ]


def test_only_figures_that_leave_something_open_are_asked() -> None:
    """Of what is 0 no peak, no controller beside counters, no utilization beside an activity."""
    levels = {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.9,
        "DCGM_FI_DEV_GPU_UTIL": 100.0,
        "DCGM_FI_PROF_DRAM_ACTIVE": 0.4,
        "DCGM_FI_DEV_MEM_COPY_UTIL": 30.0,
        "DCGM_FI_DEV_ENC_UTIL": 0.0,
    }
    store: Any = AskedStore(levels)
    devices = [gpu(uuid="GPU-0"), gpu(uuid="GPU-1")]
    queries = DayQueries(store, YESTERDAY, (), ("UUID",))
    known = np.ones((2, COUNT), bool)
    read = read_devices(queries, frozenset(levels), devices, np.ones((2, COUNT)), known)
    both = {"GPU-0", "GPU-1"}
    assert store.asked == {
        "sum DCGM_FI_PROF_GR_ENGINE_ACTIVE": both,
        "max DCGM_FI_PROF_GR_ENGINE_ACTIVE": {"GPU-0"},
        "sum DCGM_FI_DEV_GPU_UTIL": {"GPU-1"},
        "sum DCGM_FI_PROF_DRAM_ACTIVE": both,
        "max DCGM_FI_PROF_DRAM_ACTIVE": {"GPU-0"},
        "sum DCGM_FI_DEV_ENC_UTIL": both,
    }
    assert {signal: column[:, 0].tolist() for signal, column in read.peaks.items()} == {
        Signal.GPU_BUSY: [0.9, 0.0],
        Signal.DRAM_ACTIVE: [0.4, 0.0],
        Signal.ENCODER: [0.0, 0.0],
    }
    assert (
        Signal.MEMORY_CONTROLLER_BUSY not in read.means
        or np.isnan(read.means[Signal.MEMORY_CONTROLLER_BUSY]).all()
    )


def test_a_dead_counter_is_asked_around() -> None:
    """Counters that stand at 0 while the driver sees work leave both of its readings open."""
    levels = {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.0,
        "DCGM_FI_DEV_GPU_UTIL": 100.0,
        "DCGM_FI_PROF_DRAM_ACTIVE": 0.0,
        "DCGM_FI_DEV_MEM_COPY_UTIL": 30.0,
    }
    store: Any = AskedStore(levels)
    queries = DayQueries(store, YESTERDAY, (), ("UUID",))
    ones = np.ones((1, COUNT))
    read = read_devices(queries, frozenset(levels), [gpu(uuid="GPU-0")], ones, ones > 0)
    assert read.means[Signal.GPU_BUSY][0, 0] == read.peaks[Signal.GPU_BUSY][0, 0] == 1.0
    assert read.means[Signal.MEMORY_CONTROLLER_BUSY][0, 0] == 0.3


@pytest.mark.parametrize("controller", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("level", [0.0, 0.004, 0.3])
@pytest.mark.parametrize(
    "counter", ["DRAM_ACTIVE", "PIPE_TENSOR_ACTIVE", "PIPE_FP32_ACTIVE", "PIPE_FP64_ACTIVE"]
)
def test_states_are_the_same_without_a_controller_that_is_not_asked(
    counter: str, level: float, controller: float
) -> None:
    """Counters of memory or pipes alone tell a stall; where none is, the controller does."""
    levels = {
        "DCGM_FI_DEV_GPU_UTIL": 100.0 if level else 0.0,
        "DCGM_FI_DEV_POWER_USAGE": 90.0,
        f"DCGM_FI_PROF_{counter}": level,
        "DCGM_FI_DEV_MEM_COPY_UTIL": 100.0 * controller,
    }
    store: Any = AskedStore(levels)
    queries = DayQueries(store, YESTERDAY, (), ("UUID",))
    device = gpu(uuid="GPU-0", power_limit_watts=700.0)
    read = read_devices(queries, frozenset(levels), [device], KNOWN / 300.0, KNOWN > 0.0)
    assert "sum DCGM_FI_DEV_MEM_COPY_UTIL" not in store.asked
    without = states_of(device, read)
    read.means[Signal.MEMORY_CONTROLLER_BUSY] = np.full((1, COUNT), controller)
    assert states_of(device, read) == without


def states_of(device: Device, read: DeviceReadings) -> dict[str, list[float]]:
    """Seconds in each state, by interval."""
    watched = WatchedDevices([device], [()], KNOWN, YESTERDAY)
    (frame,) = accounted_days(watched, read, EntrySettings())
    return {
        name: np.nan_to_num(column, nan=-1.0).tolist()
        for name, column in frame.columns.items()
        if name.startswith("state:")
    }


def test_controller_tells_a_stall_where_there_is_no_counter() -> None:
    """A GPU at full utilization and little power works if its memory does."""
    states = []
    for controller in (0.0, 40.0):
        levels = {
            "DCGM_FI_DEV_GPU_UTIL": 100.0,
            "DCGM_FI_DEV_POWER_USAGE": 90.0,
            "DCGM_FI_DEV_MEM_COPY_UTIL": controller,
        }
        store: Any = AskedStore(levels)
        queries = DayQueries(store, YESTERDAY, (), ("UUID",))
        device = gpu(uuid="GPU-0", power_limit_watts=700.0)
        read = read_devices(queries, frozenset(levels), [device], KNOWN / 300.0, KNOWN > 0.0)
        states.append(states_of(device, read))
    stall = ColumnKind.STATE.column(State.HIDDEN_STALL)
    assert states[0][stall] == [300.0] * COUNT
    assert sum(states[1].get(stall, [0.0])) == 0.0


def test_instances_have_their_part_of_the_power_of_their_gpu() -> None:
    """Neither each the whole, nor nothing."""
    instances = [
        gpu(uuid=f"GPU-0/gi{number}", mig=MigInstance("GPU-0", "1g.6gb", number, 0, 0.25, 0.25))
        for number in range(3, 7)
    ]
    store: Any = BoardStore()
    queries = DayQueries(store, YESTERDAY, ("GPU-0",), ("UUID",))
    metrics = frozenset({"DCGM_FI_DEV_POWER_USAGE"})
    parts = part_watts(queries, metrics, dict(enumerate(instances)), len(instances))
    assert parts.sum(axis=0) == pytest.approx(52.6)
    joules = 0.0
    for row, device in enumerate(instances):
        read = DeviceReadings(
            {Signal.SM_ACTIVE: np.full((1, COUNT), 0.3)}, part_watts=parts[row : row + 1]
        )
        joules += used(device, read).joules
    assert joules / JOULES_PER_KILOWATT_HOUR == pytest.approx(0.0526 * 24, rel=1e-3)
