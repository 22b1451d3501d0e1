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
