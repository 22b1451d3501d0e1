"""Windows over a device's past, whatever entries are added and however they are split."""

import tracemalloc
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import window_over
from readings import DAY, EPOCH, HOUR, MINUTE, SECOND, entry
from rightsizer.accounting.device_account import DeviceWindows
from rightsizer.accounting.rollup_store import FINE_SPAN, split_entry
from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.accounting.window_codec import decode_window, encode_window
from rightsizer.model.block import Blocks, Measure
from rightsizer.model.state import Cause, Condition, Resource, State, Tier
from rightsizer.model.window import Entry, Window

KINDS: Final = (
    entry(0, 1, State.IDLE_EMPTY, used_ratio=0.0, waste={Cause.IDLE: 1.0}),
    entry(
        0,
        1,
        State.COMPUTE_BOUND,
        tier=Tier.PROFILING,
        conditions=frozenset({Condition.POWER_THROTTLED}),
        shares={Resource.COMPUTE: 0.9, Resource.MEMORY: 0.5},
        compute_at_least=0.7,
        saturated=frozenset({Resource.COMPUTE}),
    ),
    entry(0, 1, State.IDLE_HELD, shares={Resource.MEMORY: 0.4, Resource.COMPUTE: 0.0}),
    entry(
        0,
        1,
        State.PRODUCTIVE,
        shares={Resource.COMPUTE: 0.3, Resource.MEMORY: 0.97},
        pressed=frozenset({Resource.MEMORY}),
    ),
    entry(0, 1, State.UNKNOWN, tier=Tier.NONE, used_ratio=None, waste={}, energy_joules=None),
)
PIECES: Final = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(1, 20 * 60)), min_size=1, max_size=25
)

pytestmark = pytest.mark.timeout(240)


def entries_of(pieces: Sequence[tuple[Entry, int]], start: int = EPOCH) -> list[Entry]:
    """Consecutive stretches, each of a kind and a number of seconds."""
    found = []
    for kind, length in pieces:
        end = start + length * SECOND
        joules = None if kind.energy_joules is None else 100.0 * length
        found.append(replace(kind, start=start, end=end, energy_joules=joules))
        start = end
    return found


def cut(found: Entry, at: int) -> list[Entry]:
    """A stretch cut in two at a time inside it."""
    if not found.start < at < found.end:
        return [found]
    joules = found.energy_joules
    length = found.end - found.start
    shares = ((at - found.start) / length, (found.end - at) / length)
    first, second = (None if joules is None else joules * share for share in shares)
    return [
        replace(found, end=at, energy_joules=first),
        replace(found, start=at, energy_joules=second),
    ]


def windows_of(entries: Sequence[Entry]) -> tuple[DeviceWindows, list[Window]]:
    """A device's windows after the entries, and all windows that these closed."""
    device = DeviceWindows("GPU-0")
    return device, [window for each in entries for window in device.add(each)]


def summed(windows: Sequence[Window]) -> Window:
    """The sum of the windows."""
    builder = WindowBuilder("GPU-0")
    for window in windows:
        builder.merge(window)
    return builder.window()


def assert_same(one: Window, other: Window) -> None:
    """Equal to the nanosecond; sums of floats up to rounding."""
    floats = ("used_seconds", "used_joules", "energy_joules")
    maps = ("waste_seconds", "waste_joules")
    nothing = dict.fromkeys(floats, 0.0) | {name: {} for name in maps}
    assert replace(one, **nothing) == replace(other, **nothing)
    for name in floats:
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-6)
    for name in maps:
        mine = getattr(one, name)
        theirs = getattr(other, name)
        assert {cause: part for cause, part in mine.items() if part > 1e-6} == pytest.approx(
            {cause: part for cause, part in theirs.items() if part > 1e-6}
        )


def unblocked(window: Window) -> Window:
    """The same without blocks, which a restart divides and a running sum lacks."""
    return replace(window, blocks=Blocks())


