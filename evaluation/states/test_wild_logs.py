"""Logs of drawn shapes: none is read wrong."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from evaluation.states.wild_logs import drawn, judged


@pytest.mark.parametrize("seed", range(100, 116))
def test_no_log_is_read_wrong(tmp_path: Path, seed: int) -> None:
    """GPUs, span, idle share and energy are those that the log was made from, or it is refused."""
    manifest = drawn(seed)
    outcome, reason = judged(manifest, tmp_path / "log.csv")
    assert outcome != "wrong", f"{manifest.layout}, {manifest.shape}: {reason}"


def test_a_reading_that_differs_is_found(tmp_path: Path) -> None:
    """Half of the readings are of another truth."""
    manifest = drawn(0)
    lines = manifest.text.splitlines(keepends=True)
    shorter = replace(manifest, text="".join(lines[: len(lines) // 2]))
    assert judged(shorter, tmp_path / "log.csv")[0] == "wrong"
