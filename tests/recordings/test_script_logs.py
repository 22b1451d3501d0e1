"""Logs as loops of shells and loggers of a few lines write them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.errors import RecordingError
from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]
SECOND = 10**9

MIB = float(2**20)
START = 1_714_550_400
TENS = START // 10


def _lines(*rows: str, times: int = 3) -> str:
    return "".join(f"{row.format(at=at)}\n" for at in range(times) for row in rows)


@pytest.mark.parametrize(
    ("heading", "row"),
    [
        ("time, index, ", "2024/05/01 12:00:0{at}, 1, "),
        ("2024-05-01 11:59:59, index, ", "2024-05-01 12:00:0{at}, 1, "),
        ("2024-05-01T11:59:59Z index, ", "2024-05-01T12:00:0{at}Z 1, "),
        ("1714564799.5 index, ", "171456480{at}.0 1, "),
        ("index, ", "171456480{at}, 1, "),
        ("index, ", "2024-05-01 12:00:0{at} 1, "),
        ("index, ", "Wed May  1 12:00:0{at} PM UTC 2024, 1, "),
    ],
    ids=["own heading", "a cell", "blank", "ts %.s", "no heading", "neither", "date"],
)
def test_time_before_each_line_of_a_query(
    replay: Replays, write: Writes, heading: str, row: str
) -> None:
    """The heading has one too, unless a script replaced it, or wrote it alone."""
    text = f"{heading}utilization.gpu [%], power.draw [W]\n{_lines(row + '90 %, 250.5 W')}"
    played = replay(write(text))
    assert [snapshot.wall_time // 10**9 for snapshot in played.snapshots] == [
        1714564800 + at for at in range(3)
    ]
    assert played.values("index:1", Signal.GPU_BUSY) == [0.9] * 3
    assert played.values("index:1", Signal.POWER_WATTS) == [250.5] * 3


def test_date_above_rows_without_a_heading(replay: Replays, write: Writes) -> None:
    """The columns are stated; without, the error says so."""
    path = write(_lines("2024-05-01 12:00:0{at}", "90 %, 250.5 W", "0 %, 60.5 W", times=9))
    with pytest.raises(RecordingError, match="--fields util_pct,power_w'"):
        replay(path)
    played = replay(path, fields="utilization.gpu,power.draw")
    assert played.values("index:0", Signal.POWER_WATTS) == [250.5] * 9
    assert played.values("index:1", Signal.GPU_BUSY) == [0.0] * 9


@pytest.mark.parametrize(
    "text",
    [
        (
            "2024-05-01 08:00:00 gpu_id,util_pct,memory_used_mib\n"
            "2024-05-01 08:00:01 1,50,4096\n2024-05-01 08:00:02 1,90,4096\n"
        ),
        (
            "Wed May  1 08:00:01 UTC 2024\ndevice,GPU use (%),VRAM Used Memory (B)\n"
            "card1,50,4294967296\n\n"
            "Wed May  1 08:00:02 UTC 2024\ndevice,GPU use (%),VRAM Used Memory (B)\n"
            "card1,90,4294967296\n"
        ),
    ],
    ids=["ts", "loop of rocm-smi --csv"],
)
def test_time_before_or_above_the_rows_of_any_table(
    replay: Replays, write: Writes, text: str
) -> None:
    """As before and above the rows of nvidia-smi; no column that it has not is left out."""
    played = replay(write(text))
    assert played.values("index:1", Signal.GPU_BUSY) == [0.5, 0.9]
    assert played.values("index:1", Signal.MEMORY_USED_BYTES) == [2.0**32] * 2
    assert [snapshot.wall_time % (60 * SECOND) for snapshot in played.snapshots] == [
        SECOND,
        2 * SECOND,
    ]
    assert "another length" not in played.warnings


def test_words_among_the_columns_of_a_query_are_read(replay: Replays, write: Writes) -> None:
    """Power was lost beside `utilization_gpu_percent`, which is nvidia-smi's."""
    heading = "timestamp,gpu_index,temperature_C,utilization_gpu_percent,power_W\n"
    played = replay(write(heading + _lines("2024-05-01 12:00:0{at},1,44,90,250.5")))
    assert played.readings("index:1")[-1].values == {
        Signal.TEMPERATURE_CELSIUS: 44.0,
        Signal.GPU_BUSY: 0.9,
        Signal.POWER_WATTS: 250.5,
    }


