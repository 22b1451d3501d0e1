"""CSV of scripts and of Grafana, whose headings name what their columns hold."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.errors import RecordingError
from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]

GIB = 2.0**30
SERIES = '"DCGM_FI_DEV_GPU_UTIL{{gpu=""{0}"", UUID=""GPU-{0}"", modelName=""NVIDIA L4""}}"'


@pytest.mark.parametrize(
    ("heading", "row"),
    [
        (
            "timestamp,gpu_index,utilization_pct,mem_used_mb,mem_total_mb,power_w",
            "1,90,1024,2048,150",
        ),
        ("Timestamp,GPU_Index,Power_W,Memory_Used_MB,Utilization_Pct", "1,150,1024,90"),
        ("timestamp,gpu_index,utilization_gpu,memory_used,power_draw", "1, 90 %, 1024 MiB, 150 W"),
        ("time,gpu,gpu_utilization(%),memory_used(MB),power_draw(W)", "1,90,1024,150"),
        ("Time,DeviceId,GPU Utilization (%),GPU Power (W),GPU Memory Used (MiB)", "1,90,150,1024"),
        ("timestamp,gpu,power_usage,gfx_clk,gfx,vram_used,vram_total", "1,150,900,90,1024,4096"),
        ("ts;device;gpu util ratio;VRAM Total Used Memory (B);power", "1;0.9;1073741824;150"),
        ("datetime,GPU,Load,MemUsed,Power", "1,90,1024,150"),
        (
            "Timestamp,GPU,nvidia_smi_utilization_gpu,nvidia_smi_memory_used,nvidia_smi_power_draw",
            "1,90,1024,150",
        ),
        ("t,GPU 1 (%),GPU 1 memory used (MB),gpu1_w", "90,1024,150"),
        ("time,gpu,DCGM_FI_DEV_GPU_UTIL,DCGM_FI_DEV_FB_USED,board power draw [W]", "1,90,1024,150"),
    ],
)
def test_words_of_headings_tell_columns(
    replay: Replays, write: Writes, heading: str, row: str
) -> None:
    """In any order, with units behind underscores, in brackets or in the cells."""
    mark = ";" if ";" in heading else ","
    rows = "".join(f"2026-03-03 10:00:0{at}{mark}{row}\n" for at in range(3))
    played = replay(write(f"{heading}\n{rows}"))
    assert played.values("index:1", Signal.GPU_BUSY) == [0.9] * 3
    assert played.values("index:1", Signal.MEMORY_USED_BYTES) == [GIB] * 3
    assert played.values("index:1", Signal.POWER_WATTS) == [150.0] * 3
    assert "columns are read by their names: " in played.warnings


@pytest.mark.parametrize(
    "heading",
    [
        "time,gpu0_util,gpu1_util,gpu2_util\n",
        "time,perf/gpu_util_percent0,perf/gpu_util_percent1,perf/gpu_util_percent2\n",
        "time,util_gpu_0 (%),util_gpu_1 (%),util_gpu_2 (%)\n",
        "time,GPU Utilization (GPU 0),GPU Utilization (GPU 1),GPU Utilization (GPU 2)\n",
        "time,gpu_id: 0/utilization.gpu (%),gpu_id: 1/utilization.gpu (%),gpu_id: 2/util\n",
    ],
)
def test_gpus_in_columns_of_a_row(replay: Replays, write: Writes, heading: str) -> None:
    """As scripts and Philly's trace have them; columns of GPUs that are not there are empty."""
    played = replay(write(f"{heading}1614031442,0,90,\n1614031443,2,91,\n"))
    assert [device.index for device in played.source.devices] == [0, 1]
    assert played.values("index:0", Signal.GPU_BUSY) == [0.0, 0.02]
    assert played.values("index:1", Signal.GPU_BUSY) == [0.9, 0.91]


def test_column_without_a_gpu_is_of_the_one_that_others_name(
    replay: Replays, write: Writes
) -> None:
    """Its readings do not stand in for those of the others."""
    played = replay(write("time,gpu0_util_pct,power\n1614031442,50,100\n1614031443,60,110\n"))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.5, 0.6]
    assert played.values("index:0", Signal.POWER_WATTS) == [100.0, 110.0]


