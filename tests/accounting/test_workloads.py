"""Accounts of a workload over all its devices, including moves and restarts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import DAY, EPOCH, HOUR, MINUTE, SECOND, entry, workload
from rightsizer.accounting.settings import WorkloadAccountSettings
from rightsizer.accounting.window_codec import decode_window, encode_window
from rightsizer.accounting.workload_accounts import WorkloadAccounts
from rightsizer.model.block import BLOCK_SPAN, Measure
from rightsizer.model.signal import Signal
from rightsizer.model.state import Resource, State
from rightsizer.model.window import Entry, Window, workload_subject
from rightsizer.model.workload import Holding

JOB = workload("job")
NEXT = workload("next")
Holdings = Mapping[str, tuple[Holding, ...]]
BOTH: Final[Holdings] = {"GPU-0": (Holding(JOB, 1.0),), "GPU-1": (Holding(JOB, 1.0),)}


def stretch(uuid: str, start: float, end: float, busy: float = 0.5, **facts: object) -> Entry:
    """A stretch of a device by its busy share."""
    usual: dict[str, object] = {
        "uuid": uuid,
        "signals": {Signal.GPU_BUSY: busy, Signal.MEMORY_USED_BYTES: 4 * 2.0**30},
        "shares": {Resource.COMPUTE: busy / 2, Resource.MEMORY: 0.05},
    }
    return entry(start, end, **usual | facts)


def unknown(uuid: str, start: float, end: float) -> Entry:
    """A stretch of a silent device."""
    lost = {"used_ratio": None, "waste": {}, "energy_joules": None, "signals": {}, "shares": {}}
    return stretch(uuid, start, end, state=State.UNKNOWN, **lost)


def run(
    workloads: WorkloadAccounts, holdings: Holdings, seconds: range, busy: float = 0.5
) -> list[Window]:
    """Ticks of equal length; returns the windows that they closed."""
    return [
        window
        for at in seconds
        for window in workloads.post(
            holdings, [stretch(uuid, at - seconds.step, at, busy) for uuid in holdings]
        )
    ]


def window_of(
    workloads: WorkloadAccounts, key: str = JOB.key, start: int = 0, end: int = 2 * EPOCH
) -> Window:
    """The remembered window of a workload."""
    found = workloads.window_query(key)
    assert found is not None
    return found.window(start, end)


def test_devices_sum_up() -> None:
    """Two devices for ten minutes are twenty device minutes, in windows and in totals."""
    workloads = WorkloadAccounts()
    closed = run(workloads, BOTH, range(10, 601, 10))
    found = window_of(workloads)
    assert found.uuid == workload_subject(JOB.key)
    assert found.workload_key == JOB.key
    assert found.states == {State.PRODUCTIVE: 20 * MINUTE}
    assert (found.start, found.end) == (EPOCH, EPOCH + 10 * MINUTE)
    assert found.coverage_ratio == 1.0
    assert found.energy_joules == pytest.approx(2 * 600 * 100.0)
    assert [each.accounted for each in closed] == [10 * MINUTE]
    (report,) = workloads.reports()
    assert (report.workload, report.devices) == (JOB, ("GPU-0", "GPU-1"))
    assert report.last_seen == EPOCH + 600 * SECOND
    assert report.totals.state_seconds == {State.PRODUCTIVE: 1200.0}
    assert sum(report.totals.waste_seconds.values()) + report.totals.used_seconds == 1200.0


def test_move_to_another_device_is_no_new_beginning() -> None:
    """It stays the same workload on any device."""
    workloads = WorkloadAccounts()
    run(workloads, {"GPU-0": (Holding(JOB, 1.0),)}, range(10, 3601, 10))
    run(workloads, {"GPU-5": (Holding(JOB, 1.0),)}, range(7210, 10801, 10))
    assert window_of(workloads).accounted == 2 * HOUR
    assert workloads.reports()[0].devices == ("GPU-5",)


def test_sums_are_of_the_same_moment() -> None:
    """Two devices that are busy by turns never need two devices' worth."""
    workloads = WorkloadAccounts()
    for at in range(10, 301, 10):
        turn = at // 10 % 2
        busy = (0.75, 0.25) if turn else (0.25, 0.75)
        workloads.post(
            BOTH, [stretch(f"GPU-{n}", at - 10, at, share) for n, share in enumerate(busy)]
        )
    blocks = window_of(workloads).blocks
    (found,) = blocks.of(Measure.BUSY)
    assert (found.mean, found.peak) == (1.0, 1.0)
    assert (found.start, found.known_seconds) == (EPOCH, 300.0)
    (memory,) = blocks.of(Measure.MEMORY_BYTES)
    assert memory.mean == memory.peak == 8 * 2.0**30


