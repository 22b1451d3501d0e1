"""Logs of `nvidia-smi --query-gpu`."""

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.errors import RecordingError
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.recordings.nvidia_smi_columns import (
    SIGNAL_COLUMNS,
    column_name,
    exported_spellings,
)

Replays = Callable[..., Any]
Writes = Callable[..., Path]


def test_eight_gpus_make_one_snapshot_a_poll(replay: Replays, data: Path) -> None:
    """Rows that are milliseconds apart belong together, each with its own time."""
    played = replay(data / "eight_h100.csv")
    assert [len(snapshot.readings) for snapshot in played.snapshots] == [8, 8, 8, 8]
    assert played.source.interval == 1_002_000_000
    (lost,) = played.source.warnings
    assert lost == "GPU 6 is lost from 2024-03-05 09:00:02 UTC on"
    first = played.snapshots[0]
    times = [reading.time - first.time for reading in first.readings.values()]
    assert times == [-4_000_000 * behind for behind in range(7, -1, -1)]


def test_the_columns_become_signals_in_base_units(replay: Replays, data: Path) -> None:
    """Percent, MiB, W, MHz and the mask of reasons are converted; nothing else is read into it."""
    played = replay(data / "eight_h100.csv")
    assert played.readings("GPU-00000001-1111-2222-3333-444444444444")[0].values == {
        Signal.GPU_BUSY: 0.97,
        Signal.MEMORY_CONTROLLER_BUSY: 0.4,
        Signal.MEMORY_USED_BYTES: 70001 * 2.0**20,
        Signal.MEMORY_TOTAL_BYTES: 81559 * 2.0**20,
        Signal.POWER_WATTS: 611.0,
        Signal.POWER_LIMIT_WATTS: 700.0,
        Signal.SM_CLOCK_HERTZ: 1.98e9,
        Signal.SM_CLOCK_MAXIMUM_HERTZ: 1.98e9,
        Signal.CLOCK_EVENT_REASONS: 0.0,
        Signal.PCIE_LINK_GENERATION: 5.0,
        Signal.PCIE_LINK_WIDTH: 16.0,
        Signal.TEMPERATURE_CELSIUS: 41.0,
    }


def test_the_log_tells_what_the_devices_are(replay: Replays, data: Path) -> None:
    """Name, board, memory, limits and link come from the log, the rest from the catalogue."""
    device = replay(data / "eight_h100.csv").source.devices[7]
    assert (device.uuid, device.index) == ("GPU-00000007-1111-2222-3333-444444444444", 7)
    assert (device.board, device.pci_bus_id) == ("H100-SXM5-80GB", "00000000:08:00.0")
    assert device.memory_total_bytes == 81559 * 2.0**20
    assert (device.power_limit_watts, device.sm_clock_maximum_hertz) == (700.0, 1.98e9)
    assert (device.pcie_generation_maximum, device.pcie_width_maximum) == (5, 16)
    assert device.nvlink_bytes_per_second


def test_a_lost_gpu_is_missing_with_its_reason(replay: Replays, data: Path) -> None:
    """From the poll on that says so, nothing of it has a value."""
    readings = replay(data / "eight_h100.csv").readings("GPU-00000006-1111-2222-3333-444444444444")
    assert [bool(reading.values) for reading in readings] == [True, True, False, False]
    assert set(readings[2].missing.values()) == {Missing.LOST}


def test_devices_without_a_name_are_numbered_by_their_order(replay: Replays, data: Path) -> None:
    """The log has neither index nor uuid nor units, and its last line is torn."""
    played = replay(data / "two_t4_without_index.csv")
    assert [device.uuid for device in played.source.devices] == ["index:0", "index:1"]
    assert played.values("index:0", Signal.GPU_BUSY) == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert played.values("index:1", Signal.GPU_BUSY) == [0.01, 0.11, 0.21, 0.31]
    assert played.source.devices[0].board == "T4"
    assert "two_t4_without_index.csv:11: torn last line" in played.warnings


@pytest.mark.parametrize("column", ["pci.bus_id", "bus_id", "gpu_serial"])
def test_devices_are_distinguished_by_any_column_that_can(
    replay: Replays, write: Writes, column: str
) -> None:
    """Lines may change their order from poll to poll; a device is called what the log calls it."""
    log = write(
        f"timestamp, {column}, utilization.gpu [%]\n"
        "2024/01/01 00:00:00.000, 3B, 1 %\n"
        "2024/01/01 00:00:00.004, 8B, 2 %\n"
        "2024/01/01 00:00:01.000, 8B, 4 %\n"
        "2024/01/01 00:00:01.004, 3B, 3 %\n"
    )
    played = replay(log)
    assert played.values("3B", Signal.GPU_BUSY) == [0.01, 0.03]
    assert played.values("8B", Signal.GPU_BUSY) == [0.02, 0.04]
    assert [device.title for device in played.source.devices] == ["3B", "8B"]
    assert [device.stated_index for device in played.source.devices] == [None, None]