def test_column_without_a_gpu_is_of_none_of_several(replay: Replays, write: Writes) -> None:
    """A warning names it."""
    played = replay(write("time,gpu0_util_pct,gpu1_util_pct,power\n1,50,60,100\n2,60,70,110\n"))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.5, 0.6]
    assert played.values("index:1", Signal.POWER_WATTS) == [None, None]
    assert "which GPU 'power' is of is not known" in played.warnings


def test_ratios_are_reported_by_their_values(replay: Replays, write: Writes) -> None:
    """No share of a hundred has 0.25 among its values and none above 1."""
    played = replay(write("time,gpu,util\n1614031442,0,1.0\n1614031443,0,0.25\n"))
    assert played.values("index:0", Signal.GPU_BUSY) == [1.0, 0.25]


def test_zero_is_zero_in_any_unit(replay: Replays, write: Writes) -> None:
    """A GPU is idle all the time."""
    idle = "".join(f"{1614031442 + at},0,0,20000\n" for at in range(9))
    played = replay(write(f"time,gpu,util,memory_used\n{idle}"))
    assert played.values("index:0", Signal.GPU_BUSY)[0] == 0.0
    assert "the unit of 'util' is not known" not in played.warnings


def test_last_row_of_a_long_log_tells_its_unit(replay: Replays, write: Writes) -> None:
    """Hours in which a GPU was idle do not hide that 97 is a percent."""
    idle = "".join(f"{1614031442 + at},0,0,20000\n" for at in range(11_000))
    played = replay(write(f"time,gpu,util,memory_used\n{idle}{1614031442 + 11_000},0,97,20000\n"))
    assert played.values("index:0", Signal.GPU_BUSY)[-1] == 0.97


def test_last_rows_of_a_long_log_tell_the_order_of_day_and_month(
    replay: Replays, write: Writes
) -> None:
    """63 of 11,063 dates settle it; the others leave it open, all of one day."""
    days = [datetime(2024, 3, day, tzinfo=UTC) for day in (1, 13)]
    times = [
        day + timedelta(seconds=at)
        for day, count in zip(days, (11_000, 63), strict=True)
        for at in range(count)
    ]
    rows = "".join(f"{time:%d/%m/%Y %H:%M:%S},{time.second}\n" for time in times)
    played = replay(write(f"timestamp,gpu_util_pct\n{rows}"))
    assert played.snapshots[0].wall_time // 10**9 == int(times[0].timestamp())
    assert "the day comes first in its dates: 63 of 11,063 settle it" in played.warnings


def test_constant_index_is_no_device_beside_one_that_varies(replay: Replays, write: Writes) -> None:
    """Also where each row has a time of its own, so that no two are of one poll."""
    rows = "".join(
        f"{1714550400 + at}.{gpu}07,0,{gpu},{90 - 80 * gpu}\n" for at in range(9) for gpu in (0, 1)
    )
    played = replay(write(f"time,index,gpu,util_pct\n{rows}"))
    assert [device.uuid for device in played.source.devices] == ["index:0", "index:1"]
    assert "GPUs are told apart by 'gpu', not 'index'" in played.warnings


@pytest.mark.parametrize("heading", ["mem_mb", "mem MiB", "memory (MB)"])
def test_memory_and_watts_of_rows_that_name_their_gpu(
    replay: Replays, write: Writes, heading: str
) -> None:
    """Beside a column of GPUs, and none of the host, they are the GPU's."""
    rows = "".join(f"{1714550400 + at},0,90,{20000 + at},250.5\n" for at in range(4))
    played = replay(write(f"time,gpu,util %,{heading},W\n{rows}"))
    assert played.values("index:0", Signal.MEMORY_USED_BYTES)[0] == 20000 * 2**20
    assert played.values("index:0", Signal.POWER_WATTS)[0] == 250.5


