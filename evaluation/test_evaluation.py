"""The evaluation as a program: a short run of each part, and folders of foreign scenarios."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from evaluation.run import DOCUMENT

RUN: Final = Path(__file__).parent / "run.py"
GOOD: Final = """\
name: mine
boards: [{board: L4}]
workloads:
  - {name: job, gpus: [0], memory_gib: 4, class: batch, allocator: growing,
     phases: [{activity: matrix_training, state: compute_bound}]}
"""


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The program with few seeds and long ticks."""
    return subprocess.run(
        [sys.executable, RUN, "--seeds", "1", "--tick-seconds", "1201", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={"PATH": "/usr/bin:/bin"},
    )


@pytest.mark.parametrize("part", ["quantiles", "trace", "pages"])
def test_the_program_runs_each_part_and_leaves_the_document_alone(part: str) -> None:
    """Missing recordings are reported as skipped."""
    before = DOCUMENT.read_bytes()
    done = run("--only", part)

    assert (done.returncode, done.stderr) == (0, "")
    assert ("at most 1" if part == "quantiles" else "Skipped: RIGHTSIZER_TRUTH") in done.stdout
    assert DOCUMENT.read_bytes() == before


def test_any_folder_of_scenarios_is_scored(tmp_path: Path) -> None:
    """Other parts do not run, and the document stays unchanged."""
    before = DOCUMENT.read_bytes()
    (tmp_path / "mine.yaml").write_text(GOOD)
    done = run("--scenarios", tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert "1 scenario, seeds 1000 to 1000 of each" in done.stdout
    assert "| compute_bound |" in done.stdout
    assert "Quantiles" not in done.stdout
    assert DOCUMENT.read_bytes() == before


def test_unscorable_file_is_named_and_the_rest_continues(tmp_path: Path) -> None:
    """Covers a file with an error, one that is not YAML, one that is not text, and another type."""
    (tmp_path / "mine.yaml").write_text(GOOD)
    (tmp_path / "wrong.yaml").write_text(GOOD.replace("compute_bound", "compute_bond"))
    (tmp_path / "broken.yaml").write_text("name: [")
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "notes.txt").write_text("nothing")
    done = run("--scenarios", tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert "1 scenario," in done.stdout
    assert "did you mean 'compute_bound'?" in done.stdout
    assert "wrong.yaml:5:" in done.stdout
    for name in ("wrong.yaml:", "broken.yaml:", "binary.yml:", "notes.txt:"):
        assert f"Skipped {name}" in done.stdout


def test_a_folder_without_scenarios_is_said_to_be_one(tmp_path: Path) -> None:
    """No scores are printed."""
    done = run("--scenarios", tmp_path)

    assert done.returncode == 0
    assert f"There is no scenario in {tmp_path} to score." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scenarios", "/nowhere"), "there is no folder '/nowhere'"),
        (("--seeds", "0"), "'0' is less than 1"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[str, ...], message: str) -> None:
    """The message has the reason."""
    done = run(*arguments)

    assert done.returncode == 2
    assert message in done.stderr