def test_parts_of_processes_are_added_up(replay: Replays, write: Writes) -> None:
    """As `nvidia-smi pmon` written to CSV has them: none is the load of the GPU."""
    rows = (f"{TENS}{{at}},0,101,C,30,2000", f"{TENS}{{at}},0,202,C,20,1000")
    played = replay(write(f"timestamp,gpu_id,pid,type,sm_util,fb_mem_mb\n{_lines(*rows)}"))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.5] * 3
    assert played.values("index:0", Signal.MEMORY_USED_BYTES) == [3000 * MIB] * 3
    assert "its rows are of processes" in played.warnings


def test_load_of_the_gpu_beside_each_process_is_not_added_up(
    replay: Replays, write: Writes
) -> None:
    """What is equal in all rows of a GPU is the GPU's; power is never added."""
    rows = (f"{TENS}{{at}},GPU-1,101,9{{at}},250", f"{TENS}{{at}},GPU-1,202,9{{at}},250")
    played = replay(write(f"timestamp,uuid,pid,gpu_util_%,power_W\n{_lines(*rows)}"))
    assert played.values("GPU-1", Signal.GPU_BUSY) == pytest.approx([0.9, 0.91, 0.92])
    assert played.values("GPU-1", Signal.POWER_WATTS) == [250.0] * 3


def test_parts_of_one_signal_stand_beside_another_of_the_gpu(
    replay: Replays, write: Writes
) -> None:
    """Memory of each process beside the GPU's load, in the order of processes."""
    rows = [f"{TENS}{{at}},{gpu},{pid},40,{pid}" for gpu, pid in ((0, 1000), (1, 500), (0, 2000))]
    heading = "timestamp,gpu,pid,gpu_util_pct,used_gpu_memory_mib\n"
    played = replay(write(heading + _lines(*rows)))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.4] * 3
    assert played.values("index:0", Signal.MEMORY_USED_BYTES) == [3000 * MIB] * 3
    assert played.values("index:1", Signal.MEMORY_USED_BYTES) == [500 * MIB] * 3


def test_a_list_has_a_value_for_each_gpu(replay: Replays, write: Writes) -> None:
    """In the order of the GPUs, a record a line."""
    record = {"gpu_util": [90, 5], "gpu_mem_used_mb": [3000, 400], "loss": [0.5]}
    text = "".join(f"{json.dumps({'ts': START + at, **record})}\n" for at in range(3))
    played = replay(write(text))
    assert played.readings("index:1")[-1].values == {
        Signal.GPU_BUSY: 0.05,
        Signal.MEMORY_USED_BYTES: 400 * MIB,
    }


def test_memory_of_a_gpu_without_a_unit(replay: Replays, write: Writes) -> None:
    """Megabytes where it varies and no board has as many gigabytes, else the warning names it."""
    text = f"ts,gpu0_util,gpu0_mem\n{TENS}1,90,400\n{TENS}2,95,30000\n"
    assert replay(write(text)).values("index:0", Signal.MEMORY_USED_BYTES)[-1] == 30_000 * MIB
    played = replay(write(f"ts,gpu0_util,gpu0_mem\n{TENS}1,90,40\n{TENS}2,95,45\n", "share.csv"))
    assert "the unit of 'gpu0_mem' is not known" in played.warnings


def test_activity_of_sms_is_a_load(replay: Replays, write: Writes) -> None:
    """A counter in place of utilization."""
    text = f"timestamp,gpu.sm_active,gpu.memory.usage\n{_lines(f'{TENS}{{at}},0.5,5368709120')}"
    assert replay(write(text)).values("index:0", Signal.SM_ACTIVE) == [0.5] * 3


