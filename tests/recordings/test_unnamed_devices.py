"""Devices of a log whose rows do not name them."""

import random
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rightsizer.model.errors import RecordingError
from rightsizer.model.signal import Signal
from rightsizer.recordings.row import RecordingNotes
from rightsizer.recordings.unnamed_devices import (
    NOTHING_STATED,
    PollPattern,
    SampledRow,
    StatedDevices,
    device_order,
    poll_pattern,
)

Replays = Callable[..., Any]
Writes = Callable[..., Path]
MILLISECOND = 1_000_000
SECOND = 1000 * MILLISECOND
HEADING = "timestamp, utilization.gpu [%], memory.used [MiB]\n"


def read(
    rows: list[SampledRow], stated: StatedDevices = NOTHING_STATED
) -> tuple[list[str], tuple[str, ...]]:
    """The device of each row, and the warnings."""
    notes = RecordingNotes("log.csv")
    device = device_order(rows, stated, notes)
    return [device(row.time, line) for line, row in enumerate(rows, 2)], notes.warnings({})


@given(
    devices=st.integers(2, 16),
    polls=st.integers(3, 40),
    interval=st.integers(300, 60_000),
    data=st.data(),
)
def test_devices_a_few_milliseconds_apart_are_one_poll(
    devices: int, polls: int, interval: int, data: st.DataObject
) -> None:
    """Whatever the jitter, each row is given to the device that it is of."""
    within = st.integers(0, 12)
    between = st.integers(interval, interval + 40)
    gaps = [
        data.draw(between if number % devices == 0 else within)
        for number in range(1, devices * polls)
    ]
    times = accumulate((gap * MILLISECOND for gap in gaps), initial=0)
    found, _ = read([SampledRow(time, {}) for time in times])
    assert found == [f"index:{number % devices}" for number in range(devices * polls)]


@given(st.lists(st.integers(950, 1100), min_size=1, max_size=60))
def test_one_device_is_its_own_poll(gaps: list[int]) -> None:
    """Jitter of a second's interval does not make two devices of one, and is not warned of."""
    times = accumulate((gap * MILLISECOND for gap in gaps), initial=0)
    found, warnings = read([SampledRow(time, {}) for time in times])
    assert (set(found), warnings) == ({"index:0"}, ())


def test_a_pause_in_the_log_is_no_poll() -> None:
    """A recorder that slept for an hour in the middle leaves two equal halves, not two polls."""
    times = [number * SECOND for number in range(30)]
    times += [time + 3600 * SECOND for time in times]
    assert poll_pattern(times) == PollPattern(1)


def test_a_single_poll_is_one_poll() -> None:
    """A log of one poll has no gap between polls to learn from."""
    assert poll_pattern([0, 4 * MILLISECOND, 9 * MILLISECOND]).rows == 3


def test_a_single_row_has_no_gap() -> None:
    """With nothing to compare, each row is its own."""
    assert poll_pattern([SECOND]) == PollPattern(1)


