"""What a replay believes: limits, values, readings of columns, and what it says of them."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from rightsizer.cli.main import main

Captured = pytest.CaptureFixture[str]
START: Final = datetime(2026, 5, 27, 9, tzinfo=UTC)


def write_log(path: Path, heading: str, rows: Iterable[str], step_seconds: int = 30) -> Path:
    """A CSV log whose rows follow each other at one step."""
    lines = [heading]
    for count, row in enumerate(rows):
        time = START + timedelta(seconds=step_seconds * count)
        lines.append(f"{time:%Y-%m-%dT%H:%M:%SZ},{row}")
    path.write_text("\n".join(lines) + "\n")
    return path


def replayed(file: Path, capsys: Captured, *flags: str) -> tuple[dict[str, Any], str]:
    """The answer of a replay as JSON, and its warnings."""
    assert main(["replay", str(file), "--json", *flags]) == 0
    output = capsys.readouterr()
    return json.loads(output.out), output.err


def test_highest_draw_without_a_limit_is_no_power_tier(tmp_path: Path, capsys: Captured) -> None:
    """A peak of the load that is judged would make a GPU that spins at 150 W look productive."""
    rows = [f"0,100,20000,{266 if count == 9 else 150 if count > 5 else 70}" for count in range(60)]
    heading = "timestamp,gpu_index,util_pct,memory_used_mib,power_w"
    log = write_log(tmp_path / "log.csv", heading, rows)
    (device,) = replayed(log, capsys)[0]["devices"]
    assert device["tier"] == "basic"
    assert any("--board" in caveat for caveat in device["caveats"])
    (device,) = replayed(log, capsys, "--board", "H100-SXM5-80GB")[0]["devices"]
    assert device["tier"] == "power"
    assert device["states"]["hidden_stall"] > 0
    assert "power_limit_watts" in device["assumed"]


@pytest.mark.parametrize(("columns", "tier"), [("", "basic"), (",700", "power")])
def test_a_busy_memory_controller_is_named_with_the_tier(
    columns: str, tier: str, tmp_path: Path, capsys: Captured
) -> None:
    """Utilization of 100% alone says nothing of what limits the work."""
    rows = [f"0,100,{96 if count > 30 else 20},500{columns}" for count in range(61)]
    heading = "timestamp,index,utilization.gpu [%],utilization.memory [%],power.draw [W]"
    heading += ",power.limit [W]" if columns else ""
    document, _ = replayed(write_log(tmp_path / "log.csv", heading, rows), capsys)
    (device,) = document["devices"]
    assert device["states"] == {"productive": 1800.0}
    assert device["second_causes"] == {"memory_bandwidth_bound": 900.0}
    assert (
        "probably bound by memory bandwidth 50% of the time, by the memory controller's "
        f"utilization alone ({tier} tier)"
    ) in device["caveats"]


def test_energy_of_unknown_time_counts(tmp_path: Path, capsys: Captured) -> None:
    """Power was read in it, whatever the GPU did: in the answer, the report and the export."""
    rows = [f"0,{'' if 10 < count <= 40 else 100},100" for count in range(61)]
    heading = "timestamp,gpu_index,util_pct,power_w"
    history = tmp_path / "history.db"
    log = write_log(tmp_path / "log.csv", heading, rows)
    (device,) = replayed(log, capsys, "--into", str(history))[0]["devices"]
    assert device["states"]["unknown"] == 900.0
    assert device["energy_joules"] == pytest.approx(180_000.0)
    assert device["used_joules"] < 90_001.0
    assert main(["report", "--history.path", str(history), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["summary"]["total"]["kilowatt_hours"] == pytest.approx(0.05)
    assert main(["export", "--history.path", str(history), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum(row["energy_joules"] for row in rows) == pytest.approx(180_000.0)


def test_energy_of_a_log_of_power_alone_counts(tmp_path: Path, capsys: Captured) -> None:
    """No second of it has a state, and each has its energy."""
    log = write_log(tmp_path / "log.csv", "timestamp,gpu0_power_w", ["100"] * 61)
    (device,) = replayed(log, capsys)[0]["devices"]
    assert device["states"] == {"unknown": 1800.0}
    assert device["energy_joules"] == pytest.approx(180_000.0)


def test_impossible_cells_are_dropped_and_the_unit_stays(tmp_path: Path, capsys: Captured) -> None:
    """A counter that went backwards gives terawatts; the others are no milliwatts for that."""
    rows = [f"0,0,512,24576,{'3689342859416.5' if count % 30 == 9 else 52}" for count in range(121)]
    heading = "timestamp,gpu_index,util_pct,memory_used_mb,memory_total_mb,power_w"
    answer, warnings = replayed(write_log(tmp_path / "log.csv", heading, rows), capsys)
    (device,) = answer["devices"]
    assert device["energy_joules"] == pytest.approx(52.0 * 30 * 116)
    assert "impossible value in 'power_w': '3689342859416.5', the first of 4" in warnings


def test_few_values_above_the_board_are_dropped(tmp_path: Path, capsys: Captured) -> None:
    """Of most it is another quantity, which is told."""
    heading = "timestamp,gpu_index,gpu_name,util_pct,power_w"
    name = "NVIDIA H100 80GB HBM3"
    rows = [f"0,{name},100,{3000 if count % 20 == 9 else 600}" for count in range(41)]
    answer, warnings = replayed(write_log(tmp_path / "log.csv", heading, rows), capsys)
    assert answer["devices"][0]["energy_joules"] == pytest.approx(600.0 * 30 * 38)
    assert "has up to 3,000 W, its board 700: 2 impossible values are dropped" in warnings


def test_utilization_above_all_of_a_gpu_is_named(tmp_path: Path, capsys: Captured) -> None:
    """Neither clamped nor an unreadable cell."""
    heading = "timestamp,job,gpu_util_pct"
    log = write_log(tmp_path / "log.csv", heading, ["1,396"] * 9)
    answer, warnings = replayed(log, capsys)
    assert answer["devices"][0]["states"].keys() == {"unknown"}
    assert "more than one GPU can have (a sum over several?) in 'gpu_util_pct': '396'" in warnings


def test_fault_in_place_of_values_is_told_of_its_gpu(tmp_path: Path, capsys: Captured) -> None:
    """With its text; GPU 1 is the one whose handle is lost, and is not read to its last line."""
    lines = ["timestamp, index, utilization.gpu [%], memory.used [MiB]"]
    for count in range(60):
        time = f"2025/01/13 16:{count:02}:00.000"
        lines.append(f"{time}, 0, 98 %, 9000 MiB")
        if count < 20:
            lines.append(f"{time}, 1, 98 %, 9000 MiB")
        elif count < 22:
            slot = "GPU0000:1B:00.0"
            lines.append(f"Unable to determine the device handle for {slot}: Unknown Error")
        lines.append(f"{time}, 2, [Unknown Error], [GPU requires reset]")
    log = tmp_path / "log.csv"
    log.write_text("\n".join(lines) + "\n")
    answer, warnings = replayed(log, capsys)
    states = [device["states"] for device in answer["devices"]]
    assert states[0] == {"productive": 59 * 60.0}
    assert states[1] == {"productive": 19 * 60.0, "unknown": 40 * 60.0}
    assert states[2] == {"unknown": 59 * 60.0}
    assert "GPU 1 is lost from 2025-01-13 16:19:00 UTC on" in warnings
    assert "GPU 2 reports 'GPU requires reset' in place of values, 60 times" in warnings


def test_limit_that_a_lost_gpu_had_stated_is_not_assumed(tmp_path: Path, capsys: Captured) -> None:
    """What its last reading stated counts, though nothing is known of it at the end."""
    lines = ["timestamp, index, name, utilization.gpu [%], power.draw [W], power.limit [W]"]
    for count in range(60):
        for index in (0, 1) if count < 20 else (0,):
            time = f"2025/01/13 16:{count:02}:00.000"
            lines.append(f"{time}, {index}, NVIDIA A100-SXM4-80GB, 98 %, 390.00 W, 400.00 W")
        if count in (20, 21):
            lines.append("Unable to determine the device handle for GPU0000:1B:00.0: GPU is lost")
    log = tmp_path / "log.csv"
    log.write_text("\n".join(lines) + "\n")
    answer, warnings = replayed(log, capsys)
    assert "GPU 1 is lost" in warnings
    assert not any("power_limit_watts" in device["assumed"] for device in answer["devices"])


def test_error_in_a_table_is_told_of_its_gpu(tmp_path: Path, capsys: Captured) -> None:
    """Also where it stands for a fan, of which nothing is read."""
    rule = "+-----+"
    table = [
        "Fri Apr 24 09:00:00 2026",
        rule,
        "| NVIDIA-SMI 570.133.20   Driver Version: 570.133.20   CUDA Version: 12.8 |",
        "|  14  NVIDIA RTX 4000 Ada Gene...  On  |   00000000:CC:00.0 Off |         Off |",
        "|ERR!   68C    P2     99W /  130W |  1MiB /  20475MiB |     93%   Default |",
        rule,
    ]
    log = tmp_path / "log.txt"
    later = [line.replace("09:00:00", "09:00:30") for line in table]
    log.write_text("\n".join([*table, *later]) + "\n")
    assert "GPU 14 reports 'ERR!' in place of values, 2 times" in replayed(log, capsys)[1]


def test_device_is_the_column_that_separates_a_poll(tmp_path: Path, capsys: Captured) -> None:
    """An index that never changes is none, whatever its name."""
    lines = [
        f"{START + timedelta(seconds=30 * count):%Y-%m-%dT%H:%M:%SZ},0,{gpu},{100 * gpu}"
        for count in range(20)
        for gpu in range(2)
    ]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["timestamp,index,gpu,util_pct", *lines]) + "\n")
    answer, warnings = replayed(log, capsys)
    assert [[*device["states"]] for device in answer["devices"]] == [["idle_held"], ["productive"]]
    assert "GPUs are told apart by 'gpu', not 'index'" in warnings


def test_names_that_change_order_separate_devices(tmp_path: Path, capsys: Captured) -> None:
    """Without a column of devices their order is no evidence, and a column of names is."""
    lines = [
        f"{START + timedelta(seconds=30 * count):%Y-%m-%dT%H:%M:%SZ},{name},{busy}"
        for count in range(20)
        for name, busy in (("train", 100), ("rest", 0))[:: 1 if count % 3 else -1]
    ]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["timestamp,container,gpu_util_pct", *lines]) + "\n")
    answer, warnings = replayed(log, capsys)
    states = {device["uuid"]: [*device["states"]] for device in answer["devices"]}
    assert states == {"train": ["productive"], "rest": ["idle_held"]}
    assert "GPUs are told apart by 'container'" in warnings


def test_duration_that_goes_up_and_down_is_no_clock(tmp_path: Path, capsys: Captured) -> None:
    """Another column is, or the log has none."""
    rows = [f"{count * 7 % 5},{1767571200 + 30 * count},100" for count in range(20)]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["runtime,captured,gpu_util_pct", *rows]) + "\n")
    answer, warnings = replayed(log, capsys)
    assert answer["devices"][0]["states"] == {"productive": 570.0}
    assert "its clock is 'captured': 'runtime' goes up and down" in warnings
    log.write_text("\n".join(["runtime,gpu_util_pct", *(row[:2] + "100" for row in rows)]) + "\n")
    assert main(["replay", str(log)]) == 1
    assert "'runtime' goes up and down and is no clock" in capsys.readouterr().err


def test_first_row_of_a_headless_log_is_no_heading(tmp_path: Path, capsys: Captured) -> None:
    """Also one with a GPU's index beside a percentage."""
    log = tmp_path / "log.csv"
    rows = [
        f"2025/01/13 16:{count:02}:00.000, {gpu}, {gpu} %" for count in range(9) for gpu in (1, 0)
    ]
    log.write_text("\n".join(rows) + "\n")
    assert main(["replay", str(log)]) == 1
    assert "--fields" in capsys.readouterr().err


