"""Devices combined: sums of the same moments, in any order, never more than the truth."""

import math
import tracemalloc
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cached_fleet import FIRST_DAY, day_frame, day_frames
from readings import DAY
from rightsizer.fleet.cache.combination import DevicePart, combined
from rightsizer.fleet.cache.day_frame import DEVICES, ColumnKind, DayFrame
from rightsizer.fleet.cache.grid import COARSE_STEP, FINE_STEP, Grid
from rightsizer.fleet.cache.subject_days import SubjectDays
from rightsizer.fleet.cache.summed_day import SummedDay
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.block import Measure
from rightsizer.model.state import State

BUSY_MEAN = ColumnKind.MEAN.column(Measure.BUSY)
BUSY_PEAK = ColumnKind.PEAK.column(Measure.BUSY)


def part(
    found: DayFrame, first: int = 0, last: int | None = None, share: float = 1.0
) -> DevicePart:
    """A device's day, or a part of it."""
    return DevicePart(
        found, found.grid, first, found.grid.count - 1 if last is None else last, share
    )


def values(frame: DayFrame, column: str) -> list[float]:
    """A column that must be present."""
    found = frame.column(column)
    assert found is not None
    return list(found)


@given(day_frames(), day_frames(), day_frames())
@settings(max_examples=8)
def test_the_order_of_devices_does_not_matter(
    one: DayFrame, other: DayFrame, third: DayFrame
) -> None:
    """Sums are equal up to float rounding."""
    same_day = [DayFrame.of(one.grid, each.columns) for each in (one, other, third)]
    found = [combined([part(each) for each in order]) for order in permutations(same_day)]
    for frame in found[1:]:
        assert frame.layout is found[0].layout
        for mine, first in zip(frame.values, found[0].values, strict=True):
            assert mine == pytest.approx(first, rel=1e-5, abs=1e-5, nan_ok=True)


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=5))
@settings(max_examples=15)
def test_a_peak_lies_between_the_mean_and_the_sum_of_the_peaks(busy: list[float]) -> None:
    """It is also at least each device's own excess above the sum of the means."""
    parts = [part(day_frame(FIRST_DAY, busy=each)) for number, each in enumerate(busy)]
    frame = combined(parts)
    mean = values(frame, BUSY_MEAN)[3]
    peak = values(frame, BUSY_PEAK)[3]
    peaks = [values(each.frame, BUSY_PEAK)[3] for each in parts if each.frame]
    assert mean == pytest.approx(sum(busy), rel=1e-5, abs=1e-6)
    assert mean - 1e-5 <= peak <= sum(peaks) + 1e-5
    assert peak >= max(peaks) - 1e-5


def test_a_shared_device_counts_by_its_share() -> None:
    """Its seconds and its use are both scaled."""
    frame = combined([part(day_frame(FIRST_DAY, busy=0.8), share=0.25)])
    assert values(frame, ColumnKind.STATE.column(State.PRODUCTIVE))[0] == pytest.approx(900.0)
    assert values(frame, BUSY_MEAN)[0] == pytest.approx(0.2)
    assert values(frame, DEVICES) == [0.25] * 24


def test_a_device_counts_only_while_it_is_held() -> None:
    """Before and after, the workload has no time and nothing is known of it."""
    frame = combined([part(day_frame(FIRST_DAY), 6, 11)])
    assert values(frame, DEVICES) == [0.0] * 6 + [1.0] * 6 + [0.0] * 12
    assert [math.isnan(each) for each in values(frame, BUSY_MEAN)] == [
        not 6 <= hour <= 11 for hour in range(24)
    ]
    days = SubjectDays([SummedDay(frame, DemandSettings())])
    window = days.window("workload:job", 0, 2**63)
    assert window.accounted == window.known == DAY // 4


def test_a_measure_is_known_only_where_it_is_of_all() -> None:
    """Sums cover moments known for all devices; the rest is unknown."""
    gap = [1.0] * 12 + [0.0] * 12
    frame = combined([part(day_frame(FIRST_DAY)), part(day_frame(FIRST_DAY, known=gap))])
    assert values(frame, ColumnKind.STATE.column(State.PRODUCTIVE)) == [7200.0] * 12 + [3600.0] * 12
    assert [math.isnan(each) for each in values(frame, BUSY_MEAN)] == [False] * 12 + [True] * 12
    days = SubjectDays([SummedDay(frame, DemandSettings())])
    window = days.window("workload:job", 0, 2**63)
    assert (window.known, window.accounted) == (3 * DAY // 2, 2 * DAY)


def test_a_device_of_which_nothing_is_known_has_its_time() -> None:
    """It was allocated, but not measured."""
    grid = Grid(FIRST_DAY, COARSE_STEP)
    frame = combined([part(day_frame(FIRST_DAY)), DevicePart(None, grid, 0, 23)])
    assert values(frame, DEVICES) == [2.0] * 24
    assert sum(values(frame, ColumnKind.STATE.column(State.PRODUCTIVE))) == 86400.0
    assert all(map(math.isnan, values(frame, BUSY_MEAN)))


def test_days_of_different_steps_meet_by_the_hour() -> None:
    """Seconds and means are kept; the peak is the largest."""
    fine = day_frame(FIRST_DAY, FINE_STEP, busy=0.2)
    coarse = day_frame(FIRST_DAY, busy=0.6)
    frame = combined([part(fine), part(coarse)])
    assert frame.grid.step == COARSE_STEP
    assert values(frame, ColumnKind.STATE.column(State.PRODUCTIVE)) == pytest.approx([7200.0] * 24)
    assert values(frame, BUSY_MEAN) == pytest.approx([0.8] * 24)


def test_memory_does_not_grow_with_devices() -> None:
    """A job of a thousand GPUs takes what one of ten does."""

    def peak_bytes(count: int) -> int:
        parts = [part(day_frame(FIRST_DAY, FINE_STEP))] * count
        tracemalloc.start()
        try:
            combined(parts)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak_bytes(10)
    assert peak_bytes(1000) < 1.5 * peak_bytes(10)


def test_a_whole_device_alone_is_taken_as_it_is() -> None:
    """Most workloads have one device, for which nothing is copied."""
    whole = part(day_frame(FIRST_DAY))
    assert combined([whole]) is whole.frame
