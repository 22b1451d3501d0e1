"""Days read at once equal days that were read one by one."""

import gc
from collections.abc import Sequence
from itertools import pairwise
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cached_fleet import FIRST_DAY, day_frame, day_frames, subject_of
from readings import DAY, HOUR
from rightsizer.fleet.cache.day_cache import HoldingRow, merged_holdings, rows_by_day
from rightsizer.fleet.cache.day_codec import pack, unpack
from rightsizer.fleet.cache.day_frame import ColumnKind, DayFrame, frames_by_day
from rightsizer.fleet.cache.grid import COARSE_STEP, FINE_STEP, Grid
from rightsizer.fleet.columns.blocks import SegmentRow, blocks_of
from rightsizer.fleet.columns.subject import Subject
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure, Series
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Resource, State
from rightsizer.model.window import Window

BUSY = (0.2, 0.9, 0.5)


def single(number: int) -> DayFrame:
    """A single cached day: unlike the others, and half of it unknown."""
    states = (State.PRODUCTIVE, State.IDLE_HELD, State.HIDDEN_STALL)
    parts = [1.0] * 24 if number != 1 else [1.0] * 10 + [0.0] * 9 + [0.5] * 5
    one = day_frame(FIRST_DAY + number, state=states[number], busy=BUSY[number], known=parts)
    return unpack(one.grid, pack(one))


def at_once(days: Sequence[DayFrame]) -> DayFrame:
    """The same days as one frame."""
    first = days[0]
    values = np.concatenate([day.values for day in days], axis=1)
    return DayFrame(Grid(first.grid.day, first.grid.step, len(days)), first.layout, values)


DAYS = [single(number) for number in range(3)]


def plain(window: Window) -> tuple[object, ...]:
    """All public values, with blocks as bytes."""
    demands = {key: dict(demand.items()) for key, demand in window.demands.items()}
    sums = window.waste_seconds, window.used_seconds, window.energy_joules
    return window.states, window.tiers, sums, demands, window.blocks.data


def test_columns_that_were_read_need_no_collection_of_garbage() -> None:
    """Processes that judge are without it."""
    gc.collect()
    gc.disable()
    try:
        blocks = subject_of(*DAYS).window("GPU-0", FIRST_DAY * DAY, (FIRST_DAY + 2) * DAY).blocks
        column = blocks.series(Measure.BUSY).means
        assert sum(column) == pytest.approx(column.total())
        left = ref(column)
        del blocks, column
        assert left() is None
    finally:
        gc.enable()


@given(st.integers(-3, 75), st.integers(1, 80))
def test_any_span_is_answered_alike(first: int, hours: int) -> None:
    """States, distributions and blocks are equal, sums of floats up to the order of addition."""
    start = FIRST_DAY * DAY + first * HOUR
    one, other = (
        subject_of(*each).window("GPU-0", start, start + hours * HOUR)
        for each in (DAYS, [at_once(DAYS)])
    )
    assert one.start == other.start
    assert one.blocks.data == other.blocks.data
    for mine, theirs in zip(plain(one)[:2], plain(other)[:2], strict=True):
        assert mine == pytest.approx(theirs, rel=1e-6)
    assert one.used_seconds == pytest.approx(other.used_seconds, rel=1e-6)
    for resource, histogram in one.demands.items():
        weights = dict(other.demands[resource].items())
        assert dict(histogram.items()) == pytest.approx(weights, rel=1e-6)


def test_days_at_once_come_apart_again() -> None:
    """Values are equal, and a distribution is scaled by the known part of the time."""
    joined = at_once(DAYS)
    frame = DayFrame(
        joined.grid, joined.layout, joined.values, {Resource.COMPUTE: Histogram({9: 8.0})}
    )
    found = list(frames_by_day([frame]))
    assert [each.grid for each in found] == [day.grid for day in DAYS]
    assert [each.values.tobytes() for each in found] == [day.values.tobytes() for day in DAYS]
    parts = [each.demands[Resource.COMPUTE].total for each in found]
    assert sum(parts) == pytest.approx(8.0)
    assert parts[1] == pytest.approx(parts[0] * 12.5 / 24)
    assert list(frames_by_day(found)) == found


@given(st.integers(0, 71), st.integers(0, 71))
def test_holdings_end_with_their_day_and_go_on(one: int, other: int) -> None:
    """Each of their intervals is returned once."""
    first = min(one, other)
    last = max(one, other)
    row = HoldingRow("GPU-0", "a", Grid(FIRST_DAY, COARSE_STEP, 3), "job", first, last, 0.5)
    found = list(rows_by_day([row]))
    assert [each.grid.days for each in found] == [1] * len(found)
    assert (found[0].start, found[-1].end) == (row.start, row.end)
    assert all(one.end == other.start for one, other in pairwise(found))
    assert list(rows_by_day(found)) == found


def test_holders_are_those_of_the_first_source_that_knows_the_day() -> None:
    """Sources that read several days at once, and others, meet day by day."""
    rows = [
        HoldingRow("GPU-0", "a", DAYS[1].grid, "mine", 0, 23, 1.0),
        HoldingRow("GPU-0", "b", Grid(FIRST_DAY, COARSE_STEP, 3), "other", 0, 71, 1.0),
    ]
    assert [row.workload for row in merged_holdings(rows, ("a", "b"))] == ["other", "mine", "other"]
    assert merged_holdings(rows[1:], ("a", "b")) == rows[1:]


@st.composite
def subjects(draw: st.DrawFn) -> Subject:
    """A device of a day or two by the hour, and perhaps one by five minutes, with any gaps."""
    found = [draw(day_frames()) for _ in range(draw(st.integers(1, 2)))]
    gap = draw(st.integers(0, 287))
    if draw(st.booleans()):
        known = [1.0] * gap + [0.0] * (288 - gap)
        found.append(day_frame(FIRST_DAY, FINE_STEP, known=known))
    return subject_of(
        *(
            DayFrame(Grid(FIRST_DAY + place, frame.grid.step), frame.layout, frame.values)
            for place, frame in enumerate(found)
        )
    )


@given(subjects(), st.sampled_from(Measure), st.integers(-12, 900), st.integers(1, 900))
def test_blocks_that_are_made_when_asked_for_are_those_that_are_packed(
    subject: Subject, measure: Measure, first: int, count: int
) -> None:
    """Covers each measure by columns, and the bytes of all."""
    start = FIRST_DAY * DAY + first * BLOCK_SPAN
    end = start + count * BLOCK_SPAN
    blocks = subject.blocks(start, end)
    rows = [SegmentRow(segment, subject.row) for segment in subject.segments]
    packed = blocks_of(rows).between(start, end)
    assert blocks.data == packed.data
    assert lists(blocks.series(measure)) == lists(packed.series(measure))
    assert bool(blocks) == bool(packed)
    assert blocks == subject.blocks(start, end)
    assert blocks != Blocks(packed.data)


def lists(series: Series) -> list[list[float]]:
    """Columns as lists, whatever their type."""
    return [list(column) for column in series]


def test_columns_of_whole_days_take_no_numbers() -> None:
    """Times of fourteen hourly days are a range."""
    series = subject_of(DAYS[0]).blocks(0, 2**62).series(Measure.BUSY)
    assert isinstance(series.numbers, range)
    assert ColumnKind.MEAN.column(Measure.BUSY) in DAYS[0].layout.columns
