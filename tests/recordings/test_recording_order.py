"""Order, merging, and how long values hold."""

import gzip
import os
import random
import statistics
import threading
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.errors import RecordingError
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.recordings.source import open_recording
from rightsizer.recordings.survey import IntervalMedian
from tests.support.recordings import replayed

Replays = Callable[..., Any]
Writes = Callable[..., Path]


def _csv(rows: list[tuple[float, str, float]], column: str = "gpu_busy") -> str:
    lines = [f"{time},{device},{value}\n" for time, device, value in rows]
    return f"timestamp,device,{column}\n" + "".join(lines)


@pytest.mark.parametrize("order", ["time", "device", "none"])
def test_any_order_gives_the_same_snapshots(replay: Replays, write: Writes, order: str) -> None:
    """A file may be sorted by time, by device and then time, or not at all."""
    rows = [(10.0 * k + d / 1000, f"gpu{d}", k / 100) for k in range(30) for d in range(4)]
    shuffled = {
        "time": rows,
        "device": sorted(rows, key=lambda row: (row[1], row[0])),
        "none": random.Random(7).sample(rows, len(rows)),
    }[order]
    played = replay(write(_csv(shuffled)))
    assert [snapshot.readings for snapshot in played.snapshots] == [
        snapshot.readings for snapshot in replay(write(_csv(rows), "sorted.csv")).snapshots
    ]
    assert [list(snapshot.readings) for snapshot in played.snapshots] == [
        ["gpu0", "gpu1", "gpu2", "gpu3"]
    ] * 30
    assert played.source.interval == 10_000_000_000


def test_clock_that_was_set_back_is_reported(replay: Replays, write: Writes) -> None:
    """Readings are put in order; a file that is in none is not said to be of two clocks."""
    times = [*range(40), *range(30, 70)]
    played = replay(write(_csv([(t, device, 0.5) for t in times for device in "ab"])))
    assert len(played.readings("a")) == 70
    assert "times go back by up to 9 s" in played.warnings
    shuffled = random.Random(7).sample(range(80), 80)
    unordered = replay(write(_csv([(t, "a", 0.5) for t in shuffled])))
    assert "times go back" not in unordered.warnings