def test_power_in_the_row_of_a_gpu_is_the_gpus(replay: Replays, write: Writes) -> None:
    """Beside columns of the host, whose memory has the same words."""
    heading = "timestamp,index,gpu_util,power,temperature,cpu_util,memory_used\n"
    played = replay(write(heading + _lines(f"{TENS}{{at}},1,90,60500,44,12,20000")))
    assert played.readings("index:1")[-1].values == {
        Signal.GPU_BUSY: 0.9,
        Signal.POWER_WATTS: 60.5,
        Signal.TEMPERATURE_CELSIUS: 44.0,
    }
    assert "left out: 'memory_used'" in played.warnings


@pytest.mark.parametrize("heading", ["node_memory_used_mb", "container_memory_usage_bytes"])
def test_memory_of_a_node_or_container_is_not_the_gpus(
    replay: Replays, write: Writes, heading: str
) -> None:
    """No other column has to be of the host."""
    played = replay(write(f"timestamp,gpu_util,{heading}\n{_lines(f'{TENS}{{at}},90,20000')}"))
    assert played.readings("index:0")[-1].values == {Signal.GPU_BUSY: 0.9}


def test_power_of_anything_alone_is_refused_with_the_reason(replay: Replays, write: Writes) -> None:
    """It was suggested to read it as utilization."""
    with pytest.raises(RecordingError, match="it tells power_watts of GPUs, but not how busy"):
        replay(write(f"time,power\n{_lines(f'{TENS}{{at}},60.5')}"))


@pytest.mark.parametrize("heading", ["timestamp,gpu0_power", "timestamp,gpu_power_w"])
def test_power_of_a_gpu_alone_is_read(replay: Replays, write: Writes, heading: str) -> None:
    """No state follows from it, but energy."""
    played = replay(write(f"{heading}\n{_lines(f'{TENS}{{at}},60.5')}"))
    assert played.values("index:0", Signal.POWER_WATTS) == [60.5] * 3


def test_utilization_of_gaudi(replay: Replays, write: Writes) -> None:
    """`hl-smi` has nvidia-smi's columns, and names utilization after its own engines."""
    heading = "timestamp, index, name, utilization.aip [%], memory.used [MiB]\n"
    row = "Wed May  1 12:00:0{at} UTC 2024, 1, HL-225, 90 %, 2000 MiB"
    played = replay(write(heading + _lines(row)))
    assert played.values("index:1", Signal.GPU_BUSY) == [0.9] * 3


@pytest.mark.parametrize(
    "heading",
    [
        "timestamp,gpu,GPUTL,SMACT,TENSO,FP64A",
        "ts,gpu,DEV_GPU_UTIL,SM_ACTIVE,PIPE_TENSOR_ACTIVE,FP64_ACTIVE",
    ],
)
def test_counters_of_dcgm_as_headings(replay: Replays, write: Writes, heading: str) -> None:
    """In the short names of `dcgmi dmon`, or the words of its fields."""
    played = replay(write(f"{heading}\n{_lines(f'{TENS}{{at}},1,90,0.8,0.5,0.01')}"))
    assert played.readings("index:1")[-1].values == {
        Signal.GPU_BUSY: 0.9,
        Signal.SM_ACTIVE: 0.8,
        Signal.TENSOR_ACTIVE: 0.5,
        Signal.FP64_ACTIVE: 0.01,
    }


def test_units_that_no_board_has_are_those_of_the_driver(replay: Replays, write: Writes) -> None:
    """Mebibytes below GB and milliwatts below W, of idle GPUs too; garbage changes no unit."""
    heading = "timestamp,gpu,util_pct,gpu_memory_used_GB,gpu_memory_total_GB,power_W\n"
    rows = (f"{TENS}{{at}},0,90,30000,81559,250500", f"{TENS}{{at}},1,0,4,81559,60500")
    played = replay(write(heading + _lines(*rows)))
    assert [device.memory_total_bytes for device in played.source.devices] == [81559 * MIB] * 2
    assert played.values("index:1", Signal.MEMORY_USED_BYTES) == [4 * MIB] * 3
    assert played.values("index:1", Signal.POWER_WATTS) == [60.5] * 3
    assert "'gpu_memory_used_GB' as memory_used_bytes in MiB" in played.warnings
    garbage = "timestamp,gpu,util_pct,power_W\n" + _lines(f"{TENS}{{at}},0,90,60.5")
    played = replay(write(f"{garbage}{TENS}9,0,90,65535\n", "garbage.csv"))
    assert played.values("index:0", Signal.POWER_WATTS)[:3] == [60.5] * 3


