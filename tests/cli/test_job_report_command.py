"""`rightsizer job-report`: one job's use of its GPUs, from a history of real accounts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from cases import finding
from readings import EMPTY, EPOCH, HELD, SECOND, TRAINING, gpu, snapshot
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.storage import Storage
from rightsizer.agent.settings import Settings
from rightsizer.cli.job_report import JobDevice, JobUsageReport, job_report, job_report_blocks
from rightsizer.cli.main import main
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.state import Cause
from rightsizer.model.workload import workload_of_job
from rightsizer.report.advice_document import advice_document
from rightsizer.report.block_text import text_of

Captured = pytest.CaptureFixture[str]
Golden = Callable[[str | Path, str], None]

HOUR: Final = 3600.0
GPUS: Final = tuple(
    JobDevice(f"GPU-{number}", "NVIDIA H100 80GB HBM3", 80 * 2.0**30) for number in range(2)
)
REPORT: Final = JobUsageReport(
    job="slurm:4242",
    devices=GPUS,
    start=EPOCH / SECOND,
    end=EPOCH / SECOND + 11_520.0,
    held_seconds=6.4 * HOUR,
    known_seconds=6.4 * HOUR,
    used_seconds=2.4 * HOUR,
    unused_seconds={Cause.STORAGE: 2.0 * HOUR, Cause.IDLE: 1.96 * HOUR, Cause.PCIE: 0.04 * HOUR},
    used_joules=4.32e6,
    unused_joules=2.88e6,
    memory_peak_ratio=0.31,
    advice=(),
)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Half an hour of two GPUs; job 7 holds one and trains on it for 20 minutes."""
    path = tmp_path / "history.db"
    accounting = AccountingService(AccountingSettings())
    devices = [gpu(0), gpu(1)]
    job = "7"
    for minute in range(31):
        is_held = 5 < minute <= 25
        first = TRAINING if minute <= 15 else HELD
        seen = snapshot(
            minute * 60.0,
            devices,
            {devices[0]: first if is_held else EMPTY, devices[1]: EMPTY},
            interval_seconds=60.0,
            holders={devices[0]: workload_of_job(job)} if is_held else {},
        )
        accounting.post(seen, (), lambda: None)  # type: ignore[arg-type, return-value]
    storage = Storage(str(path))
    storage.save_windows(*accounting.drain_windows())
    storage.close()
    return path


def test_it_is_about_the_job_alone(history: Path) -> None:
    """Its time and its GPU, not those of the node."""
    report = job_report(history, Settings(), "7")

    assert report.job == "slurm:7"
    assert [device.uuid for device in report.devices] == [gpu(0).uuid]
    assert report.held_seconds == report.known_seconds == 1200.0
    assert report.unused_seconds[Cause.IDLE] == 600.0
    assert report.used_seconds + sum(report.unused_seconds.values()) == pytest.approx(1200.0)
    assert report.memory_peak_ratio is not None


def test_the_key_of_any_workload_is_taken(history: Path) -> None:
    """For workloads not started by Slurm."""
    assert job_report(history, Settings(), "slurm:7") == job_report(history, Settings(), "7")


def test_the_command_prints_text_and_json(history: Path, capsys: Captured) -> None:
    """Without an agent it reads the history."""
    flags = ["--history.path", str(history)]
    assert main(["job-report", "7", *flags]) == 0
    text = capsys.readouterr().out
    assert main(["job-report", "7", *flags, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)

    assert text.startswith("GPU use of job 7 on ")
    assert "50%  while nothing ran" in text
    assert document["job"] == "slurm:7"
    assert document["unused_seconds"]["idle"] == 600.0
    assert document["end"] - document["start"] == pytest.approx(1200.0, abs=60.0)


def test_an_unknown_job_is_reported(history: Path, capsys: Captured) -> None:
    """With possible reasons."""
    assert main(["job-report", "8", "--history.path", str(history)]) == 1
    assert "knows no job '8'; it held no GPU" in capsys.readouterr().err


def test_the_text(golden: Golden) -> None:
    """A dozen lines at the end of the job's output."""
    golden("job_report.txt", text_of(job_report_blocks(REPORT, "node7")) + "\n")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "copy the input to a local disk"),
        ({"unused_seconds": {Cause.LAUNCH: HOUR}}, "larger batches, or CUDA graphs"),
        ({"unused_seconds": {Cause.LAUNCH: 0.1 * HOUR}}, "Nothing to do"),
        ({"unused_seconds": {Cause.HEADROOM: 3 * HOUR}}, "a MIG instance would do"),
        (
            {"unused_seconds": {Cause.HEADROOM: 3 * HOUR}, "memory_peak_ratio": 0.9},
            "Nothing to do",
        ),
        ({"known_seconds": 30.0}, "Too little of it was seen"),
    ],
)
def test_the_largest_loss_is_the_lesson(changes: dict[str, object], said: str) -> None:
    """Sums of small losses are not reported."""
    text = text_of(job_report_blocks(replace(REPORT, **changes), "node7"))  # type: ignore[arg-type]
    assert said in " ".join(text.partition("Advice: ")[2].split()) or said in text.splitlines()[-1]


def test_advice_comes_before_the_lesson() -> None:
    """It is more precise."""
    advice = Advice(
        finding(summary="Two of its GPUs are enough."),
        AdviceState.ACTIVE,
        opened=EPOCH,
        updated=EPOCH,
    )
    text = text_of(job_report_blocks(replace(REPORT, advice=(advice_document(advice),)), "node7"))

    assert text.splitlines()[-1] == "  Advice: Two of its GPUs are enough."