@pytest.mark.parametrize(
    ("day", "span"), [("2025-10-26", 7170), ("2025-11-02", 7170), ("2025-10-25", 3570)]
)
def test_hour_that_local_clocks_show_twice_is_counted_twice(
    replay: Replays, write: Writes, day: str, span: int
) -> None:
    """Summer time ends in the night to a Sunday; on other days a clock was set back."""
    minutes = [f"{day} 0{h}:{m:02d}:{s:02d}" for h in (1, 1) for m in range(60) for s in (0, 30)]
    rows = "".join(f"{time},{gpu},{busy}\n" for time in minutes for gpu, busy in ((0, 90), (1, 10)))
    played = replay(write(f"timestamp,gpu,util_pct\n{rows}"))
    assert played.snapshots[-1].wall_time - played.snapshots[0].wall_time == span * 10**9
    assert ("summer time ends on" in played.warnings) is (span > 3600)
    for gpu, busy in ((0, 0.9), (1, 0.1)):
        assert played.values(f"index:{gpu}", Signal.GPU_BUSY) == [busy] * (span // 30 + 1)


@pytest.mark.parametrize(("differing", "is_refused"), [(30, True), (29, False)])
def test_logs_of_two_nodes_in_one_file_are_refused(
    replay: Replays, write: Writes, *, differing: int, is_refused: bool
) -> None:
    """One GPU cannot have two loads at one time; a line that was written twice is one reading."""
    node = [(float(t), "0", 0.95) for t in range(differing)]
    other = [(float(t), "0", 0.1) for t in range(differing)]
    path = write(_csv([*node, *other]))
    if is_refused:
        with pytest.raises(RecordingError, match="0 has two readings that differ at each of 30"):
            replay(path)
    else:
        played = replay(path)
        assert len(played.readings("0")) == differing
        assert "of which the last counts" in played.warnings
    assert len(replay(write(_csv([*node, *node]))).readings("0")) == differing


@pytest.mark.parametrize(("load", "is_remarked"), [(0.7, True), (0.6, False)])
def test_readings_of_one_time_that_are_alike_are_remarked(
    replay: Replays, write: Writes, *, load: float, is_remarked: bool
) -> None:
    """Nodes of one job have like loads; a reading that was written twice is no second one."""
    both = [(float(t), "0", each) for t in range(30) for each in (0.6, load)]
    assert ("has several readings at each of 30 times" in replay(write(_csv(both))).warnings) is (
        is_remarked
    )


@pytest.mark.parametrize(("step", "is_refused"), [(1 / 86_400, True), (60.0, False)])
def test_days_of_a_spreadsheet_are_no_seconds(
    replay: Replays, write: Writes, *, step: float, is_refused: bool
) -> None:
    """46,091.3 is in March 2026, or the 13th hour of what counts seconds."""
    path = write(_csv([(46_091.3 + step * at, "0", 0.5) for at in range(9)]))
    if is_refused:
        with pytest.raises(RecordingError, match="days of a spreadsheet"):
            replay(path)
    else:
        assert replay(path).source.interval == 60_000_000_000


def test_files_may_name_a_gpu_by_uuid_and_by_index(replay: Replays, write: Writes) -> None:
    """It is one device, unless several have that index."""
    by_index = [f"2024/01/01 00:00:0{t}, 0, {t} W\n" for t in range(5)]
    by_uuid = [f"2024/01/01 00:00:0{t}, GPU-{{0}}, 0, 7 %\n" for t in range(5)]
    plain = write("timestamp, index, power.draw [W]\n" + "".join(by_index), "index.csv")
    named, other = (
        write(
            "timestamp, uuid, index, utilization.gpu [%]\n" + "".join(by_uuid).format(name),
            f"{name}.csv",
        )
        for name in "ab"
    )
    played = replay(plain, named)
    assert [device.uuid for device in played.source.devices] == ["GPU-a"]
    assert played.values("GPU-a", Signal.POWER_WATTS) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert played.values("GPU-a", Signal.GPU_BUSY) == [0.07] * 5
    assert len(replay(plain, named, other).source.devices) == 3


def test_logs_of_two_nodes_are_refused(replay: Replays, write: Writes) -> None:
    """Where they have an index of different GPUs; logs of one GPU that agree are one."""

    def log(name: str, used: int, busy: int) -> Path:
        rows = (f"2024/01/01 00:00:{t:02}, 0, {busy} %, {used} MiB\n" for t in range(60))
        heading = "timestamp, index, utilization.gpu [%], memory.used [MiB]\n"
        return write(heading + "".join(rows), name)

    one = log("1.csv", 60000, 9)
    same = log("2.csv", 60100, 90)
    other = log("3.csv", 3, 9)
    played = replay(one, same)
    assert len(played.readings("index:0")) == 60
    assert "1.csv and" in played.warnings
    assert "are read as of one node; replay the logs of two nodes one by one" in played.warnings
    with pytest.raises(RecordingError, match=r"GPU 0 of .*1.csv is not that of .*3.csv: replay"):
        replay(one, other)


def test_readings_of_a_clock_that_was_not_set_are_left_out(replay: Replays, write: Writes) -> None:
    """A node that boots in 1970 is told the time later; one that never is keeps its times."""
    unset = list(range(3))
    valid = [1.7e9 + at for at in range(3)]
    played = replay(write(_csv([(at, "a", 0.5) for at in (*unset, *valid)])))
    assert len(played.readings("a")) == 3
    assert "readings of a clock that was not set are left out" in played.warnings
    assert len(replay(write(_csv([(at, "a", 0.5) for at in unset]))).readings("a")) == 3


def test_rotated_logs_are_one_recording(replay: Replays, write: Writes) -> None:
    """Named in any order, compressed or not."""
    old = write(_csv([(1, "a", 0.1), (2, "a", 0.2)]), "log.1.csv")
    packed = old.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(old.read_bytes()))
    new = write(_csv([(3, "a", 0.3), (4, "a", 0.4)]), "log.csv")
    played = replay(new, packed)
    assert played.values("a", Signal.GPU_BUSY) == [0.1, 0.2, 0.3, 0.4]