def test_unit_is_found_beside_cells_without_a_number(replay: Replays, write: Writes) -> None:
    """As pandas writes what it lacks: that of the others counts."""
    rows = "1614031442,0,nan,nan\n1614031443,0,55,20000\n1614031444,0,inf,20000\n"
    played = replay(write(f"time,gpu,util,memory_used\n{rows}"))
    assert 0.55 in played.values("index:0", Signal.GPU_BUSY)
    assert 20000 * 2**20 in played.values("index:0", Signal.MEMORY_USED_BYTES)


@pytest.mark.parametrize(
    ("names", "first", "second"),
    [
        ("created_at", "2026-03-31 10:00:00", "2026-03-31 10:00:01"),
        ("timestamp", "3/31/2026 10:00:00", "3/31/2026 10:00:01"),
        ("Date,Time", "31/03/2026,10:00:00", "31/03/2026,10:00:01"),
    ],
)
def test_time_by_other_names_and_with_day_and_month_in_either_order(
    replay: Replays, write: Writes, names: str, first: str, second: str
) -> None:
    """As databases name the time of a row; a day above twelve tells the order."""
    played = replay(write(f"{names},gpu,util_pct\n{first},0,90\n{second},0,91\n"))
    assert [snapshot.wall_time for snapshot in played.snapshots] == [
        1774951200 * 10**9,
        1774951201 * 10**9,
    ]


@pytest.mark.parametrize("device", ["gpu,", ""])
def test_date_and_time_of_day_in_two_columns_are_one_time(
    replay: Replays, write: Writes, device: str
) -> None:
    """With and without a column of devices."""
    gpu = "0," if device else ""
    rows = "".join(f"2026-03-03,10:00:0{at},{gpu}9{at}\n" for at in range(3))
    played = replay(write(f"date,time,{device}util_pct\n{rows}"))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.9, 0.91, 0.92]


@pytest.mark.parametrize("first", ["", "sep=,\n"])
def test_series_that_grafana_joined_by_time(replay: Replays, write: Writes, first: str) -> None:
    """Each heading is a series with its labels."""
    heading = f'"Time",{SERIES.format(0)},{SERIES.format(1)}\n'
    played = replay(write(f"{first}{heading}1772532000000,0,90\n1772532015000,5,\n"))
    assert played.values("GPU-0", Signal.GPU_BUSY) == [0.0, 0.05]
    assert played.values("GPU-1", Signal.GPU_BUSY) == [0.9]
    assert [device.name for device in played.source.devices] == ["NVIDIA L4"] * 2
    assert played.warnings == ""


def test_gpus_of_several_nodes_are_apart(replay: Replays, write: Writes) -> None:
    """A column of nodes tells them."""
    text = "time,hostname,gpu,util_pct\n" + "".join(
        f"161403144{at},{node},0,{busy}\n"
        for at in range(2)
        for node, busy in (("a", 9), ("b", 90))
    )
    played = replay(write(text))
    assert played.values("a GPU 0", Signal.GPU_BUSY) == [0.09, 0.09]
    assert played.values("b GPU 0", Signal.GPU_BUSY) == [0.9, 0.9]
    assert [device.uuid for device in played.source.devices] == ["a GPU 0", "b GPU 0"]


def test_columns_of_the_host_are_not_the_gpus(replay: Replays, write: Writes) -> None:
    """Beside a CPU's, memory without a GPU's name is the host's."""
    played = replay(write("time,cpu_pct,memory_used_mb,gpu_util_pct\n161403144,5,9000,90\n"))
    (reading,) = played.readings("index:0")
    assert reading.values == {Signal.GPU_BUSY: 0.9}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,gpu,util\n1614031442,0,1\n", "the unit of 'util' is not known"),
        ('"Time","GPU 0","GPU 1"\n1614031442,0,90\n', "of several GPUs in a row gpu0_util_pct"),
        ('{"readings": [{"Id": "g0"}]}\n', "like the jq commands of docs/recordings.md"),
        ('{"timeSeries": [{"metric": {"type": "a"}}]}\n', "jq -r '.timeSeries"),
    ],
)
def test_ambiguous_column_is_refused_with_the_remedy(
    replay: Replays, write: Writes, text: str, message: str
) -> None:
    """The error says how to tell it."""
    with pytest.raises(RecordingError, match=message):
        replay(write(text))