def test_days_above_twelve_order_those_below(tmp_path: Path, capsys: Captured) -> None:
    """Also in a log of nvidia-smi, and where a half of the day is told."""
    times = [START + timedelta(hours=6 * count - 24 * 15) for count in range(8)]
    for written in ("%d/%m/%Y %H:%M:%S", "%d/%m/%Y %I:%M:%S %p"):
        lines = [f"{time.strftime(written)}, 0, 100 %, 9000 MiB" for time in times]
        log = tmp_path / "log.csv"
        heading = "timestamp, index, utilization.gpu [%], memory.used [MiB]"
        log.write_text("\n".join([heading, *lines]) + "\n")
        answer = replayed(log, capsys)[0]
        assert answer["interval_seconds"] == 6 * 3600
        assert answer["span"]["end"] == times[-1].timestamp()


@pytest.mark.parametrize(
    ("line", "tool"),
    [
        ("RAM 2448/7772MB (lfb 9x4MB) SWAP 0/3886MB CPU [5%@102] GR3D_FREQ 12%", "Jetson"),
        ("GPU  Temp   AvgPwr  SCLK    MCLK     Fan   Perf  PwrCap  VRAM%  GPU%", "AMD"),
        ("Freq MHz      IRQ RC6     Power W     IMC MiB/s             RCS", "Intel"),
        ("| GPU ID | XPUM_STATS_GPU_UTILIZATION | 12 |", "Intel"),
        ("nvidia_smi,host=n1,index=0 utilization_gpu=5i 1767571200000000000", "Telegraf"),
        ('{"resourceMetrics": [{"scopeMetrics": []}]}', "OTLP"),
        ("<nvidia_smi_log>", "XML"),
    ],
)
def test_tool_of_another_kind_of_gpu_is_named(
    tmp_path: Path, capsys: Captured, line: str, tool: str
) -> None:
    """No flag would read it, and none is told."""
    log = tmp_path / "log.txt"
    log.write_text(f"{line}\n" * 3)
    assert main(["replay", str(log)]) == 1
    error = capsys.readouterr().err
    assert f"({tool})" in error
    assert "--fields" not in error