def test_a_slower_file_holds_for_two_of_its_intervals(replay: Replays, write: Writes) -> None:
    """Then its value is stale, with that as the reason, until it is read again."""
    fast = write(_csv([(t, "a", 0.5) for t in range(61)]), "fast.csv")
    slow_times = (0, 10, 20, 50, 60)
    slow = write(_csv([(t, "a", t) for t in slow_times], "temperature_celsius"), "slow.csv")
    readings = replay(fast, slow).readings("a")
    assert len(readings) == 61
    heat = [reading.get(Signal.TEMPERATURE_CELSIUS) for reading in readings]
    assert heat[:10] == [0.0] * 10
    assert heat[20:41] == [20.0] * 21
    assert heat[41:50] == [None] * 9
    assert heat[50] == 50.0
    assert readings[41].missing == {Signal.TEMPERATURE_CELSIUS: Missing.STALE}


def test_a_file_with_one_reading_holds_for_none(replay: Replays, write: Writes) -> None:
    """No one knows how often it would have been read."""
    fast = write(_csv([(t, "a", 0.5) for t in range(3)]), "fast.csv")
    slow = write(_csv([(1, "a", 60)], "temperature_celsius"), "slow.csv")
    assert replay(fast, slow).values("a", Signal.TEMPERATURE_CELSIUS) == [None, 60.0, None]


@given(
    first=st.lists(st.integers(0, 50), unique=True, min_size=1),
    second=st.lists(st.integers(0, 50), unique=True, min_size=1),
)
def test_there_is_a_reading_wherever_a_file_has_a_row(
    tmp_path_factory: pytest.TempPathFactory, first: list[int], second: list[int]
) -> None:
    """The readings of a device are the union of the times of all files, each once and in order."""
    folder = tmp_path_factory.mktemp("union")
    paths = []
    for number, (times, column) in enumerate(((first, "gpu_busy"), (second, "power_watts"))):
        paths.append(folder / f"{number}.csv")
        paths[-1].write_text(_csv([(t, "a", 1) for t in times], column))
    source = open_recording(paths, catalogue=built_in())
    seen = []
    while (snapshot := source.read()) is not None:
        seen.append(snapshot.readings["a"].time // 1_000_000_000)
    source.close()
    assert seen == sorted({*first, *second})


def test_a_row_that_comes_twice_is_one_reading(replay: Replays, write: Writes) -> None:
    """The later of two lines with one device and time is believed."""
    played = replay(write(_csv([(1, "a", 0.1), (1, "a", 0.2), (2, "a", 0.3)])))
    assert played.values("a", Signal.GPU_BUSY) == [0.2, 0.3]


def test_a_pipe_is_read_as_a_file(replay: Replays, tmp_path: Path) -> None:
    """What cannot be read twice is kept in a temporary file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = _csv([(1, "a", 0.1), (2, "a", 0.2)])
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    played = replay(pipe)
    writer.join()
    assert played.values("a", Signal.GPU_BUSY) == [0.1, 0.2]


def test_utf16_is_text(replay: Replays, tmp_path: Path) -> None:
    """PowerShell's redirection writes it."""
    path = tmp_path / "log.csv"
    path.write_bytes(_csv([(1, "a", 0.1)]).encode("utf-16"))
    assert replay(path).values("a", Signal.GPU_BUSY) == [0.1]


def test_a_cut_gzip_is_read_up_to_the_cut(replay: Replays, tmp_path: Path) -> None:
    """And the warning says at which line it broke off."""
    text = _csv([(t, "a", random.Random(t).random()) for t in range(5000)])
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(text.encode())[:20_000])
    played = replay(path)
    assert 100 < len(played.snapshots) < 5000
    assert "compressed file breaks off here" in played.warnings


def test_one_reading_has_an_assumed_interval(replay: Replays, write: Writes) -> None:
    """A recording of a single poll is still a recording."""
    played = replay(write(_csv([(1, "a", 0.1), (1, "b", 0.2)])))
    assert len(played.snapshots) == 1
    assert "an interval of one second is assumed" in played.warnings


