"""Fleets with generated days, and a source that returns them like a store."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hypothesis import strategies as st
from msgspec import Struct

from readings import DAY as A_DAY
from readings import EPOCH, gpu
from rightsizer.fleet.cache.day_frame import ColumnKind, DayFrame
from rightsizer.fleet.cache.grid import COARSE_STEP, Grid
from rightsizer.fleet.columns.subject import Subject
from rightsizer.fleet.columns.subject_columns import columns_of
from rightsizer.fleet.model import DeviceHolding, FleetDay, FleetDevice, FleetInventory
from rightsizer.fleet.settings import DemandSettings
from rightsizer.fleet.source import MetricStore, SampledSeries, SourceReport, StoreUse
from rightsizer.model.block import Measure
from rightsizer.model.errors import StoreError, StoreLimitError
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Cause, Condition, Resource, State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.workload import Workload

FIRST_DAY: Final = EPOCH // A_DAY
STATES: Final = (State.IDLE_EMPTY, State.IDLE_HELD, State.PRODUCTIVE, State.HIDDEN_STALL)
MEASURES: Final = (Measure.BUSY, Measure.COMPUTE, Measure.MEMORY, Measure.MEMORY_BYTES)


def estate_device(number: int, pool: str = "h100", **facts: object) -> FleetDevice:
    """A GPU of a node of eight."""
    return FleetDevice(gpu(number, **facts), node=f"node-{number // 8}", pool=pool)


def day_frame(  # noqa: PLR0913 - one for each thing that a test may vary.
    day: int,
    step: Nanoseconds = COARSE_STEP,
    days: int = 1,
    *,
    state: State = State.PRODUCTIVE,
    known: Sequence[float] | None = None,
    busy: float = 0.5,
    memory: float = 0.4,
) -> DayFrame:
    """Days of one GPU in which every stretch is alike.

    Args:
        day: Days since the epoch.
        step: Of the grid.
        days: How many.
        state: The device's state.
        known: The known part of each stretch; all of it by default.
        busy: Its mean; its peak is a tenth of the remainder above it.
        memory: The used fraction.
    """
    grid = Grid(day, step, days)
    parts = [1.0] * grid.count if known is None else list(known)
    length = step / NANOSECONDS_PER_SECOND
    columns = {ColumnKind.STATE.column(each): array("f", [0.0] * grid.count) for each in STATES}
    columns[ColumnKind.STATE.column(state)] = array("f", [part * length for part in parts])
    columns[ColumnKind.TIER.column(Tier.PROFILING)] = array("f", [part * length for part in parts])
    columns[ColumnKind.USED.column("seconds")] = array(
        "f", [part * length * busy for part in parts]
    )
    wasted = array("f", [part * length * (1 - busy) for part in parts])
    columns[ColumnKind.WASTE.column(Cause.HEADROOM)] = wasted
    columns[ColumnKind.ENERGY.column("joules")] = array(
        "f", [part * length * 300.0 for part in parts]
    )
    for measure, mean in zip(MEASURES, (busy, busy, memory, memory * 80 * 2**30), strict=True):
        peak = mean + 0.1 * (1 - busy) * mean
        columns[ColumnKind.MEAN.column(measure)] = _present(parts, mean)
        columns[ColumnKind.PEAK.column(measure)] = _present(parts, peak)
    return DayFrame.of(grid, columns)


def _present(parts: Sequence[float], value: float) -> array[float]:
    return array("f", [value if part > 0 else math.nan for part in parts])


def subject_of(*frames: DayFrame) -> Subject:
    """A device, alone in its columns."""
    ((columns, row),) = columns_of([frames], DemandSettings())
    return Subject(columns, row)


@st.composite
def day_frames(draw: st.DrawFn, step: Nanoseconds = COARSE_STEP) -> DayFrame:
    """Any day of a GPU: states that fit into their stretches, any measures, any gaps."""
    grid = Grid(FIRST_DAY + draw(st.integers(0, 3)), step)
    length = step / NANOSECONDS_PER_SECOND
    seed = draw(st.randoms(use_true_random=False))
    gaps = draw(st.sampled_from([0.0, 0.1, 0.9]))
    states = draw(st.lists(st.sampled_from(STATES), min_size=1, unique=True))
    columns = {ColumnKind.STATE.column(each): array("f") for each in states}
    others = [
        ColumnKind.CONDITION.column(Condition.POWER_THROTTLED),
        ColumnKind.WASTE.column(Cause.IDLE),
    ]
    others += [ColumnKind.TIER.column(Tier.POWER), ColumnKind.ENERGY.column("joules")]
    measures = draw(st.lists(st.sampled_from(MEASURES), unique=True))
    columns |= {column: array("f") for column in others}
    for measure in measures:
        columns |= {
            ColumnKind.MEAN.column(measure): array("f"),
            ColumnKind.PEAK.column(measure): array("f"),
        }
    for _ in range(grid.count):
        is_gap = seed.random() < gaps
        cuts = sorted(seed.random() for _ in states)
        for state, low, high in zip(states, [0.0, *cuts], cuts, strict=False):
            columns[ColumnKind.STATE.column(state)].append(
                math.nan if is_gap else (high - low) * length
            )
        for column in others:
            columns[column].append(math.nan if is_gap else seed.random() * length)
        for measure in measures:
            mean = seed.random()
            columns[ColumnKind.MEAN.column(measure)].append(math.nan if is_gap else mean)
            peak = mean + (1 - mean) * seed.random()
            columns[ColumnKind.PEAK.column(measure)].append(math.nan if is_gap else peak)
    demands = {}
    if draw(st.booleans()):
        weights = {seed.randrange(101): seed.random() * 1e12 for _ in range(12)}
        demands = {Resource.COMPUTE: Histogram(weights)}
    return DayFrame.of(grid, columns, demands)


class NoStore(Struct, frozen=True):
    """The client of a source with generated days."""

    def range(
        self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
    ) -> Sequence[SampledSeries]:
        """Return nothing."""
        del promql, start, end, step
        return ()

    @property
    def use(self) -> StoreUse:
        """It is never called."""
        return StoreUse()

    def instant(self, promql: str, time: Nanoseconds) -> Sequence[SampledSeries]:
        """Return nothing."""
        del promql, time
        return ()


@dataclass
class MadeUp:
    """A source with days derived from the names of devices; it may fail, or be limited."""

    holders: Mapping[str, Workload] = field(default_factory=dict)
    states: Mapping[str, State] = field(default_factory=dict)
    most: int = 1000
    """Maximum number of devices in one query."""
    fails_at: int | None = None
    """The number of the query that fails."""
    asked: list[tuple[int, int]] = field(default_factory=list)
    """Day and number of devices of each query."""
    name: str = "rightsizer"

    def probe(self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
        """All data is there."""
        del store
        return SourceReport(self.name, oldest=now - lookback, tier=Tier.PROFILING)

    def inventory(
        self, store: MetricStore, report: SourceReport, now: Nanoseconds, lookback: Nanoseconds
    ) -> FleetInventory:
        """It is never called here."""
        del store, report, now, lookback
        return FleetInventory()

    def queries(self, report: SourceReport, grids: Sequence[Grid]) -> int:
        """One for each shard."""
        del report
        return len(grids)

    def day(
        self, store: MetricStore, report: SourceReport, devices: Sequence[FleetDevice], grid: Grid
    ) -> FleetDay:
        """A day, equal in each call."""
        del store, report
        self.asked.append((grid.day, len(devices)))
        if self.fails_at is not None and len(self.asked) > self.fails_at:
            raise StoreError("store 'made-up': does not answer; start it")
        if len(devices) > self.most:
            raise StoreLimitError("store 'made-up': too many series; ask for fewer")
        uuids = [device.device.uuid for device in devices]
        return FleetDay(
            {device.device.uuid: self._track(device, grid) for device in devices},
            {
                uuid: (DeviceHolding(self.holders[uuid], 0, grid.count - 1),)
                for uuid in uuids
                if uuid in self.holders
            },
        )

    def _track(self, device: FleetDevice, grid: Grid) -> DayFrame:
        number = device.device.index
        uuid = device.device.uuid
        state = self.states.get(uuid, State.PRODUCTIVE)
        busy = 0.0 if state in (State.IDLE_EMPTY, State.IDLE_HELD) else 0.3 + number % 7 / 10
        return day_frame(grid.day, grid.step, grid.days, state=state, busy=busy)