def test_moment_without_one_device_is_not_known() -> None:
    """The load of half a workload is not the workload's load."""
    workloads = WorkloadAccounts()
    run(workloads, BOTH, range(10, 151, 10))
    for at in range(160, 301, 10):
        workloads.post(BOTH, [stretch("GPU-0", at - 10, at), unknown("GPU-1", at - 10, at)])
    (found,) = window_of(workloads).blocks.of(Measure.BUSY)
    assert (found.mean, found.known_seconds) == (1.0, 150.0)
    assert window_of(workloads).known == 450 * SECOND


def test_device_that_is_read_in_between_stands_where_it_stood() -> None:
    """Readings taken by turns still count for the same time, but not for long."""
    workloads = WorkloadAccounts()
    for at in range(10, 301, 10):
        uuid = f"GPU-{at // 10 % 2}"
        workloads.post(BOTH, [stretch(uuid, max(0, at - 20), at)])
    (found,) = window_of(workloads).blocks.of(Measure.BUSY)
    assert found.mean == 1.0
    assert found.known_seconds > 250
    for at in range(310, 601, 10):
        workloads.post(BOTH, [stretch("GPU-0", at - 10, at)])
    _, later = window_of(workloads).blocks.of(Measure.BUSY)
    assert later.known_seconds <= 40


SHARES: Final = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5).map(
    lambda parts: [part / max(1.0, sum(parts)) for part in parts]
)


@given(SHARES, st.lists(st.tuples(st.integers(1, 900), st.sampled_from(State)), min_size=1))
def test_parts_of_a_shared_device_sum_to_what_is_held_of_it(
    shares: Sequence[float], pieces: Sequence[tuple[int, State]]
) -> None:
    """No second counts twice, and none is lost if the device is held completely."""
    workloads = WorkloadAccounts()
    start = 0
    holdings = {"GPU-0": tuple(Holding(workload(str(n)), s) for n, s in enumerate(shares))}
    expected: Counter[State] = Counter()
    for length, state in pieces:
        found = stretch("GPU-0", start, start + length, state=state)
        workloads.post(holdings, [found])
        expected[state] += found.duration
        start += length
    held: Counter[State] = Counter()
    energy = 0.0
    for each in holdings["GPU-0"]:
        part = window_of(workloads, each.workload.key)
        held.update(part.states)
        energy += part.energy_joules
    slack = len(pieces) * len(shares)
    for state, time in expected.items():
        assert held[state] == pytest.approx(time * min(1.0, sum(shares)), abs=slack)
        assert held[state] <= time
    drawn = sum(100.0 * length for length, _ in pieces)
    assert energy == pytest.approx(drawn * min(1.0, sum(shares)), rel=1e-6)


def test_workload_seen_longest_ago_is_evicted_first() -> None:
    """Its unsaved windows are handed over."""
    workloads = WorkloadAccounts(WorkloadAccountSettings(most=2))
    third = workload("third")
    run(workloads, {"GPU-0": (Holding(JOB, 1.0),)}, range(10, 101, 10))
    run(workloads, {"GPU-0": (Holding(NEXT, 1.0),)}, range(110, 201, 10))
    closed = run(workloads, {"GPU-0": (Holding(third, 1.0),)}, range(210, 251, 10))
    assert [each.uuid for each in closed] == [workload_subject(JOB.key)]
    assert workloads.window_query(JOB.key) is None
    assert [report.workload for report in workloads.reports()] == [NEXT, third]