def test_readers_stream(tmp_path: Path) -> None:
    """Ten times the rows need no more memory."""
    peaks = []
    for polls in (500, 5000):
        path = tmp_path / f"{polls}.csv"
        path.write_text(
            "timestamp, index, utilization.gpu [%], power.draw [W]\n"
            + "".join(
                f"2024/01/31 {k // 3600:02d}:{k // 60 % 60:02d}:{k % 60:02d}.00{d}, {d}, "
                f"{k % 101} %, {k % 700}.{d}0 W\n"
                for k in range(polls)
                for d in range(4)
            )
        )
        tracemalloc.start()
        source = open_recording([path], catalogue=built_in())
        count = 0
        while source.read() is not None:
            count += 1
        source.close()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert count == polls
    assert peaks[1] < 2 * peaks[0] + 1_000_000


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=50))
def test_the_median_of_gaps_is_within_a_thousandth(found: list[int]) -> None:
    """It is the standard library's median; equal gaps are exact."""
    gaps = IntervalMedian()
    for gap in found:
        gaps.add("all", gap)
        gaps.add("other", 1)
    middle = (statistics.median_low(found) + statistics.median_high(found)) / 2
    assert gaps.median("all") == pytest.approx(middle, rel=1e-3, abs=1)
    assert gaps.median("other") == 1
    assert gaps.total("all") == len(found)
    assert gaps.median("none") is None


@pytest.mark.parametrize(("gap_seconds", "told"), [(1, ""), (7200, "b.csv begins 2 h after")])
def test_file_that_begins_long_after_another_is_reported(
    replay: Replays, write: Writes, gap_seconds: int, told: str
) -> None:
    """A rotated log goes on at once; what begins much later may be of another node."""
    heading = "timestamp, index, utilization.gpu [%]\n"
    first, second = (
        write(heading + "".join(f"{start + each}, 0, 50 %\n" for each in range(60)), name)
        for start, name in ((1767571200, "a.csv"), (1767571259 + gap_seconds, "b.csv"))
    )
    warnings = replay(first, second).warnings
    assert told in warnings
    assert bool(told) == ("they are read as of one node" in warnings)


def _query_rows(gpu: int, start: int, polls: int, interval_seconds: int) -> list[str]:
    """Rows of a busy GPU from a time in seconds on."""
    moments = (datetime.fromtimestamp(start + at * interval_seconds, UTC) for at in range(polls))
    return [f"{moment:%Y/%m/%d %H:%M:%S}.000, {gpu}, 97 %, 355 W" for moment in moments]


@pytest.mark.parametrize(
    "logs",
    [
        # A log restarted with a shorter interval, and with a longer one.
        [(0, 1_700_000_000, 40, 60), (0, 1_700_002_400, 100, 5)],
        [(0, 1_700_000_000, 100, 5), (0, 1_700_000_500, 40, 60)],
        # Two GPUs, each with its own.
        [(0, 1_700_000_000, 40, 60), (1, 1_700_000_000, 400, 5)],
    ],
)
@pytest.mark.parametrize("is_joined", [False, True])
def test_interval_is_that_of_each_device_and_stretch(
    write: Writes, logs: list[tuple[int, int, int, int]], *, is_joined: bool
) -> None:
    """Which the shorter one of another does not make unknown, in one file or in two."""
    heading = "timestamp, index, utilization.gpu [%], power.draw [W]"
    tables = [_query_rows(*log) for log in logs]
    if is_joined:
        tables = [sorted(row for table in tables for row in table)]
    paths = [
        write("\n".join([heading, *table]) + "\n", f"{at}.csv") for at, table in enumerate(tables)
    ]
    for device in replayed(*paths).devices:
        assert device.window.known == device.window.accounted > 0


def test_pause_in_a_log_of_two_intervals_is_unknown(write: Writes) -> None:
    """Between them, and within either."""
    heading = "timestamp, index, utilization.gpu [%], power.draw [W]"
    logs = [
        (0, 1_700_000_000, 20, 60),
        (0, 1_700_010_000, 20, 60),
        (0, 1_700_020_000, 50, 5),
        (0, 1_700_030_000, 50, 5),
    ]
    rows = [row for log in logs for row in _query_rows(*log)]
    (device,) = replayed(write("\n".join([heading, *rows]) + "\n")).devices
    known_seconds = 2 * 19 * 60 + 2 * 49 * 5 + 180 + 180 + 15
    assert device.window.known_seconds == known_seconds
