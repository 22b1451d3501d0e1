"""Columnar days of dcgm-exporter equal the node agent's accounting of each interval."""

import math
from random import Random
from typing import Any, Final

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from readings import gpu
from rightsizer.accounting.settings import EntrySettings
from rightsizer.fleet.cache.grid import COARSE_STEP, FINE_STEP, Grid
from rightsizer.fleet.model import DeviceHolding
from rightsizer.fleet.sources.day_accounting import (
    DeviceReadings,
    ThrottleReasons,
    WatchedDevices,
    accounted_days,
)
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition
from rightsizer.model.units import seconds
from rightsizer.model.workload import Allocator, Workload, WorkloadClass, WorkloadKind
from scalar_day import scalar_days

DEVICES: Final = (
    gpu(0),
    gpu(1),
    replace(gpu(2), memory_total_bytes=None, power_limit_watts=None),
    replace(gpu(3), nvlink_bytes_per_second=None, sm_clock_maximum_hertz=None),
)
LEVELS: Final[dict[Signal, tuple[float, ...]]] = {
    Signal.GPU_BUSY: (0.0, 0.01, 0.3, 0.6, 0.97, 1.0),
    Signal.MEMORY_CONTROLLER_BUSY: (0.0, 0.02, 0.6),
    Signal.SM_ACTIVE: (0.0, 0.0, 0.05, 0.6, 0.95),
    Signal.TENSOR_ACTIVE: (0.0, 0.0, 0.01, 0.4, 0.8),
    Signal.FP32_ACTIVE: (0.0, 0.0, 0.3, 0.7),
    Signal.DRAM_ACTIVE: (0.0, 0.0, 0.1, 0.5, 0.7),
    Signal.PCIE_RECEIVE_BYTES_PER_SECOND: (0.0, 1e9, 5e10),
    Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND: (0.0, 1e9, 4e11),
    Signal.ENCODER: (0.0, 0.0, 0.4),
    Signal.POWER_WATTS: (0.0, 60.0, 75.0, 120.0, 300.0, 690.0),
    Signal.SM_CLOCK_HERTZ: (0.3e9, 1.2e9, 1.98e9),
    Signal.MEMORY_USED_BYTES: (0.0, 4e8, 2e9, 4e10, 8.4e10),
    Signal.REQUESTS_WAITING: (0.0, 3.0),
    Signal.KV_CACHE_USED: (0.1, 0.99),
}
HOLDERS: Final = (
    Workload("slurm:1", WorkloadKind.SLURM, "1", workload_class=WorkloadClass.BATCH),
    Workload("slurm:2", WorkloadKind.SLURM, "2", workload_class=WorkloadClass.BATCH),
    Workload(
        "kubernetes:a/chat",
        WorkloadKind.KUBERNETES,
        "chat",
        workload_class=WorkloadClass.SERVING,
        allocator=Allocator.PREALLOCATING,
    ),
)


def drawn_readings(chance: Random, grid: Grid) -> tuple[WatchedDevices, DeviceReadings]:
    """Days with every combination of present and missing signals, in runs of any length."""
    shape = len(DEVICES), grid.count

    def column(levels: tuple[float, ...], gaps: float = 0.1) -> Any:
        found = np.full(shape, math.nan)
        for row in range(shape[0]):
            place = 0
            while place < shape[1]:
                end = place + chance.choice((1, 2, 5, 12))
                value = math.nan if chance.random() < gaps else chance.choice(levels)
                found[row, place:end] = value
                place = end
        found[[row for row in range(shape[0]) if chance.random() < gaps]] = math.nan
        return found

    signals = [signal for signal in LEVELS if chance.random() < 0.8]
    # Utilization is known throughout, or not at all: idle power is learned before it is known that
    # the counters are dead.
    gaps = {Signal.GPU_BUSY: 0.0}
    means = {signal: column(LEVELS[signal], gaps.get(signal, 0.1)) for signal in signals}
    if chance.random() < 0.5:
        means[Signal.PREEMPTIONS] = np.nancumsum(column((0.0, 0.0, 2.0)), axis=1)
    peaks = {
        signal: np.fmax(means[signal], column(LEVELS[signal], 0.4))
        for signal in signals
        if chance.random() < 0.7 and signal is not Signal.REQUESTS_WAITING
    }
    masks = column((0.0, 4.0, 8.0, 64.0, 32.0))
    least = np.where(column((0.0, 1.0)) > 0, masks, 0.0)
    reasons = ThrottleReasons((masks + least) / 2, masks, least)
    step = seconds(grid.step)
    watts = np.nan_to_num(means.get(Signal.POWER_WATTS, np.full(shape, 100.0)))
    energy = watts * step * column((0.5, 0.9, 1.0, 1.1, 0.0, 30.0))
    read = DeviceReadings(
        means,
        peaks,
        energy if chance.random() < 0.7 else np.full(shape, math.nan),
        reasons if chance.random() < 0.6 else ThrottleReasons(),
        {Condition.POWER_THROTTLED: column((0.0, 0.01, 0.5, 2.0))} if chance.random() < 0.5 else {},
    )
    known = step * np.nan_to_num(column((1.0, 1.0, 1.0, 0.4)))
    holdings = []
    for _ in DEVICES:
        cuts = sorted(chance.sample(range(grid.count + 1), 4))
        runs = [
            DeviceHolding(chance.choice(HOLDERS), first, last - 1, chance.choice((1.0, 0.5)))
            for first, last in zip(cuts[::2], cuts[1::2], strict=True)
        ]
        if runs and chance.random() < 0.3:
            runs.append(DeviceHolding(HOLDERS[2], runs[0].first, runs[0].last, 0.5))
        holdings.append(tuple({(run.workload.key, run.first): run for run in runs}.values()))
    return WatchedDevices(DEVICES, holdings, known, grid), read


@given(st.integers(0, 2**32))
@example(13290)  # A counter that stands still across a gap.
@settings(max_examples=30)
def test_days_by_the_hour_are_those_that_the_agent_s_accounting_gives(seed: int) -> None:
    """Seconds, joules, means and peaks of every interval agree, whichever signals are missing."""
    check_days(COARSE_STEP, seed)


@given(st.integers(0, 2**32))
@example(13290)
@settings(max_examples=5)
def test_days_by_five_minutes_are_too(seed: int) -> None:
    """One has twelve times as many intervals to agree on."""
    check_days(FINE_STEP, seed)


def check_days(step: int, seed: int) -> None:
    """Compare a drawn day of every device with the agent's own accounting."""
    grid = Grid(20_600, step)
    watched, read = drawn_readings(Random(seed), grid)
    expected = scalar_days(watched, read, EntrySettings())
    frames = list(accounted_days(watched, read, EntrySettings()))
    for device, frame in zip(DEVICES, frames, strict=True):
        columns = frame.columns
        wanted = expected[device.uuid]
        for name in sorted({*columns, *wanted}):
            nothing = np.full(grid.count, math.nan)
            own = np.array(columns.get(name, nothing), float)
            other = np.array(wanted.get(name, nothing), float)
            if not name.startswith(("mean:", "peak:", "energy:", "used:")):
                own = np.nan_to_num(own)
                other = np.nan_to_num(other)
            where = np.flatnonzero(~np.isclose(own, other, rtol=1e-5, atol=1e-4, equal_nan=True))
            assert not len(where), (name, where[0], own[where[0]], other[where[0]])