def test_the_index_column_numbers_devices(replay: Replays, write: Writes) -> None:
    """A log of GPUs 2 and 5 alone calls them so."""
    log = write(
        "index, utilization.gpu [%], timestamp\n"
        "5, 1 %, 2024/01/01 00:00:00.000\n"
        "2, 2 %, 2024/01/01 00:00:00.001\n"
        "5, 3 %, 2024/01/01 00:00:01.000\n"
    )
    assert [device.uuid for device in replay(log).source.devices] == ["index:2", "index:5"]


@pytest.mark.parametrize(
    ("columns", "first", "second"),
    [
        ("hostname, index", "n1 GPU 0", "n2 GPU 0"),
        ("node, gpu_id", "n1 GPU 0", "n2 GPU 0"),
    ],
)
def test_columns_that_scripts_add_name_node_and_gpu(
    replay: Replays, write: Writes, columns: str, first: str, second: str
) -> None:
    """Lines that a script completes by its node, or a GPU's number, are of that node and GPU."""
    log = write(
        f"timestamp, {columns}, utilization.gpu [%]\n"
        "2024/01/01 00:00:00.000, n1, 0, 10 %\n"
        "2024/01/01 00:00:00.000, n2, 0, 20 %\n"
        "2024/01/01 00:00:01.000, n2, 0, 40 %\n"
        "2024/01/01 00:00:01.000, n1, 0, 30 %\n"
    )
    played = replay(log)
    assert [device.uuid for device in played.source.devices] == [first, second]
    assert played.values(first, Signal.GPU_BUSY) == [0.1, 0.3]
    assert played.values(second, Signal.GPU_BUSY) == [0.2, 0.4]
    assert not played.warnings


def test_a_count_column_ends_polls_that_run_into_each_other(replay: Replays, write: Writes) -> None:
    """At 20 ms a poll the gaps tell nothing, but the log says how many devices there are."""
    lines = [f"2024/01/01 00:00:00.{10 * number:03d}, 2, {number} %\n" for number in range(1, 81)]
    played = replay(write("timestamp, count, utilization.gpu [%]\n" + "".join(lines)))
    assert len(played.readings("index:0")) == len(played.readings("index:1")) == 40
    assert "no column names the GPU" not in played.warnings


@pytest.mark.parametrize("logged", [1, 2])
def test_a_count_column_counts_gpus_that_are_not_in_the_log_too(
    replay: Replays, write: Writes, logged: int
) -> None:
    """With `-i` a log has some of the node's GPUs, and times tell how many."""
    lines = [
        f"2024/01/01 00:00:{second:02}.00{at}, 4, {at} %\n"
        for second in range(40)
        for at in range(logged)
    ]
    played = replay(write("timestamp, count, utilization.gpu [%]\n" + "".join(lines)))
    assert len(played.source.devices) == logged


@pytest.mark.parametrize(
    ("heading", "row"),
    [
        ("gpu_uuid, pid, process_name, used_gpu_memory [MiB]", "GPU-1, 7, python, 500 MiB"),
        ("gpu_name, gpu_uuid, pid, name, used_memory [MiB]", "NVIDIA L4, GPU-1, 7, a, 500 MiB"),
    ],
)
def test_log_of_processes_is_in_the_words_of_the_program(
    replay: Replays, write: Writes, heading: str, row: str
) -> None:
    """Nothing in `--query-compute-apps` is a guess by words."""
    rows = "".join(f"2024/05/01 12:00:0{at}.000, {row}\n" for at in range(3))
    played = replay(write(f"timestamp, {heading}\n{rows}"))
    assert [len(reading.processes) for reading in played.readings("GPU-1")] == [1, 1, 1]
    assert played.warnings == ""


def test_an_appended_log_is_read_through(replay: Replays, data: Path) -> None:
    """Byte order mark, CRLF, blank lines, headings in the middle and noise lose no reading.

    Nor do later columns make another GPU of the one that went by its index.
    """
    played = replay(data / "appended.csv")
    gpu = "GPU-77777777-1111-2222-3333-444444444444"
    assert played.values(gpu, Signal.GPU_BUSY) == [0.5, 0.6, None, None]
    assert played.values(gpu, Signal.CLOCK_EVENT_REASONS) == [4.0, 1.0, 0.0, None]
    assert played.values(gpu, Signal.POWER_WATTS) == [None, None, None, 99.5]
    assert played.readings(gpu)[2].missing[Signal.GPU_BUSY] is Missing.INVALID
    assert [line.split(": ", 2)[0].rpartition(":")[2] for line in played.source.warnings] == [
        "5",
        "7",
        "8",
    ]