def test_more_workloads_than_are_remembered_do_no_harm() -> None:
    """Any number of workloads may share a node."""
    workloads = WorkloadAccounts(WorkloadAccountSettings(most=3))
    crowd = {"GPU-0": tuple(Holding(workload(f"guest {number}"), 0.1) for number in range(10))}
    closed = run(workloads, crowd, range(10, 1201, 10))
    assert len(workloads.reports()) <= 3
    assert len(workloads.open_windows()) <= 3
    # Those present do not evict each other, window by window.
    assert len({window.uuid for window in closed}) == 3
    assert len(closed) == 3 * 3


def test_window_of_who_left_is_closed() -> None:
    """It is saved once, not again with every flush."""
    workloads = WorkloadAccounts()
    run(workloads, {"GPU-0": (Holding(JOB, 1.0),)}, range(10, 101, 10))
    closed = run(workloads, {"GPU-0": (Holding(NEXT, 1.0),)}, range(110, 1001, 10))
    assert workload_subject(JOB.key) in {each.uuid for each in closed}
    assert [window.uuid for window in workloads.open_windows()] == [workload_subject(NEXT.key)]


def test_restart_keeps_what_a_history_can_tell() -> None:
    """Windows and aligned blocks continue; counters begin at 0."""
    before = WorkloadAccounts()
    closed = run(before, BOTH, range(10, 7201, 10))
    after = WorkloadAccounts()
    for window in (*closed, *before.open_windows()):
        again = decode_window(window.uuid, encode_window(window))
        assert again.workload_key == JOB.key
        after.restore(JOB.key, again)
    after.restore_workload(JOB)
    assert after.reports() == ()
    assert window_of(after) == window_of(before)
    run(after, BOTH, range(7210, 10801, 10))
    run(before, BOTH, range(7210, 10801, 10))
    assert window_of(after).states == window_of(before).states
    assert after.reports()[0].totals.state_seconds == {State.PRODUCTIVE: 7200.0}
    starts = [each.start for each in window_of(after).blocks.of(Measure.BUSY)]
    assert starts == [EPOCH + number * BLOCK_SPAN for number in range(36)]


def test_device_that_speaks_late_does_not_turn_time_back() -> None:
    """Its silence is counted at the time that the others have reached, so no second is lost."""
    workloads = WorkloadAccounts()
    run(workloads, BOTH, range(10, 1201, 10))
    for at in range(1210, 3001, 10):
        workloads.post(BOTH, [stretch("GPU-0", at - 10, at)])
    workloads.post(BOTH, [unknown("GPU-1", 1200, 3000), stretch("GPU-1", 3000, 3010)])
    found = window_of(workloads)
    assert found.accounted == (3000 + 3010) * SECOND
    assert found.states[State.UNKNOWN] == 1800 * SECOND
    starts = [each.start for each in found.blocks.of(Measure.BUSY)]
    assert starts == sorted(set(starts))


@pytest.mark.parametrize("back", [30, 3600, 86400])
def test_clock_that_is_set_back_loses_no_time(back: int) -> None:
    """Hours lived twice count twice."""
    workloads = WorkloadAccounts()
    closed = run(workloads, BOTH, range(10, 7201, 10))
    for at in range(7210 - back, 14401 - back, 10):
        closed += workloads.post(
            BOTH, [stretch("GPU-0", at - 10, at), stretch("GPU-1", at - 10, at)]
        )
    everything = [*closed, *workloads.open_windows()]
    assert sum(each.accounted for each in everything) == 2 * 14400 * SECOND
    assert window_of(workloads, start=EPOCH - 2 * DAY).accounted > 0