@given(seed=st.integers(0, 1 << 32), interval=st.sampled_from([100, 250, 1000]))
def test_stray_gaps_of_any_length_do_not_hide_a_device(seed: int, interval: int) -> None:
    """Two GPUs polled every 100 ms, with gaps between the two kinds: no row changes its GPU."""
    chance = random.Random(seed)
    time = 0
    rows = []
    truth = []
    for poll in range(200):
        for device in range(2):
            if device:
                # One poll in twelve is slow in its middle: 10, 20, ... of a hundred.
                stray = interval * (poll // 12 % 6 + 1) // 10 if poll % 12 == 0 else 0
                time += max(stray, chance.randint(1, interval // 20)) * MILLISECOND
            rows.append(SampledRow(time, {Signal.MEMORY_USED_BYTES: float(device << 30)}))
            truth.append(f"index:{device}")
        time += chance.randint(interval * 95 // 100, interval * 11 // 10) * MILLISECOND
    found, warnings = read(rows)
    assert found == truth
    assert len(warnings) == 1
    assert "read as those of 2 GPUs" in warnings[0]


@example(devices=2, interval=62, jitter=1.0, dropped=0.859375, chance=random.Random(19066))
@given(
    devices=st.integers(1, 16),
    interval=st.integers(50, 5000),
    jitter=st.floats(0, 1),
    dropped=st.floats(0, 0.9),
    chance=st.integers(0, 1 << 32).map(random.Random),
)
def test_the_count_found_is_right_or_a_warning_is_given(
    devices: int, interval: int, jitter: float, dropped: float, chance: random.Random
) -> None:
    """Whatever the jitter and the order, and whatever rows are lost."""
    rows = []
    for poll in range(120):
        at = poll * interval
        for device in range(devices):
            at += round(chance.random() * jitter * min(interval, 500) / devices)
            if chance.random() >= dropped:
                used = float((1 + device) << 30)
                rows.append(SampledRow(at * MILLISECOND, {Signal.MEMORY_USED_BYTES: used}))
    if chance.random() < 0.5:
        chance.shuffle(rows)
    there = {row.values[Signal.MEMORY_USED_BYTES] for row in rows}
    found, warnings = read(rows)
    # Two rows of one device and one of another tell nothing.
    assert len(set(found)) == len(there) or warnings or len(rows) < 10


@pytest.mark.parametrize("devices", [2, 3, 8])
def test_the_number_of_devices_can_be_stated(devices: int) -> None:
    """Where times are whole seconds that say nothing, rows are counted; nothing is warned of."""
    rows = [SampledRow(poll * SECOND, {}) for poll in range(40) for _ in range(devices)]
    found, warnings = read(rows, StatedDevices(devices))
    assert found == [f"index:{at % devices}" for at in range(40 * devices)]
    assert warnings == ()
    evenly = [SampledRow(at * SECOND, {}) for at in range(40 * devices)]
    assert read(evenly, StatedDevices(devices)) == (found, ())


def _polls(orders: list[list[int]]) -> list[SampledRow]:
    """Rows of GPUs with memory of their own, in the order of each poll."""
    return [
        SampledRow(
            poll * SECOND + at * 4 * MILLISECOND,
            {Signal.MEMORY_USED_BYTES: float((1 + device) << 30)},
        )
        for poll, order in enumerate(orders)
        for at, device in enumerate(order)
    ]


@given(st.integers(2, 8), st.integers(0, 1 << 32).map(random.Random))
def test_rows_in_varying_order_are_no_order(devices: int, chance: random.Random) -> None:
    """Each poll is shuffled, as by threads that write when they are done."""
    orders = [chance.sample(range(devices), devices) for _ in range(60)]
    with pytest.raises(RecordingError, match=r"come in varying order: in .* polls .*; record with"):
        read(_polls(orders))
    found, warnings = read(_polls(orders), StatedDevices(devices))
    assert len(set(found)) == devices
    assert "varying order" in warnings[0]


@given(st.integers(0, 60), st.booleans())
def test_jobs_that_come_and_go_keep_their_order(starts: int, is_reversed: bool) -> None:  # noqa: FBT001 - drawn.
    """Memory moves from one GPU to another once, or the recorder was restarted otherwise."""
    usual = [0, 1, 2]
    later = usual[::-1] if is_reversed else [1, 0, 2]
    found, _ = read(_polls([usual if poll < starts else later for poll in range(60)]))
    assert found == [f"index:{at % 3}" for at in range(180)]


def test_a_lost_row_is_reported_and_the_polls_behind_it_are_right() -> None:
    """One row less shifts no GPU for ever."""
    rows = [
        SampledRow(poll * SECOND + device * 4 * MILLISECOND, {})
        for poll in range(50)
        for device in range(2)
        if (poll, device) != (20, 0)
    ]
    found, warnings = read(rows, StatedDevices(2))
    assert found[41:] == [f"index:{at % 2}" for at in range(len(found) - 41)]
    assert "poll of fewer than 2 rows" in "".join(warnings)


def _log(devices: int, polls: int = 60, apart: int = 37) -> str:
    """A log whose rows are evenly spaced, as if they were of one device."""
    rows = [
        f"2024/01/01 00:00:{at * apart // 1000:02d}.{at * apart % 1000:03d}, "
        f"{at % 7} %, {1000 * (at % devices)} MiB\n"
        for at in range(devices * polls)
    ]
    return HEADING + "".join(rows)


def test_rows_too_near_and_too_different_for_one_gpu_are_warned_of(
    replay: Replays, write: Writes
) -> None:
    """Times that tell nothing leave one GPU, and memory that jumps says that it is not one."""
    played = replay(write(_log(2)))
    assert len(played.source.devices) == 1
    assert "may be of several: 'memory_used_bytes' swings" in played.warnings
    assert "--devices N" in played.warnings
    replayed = replay(write(_log(2)), stated=StatedDevices(2))
    assert replayed.source.warnings == ()
    assert set(replayed.values("index:1", Signal.MEMORY_USED_BYTES)) == {1000 * 2.0**20}


def test_a_stated_number_that_the_log_contradicts_is_reported(replay: Replays, data: Path) -> None:
    """The log names eight GPUs, and four were stated."""
    played = replay(data / "eight_h100.csv", stated=StatedDevices(4))
    assert "--devices 4: 8 devices are in the recording" in played.warnings


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (HEADING + "".join(f"2024/01/01 00:00:0{at}, 5 %, 9 MiB\n" for at in range(9)), None),
        ("timestamp,gpu_busy\n" + "".join(f"{at},0.5\n" for at in range(9)), None),
        (
            "t,v\n" + "".join(f"{at},50\n" for at in range(9)),
            "time: {column: t, unit: s}\nfiles: {'*': {v: {signal: gpu_busy, unit: '%'}}}\n",
        ),
    ],
)
def test_a_log_of_one_gpu_needs_no_device_column(
    replay: Replays, write: Writes, text: str, columns: str | None
) -> None:
    """`--device` names it: by its index, or by any name."""
    how = {} if columns is None else {"columns": write(columns, "map.yaml")}
    [device] = replay(write(text), stated=StatedDevices(name="3"), **how).source.devices
    assert (device.uuid, device.index) == ("index:3", 3)
    [device] = replay(write(text), stated=StatedDevices(name="lab"), **how).source.devices
    assert device.uuid == "lab"


@pytest.mark.parametrize("delimiter", [", ", ";", "\t"])
def test_a_log_without_a_heading_is_read_by_its_fields(
    replay: Replays, write: Writes, delimiter: str
) -> None:
    """As if the names stood in its first line; nothing of the data is lost."""
    lines = (("2024/01/01 00:00:00.000", "0", "5 %"), ("2024/01/01 00:00:01.000", "0", "7 %"))
    log = write("".join(f"{delimiter.join(cells)}\n" for cells in lines))
    played = replay(log, fields="timestamp,index,utilization.gpu")
    assert played.values("index:0", Signal.GPU_BUSY) == [0.05, 0.07]
    with pytest.raises(RecordingError, match=r"--fields timestamp,x,util_pct --device 0"):
        replay(write("2024/01/31 12:34:56.789, 0, 5 %\n"))