def test_gpu_that_is_lost_is_reported(replay: Replays, write: Writes) -> None:
    """With its time, and what nvidia-smi says of it between the lines."""
    lines = [
        f"2024/01/01 00:00:{at:02}.000, {index}, {'[GPU is lost]' if index and at > 5 else '7 %'}\n"
        for at in range(10)
        for index in range(2)
    ]
    said = "Unable to determine the device handle for GPU0000:01:00.0: GPU is lost.\n"
    played = replay(write("timestamp, index, utilization.gpu [%]\n" + "".join((*lines, said))))
    assert "GPU 1 is lost from 2024-01-01 00:00:06 UTC on" in played.warnings
    assert "error of nvidia-smi: 'Unable to determine the device handle" in played.warnings


def test_reasons_that_are_not_supported_are_missing(replay: Replays, write: Writes) -> None:
    """No reason column with an answer: the mask is not 0 but missing."""
    log = write(
        "timestamp, index, utilization.gpu [%], clocks_event_reasons.hw_slowdown\n"
        "2024/01/01 00:00:00.000, 0, 1 %, [N/A]\n"
    )
    [reading] = replay(log).readings("index:0")
    assert reading.missing == {Signal.CLOCK_EVENT_REASONS: Missing.NOT_SUPPORTED}


def test_mig_rows_are_devices_of_their_parent(replay: Replays, write: Writes) -> None:
    """An instance knows its share of the board, and its parent has no state of its own."""
    log = write(
        "timestamp, uuid, name, pci.bus_id, utilization.gpu [%], memory.used [MiB]\n"
        "2024/01/01 00:00:00.000, GPU-1, NVIDIA A100-SXM4-80GB, 0:01, [N/A], 9 MiB\n"
        "2024/01/01 00:00:00.001, MIG-1, NVIDIA A100-SXM4-80GB MIG 1g.10gb, 0:01, [N/A], 9 MiB\n"
    )
    parent, instance = replay(log).source.devices
    assert (parent.uuid, parent.has_mig_instances, parent.mig) == ("GPU-1", True, None)
    assert instance.mig is not None
    assert (instance.mig.parent_uuid, instance.mig.profile) == ("GPU-1", "1g.10gb")
    assert 0 < instance.capacity_ratio < 0.2
    assert instance.board == "A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("clocks.current.sm [MHz]", "clocks.sm"),
        ("clocks.sm", "clocks.sm"),
        ("clocks.current.graphics [MHz]", "clocks.gr"),
        ("clocks.max.memory [MHz]", "clocks.max.mem"),
        (" clocks_throttle_reasons.active", "clocks_event_reasons.active"),
        ("gpu_uuid", "uuid"),
        ("Utilization.GPU [%]", "utilization.gpu"),
    ],
)
def test_short_and_long_spellings_are_one(heading: str, expected: str) -> None:
    """A heading has one name here, whichever way it was asked for."""
    assert column_name(heading) == expected


def test_exporters_spell_columns_as_headings_do() -> None:
    """Each spelling of a heading has its own with underscores, and none is of two columns."""
    spelled = [name for column in SIGNAL_COLUMNS for name in exported_spellings(column)]
    assert len(spelled) == len({*spelled})
    for heading in (
        "clocks.current.graphics",
        "clocks.gr",
        "clocks.max.memory",
        "clocks.current.sm",
        "clocks_throttle_reasons.active",
        "clocks_event_reasons.active",
        "gpu_name",
        "index",
    ):
        assert heading.replace(".", "_") in exported_spellings(column_name(heading))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("index, utilization.gpu [%]\n0, 5 %\n", "no timestamp among the columns index, util"),
        ("2024/01/31 12:34:56.789, 0, 5 %\n", r"--fields timestamp,x,util_pct --device 0"),
        ("timestamp, name, pstate\n2024/01/31 12:34:56.789, Tesla T4, P0\n", "tells how busy"),
        ("timestamp, utilization.gpu [%]\n", "there is no reading of any device"),
        ("timestamp, utilization.gpu [%]\nlater, 5 %\n", ":2: unreadable timestamp: 'later'"),
    ],
)
def test_a_log_without_what_it_needs_is_refused(
    replay: Replays, write: Writes, text: str, message: str
) -> None:
    """The error says what is not there, and where."""
    with pytest.raises(RecordingError, match=message) as error:
        replay(write(text))
    assert "log.csv" in str(error.value)


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-01-31T12:00:00.000123456Z ",
        "[pod/gpu-logger-x7k2p/logger] 2026-01-31T12:00:00.000123456Z ",
        "Jan  1 12:00:00 node01 gpulog[4711]: ",
        "gpulog-1  | ",
    ],
)
def test_lines_with_what_a_collector_of_logs_put_before_them(
    replay: Replays, write: Writes, data: Path, prefix: str
) -> None:
    """As many words as before the heading are left out, wherever a line is."""
    lines = (data / "eight_h100.csv").read_text().splitlines(keepends=True)
    played = replay(write("-- Logs begin --\n" + "".join(prefix + line for line in lines)))
    plain = replay(data / "eight_h100.csv")
    assert [snapshot.readings for snapshot in played.snapshots] == [
        snapshot.readings for snapshot in plain.snapshots
    ]


