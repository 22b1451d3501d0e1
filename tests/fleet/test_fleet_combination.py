"""Devices combined: sums of the same moments, in any order, never more than the truth."""

import math
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cached_fleet import FIRST_DAY, day_frame, day_frames
from readings import DAY
from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.day_frame import ColumnKind, DayFrame
from rightsizer.fleet.cache.grid import COARSE_STEP, FINE_STEP, Grid
from rightsizer.fleet.columns.segment import Segment
from rightsizer.fleet.columns.subject import Subject
from rightsizer.fleet.columns.subject_columns import SubjectColumns, columns_of
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.block import Measure
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Resource, State

BUSY_MEAN = ColumnKind.MEAN.column(Measure.BUSY)
BUSY_PEAK = ColumnKind.PEAK.column(Measure.BUSY)
PRODUCTIVE = ColumnKind.STATE.column(State.PRODUCTIVE)
DAY_GRID = Grid(FIRST_DAY, COARSE_STEP)


def row(
    number: int = 0,
    first: int = 0,
    last: int | None = None,
    share: float = 1.0,
    grid: Grid = DAY_GRID,
) -> HoldingRow:
    """What a job held of a device on a day."""
    end = grid.count - 1 if last is None else last
    return HoldingRow(f"GPU-{number}", "a", grid, "job", first, end, share)


def arranged(frames: Sequence[DayFrame], *, by_the_hour: bool = False) -> SubjectColumns:
    """Devices of one frame each, in the same columns."""
    rows = columns_of([[frame] for frame in frames], DemandSettings(), by_the_hour=by_the_hour)
    (columns,) = {columns for columns, _ in rows}
    return columns


def held(frames: Sequence[DayFrame], rows: Sequence[HoldingRow] | None = None) -> SubjectColumns:
    """A job that held devices, each for the whole day unless told otherwise."""
    rows = rows or [row(number) for number in range(len(frames))]
    return arranged(frames).held([[(number, each) for number, each in enumerate(rows)]])


def segment_of(columns: SubjectColumns) -> Segment:
    """Its only segment."""
    (segment,) = columns.segments
    return segment


def values(columns: SubjectColumns, column: str) -> list[float]:
    """A column of the job, which must be present."""
    found = segment_of(columns).column(column)
    assert found is not None
    return list(found[0])


def devices(columns: SubjectColumns) -> list[float]:
    """How many devices the job had."""
    return list(segment_of(columns).devices[0])


@given(day_frames(), day_frames(), day_frames())
@settings(max_examples=8)
def test_the_order_of_devices_does_not_matter(
    one: DayFrame, other: DayFrame, third: DayFrame
) -> None:
    """Sums are equal up to float rounding."""
    same_day = [DayFrame.of(one.grid, each.columns) for each in (one, other, third)]
    first, *others = (segment_of(held(order)).values for order in permutations(same_day))
    for found in others:
        assert found == pytest.approx(first, rel=1e-5, abs=1e-5, nan_ok=True)


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=5))
@settings(max_examples=15)
def test_a_peak_lies_between_the_mean_and_the_sum_of_the_peaks(busy: list[float]) -> None:
    """It is also at least each device's own excess above the sum of the means."""
    frames = [day_frame(FIRST_DAY, busy=each) for each in busy]
    job = held(frames)
    mean = values(job, BUSY_MEAN)[3]
    peak = values(job, BUSY_PEAK)[3]
    peaks = [frame.columns[BUSY_PEAK][3] for frame in frames]
    assert mean == pytest.approx(sum(busy), rel=1e-5, abs=1e-6)
    assert mean - 1e-5 <= peak <= sum(peaks) + 1e-5
    assert peak >= max(peaks) - 1e-5


def test_a_shared_device_counts_by_its_share() -> None:
    """Its seconds and its use are both scaled."""
    job = held([day_frame(FIRST_DAY, busy=0.8)], [row(share=0.25)])
    assert values(job, PRODUCTIVE)[0] == pytest.approx(900.0)
    assert values(job, BUSY_MEAN)[0] == pytest.approx(0.2)
    assert devices(job) == [0.25] * 24


def test_a_device_counts_only_while_it_is_held() -> None:
    """Before and after, the workload has no time and nothing is known of it."""
    job = held([day_frame(FIRST_DAY)], [row(first=6, last=11)])
    assert devices(job) == [0.0] * 6 + [1.0] * 6 + [0.0] * 12
    assert [math.isnan(each) for each in values(job, BUSY_MEAN)] == [
        not 6 <= hour <= 11 for hour in range(24)
    ]
    window = Subject(job, 0).window("workload:job", 0, 2**63)
    assert window.accounted == window.known == DAY // 4