@given(PIECES, st.lists(st.integers(0, 20 * 60 * 25), max_size=10))
def test_any_split_of_entries_gives_the_same_windows(
    pieces: list[tuple[Entry, int]], cuts: list[int]
) -> None:
    """Windows do not depend on the seconds at which readings arrive."""
    entries = entries_of(pieces)
    parts = entries
    for at in cuts:
        parts = [part for each in parts for part in cut(each, EPOCH + at * SECOND)]
    whole_device, whole = windows_of(entries)
    cut_device, again = windows_of(parts)
    assert len(whole) == len(again)
    for one, other in zip(whole, again, strict=True):
        assert_same(one, other)
    assert_same(whole_device.rollups.last_day(), cut_device.rollups.last_day())


@given(PIECES)
def test_no_time_is_lost_or_counted_twice(pieces: list[tuple[Entry, int]]) -> None:
    """The closed windows and the open one hold exactly what was added."""
    entries = entries_of(pieces)
    device, closed = windows_of(entries)
    expected: Counter[State] = Counter()
    for each in entries:
        expected[each.state] += each.duration
    open_window = device.rollups.open_window()
    assert open_window is not None
    for found in (
        summed([*closed, open_window]),
        device.rollups.last_day(),
        device.rollups.last_week(),
    ):
        assert found.states == expected
        assert (found.start, found.end) == (entries[0].start, entries[-1].end)
        assert_wasted(found, entries)
    for window in closed:
        assert window.start // FINE_SPAN == (window.end - 1) // FINE_SPAN