def test_column_whose_words_do_not_suffice_is_named(replay: Replays, write: Writes) -> None:
    """Memory in GB may be what is used, or what there is."""
    path = write("time,gpu,util_pct,vram_gb,loss\n1772532000,0,90,12.5,3\n")
    played = replay(path)
    assert "--fields 'time,gpu,util_pct,memory_used_gib,loss'" in played.warnings
    assert played.readings("index:0")[0].values == {Signal.GPU_BUSY: 0.9}
    played = replay(path, fields="timestamp,gpu_index,util_pct,memory_used_gib,x")
    assert played.values("index:0", Signal.MEMORY_USED_BYTES) == [12.5 * GIB]


def test_memory_that_varies_is_what_is_used(replay: Replays, write: Writes) -> None:
    """The size of a GPU's memory never changes; of two GPUs, each is compared with itself."""
    rows = "".join(
        f"177253200{at},{gpu},90,{size}\n" for at in range(3) for gpu, size in ((0, 80), (1, 40))
    )
    assert (
        "left out: 'gpu_mem_gb'" in replay(write(f"time,gpu,util_pct,gpu_mem_gb\n{rows}")).warnings
    )
    played = replay(write(f"time,gpu,util_pct,gpu_mem_gb\n{rows}1772532009,1,90,41\n"))
    assert played.values("index:1", Signal.MEMORY_USED_BYTES)[-1] == 41 * GIB


def test_board_of_a_log_without_a_column_of_gpus(replay: Replays, write: Writes) -> None:
    """Its name is read all the same; cells without a value are no unreadable ones."""
    played = replay(
        write("time,gpu_name,gpu_util\n1772532000,NVIDIA L4,NA\n1772532001,NVIDIA L4,9\n")
    )
    assert [device.board for device in played.source.devices] == ["L4"]
    assert played.values("index:0", Signal.GPU_BUSY) == [None, 0.09]
    assert "unreadable" not in played.warnings


@pytest.mark.parametrize(
    ("heading", "step"), [("timestamp_ms", 10**6), ("elapsed_ms", 10**6), ("elapsed_s", 10**9)]
)
def test_unit_of_times_is_that_of_their_heading(
    replay: Replays, write: Writes, heading: str, step: int
) -> None:
    """What counts from 0 on would be seconds by its digits."""
    played = replay(write(f"{heading},gpu,util_pct\n0,0,90\n1000,0,90\n"))
    assert played.source.interval == 1000 * step


@pytest.mark.parametrize(
    ("heading", "cells", "watts"),
    [
        ("power", "4999", 4999.0),
        ("power", "5000", 5.0),
        ("power_mw", "4999", 4.999),
        ("GPU Power (mW)", "4999", 4.999),
        ("Pwr (kW)", "0.25", 250.0),
        ("power_limit", "400000", None),
    ],
)
def test_power_in_milliwatts(
    replay: Replays, write: Writes, heading: str, cells: str, watts: float | None
) -> None:
    """As NVML gives it to scripts: stated by the heading, or by more than a board draws."""
    played = replay(write(f"time,gpu,util_pct,{heading}\n1772532000,0,90,{cells}\n"))
    assert played.values("index:0", Signal.POWER_WATTS) == [watts]
    if watts is None:
        assert played.values("index:0", Signal.POWER_LIMIT_WATTS) == [400.0]


def test_unit_is_found_in_numbers_with_decimal_commas(replay: Replays, write: Writes) -> None:
    """Spreadsheets of many countries write them, between semicolons."""
    played = replay(write("time;gpu;util;power\n1772532000;0;92,5;340,25\n"))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.925]
    assert played.values("index:0", Signal.POWER_WATTS) == [340.25]