def test_a_measure_is_known_only_where_it_is_of_all() -> None:
    """Sums cover moments known for all devices; the rest is unknown."""
    gap = [1.0] * 12 + [0.0] * 12
    job = held([day_frame(FIRST_DAY), day_frame(FIRST_DAY, known=gap)])
    assert values(job, PRODUCTIVE) == [7200.0] * 12 + [3600.0] * 12
    assert [math.isnan(each) for each in values(job, BUSY_MEAN)] == [False] * 12 + [True] * 12
    window = Subject(job, 0).window("workload:job", 0, 2**63)
    assert (window.known, window.accounted) == (3 * DAY // 2, 2 * DAY)


def test_a_device_of_which_nothing_is_known_has_its_time() -> None:
    """It was allocated, but not measured."""
    job = held([day_frame(FIRST_DAY), DayFrame.of(DAY_GRID, {})])
    assert devices(job) == [2.0] * 24
    assert sum(values(job, PRODUCTIVE)) == 86400.0
    assert all(map(math.isnan, values(job, BUSY_MEAN)))


def test_a_holder_stays_while_nothing_later_is_known() -> None:
    """A store that lags behind does not end a job; a device that goes on without it does."""
    lags = [1.0] * 12 + [0.0] * 12
    assert devices(held([day_frame(FIRST_DAY, known=lags)], [row(last=11)])) == [1.0] * 24
    goes_on = held([day_frame(FIRST_DAY)], [row(last=11)])
    assert devices(goes_on) == [1.0] * 12 + [0.0] * 12


def test_days_of_different_steps_meet_by_the_hour() -> None:
    """Seconds and means are kept; the peak is the largest."""
    frames = [day_frame(FIRST_DAY, FINE_STEP, busy=0.2), day_frame(FIRST_DAY, busy=0.6)]
    apart = columns_of([[frame] for frame in frames], DemandSettings())
    assert [columns.segments[0].grid.step for columns, _ in apart] == [FINE_STEP, COARSE_STEP]
    columns = arranged(frames, by_the_hour=True)
    job = columns.held([[(0, row()), (1, row(1))]])
    assert segment_of(job).grid.step == COARSE_STEP
    assert values(job, PRODUCTIVE) == pytest.approx([7200.0] * 24)
    assert values(job, BUSY_MEAN) == pytest.approx([0.8] * 24)


def test_distributions_are_divided_by_what_was_held_of_the_day() -> None:
    """Half of a device for half of a day has a quarter of it."""
    whole = {Resource.COMPUTE: Histogram({40: 8.0})}
    columns = day_frame(FIRST_DAY).columns
    job = held([DayFrame.of(DAY_GRID, columns, whole)], [row(last=11, share=0.5)])
    assert segment_of(job).exported[Resource.COMPUTE][0, 0, 40] == 2.0


def test_a_device_that_a_job_had_for_all_of_its_time_is_the_job() -> None:
    """Most workloads have one device, for which nothing is combined."""
    gap = [0.0] * 4 + [1.0] * 20
    columns = arranged([day_frame(FIRST_DAY, known=gap)])
    assert columns.is_held_throughout(0, [row(first=4)])
    assert not columns.is_held_throughout(0, [row(first=5)])
    assert not columns.is_held_throughout(0, [row(share=0.5)])
    assert columns.is_held_throughout(0, [row(share=0.5), row(share=0.5)])
    unknown = arranged([DayFrame.of(DAY_GRID, {})])
    assert not unknown.is_held_throughout(0, [row()])


def test_sources_complete_each_other_and_the_last_takes_precedence() -> None:
    """An agent that was installed at noon leaves the morning to the exporter."""
    since_noon = [0.0] * 12 + [1.0] * 12
    agent = day_frame(FIRST_DAY, busy=0.9, known=since_noon)
    agent = DayFrame.of(
        agent.grid,
        {
            name: np.where(np.array(since_noon) > 0, column, np.nan)
            for name, column in agent.columns.items()
        },
    )
    ((columns, _),) = columns_of([[day_frame(FIRST_DAY, busy=0.2), agent]], DemandSettings())
    assert values(columns, BUSY_MEAN) == pytest.approx([0.2] * 12 + [0.9] * 12)
    assert values(columns, PRODUCTIVE) == [3600.0] * 24


def only(frame: DayFrame, *columns: str) -> DayFrame:
    """Some columns of a day; the others are unknown."""
    return DayFrame.of(frame.grid, {column: frame.columns[column] for column in columns})


def test_an_interval_is_divided_by_one_source() -> None:
    """States of two sources would be more than all of it; so would be a mean and another's peak."""
    idle = day_frame(FIRST_DAY, state=State.IDLE_HELD, busy=0.0)
    agent = only(day_frame(FIRST_DAY, busy=0.9), PRODUCTIVE, BUSY_MEAN)
    ((columns, row_of_device),) = columns_of([[idle, agent]], DemandSettings())
    window = Subject(columns, row_of_device).window("GPU-0", FIRST_DAY * DAY, (FIRST_DAY + 1) * DAY)
    assert window.states == {State.PRODUCTIVE: DAY}
    assert all(map(math.isnan, values(columns, BUSY_PEAK)))


def test_a_source_without_states_leaves_the_distributions_of_another() -> None:
    """Nothing tells of how much time its own are."""
    columns = day_frame(FIRST_DAY).columns
    first = DayFrame.of(DAY_GRID, columns, {Resource.COMPUTE: Histogram({40: 8.0})})
    blind = DayFrame.of(
        DAY_GRID,
        {BUSY_MEAN: columns[BUSY_MEAN], BUSY_PEAK: columns[BUSY_PEAK]},
        {Resource.COMPUTE: Histogram({90: 8.0})},
    )
    ((arranged_columns, _),) = columns_of([[first, blind]], DemandSettings())
    assert segment_of(arranged_columns).exported[Resource.COMPUTE][0, 0, 40] == 8.0


def test_a_figure_that_no_store_can_mean_is_unknown() -> None:
    """Running sums would lose all that follows it."""
    energy = ColumnKind.ENERGY.column("joules")
    columns = {name: column.copy() for name, column in day_frame(FIRST_DAY).columns.items()}
    columns[energy][3:6] = [math.inf, 1e30, -math.inf]
    device = Subject(*columns_of([[DayFrame.of(DAY_GRID, columns)]], DemandSettings())[0])
    window = device.window("GPU-0", FIRST_DAY * DAY, (FIRST_DAY + 1) * DAY)
    assert window.energy_joules == pytest.approx(21 * 3600 * 300.0)