@pytest.mark.parametrize("prefix", ["node0{}: ", "gpulog-{}  | ", "[pod/gpulog-{}/log] ", "{}: "])
def test_lines_of_two_nodes_are_told_apart_as_the_error_says(
    replay: Replays, write: Writes, data: Path, prefix: str
) -> None:
    """Whatever collector mixed them; the command that the error prints works as it stands."""
    lines = (data / "eight_h100.csv").read_text().splitlines(keepends=True)
    path = write("".join(f"{prefix.format(node)}{line}" for line in lines for node in "01"))
    with pytest.raises(RecordingError, match=r"replay each node by itself") as error:
        replay(path)
    command = re.search("as by (awk .*) > one.csv", str(error.value))
    assert command is not None
    told = subprocess.run(shlex.split(command[1]), capture_output=True, text=True, check=True)
    played = replay(write(told.stdout, "one.csv"))
    plain = replay(data / "eight_h100.csv")
    assert [snapshot.readings for snapshot in played.snapshots] == [
        snapshot.readings for snapshot in plain.snapshots
    ]


def test_lines_of_two_pods_are_refused(replay: Replays, write: Writes, data: Path) -> None:
    """Each may be on a node of its own, with GPUs of the same indexes."""
    lines = (data / "eight_h100.csv").read_text().splitlines(keepends=True)
    text = "".join(f"[pod/gpulog-{pod}/log] {line}" for pod in "ab" for line in lines)
    with pytest.raises(RecordingError, match=r"is of \[pod/gpulog-b/log\], and what is before of"):
        replay(write(text))


@pytest.mark.parametrize(
    "times",
    [
        ("2024-05-01T12:00:00,123456789+02:00", "2024-05-01T12:00:01,123456789+02:00"),
        ("2024-05-01 10:00:00,123", "2024-05-01 10:00:01,123"),
    ],
    ids=["date --iso-8601=ns", "Python's logging"],
)
@pytest.mark.parametrize(
    "heading",
    [
        "timestamp,utilization.gpu,memory.used",
        "asctime,gpu_util,mem_mib",
        "sep=,\nasctime,gpu_util,mem_mib",
        "Logging to /var/log, all GPUs\ntimestamp,utilization.gpu,memory.used",
    ],
)
def test_comma_before_the_fraction_of_a_second_separates_no_cells(
    replay: Replays, write: Writes, times: tuple[str, str], heading: str
) -> None:
    """Scripts put such a time before what nvidia-smi says without one."""
    rows = "".join(f"{time},{busy}, 1000\n" for time, busy in zip(times, (35, 36), strict=True))
    found = replay(write(f"{heading}\n{rows}"))
    assert found.values("index:0", Signal.GPU_BUSY) == [0.35, 0.36]
    assert found.snapshots[0].wall_time // 1_000_000 == 1_714_557_600_123


def test_number_behind_a_whole_second_is_a_cell(replay: Replays, write: Writes) -> None:
    """Three digits behind a time are no fraction where the heading has a column for them."""
    rows = "".join(f"2024-05-01 10:00:0{at},100,35\n" for at in range(2))
    found = replay(write(f"timestamp,memory.used [MiB],utilization.gpu [%]\n{rows}"))
    assert found.values("index:0", Signal.MEMORY_USED_BYTES) == [100 * 2.0**20] * 2


def test_date_above_a_page_is_its_time(replay: Replays, write: Writes) -> None:
    """A loop over `date` and a query without a timestamp repeats the heading."""
    text = "".join(
        f"Wed May  1 08:00:0{at} UTC 2024\nindex, utilization.gpu [%]\n0, {at} %\n1, 90 %\n"
        for at in range(3)
    )
    played = replay(write(text))
    assert played.values("index:0", Signal.GPU_BUSY) == [0.0, 0.01, 0.02]
    assert played.source.interval == 10**9
    assert "another length" not in played.warnings


def test_query_of_nothing_but_reasons_is_read(replay: Replays, write: Writes) -> None:
    """Why clocks are low is a reading too."""
    heading = "timestamp, index, clocks_event_reasons.sw_power_cap\n"
    rows = "".join(f"2026/01/05 00:00:0{at}.000, 0, Active\n" for at in range(2))
    values = replay(write(heading + rows)).values("index:0", Signal.CLOCK_EVENT_REASONS)
    assert values == [4.0, 4.0]
