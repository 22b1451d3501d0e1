"""Tables and records of tools that nobody here wrote: one reader for all of their shapes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]

TIMES = [1714550400 + 10 * at for at in range(4)]
MARKDOWN = "| timestamp | gpu | util_pct |\n|---|---:|---|\n"
PSQL = " timestamp | gpu | util_pct \n-----------+-----+----------\n"
MYSQL = "+----+\n| timestamp | gpu | util_pct |\n+----+\n"


def _lines(row: str) -> str:
    return "".join(f"{row.replace('AT', str(at))}\n" for at in TIMES)


def _of_profiler(at: int) -> dict[str, Any]:
    return {"Name": "gpu1", "Dimension": "GPUUtilization", "Value": 90, "Timestamp": at}


PLAIN = [{"ts": at, "gpu": 1, "util_pct": 90} for at in TIMES]
COLUMNS = {"time": TIMES, "gpu0_util": [0, 1, 0, 2], "gpu1_util": [90] * 4}


@pytest.mark.parametrize(
    "text",
    [
        MARKDOWN + _lines("| AT | 1 | 90 |"),
        PSQL + _lines("      AT |   1 |       90 ") + "(4 rows)\n",
        MYSQL + _lines("|      AT |   1 |       90 |") + "+----+\n4 rows in set (0.00 sec)\n",
        "timestamp   gpu  util_pct\n" + _lines("AT    1        90"),
        "time,util0,mem0,util1,mem1\n" + _lines("AT,0,2000,90,2000"),
        "time,GPU 0,GPU 1\n" + _lines("AT,0%,90%"),
        _lines('time=AT level=info msg="all is well" gpu=1 util=90'),
        _lines("time=AT gpu=0 util=1 gpu=1 util=90"),
        "# logger | start=2024-05-01\nts_unix,gpu,util_pct\n" + _lines("AT,1,90"),
        "\n".join(json.dumps({"log": json.dumps(each), "stream": "stdout"}) for each in PLAIN),
        "wall_time,step,tag,value\n" + _lines("AT,1,gpu_1/utilization,90\nAT,1,loss,0.1"),
        "\n".join(json.dumps(_of_profiler(at)) for at in TIMES),
        json.dumps(COLUMNS),
    ],
    ids=[
        "Markdown",
        "psql",
        "mysql",
        "blanks",
        "numbers",
        "units in cells",
        "logfmt",
        "repeated keys",
        "comment",
        "Docker",
        "TensorBoard",
        "SageMaker",
        "columns",
    ],
)
def test_every_shape_says_the_same(replay: Replays, write: Writes, text: str) -> None:
    """GPU 1 is busy by 90 percent, every ten seconds."""
    played = replay(write(text, "log"))
    assert played.values("index:1", Signal.GPU_BUSY) == [0.9] * 4
    assert played.source.interval == 10 * 10**9


def test_times_of_day_may_have_milliseconds(replay: Replays, write: Writes) -> None:
    """Tools that log for minutes write no dates, and midnight begins a day."""
    rows = ("23:59:59.500,    0, 90.00", "00:00:00.000,    0, 91.00")
    found = replay(write("\n".join(("Timestamp, DeviceId, GPU Utilization (%)", *rows, ""))))
    assert [reading.time for reading in found.readings("index:0")] == [
        86399_500_000_000,
        86400 * 10**9,
    ]
    assert "write dates too" in found.warnings


def test_date_and_time_of_day_between_blanks_are_one_time(replay: Replays, write: Writes) -> None:
    """A row has one cell more than the headings."""
    rows = "".join(f"2026-03-03 10:00:0{at} 1 90\n" for at in range(3))
    played = replay(write(f"timestamp gpu util_pct\n{rows}"))
    assert played.snapshots[0].wall_time == 1_772_532_000_000_000_000


@pytest.mark.parametrize(
    "heading",
    [
        "time,load1,load5,load15",
        "time,cpu_pct,util0,util1",
        "Training time on the GPU: utilization was high",
    ],
)
def test_numbers_of_other_things_are_no_gpus(replay: Replays, write: Writes, heading: str) -> None:
    """The load of a host over minutes, cores beside its CPU, and sentences."""
    path = write(f"{heading}\n{_lines('AT,50,60,70')}")
    with pytest.raises(Exception, match="no known format"):
        replay(path)


def test_gpus_of_a_list_whose_index_is_null_are_counted(replay: Replays, write: Writes) -> None:
    """The place in the list says which it is."""
    gpus = [{"index": None, "util_pct": 0}, {"index": None, "util_pct": 90}]
    text = "\n".join(json.dumps({"ts": at, "gpus": gpus}) for at in TIMES)
    assert replay(write(text)).values("index:1", Signal.GPU_BUSY) == [0.9] * 4


def test_processes_of_a_list_of_gpus_are_read(replay: Replays, write: Writes) -> None:
    """As gpustat writes them, with their memory in MiB."""
    processes = [{"pid": 7, "command": "python", "gpu_memory_usage": 100}, {"pid": None}]
    gpus = [{"index": 0, "utilization.gpu": 90, "processes": processes}]
    text = "\n".join(json.dumps({"query_time": at, "gpus": gpus}) for at in TIMES)
    (process,) = replay(write(text)).readings("index:0")[0].processes
    assert (process.pid, process.memory_used_bytes) == (7, 100 * 2.0**20)


def test_tables_below_each_other_have_their_own_columns(replay: Replays, write: Writes) -> None:
    """As in appended logs; a column of the first may be in another place."""
    first = ",_time,gpu,util_pct\n" + _lines(",AT,0,90")
    other = "\n,_time,util_pct,host,gpu\n" + _lines(",AT,10,a,1")
    played = replay(write(first + other))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.9] * 4
    assert played.values("a GPU 1", Signal.GPU_BUSY) == [0.1] * 4


@pytest.mark.parametrize(
    ("heading", "row"),
    [
        ("Datum;Uhrzeit;gpu;util_pct;power_w", "05.01.2026;00:00:0{at};1;90,0;60,0"),
        ("time;gpu;util_pct;power_w", "2026-01-05 00:00:0{at};1;90,0;0.060,0"),
        ("time;local_rank;util_pct;power_w", "2026-01-05 00:00:0{at};1;90 percent;0.060,0 watts"),
        ("", "2026-01-05 00:00:0{at},123 - INFO - gpu: 1, util: 90%, power_w: 60"),
    ],
    ids=["date apart", "thousands", "words", "colons"],
)
def test_rules_hold_in_any_spelling(replay: Replays, write: Writes, heading: str, row: str) -> None:
    """Days apart in any language, marks between thousands, pairs by a colon."""
    lines = "".join(row.format(at=at) + "\n" for at in range(4))
    played = replay(write(f"{heading}\n{lines}"))
    assert played.snapshots[0].wall_time == 1_767_571_200 * 10**9 + ("INFO" in row) * 123_000_000
    assert played.values("index:1", Signal.GPU_BUSY) == [0.9] * 4
    assert played.values("index:1", Signal.POWER_WATTS) == [60.0] * 4


def test_dates_of_a_column_without_a_year(replay: Replays, write: Writes) -> None:
    """As before lines, a leap year is assumed, and told."""
    lines = "".join(f"Jan 05 00:00:0{at},1,90\n" for at in range(4))
    played = replay(write(f"time,gpu,util_pct\n{lines}"))
    assert played.values("index:1", Signal.GPU_BUSY) == [0.9] * 4
    assert "its times have no year" in played.warnings


def test_torn_line_of_json_loses_no_other(replay: Replays, write: Writes) -> None:
    """A crash within a long file; what follows is read at once."""
    record = '{"ts": AT, "gpu": 1, "util_pct": 90}'
    lines = _lines(record).splitlines(keepends=True)
    torn = f"{lines[0]}{lines[1][:-9]}\n{''.join(lines[2:])}"
    played = replay(write(torn + _lines(record) * 2000))
    assert len(played.values("index:1", Signal.GPU_BUSY)) >= 3
    assert "log.csv:2: damaged or torn JSON" in played.warnings


def test_percent_of_a_limit_is_no_power(replay: Replays, write: Writes) -> None:
    """A unit of another kind than the signal's leaves the column out."""
    played = replay(write(f"time,gpu,util_pct,power_pct\n{_lines('AT,1,90,80')}"))
    assert played.readings("index:1")[0].values == {Signal.GPU_BUSY: 0.9}