def test_name_of_the_host_is_no_column_of_the_host(replay: Replays, write: Writes) -> None:
    """InfluxDB's tag `host` leaves memory and power the GPU's."""
    played = replay(
        write(
            "time,host,uuid,utilization_gpu,memory_used,power_draw\n1772532000,a,GPU-aa,90,1024,70\n"
        )
    )
    assert played.readings("GPU-aa")[0].values == {
        Signal.GPU_BUSY: 0.9,
        Signal.MEMORY_USED_BYTES: GIB,
        Signal.POWER_WATTS: 70.0,
    }


def test_series_between_semicolons(replay: Replays, write: Writes) -> None:
    """Commas within quoted labels separate no columns."""
    heading = f'"Time";{SERIES.format(0)};{SERIES.format(1)}\n'
    played = replay(write(f"sep=;\n{heading}1772532000000;0;90\n"))
    assert played.values("GPU-1", Signal.GPU_BUSY) == [0.9]


def test_numbers_of_a_log_without_headings_name_no_gpus(replay: Replays, write: Writes) -> None:
    """Its first row is no heading, though its numbers differ in their digits alone."""
    with pytest.raises(RecordingError, match="--fields timestamp,x,util_pct --device 0"):
        replay(write("1758000000,1000,30\n1758000010,2500,70\n"))


@pytest.mark.parametrize("heading", ["server", "instance", "nodename"])
def test_column_of_nodes_by_other_names(replay: Replays, write: Writes, heading: str) -> None:
    """GPUs of one index on two nodes are two."""
    rows = "".join(
        f"{1714550400 + at},{node},0,90\n" for at in range(4) for node in ("a:9400", "b:9400")
    )
    played = replay(write(f"time,{heading},gpu,util_pct\n{rows}"))
    assert [device.uuid for device in played.source.devices] == ["a:9400 GPU 0", "b:9400 GPU 0"]


def test_series_without_a_uuid_are_of_their_nodes(replay: Replays, write: Writes) -> None:
    """Sums by index and instance: none is taken for another's."""
    names = [f'"DCGM_FI_DEV_GPU_UTIL{{gpu=""0"", instance=""{node}""}}"' for node in ("a:1", "b:1")]
    rows = "".join(f"{1714550400 + at},90,10\n" for at in range(4))
    played = replay(write(f"Time,{','.join(names)}\n{rows}"))
    assert played.values("a:1 GPU 0", Signal.GPU_BUSY) == [0.9] * 4
    assert played.values("b:1 GPU 0", Signal.GPU_BUSY) == [0.1] * 4


def test_a_few_mebibytes_in_bytes_are_no_tebibytes(replay: Replays, write: Writes) -> None:
    """The memory of an idle GPU without a unit: no board has a tebibyte."""
    rows = "".join(f"{1714550400 + at},0,1,{4 * 2**20}\n" for at in range(4))
    played = replay(write(f"time,gpu,util_pct,memory_used\n{rows}"))
    assert played.values("index:0", Signal.MEMORY_USED_BYTES) == [4.0 * 2**20] * 4


@pytest.mark.parametrize(
    ("ending", "cells", "unit"),
    [
        ("_gb", "40.5,85.5", 1e9),
        ("_gb", "40.5,79.6", GIB),
        ("_gb", "40.5,80", GIB),
        ("_mb", "40500,85520.8", 1e6),
        ("_mb", "40500,81559", 2.0**20),
        ("_mb", "4050,16127", 2.0**20),
        ("", "4,81559", 2.0**20),
        ("", "4.25,79.6", GIB),
        ("", "4.25,85.5", 1e9),
    ],
)
def test_size_of_the_board_tells_the_unit_of_memory(
    replay: Replays, write: Writes, ending: str, cells: str, unit: float
) -> None:
    """GB and MB may be decimal or not: only in one of them a board has that much."""
    heading = f"time,gpu,util_pct,mem_used{ending},mem_total{ending}"
    played = replay(write(f"{heading}\n1772532000,0,90,{cells}\n"))
    used, total = (float(cell) * unit for cell in cells.split(","))
    assert played.values("index:0", Signal.MEMORY_USED_BYTES) == [used]
    assert played.source.devices[0].memory_total_bytes == total