@given(st.integers(1, 3 * HOUR), st.integers(0, HOUR))
def test_parts_of_a_stretch_keep_its_sums(length: int, offset: int) -> None:
    """Splitting at window borders changes where time is counted, not how much."""
    start = EPOCH + offset
    found = replace(entry(0, 1), start=start, end=start + length, energy_joules=1000.0)
    parts = list(split_entry(found))
    assert sum(part.duration for part in parts) == length
    assert all(part.duration > 0 for part in parts)
    assert sum(part.energy_joules or 0.0 for part in parts) == pytest.approx(1000.0)
    assert all(a.end == b.start for a, b in pairwise(parts))
    assert all(part.start // FINE_SPAN == (part.end - 1) // FINE_SPAN for part in parts)


def assert_wasted(found: Window, entries: Sequence[Entry]) -> None:
    """Used and wasted seconds and joules equal those of the entries."""
    seconds = sum(each.duration / SECOND for each in entries if each.used_ratio is not None)
    joules = sum(each.energy_joules or 0.0 for each in entries)
    assert found.energy_joules == pytest.approx(joules)
    assert found.used_seconds + sum(found.waste_seconds.values()) == pytest.approx(seconds)
    assert found.used_joules + sum(found.waste_joules.values()) == pytest.approx(joules)


def long_run(hours: int, start: int = EPOCH, length: int = 100) -> list[Entry]:
    """Stretches at a fixed interval, of changing kinds."""
    count = hours * 3600 // length
    return entries_of([(KINDS[n % len(KINDS)], length) for n in range(count)], start)


@cache
def ten_days() -> tuple[DeviceWindows, list[Window]]:
    """Windows to query, and all that were closed."""
    return windows_of(long_run(240, length=300))


def test_running_sums_equal_sums_made_again() -> None:
    """After ten days of adding and expiring, the sums of the day and the week are exact."""
    device, closed = windows_of(long_run(240))
    now = closed[-1].end
    open_window = device.rollups.open_window()
    assert open_window is not None
    day = [window for window in closed if window.start >= now - DAY]
    assert_same(device.rollups.last_day(), unblocked(summed([*day, open_window])))
    assert device.rollups.last_week().accounted == pytest.approx(7 * DAY, abs=HOUR)
    found = window_over(device, now - DAY, open_window.end)
    assert_same(unblocked(found), unblocked(summed([*day, open_window])))


@pytest.mark.parametrize(
    ("span", "grain"),
    [
        (HOUR, FINE_SPAN),
        (DAY, FINE_SPAN),
        (3 * DAY, HOUR),
        (3 * DAY + 10 * MINUTE, HOUR),
    ],
)
def test_span_is_answered_to_its_grain(span: int, grain: int) -> None:
    """The grain is five minutes up to a day, an hour beyond; at most one grain is off."""
    entries = long_run(100)
    device, _ = windows_of(entries)
    now = entries[-1].end
    found = window_over(device, now - span, now)
    assert found.end == now
    assert found.start % grain == 0
    assert abs(found.accounted - span) <= grain
    assert found.coverage_ratio == pytest.approx(0.8, abs=0.05)


def test_strip_is_the_last_day_in_five_minutes() -> None:
    """The strip is oldest first, ends with the running window and has no gaps."""
    entries = long_run(30)
    device, _ = windows_of(entries)
    strip = list(device.strip(entries[-1].end))
    assert len(strip) == DAY // FINE_SPAN
    assert all(a.end == b.start for a, b in pairwise(strip))
    assert strip[-1].end == entries[-1].end


@pytest.mark.parametrize("minutes", [0, 7, 185, 60 * 26])
def test_restart_changes_nothing(minutes: int) -> None:
    """Windows restored from the history's bytes answer as if there had been no restart."""
    before = long_run(30)
    after = [
        replace(each, start=each.start + minutes * MINUTE, end=each.end + minutes * MINUTE)
        for each in long_run(3, before[-1].end)
    ]
    steady, _ = windows_of([*before, *after])
    device, closed = windows_of(before)
    open_window = device.rollups.open_window()
    assert open_window is not None
    restarted = DeviceWindows("GPU-0")
    for window in (*closed, open_window):
        restarted.restore(decode_window("GPU-0", encode_window(window)))
    for each in after:
        restarted.add(each)
    now = after[-1].end
    for span in (HOUR, 6 * HOUR, DAY, 7 * DAY):
        assert_same(
            unblocked(window_over(restarted, now - span, now)),
            unblocked(window_over(steady, now - span, now)),
        )
    assert_same(restarted.rollups.last_day(), steady.rollups.last_day())
    assert_same(restarted.rollups.last_week(), steady.rollups.last_week())
    assert restarted.demands.demand() == steady.demands.demand()


def test_window_older_than_its_span_is_dropped_as_time_passes() -> None:
    """After two days without an entry, the day's window is empty."""
    device, _ = windows_of(long_run(5))
    later = EPOCH + 2 * DAY
    device.add(replace(KINDS[0], start=later, end=later + SECOND))
    assert device.rollups.last_day().states == {State.IDLE_EMPTY: SECOND}
    assert (device.rollups.last_day().start, device.rollups.last_day().coverage_ratio) == (
        later,
        1.0,
    )
    assert device.rollups.last_week().accounted == 5 * HOUR + SECOND
    assert window_over(device, later - 3 * HOUR, later + SECOND).accounted == SECOND


@pytest.mark.parametrize("back", [30 * SECOND, 20 * MINUTE, 5 * HOUR, 400 * DAY])
def test_clock_that_is_set_back_loses_no_time(back: int) -> None:
    """Windows continue to close, and hours lived twice count twice."""
    first = long_run(2)
    device, closed = windows_of(first)
    again = long_run(2, first[-1].end - back)
    for each in again:
        closed.extend(device.add(each))
    open_window = device.rollups.open_window()
    assert open_window is not None
    assert summed([*closed, open_window]).accounted == 4 * HOUR
    assert len(closed) >= 46
    end = again[-1].end
    assert window_over(device, end - HOUR, end).accounted >= HOUR - FINE_SPAN


def test_memory_is_bounded_whatever_the_clock_does() -> None:
    """Twelve days with an erratic clock take no more than the rings' capacity."""
    device = DeviceWindows("GPU-0")
    tracemalloc.start()
    start = EPOCH
    for day in range(12):
        start += {5: 3000 * DAY, 6: -3000 * DAY, 10: -2 * DAY}.get(day, 0)
        for each in long_run(24, start, length=900):
            device.add(each)
        start += DAY
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 800_000
    assert len(list(device.strip(start))) <= DAY // FINE_SPAN + 1


def test_window_without_entries_is_empty() -> None:
    """There are no figures before the first entry."""
    device = DeviceWindows("GPU-0")
    assert device.rollups.open_window() is None
    assert (
        device.rollups.last_day()
        == device.rollups.last_week()
        == window_over(device, EPOCH - HOUR, EPOCH)
        == Window("GPU-0", 0, 0)
    )
    assert list(device.strip(EPOCH)) == []


def test_demand_is_of_active_seconds_and_memory_of_held_ones() -> None:
    """Idle time makes no demand; memory held while idle is still needed."""
    held = KINDS[2]
    empty = KINDS[0]
    unknown = KINDS[4]
    builder = WindowBuilder("GPU-0")
    for each in entries_of([(held, 10), (empty, 10), (unknown, 10), (KINDS[1], 10)]):
        builder.add(each)
    found = builder.window()
    assert found.demands[Resource.MEMORY].total == 20 * SECOND
    assert found.demands[Resource.COMPUTE].total == 10 * SECOND
    assert found.compute_at_least.quantile(0.5) == 0.7
    assert found.tiers == {Tier.POWER: 20 * SECOND, Tier.PROFILING: 10 * SECOND}


@given(PIECES, st.data())
def test_any_span_is_the_sum_of_the_five_minutes_in_it(
    pieces: list[tuple[Entry, int]], data: st.DataObject
) -> None:
    """Sums over minutes, hours and days agree, also for spans that ended long ago."""
    entries = entries_of(pieces, EPOCH + 23 * HOUR)
    device, closed = windows_of(entries)
    open_window = device.rollups.open_window()
    assert open_window is not None
    borders = st.integers(-3, 110).map(lambda number: EPOCH + 23 * HOUR + number * FINE_SPAN)
    start = data.draw(borders)
    end = data.draw(borders)
    inside = [each for each in (*closed, open_window) if start <= each.start < end]
    assert_same(window_over(device, start, end), summed(inside))


@pytest.mark.parametrize(
    ("start", "end"),
    [(9 * DAY, 9 * DAY + 2 * HOUR), (3 * HOUR, 8 * DAY), (26 * HOUR, 27 * HOUR), (0, 10 * DAY)],
)
def test_span_that_ended_long_ago_is_exact_to_its_grain(start: int, end: int) -> None:
    """On whole hours nothing is missing or excess, even ten days later."""
    device, closed = ten_days()
    window_query = device.rollups.window_query()
    assert window_query.grain(EPOCH + start, EPOCH + end) == FINE_SPAN
    found = window_query.window(EPOCH + start, EPOCH + end)
    expected = [each for each in closed if EPOCH + start <= each.start < EPOCH + end]
    open_window = device.rollups.open_window()
    assert open_window is not None
    if end == 10 * DAY:
        expected.append(open_window)
    assert_same(found, summed(expected))


def test_span_within_an_hour_of_long_ago_is_answered_to_the_hour() -> None:
    """Its blocks are still exact to five minutes."""
    device, _ = ten_days()
    start = EPOCH + DAY + 10 * MINUTE
    end = EPOCH + DAY + 100 * MINUTE
    window_query = device.rollups.window_query()
    assert window_query.grain(start, end) == HOUR
    found = window_query.window(start, end)
    assert (found.start, found.end) == (EPOCH + DAY + HOUR, EPOCH + DAY + 2 * HOUR)
    expected = [start + number * FINE_SPAN for number in range(18)]
    known = {each.start for each in found.blocks.of(Measure.MEMORY)}
    assert known <= set(expected)
    assert len(known) > 6


def test_snapshot_of_windows_does_not_change() -> None:
    """A caller that took it under a lock may read it while entries arrive."""
    device, closed = windows_of(long_run(5))
    end = closed[-1].end
    seen = device.rollups.window_query()
    before = seen.window(EPOCH, end)
    for each in long_run(30, end + FINE_SPAN):
        device.add(each)
    assert seen.window(EPOCH, end) == before


def test_blocks_hold_mean_and_peak_of_five_minutes() -> None:
    """Idle time counts, unknown time does not."""
    device = DeviceWindows("GPU-0")
    busy = {Resource.COMPUTE: 0.9, Resource.MEMORY: 0.5}
    for each in entries_of([(replace(KINDS[1], shares=busy), 30), (KINDS[2], 90), (KINDS[4], 180)]):
        device.add(each)
    found = window_over(device, EPOCH, EPOCH + HOUR).blocks
    (compute,) = found.of(Measure.COMPUTE)
    assert (compute.start, compute.known_seconds) == (EPOCH, 120.0)
    assert compute.mean == pytest.approx(0.9 * 30 / 120, rel=1e-3)
    assert compute.peak == pytest.approx(0.9, rel=1e-3)
    assert compute.peak >= 0.9
    assert found.of(Measure.NVLINK) == ()