def test_memory_of_all_gpus_is_used_where_one_varies(replay: Replays, write: Writes) -> None:
    """One heading means one thing of each GPU."""
    rows = "".join(f"{at},90,{at % 97},2000\n" for at in TIMES)
    played = replay(write(f"time,gpu1_util_pct,gpu0_mib,gpu1_mib\n{rows}"))
    assert played.values("index:1", Signal.MEMORY_USED_BYTES) == [2000 * 2.0**20] * 4


def test_times_of_day_are_counted_on(replay: Replays, write: Writes) -> None:
    """Without a date, midnight begins the next day."""
    played = replay(write("time,gpu,util_pct\n23:59:59,1,90\n00:00:00,1,90\n"))
    assert played.source.interval == 10**9
    assert "has no dates" in played.warnings


def test_text_of_another_tool_is_no_table(replay: Replays, write: Writes) -> None:
    """What is printed for people has no columns to name."""
    text = "n1  2024-05-01T08:00:00  550.54\nGPU 0 NVIDIA L4 is at 45'C and 90 % busy\n"
    with pytest.raises(Exception, match="record with 'rightsizer record'"):
        replay(write(text))


def test_gpu_before_the_pairs_of_a_line(replay: Replays, write: Writes) -> None:
    """As scripts log it; units stand beside the numbers."""
    text = "".join(
        f"2026-03-02 09:00:0{at},123 INFO GPU {gpu}: util=9{gpu}% mem=30{at}00MiB power=250.5W\n"
        for at in range(3)
        for gpu in (0, 1)
    )
    played = replay(write(text))
    assert played.values("index:1", Signal.GPU_BUSY) == [0.91] * 3
    assert played.values("index:0", Signal.MEMORY_USED_BYTES)[2] == 30200 * 2**20
    assert played.values("index:0", Signal.POWER_WATTS) == [250.5] * 3