def test_epochs_of_a_training_are_no_times(replay: Replays, write: Writes) -> None:
    """Another column is the time; without one, the log is refused with the reason."""
    row = f"{{at}},{{at}},{TENS}{{at}},90"
    played = replay(write(f"epoch,step,timestamp,gpu_util\n{_lines(row)}"))
    assert played.snapshots[0].wall_time == TENS * 10 * 10**9
    with pytest.raises(RecordingError, match="'epoch' is no time, but counts epochs"):
        replay(write(f"epoch,gpu_util\n{_lines('{at},90')}"))
    played = replay(write(f"epoch,gpu_util\n{_lines(f'{TENS}{{at}},90')}", "seconds.csv"))
    assert played.snapshots[0].wall_time == TENS * 10 * 10**9


def test_free_memory_is_not_suggested_as_used(replay: Replays, write: Writes) -> None:
    """The hint for a column of memory that is left out is for those that may be used memory."""
    text = f"timestamp,gpu_util,gpu_mem_free_mb\n{_lines(f'{TENS}{{at}},90,500')}"
    played = replay(write(text))
    assert "left out: 'gpu_mem_free_mb'" in played.warnings
    assert "--fields" not in played.warnings


def test_clock_without_a_name_of_time_is_known_by_its_values(
    replay: Replays, write: Writes
) -> None:
    """The only column of dates that go on; the number of a job is none."""
    text = f"job,began,gpu_util,gpu_mem_mb\n{_lines('{at},2024-05-01 12:00:0{at},90,2{at}00')}"
    played = replay(write(text))
    assert [snapshot.wall_time // 10**9 for snapshot in played.snapshots] == [
        1714564800 + at for at in range(3)
    ]
    assert "its clock is 'began', by its values" in played.warnings


@pytest.mark.parametrize("of_gpu", [False, True], ids=["time above", "time of each"])
def test_a_list_of_gpus_by_any_key_about_them(
    replay: Replays, write: Writes, *, of_gpu: bool
) -> None:
    """`gpu_stats` for one, beside values of the host."""
    records = [
        {
            "cpu_percent": 12,
            "gpu_processes": [{"gpu": 1, "util_pct": 45}],
            **({} if of_gpu else {"timestamp": START + at}),
            "gpu_stats": [
                {"id": 1, "util_pct": 90, **({"timestamp": START + at} if of_gpu else {})}
            ],
        }
        for at in range(3)
    ]
    played = replay(write("".join(f"{json.dumps(record)}\n" for record in records)))
    assert played.values("index:1", Signal.GPU_BUSY) == [0.9] * 3


@pytest.mark.parametrize(
    ("cells", "warning"),
    [
        ("NVIDIA H100 80GB HBM3,90,2800,70000", "2,800 W, its board 700"),
        ("some board,90,4800,70000", "4,800 W, the largest known board 1,400"),
        ("NVIDIA H100 80GB HBM3,90,700,560000", "bytes, its board"),
        ("NVIDIA H100 80GB HBM3,90,730,80000", None),
    ],
)
def test_more_than_a_board_can_is_doubted(
    replay: Replays, write: Writes, cells: str, warning: str | None
) -> None:
    """Sums over the GPUs of a node, and units that nothing tells, are read with a warning."""
    rows = "".join(f"{1767571200 + i},{cells}\n" for i in range(4))
    played = replay(write(f"time,gpu_name,util_pct,power_w,memory_used_mib\n{rows}"))
    assert ("sums over GPUs" in played.warnings) is (warning is not None)
    assert (warning or "") in played.warnings
