"""Screens settle no verdict that judging would have given otherwise."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cached_fleet import FIRST_DAY, estate_device
from readings import DAY, HOUR, workload
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Rule
from rightsizer.fleet.cache.day_cache import DayCache, PackedDay
from rightsizer.fleet.cache.day_frame import ColumnKind, DayFrame
from rightsizer.fleet.cache.grid import COARSE_STEP, Grid
from rightsizer.fleet.cases.case import BatchRequest
from rightsizer.fleet.cases.evaluation import BatchEvaluation, BatchVerdicts
from rightsizer.fleet.cases.occupancy import occupancy_of
from rightsizer.fleet.model import DeviceHolding, FleetDay, FleetDevice
from rightsizer.model.block import Measure
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.finding import Case
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, Resource, State, Tier
from rightsizer.model.workload import Allocator, Workload, WorkloadClass

NOW = (FIRST_DAY + 2) * DAY + 6 * HOUR
DAYS: Final = 3
GPUS: Final = 6
GROUPS: Final = (
    (ColumnKind.STATE, (*State,)),
    (ColumnKind.SECOND_CAUSE, (State.MEMORY_BANDWIDTH_BOUND, State.PCIE_BOUND)),
    (ColumnKind.CONDITION, (*Condition,)),
    (ColumnKind.TIER, (Tier.PROFILING, Tier.POWER, Tier.BASIC)),
    (ColumnKind.SATURATED, (Resource.COMPUTE, Resource.MEMORY_BANDWIDTH)),
    (ColumnKind.PRESSED, (Resource.COMPUTE, Resource.MEMORY, Resource.PCIE)),
)
MEASURES: Final = (
    Measure.BUSY,
    Measure.COMPUTE,
    Measure.COMPUTE_AT_LEAST,
    Measure.MEMORY,
    Measure.MEMORY_BANDWIDTH,
    Measure.PCIE,
    Measure.MEMORY_BYTES,
)
READINGS: Final = (
    Signal.POWER_LIMIT_WATTS,
    Signal.CLOCK_EVENT_REASONS,
    Signal.SM_ACTIVE,
    Signal.FP32_ACTIVE,
    Signal.CPU_PRESSURE,
    Signal.IO_PRESSURE,
    Signal.PCIE_LINK_GENERATION,
    Signal.PCIE_LINK_WIDTH,
    Signal.REMAPPED_ROWS_FAILED,
    Signal.ECC_UNCORRECTED_ERRORS,
    Signal.NVLINK_LINKS,
    Signal.HOST_MEMORY_LOCAL,
)


def days_of(random: Random, grid: Grid) -> DayFrame:
    """Days of a GPU at any mixture of states, conditions and levels, which hold for hours."""
    hours = grid.count
    seconds = grid.step / 1e9
    columns: dict[str, Any] = {}
    known = np.repeat([random.choice((0.0, 0.3, 1.0, 1.0, 1.0)) for _ in range(hours // 6)], 6)
    for kind, names in GROUPS:
        some = random.sample(names, random.randint(kind is ColumnKind.STATE, min(3, len(names))))
        left = known * seconds
        for name in some:
            part = random.choice((0.0, 0.005, 0.2, 0.5, 0.99, 1.0))
            columns[kind.column(name)] = np.where(known > 0, left * part, np.nan)
            left = left * (1.0 - part)
        if kind is ColumnKind.STATE:  # Nothing else lasts longer than the known states.
            parts = (columns[kind.column(name)] for name in some if name is not State.UNKNOWN)
            known = np.nan_to_num(sum(parts, np.zeros(hours))) / seconds
    for measure in random.sample(MEASURES, random.randint(0, len(MEASURES))):
        level = random.choice((0.0, 0.02, 0.3, 0.6, 0.93))
        peak = min(1.0, level * random.choice((1.0, 1.1, 2.0)))
        columns[ColumnKind.MEAN.column(measure)] = np.where(known > 0, level, np.nan)
        columns[ColumnKind.PEAK.column(measure)] = np.where(known > 0, peak, np.nan)
    return DayFrame.of(grid, columns)


def device_of(random: Random, number: int) -> FleetDevice:
    """A GPU of which anything is read, or nothing."""
    readings = {
        signal: random.choice((0.0, 1.0, 350.0))
        for signal in random.sample(READINGS, random.randint(0, len(READINGS)))
    }
    demands = {} if random.random() < 0.7 else {Resource.COMPUTE: random.random()}
    xids = random.choice((None, None, XidLog({}, None, None)))
    found = estate_device(number)
    least, most = random.choice(((None, None), (200.0, None), (200.0, 700.0)))
    device = replace(found.device, power_limit_minimum_watts=least, power_limit_maximum_watts=most)
    return replace(found, device=device, readings=readings, demands=demands, xids=xids)


def holder_of(random: Random, number: int) -> Workload | None:
    """A workload of any class, one with two GPUs among them, or none."""
    if random.random() < 0.2:
        return None
    held = workload(f"w-{max(1, number)}", random.choice((*WorkloadClass,)))
    return replace(held, allocator=random.choice((*Allocator,)))


def tuned(rule: Rule[Any], case: Case) -> Rule[Any]:
    """A policy for some workloads."""
    return rule.relaxed(0.7) if case.key.endswith(("1", "3")) else rule


def judged(path: Any, request: BatchRequest, rules: tuple[Rule[Any], ...]) -> BatchVerdicts:
    """Verdicts on all of it in one batch."""
    with DayCache(path, read_only=True) as day_cache:
        return BatchEvaluation(path, rules, tuned, lookback=3 * DAY).judge(day_cache, request)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_no_screen_settles_what_judging_would_not(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each verdict is counted as the judged one, and every problem is judged."""
    random = Random(seed)
    grid = Grid(FIRST_DAY, COARSE_STEP, DAYS)
    devices = {device.device.uuid: device for device in (device_of(random, n) for n in range(GPUS))}
    frames = {uuid: days_of(random, grid) for uuid in devices}
    workloads = {uuid: holder_of(random, n) for n, uuid in enumerate(devices)}
    held_last = random.choice((DAYS * 24 - 1, (NOW - grid.start) // COARSE_STEP))
    holdings = {
        uuid: (DeviceHolding(held, random.choice((0, 0, 0, 50)), held_last),)
        for uuid, held in workloads.items()
        if held is not None
    }
    path = tmp_path_factory.mktemp("screens") / "fleet.db"
    with DayCache(path) as day_cache:
        day = FleetDay(frames, holdings)
        day_cache.put(PackedDay.of("rightsizer", grid, [*devices], NOW, day))
        rows = day_cache.holdings(FIRST_DAY, FIRST_DAY + DAYS)
        known = day_cache.workloads()
    occupancy = occupancy_of(devices, rows, NOW, HOUR)
    request = BatchRequest(occupancy, devices, known, FIRST_DAY, NOW)
    without = tuple(replace(rule, screen_with=None) for rule in RULES)
    screened = judged(path, request, RULES)
    unscreened = judged(path, request, without)
    assert screened.faults == unscreened.faults == []
    assert screened.tallies == unscreened.tallies
    assert screened.judgements == unscreened.judgements
