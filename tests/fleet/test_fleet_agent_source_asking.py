"""Queries of the agent source: metrics, and time ranges."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pytest

from cached_fleet import FIRST_DAY, estate_device
from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY, FINE_STEP, Grid
from rightsizer.fleet.source import SampledSeries, StoreUse
from rightsizer.fleet.sources import figures
from rightsizer.fleet.sources.agent.columns import limit_columns
from rightsizer.fleet.sources.agent.day import DayReader
from rightsizer.model.state import State

NAMES: Final = frozenset(
    {
        "rightsizer_state_seconds_total",
        "rightsizer_gpu_busy_ratio",
        "rightsizer_waste_joules_total",
        "rightsizer_workload_share_ratio",
        "rightsizer_device_up",
        "rightsizer_gpu_busy_distribution_ratio_bucket",
    }
)
RECEIVE = "rightsizer_pcie_receive_bytes_per_second"
TRANSMIT = "rightsizer_pcie_transmit_bytes_per_second"
STRETCHES: Final = 100
"""Intervals of the day's 288 at which the device was present."""


@dataclass
class UntilNow:
    """Store that knows one device's states until some moment, and nothing else."""

    asked: list[tuple[str, int]] = field(default_factory=list)
    """Queries with their end."""

    @property
    def use(self) -> StoreUse:
        """Not counted."""
        return StoreUse()

    def range(self, promql: str, start: int, end: int, step: int) -> Sequence[SampledSeries]:
        """States that fill each interval."""
        self.asked.append((promql, end))
        if "state_seconds" not in promql:
            return ()
        times = range(start, start + STRETCHES * step, step)
        labels = {"uuid": "GPU-0", "state": State.PRODUCTIVE.value}
        return [SampledSeries(labels, times, np.full(STRETCHES, step / 1e9))]

    def instant(self, promql: str, time: int) -> Sequence[SampledSeries]:
        """No series."""
        self.asked.append((promql, time))
        return ()


def test_nothing_is_asked_for_of_the_time_after_the_last_sample() -> None:
    """States show how long the device was present; the rest of the day is unknown."""
    store = UntilNow()
    grid = Grid(FIRST_DAY, FINE_STEP)
    found = DayReader(store, NAMES, [estate_device(0)], grid, UsageSettings()).read()
    ends = {end for promql, end in store.asked if "state_seconds" not in promql}
    assert ends == {grid.start + STRETCHES * FINE_STEP}
    productive = found.frames["GPU-0"].columns[ColumnKind.STATE.column(State.PRODUCTIVE)]
    assert list(productive[:STRETCHES]) == [300.0] * STRETCHES
    assert len(productive) == grid.count
    assert all(math.isnan(value) for value in productive[STRETCHES:])


def test_joules_are_asked_for_of_idle_time_alone() -> None:
    """No rule uses the energy of other causes."""
    store = UntilNow()
    DayReader(store, NAMES, [estate_device(0)], Grid(FIRST_DAY, FINE_STEP), UsageSettings()).read()
    (asked,) = [promql for promql, _ in store.asked if "waste_joules" in promql]
    assert 'cause="idle"' in asked


@pytest.mark.parametrize(
    ("names", "read"),
    [({RECEIVE, TRANSMIT}, {RECEIVE, TRANSMIT}), ({RECEIVE}, {RECEIVE}), ({TRANSMIT}, {TRANSMIT})],
)
def test_of_a_link_the_busier_direction_is_asked_for(names: set[str], read: set[str]) -> None:
    """The store computes the maximum as one series, or returns the exported one."""
    asked = figures.LINKS[0].promql(names, {"uuid": ("GPU-0",)}, COARSE_STEP)
    assert asked is not None
    assert asked.startswith("round(max by (uuid) (")
    assert {name for name in (RECEIVE, TRANSMIT) if f"avg_over_time({name}{{" in asked} == read
    assert asked.count("label_replace(") == (2 if len(read) > 1 else 0)


def test_a_day_without_a_share_is_not_one_at_the_limit() -> None:
    """An agent of a version without limits leaves them unknown."""
    grid = Grid(FIRST_DAY, COARSE_STEP, 2)
    known = np.array([[3600.0] * 30 + [1800.0] * 18])
    labels = {"uuid": "GPU-0", "resource": "compute", "figure": "saturated"}
    series = [SampledSeries(labels, np.array([grid.start + 2 * DAY]), np.array([0.5]))]
    limits = limit_columns(series, {"GPU-0": 0}, known, grid)
    (column,) = limits[ColumnKind.SATURATED.column("compute")]
    assert all(math.isnan(value) for value in column[:24])
    assert list(column[24:]) == [1800.0] * 6 + [900.0] * 18
