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