@pytest.mark.parametrize(
    "values", [["0.002", "0.004", "0.006", "0.008"], [f"{10 + at}" for at in range(12)]]
)
def test_what_only_grows_or_is_a_fraction_is_not_suggested(
    tmp_path: Path, capsys: Captured, values: list[float]
) -> None:
    """Kilograms of CO2 were to be read as utilization."""
    log = write_log(tmp_path / "log.csv", "timestamp,project,emissions", [f"a,{x}" for x in values])
    assert main(["replay", str(log)]) == 1
    assert "--fields timestamp" not in capsys.readouterr().err


def test_flags_that_are_suggested_read_the_log(tmp_path: Path, capsys: Captured) -> None:
    """The command of the error is run as printed."""
    log = write_log(tmp_path / "log.csv", "timestamp,board,share", [f"a,{x}" for x in (5, 97, 96)])
    assert main(["replay", str(log)]) == 1
    command = capsys.readouterr().err.partition("use 'rightsizer ")[2].partition("'")[0]
    assert main(command.split()) == 0


def test_evidence_tells_what_an_answer_rests_on(tmp_path: Path, capsys: Captured) -> None:
    """All of it as JSON; as text the three that matter."""
    rows = [f"0,{'wat' if count == 9 else 0},0,60" for count in range(41)]
    heading = "timestamp,gpu_index,util_pct,memory_used_mib,power_w"
    log = write_log(tmp_path / "log.csv", heading, rows)
    answer, _ = replayed(log, capsys, "--board", "H100-SXM5-80GB")
    evidence = {item["kind"]: item for item in answer["evidence"]}
    assert evidence.keys() == {"assumed", "dropped", "learned", "read"}
    assert evidence["dropped"]["count"] == 1
    assert "'wat'" in evidence["dropped"]["reason"]
    assert "idle power 60 W" in evidence["learned"]["subject"]
    limit = next(item for item in answer["evidence"] if "power_limit_watts" in item["subject"])
    assert limit["kind"] == "assumed"
    assert "the power tier" in limit["effect"]
    assert main(["replay", str(log), "--board", "H100-SXM5-80GB"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("assumed: ", "dropped: ")) for line in lines) == 3


def test_process_of_a_table_holds_a_gpu_without_its_memory(
    tmp_path: Path, capsys: Captured
) -> None:
    """A board that shares the host's memory tells none of its own."""
    rule = "+-----+"
    table = [
        "Wed Jan 28 09:00:00 2026",
        rule,
        "| NVIDIA-SMI 580.126.09   Driver Version: 580.126.09   CUDA Version: 13.0 |",
        "|   0  NVIDIA GB10        On  |   0000000F:01:00.0 Off |       N/A |",
        "| N/A   36C    P8    3W /  N/A  | Not Supported  |    0%      Default |",
        rule,
        "|    0   N/A  N/A     4711      C   python3      61440MiB |",
        rule,
    ]
    log = tmp_path / "log.txt"
    later = [line.replace("09:00:00", "09:00:30") for line in table]
    log.write_text("\n".join([*table, *later]) + "\n")
    (device,) = replayed(log, capsys)[0]["devices"]
    assert device["states"].keys() == {"idle_held"}
    assert device["caveats"] == []
