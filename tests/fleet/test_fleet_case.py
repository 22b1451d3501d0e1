"""Cases from cached days: states sum to the span, order is stable, gaps yield no recommendation."""

from __future__ import annotations

import gc
import weakref
from array import array
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cached_fleet import FIRST_DAY, STATES, day_frame, day_frames, estate_device, subject_of
from cases import findings
from readings import DAY, HOUR, MINUTE, workload
from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.day_frame import ColumnKind, DayFrame
from rightsizer.fleet.cache.grid import COARSE_STEP, FINE_STEP, Grid
from rightsizer.fleet.cases.case import BatchRequest, FleetCases
from rightsizer.fleet.cases.occupancy import occupancy_of
from rightsizer.fleet.process_pool import paused_collection
from rightsizer.model.block import Measure
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Resource, State
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Workload, WorkloadClass

NOW = (FIRST_DAY + 4) * DAY
GAP = 10 * MINUTE
JOB = workload("job")
OTHER = workload("other", WorkloadClass.SERVING)
Holder = tuple[Workload, int, int, float]
"""Workload, its first and last hour since the first day, and its share."""


def rows_of(holders: Mapping[str, Sequence[Holder]]) -> list[HoldingRow]:
    """Rows by device, oldest first, in hourly intervals."""
    found = []
    for uuid, each in sorted(holders.items()):
        for who, start, end, share in each:
            for day in range(start // 24, (end - 1) // 24 + 1):
                first = max(start, day * 24)
                last = min(end, day * 24 + 24) - 1
                grid = Grid(FIRST_DAY + day, COARSE_STEP)
                row = (who.key, first - day * 24, last - day * 24, share)
                found.append(HoldingRow(uuid, "rightsizer", grid, *row))
    return sorted(found, key=lambda row: (row.uuid, row.start))


def cases_of(
    days: Mapping[str, Sequence[DayFrame]],
    holders: Mapping[str, Sequence[Holder]],
    now: Nanoseconds = NOW,
) -> FleetCases:
    """Cases of everything held or present."""
    devices = {uuid: estate_device(int(uuid[4:])) for uuid in days}
    rows = rows_of(holders)
    found = occupancy_of(devices, rows, now, GAP)
    occupancy = replace(found, present=dict(sorted(found.present.items())))
    workloads = {who.key: who for holder in holders.values() for who, *_ in holder}
    request = BatchRequest(occupancy, devices, workloads, FIRST_DAY, now)
    return FleetCases(request, days, rows)


def four_days(*numbers: int, **facts: object) -> dict[str, list[DayFrame]]:
    """Four days of some GPUs."""
    days = [day_frame(FIRST_DAY + day, **facts) for day in range(4)]  # type: ignore[arg-type]
    return {f"GPU-{number}": days for number in numbers}


@given(
    st.lists(day_frames(), min_size=1, max_size=3, unique_by=lambda each: each.grid.day),
    st.integers(0, 4 * 24),
    st.integers(0, 4 * 24),
)
def test_the_states_of_a_window_sum_to_its_span(
    found: list[DayFrame], start: int, length: int
) -> None:
    """The span begins with the first known hour; days that are not cached are unknown."""
    ordered = sorted(found, key=lambda each: each.grid.day)
    days = subject_of(*ordered)
    since = FIRST_DAY * DAY + start * HOUR
    window = days.window("GPU-0", since, since + length * HOUR)
    assert sum(window.states.values()) == window.end - window.start
    assert window.end == since + length * HOUR
    assert all(time >= 0 for time in window.states.values())
    assert window.coverage_ratio <= 1.0


def test_fine_days_are_answered_exactly() -> None:
    """A span of ten minutes has exactly ten minutes."""
    days = subject_of(day_frame(FIRST_DAY, FINE_STEP))
    window = days.window("GPU-0", FIRST_DAY * DAY + HOUR, FIRST_DAY * DAY + HOUR + 10 * MINUTE)
    assert window.known == 10 * MINUTE
    assert len(window.blocks.of(Measure.BUSY)) == 2


def test_an_hour_stands_for_its_twelve_blocks() -> None:
    """Each block has the hour's mean and its peak."""
    days = subject_of(day_frame(FIRST_DAY, busy=0.5))
    blocks = days.blocks(0, 2**62).of(Measure.BUSY)
    assert len(blocks) == 288
    assert [block.start - FIRST_DAY * DAY for block in blocks[:2]] == [0, 5 * MINUTE]
    assert {(block.known_seconds, block.mean) for block in blocks} == {(300.0, 0.5)}
    assert all(0.525 <= block.peak < 0.526 for block in blocks)


def test_time_of_which_nothing_is_known_has_no_blocks() -> None:
    """This is the case where an agent did not run."""
    gap = [1.0] * 6 + [0.0] * 12 + [1.0] * 6
    days = subject_of(day_frame(FIRST_DAY, known=gap))
    starts = [block.start % DAY // HOUR for block in days.blocks(0, 2**62).of(Measure.MEMORY)]
    assert sorted(set(starts)) == [*range(6), *range(18, 24)]


def test_a_stretch_is_never_longer_than_it_is() -> None:
    """`increase` extrapolates beyond it; all states of the interval are scaled down alike."""
    long = day_frame(FIRST_DAY)
    columns = {**long.columns}
    for column, values in columns.items():
        columns[column] = array("f", [1.02 * value for value in values])
    days = subject_of(DayFrame.of(long.grid, columns))
    window = days.window("GPU-0", FIRST_DAY * DAY, (FIRST_DAY + 1) * DAY)
    assert window.states == {State.PRODUCTIVE: DAY}


def test_demand_is_of_the_active_time() -> None:
    """Idle time is the lowest part of an exported distribution."""
    found = day_frame(FIRST_DAY)
    half = array("f", [1800.0] * 24)
    columns = {**found.columns, "state:productive": half, "state:idle_held": half}
    histogram = {0: 12 * HOUR, 60: 6 * HOUR, 70: 6 * HOUR}
    frame = DayFrame.of(found.grid, columns)
    frame = replace(frame, demands={Resource.COMPUTE: Histogram(histogram)})
    window = subject_of(frame).window("GPU-0", 0, 2**63)
    assert dict(window.demands[Resource.COMPUTE].items()) == {60: 6 * HOUR, 70: 6 * HOUR}


def test_devices_of_a_workload_are_a_case() -> None:
    """A workload's current devices make one case; each device without a holder is its own."""
    cases = cases_of(
        four_days(0, 1, 2),
        {"GPU-0": [(JOB, 0, 96, 1.0)], "GPU-1": [(JOB, 0, 96, 1.0)]},
    )
    alone, job = cases.cases(DAY)
    assert (alone.key, alone.workload, len(alone.devices)) == ("GPU-2", None, 1)
    assert (job.key, job.workload) == (JOB.key, JOB)
    assert [device.uuid for device in job.devices] == ["GPU-0", "GPU-1"]
    assert job.workload_window is not None
    assert job.workload_window.known == 2 * DAY
    assert job.workload_window.workload_key == JOB.key


def test_windows_reach_back_to_when_the_holder_came() -> None:
    """Use by earlier holders is not attributed to it; its own past spans all its devices."""
    cases = cases_of(
        four_days(0, 1),
        {"GPU-0": [(OTHER, 0, 40, 1.0), (JOB, 40, 96, 1.0)], "GPU-1": [(JOB, 0, 40, 1.0)]},
    )
    found = {case.key: case for case in cases.cases(4 * DAY)}
    job = found[JOB.key]
    assert job.windows[0].known == 56 * HOUR
    assert job.workload_window is not None
    assert job.workload_window.known == 96 * HOUR
    assert found["GPU-1"].windows[0].known == 56 * HOUR
    assert OTHER.key not in found


@pytest.mark.parametrize(("share", "known"), [(1.0, 3), (0.16, 2)])
def test_an_hour_with_a_part_of_the_holder_may_have_only_begun_it(share: float, known: int) -> None:
    """Idle time before its arrival is not its own."""
    held = [(JOB, 93, 94, share), (JOB, 94, 96, 1.0)]
    (job,) = cases_of(four_days(0), {"GPU-0": held}).cases(4 * DAY)
    assert job.windows[0].known == known * HOUR


@pytest.mark.parametrize(("away", "since"), [(0, 0), (1, 0), (2, 52)])
def test_a_short_absence_is_none(away: int, since: int) -> None:
    """An absence of one step of an hourly day does not end a tenure."""
    cases = cases_of(four_days(0), {"GPU-0": [(JOB, 0, 50, 1.0), (JOB, 50 + away, 96, 1.0)]})
    (job,) = cases.cases(4 * DAY)
    assert job.windows[0].start == FIRST_DAY * DAY + since * HOUR


def test_idle_time_begins_when_the_holder_came() -> None:
    """Even where an absence that idle time lies on both sides of is bridged."""
    days = four_days(0, state=State.IDLE_HELD, busy=0.0)
    held = [(JOB, 0, 60, 1.0), (JOB, 80, 96, 1.0)]
    (job,) = cases_of(days, {"GPU-0": held}).cases(4 * DAY)
    (gap,) = job.idle_gaps(0.01)
    assert gap.start == FIRST_DAY * DAY + 80 * HOUR
    assert gap.seconds == 16 * 3600.0
    assert not gap.has_ended


def test_nobody_left_while_nothing_was_known() -> None:
    """A gap of the telemetry does not end a tenure."""
    gap = [1.0] * 2 + [0.0] * 10 + [1.0] * 12
    days = [day_frame(FIRST_DAY), day_frame(FIRST_DAY + 1, known=gap)]
    cases = cases_of(
        {"GPU-0": days}, {"GPU-0": [(JOB, 0, 26, 1.0), (JOB, 36, 48, 1.0)]}, (FIRST_DAY + 2) * DAY
    )
    (job,) = cases.cases(2 * DAY)
    assert (job.windows[0].accounted, job.windows[0].known) == (48 * HOUR, 38 * HOUR)


def test_a_device_that_is_silent_is_no_case() -> None:
    """It or its node has gone; its past stays in its workload's history."""
    gone = [day_frame(FIRST_DAY + day) for day in range(2)]
    cases = cases_of(
        four_days(0) | {"GPU-1": gone}, {"GPU-0": [(JOB, 0, 96, 1.0)], "GPU-1": [(JOB, 0, 48, 1.0)]}
    )
    (job,) = cases.cases(4 * DAY)
    assert [device.uuid for device in job.devices] == ["GPU-0"]
    assert job.workload_window is not None
    assert job.workload_window.known == 6 * DAY


@given(st.permutations(range(3)))
@settings(max_examples=6)
def test_the_order_of_devices_does_not_matter(order: list[int]) -> None:
    """Every verdict is independent of the order of the store's series."""
    holders = {f"GPU-{each}": [(JOB, 0, 96, 1.0)] for each in range(2)}
    idle = {2: State.IDLE_EMPTY}
    days: dict[str, list[DayFrame]] = {}
    for number in order:
        days |= four_days(number, state=idle.get(number, State.PRODUCTIVE), busy=0.1 * number)
    found = findings(cases_of(days, holders).cases(4 * DAY))
    usual = dict(sorted(days.items()))
    assert {each.id for each in found} == {
        finding.id for finding in findings(cases_of(usual, holders).cases(4 * DAY))
    }


@given(
    st.sampled_from(STATES),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.lists(st.booleans(), min_size=24, max_size=24),
)
@settings(max_examples=15)
def test_time_that_becomes_unknown_advises_nothing_new(
    state: State, busy: float, memory: float, known: list[bool]
) -> None:
    """A finding on constant load covers less time, or is not made."""
    holders = {"GPU-0": [(JOB, 0, 48, 1.0)]}
    now = (FIRST_DAY + 2) * DAY
    facts = {"state": state, "busy": busy, "memory": memory}
    whole = [day_frame(FIRST_DAY + day, **facts) for day in range(2)]  # type: ignore[arg-type]
    hazy = [
        day_frame(FIRST_DAY + day, known=[float(each) for each in known], **facts)  # type: ignore[arg-type]
        for day in range(2)
    ]
    said = [complaints(cases_of({"GPU-0": days}, holders, now)) for days in (whole, hazy)]
    assert said[1] <= said[0]


def complaints(cases: FleetCases) -> set[tuple[str, str]]:
    """Key and rule of every finding."""
    return {
        (finding.workload or finding.devices[0], finding.rule)
        for finding in findings(cases.cases(2 * DAY))
        if finding.is_actionable
    }


def test_a_device_of_which_nothing_is_known_advises_nothing() -> None:
    """Every rule abstains or finds no problem."""
    days = [day_frame(FIRST_DAY + day, known=[0.0] * 24) for day in range(4)]
    unknown = {ColumnKind.STATE.column(State.UNKNOWN): array("f", [3600.0] * 24)}
    there = [DayFrame.of(day.grid, day.columns | unknown) for day in days]
    cases = cases_of({"GPU-0": there}, {"GPU-0": [(JOB, 0, 96, 1.0)]})
    assert len(cases.cases(DAY)) == 1
    assert complaints(cases) == set()


def test_a_batch_is_freed_without_a_collection() -> None:
    """Judged cases and their days hold no reference cycles: collections are paused meanwhile."""
    cases = cases_of(four_days(0, 1), {"GPU-0": [(JOB, 0, 96, 1.0)], "GPU-1": [(JOB, 0, 96, 1.0)]})
    gc.collect()
    with paused_collection():
        assert findings(cases.cases(DAY))
        left = [
            weakref.ref(each) for each in (cases, cases.subject("GPU-0"), cases.subject_of(JOB.key))
        ]
        del cases
        assert [each() for each in left] == [None] * 3
