"""`rightsizer profile --history.path`: telemetry of the same GPU and time."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from profile_examples import launch_bound_trace, loader_bound_trace
from profile_traces import KinetoTrace
from readings import EPOCH, HELD, MINUTE, TRAINING, gpu, snapshot, workload
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.storage import Storage
from rightsizer.cli.main import main
from rightsizer.model.report import AgentReport

Captured = pytest.CaptureFixture[str]

AGENT: Final = AgentReport("0", "test", EPOCH, 60.0)
A100: Final = gpu(0, name="NVIDIA A100-SXM4-80GB")


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """An hour of training on the only GPU of a node."""
    accounting = AccountingService(AccountingSettings())
    storage = Storage(str(tmp_path / "h.db"))
    for minute in range(61):
        seen = snapshot(
            minute * 60.0,
            [A100],
            {A100: TRAINING},
            interval_seconds=60.0,
            holders={A100: workload("llama")},
        )
        accounting.post(seen, (), lambda: AGENT)
    storage.save_windows(*accounting.drain_windows())
    storage.close()
    return tmp_path / "h.db"


def trace(folder: Path, minute: float = 30.0) -> Path:
    """A program that waits for its launches, recorded at a minute of that hour."""
    return launch_bound_trace(folder, baseTimeNanoseconds=EPOCH + round(minute * MINUTE))


def answer(capsys: Captured, *arguments: object) -> Any:
    """The first workload of the JSON answer."""
    assert main(["profile", "--json", *map(str, arguments)]) == 0
    return json.loads(capsys.readouterr().out)["workloads"][0]


def test_telemetry_stands_beside_the_profile(
    history: Path, tmp_path: Path, capsys: Captured
) -> None:
    """The GPU's holder, its telemetry of that time, and contradictions."""
    found = answer(capsys, trace(tmp_path), "--history.path", history)["telemetry"]

    (device,) = found["devices"]
    assert (found["workload"], device["matched_by"]) == ("slurm/llama", "only GPU")
    assert device["start"] == pytest.approx(EPOCH / 1e9 + 1801.0, abs=0.1)
    assert device["telemetry"]["start"] <= device["start"] <= device["telemetry"]["end"]
    assert device["telemetry"]["states"] == {"compute_bound": 1.0}
    contradicted = {each["figure"] for each in device["comparisons"] if each["is_contradiction"]}
    assert contradicted == {"busy_ratio", "host_wait_ratio"}
    assert len(found["contradictions"]) == len(contradicted)


def test_a_profile_of_a_gpu_that_was_idle_then_is_doubted(tmp_path: Path, capsys: Captured) -> None:
    """In text and in JSON; also a short one, with less certain verdicts."""
    accounting = AccountingService(AccountingSettings())
    storage = Storage(str(tmp_path / "h.db"))
    for minute in range(61):
        seen = snapshot(minute * 60.0, [A100], {A100: HELD}, interval_seconds=60.0)
        accounting.post(seen, (), lambda: AGENT)
    storage.save_windows(*accounting.drain_windows())
    storage.close()
    file = loader_bound_trace(tmp_path, baseTimeNanoseconds=EPOCH + 30 * MINUTE)

    alone = answer(capsys, file)
    doubted = answer(capsys, file, "--history.path", tmp_path / "h.db")
    (text,) = doubted["telemetry"]["contradictions"]
    assert "was active for 0 ms of 5 min: the profile is of another GPU" in text
    assert doubted["telemetry"]["workload"] is None
    for one, other in zip(alone["findings"], doubted["findings"], strict=True):
        assert other["confidence"] == pytest.approx(one["confidence"] * 0.75, abs=0.01)
    assert main(["profile", str(file), "--history.path", str(tmp_path / "h.db")]) == 0
    assert "less sure: telemetry contradicts it" in capsys.readouterr().out


def test_without_a_history_nothing_is_looked_up(tmp_path: Path, capsys: Captured) -> None:
    """The agent's own history is opened only on request."""
    assert answer(capsys, trace(tmp_path))["telemetry"] is None


def test_a_time_that_the_history_does_not_know_is_said(
    history: Path, tmp_path: Path, capsys: Captured
) -> None:
    """The GPU is still named."""
    found = answer(capsys, trace(tmp_path, 300.0), "--history.path", history)["telemetry"]

    assert found["unmatched"] == "no telemetry of GPU 0 at that time is kept"
    assert found["devices"][0]["uuid"] == "GPU-0"


def test_the_history_stays_as_it_is(history: Path, tmp_path: Path, capsys: Captured) -> None:
    """It may be in use by an agent."""
    before = history.read_bytes()
    answer(capsys, trace(tmp_path), "--history.path", history)

    assert history.read_bytes() == before


def test_a_history_that_is_not_there_is_named(tmp_path: Path, capsys: Captured) -> None:
    """With the file."""
    missing = tmp_path / "nowhere.db"
    assert main(["profile", str(trace(tmp_path)), "--history.path", str(missing)]) == 1

    assert str(missing) in capsys.readouterr().err


def test_text_and_page_tell_the_same(
    history: Path,
    tmp_path: Path,
    capsys: Captured,
    golden: Callable[[str | Path, str], None],
) -> None:
    """Contradictions first, in the same sentences."""
    page = tmp_path / "page.html"
    arguments = [str(trace(tmp_path)), "--history.path", str(history), "--report", str(page)]
    assert main(["profile", *arguments]) == 0
    text = capsys.readouterr().out
    part = text[text.index("Telemetry of the same") : text.index("Where the time goes")]

    golden("profile_telemetry.txt", part)
    assert part.count("CONTRADICTION") == 2
    html = page.read_text("utf-8")
    assert html.count('<p class="warning">CONTRADICTION') == 2
    assert "held by slurm/llama" in html


def test_an_operators_settings_judge(tmp_path: Path, capsys: Captured) -> None:
    """Limits of files, thresholds of rules and of timelines come from the configuration."""
    config = tmp_path / "rightsizer.yaml"
    config.write_text(
        "profiles: {rules: {profile_launch_bound: {on_ratio: 1.0}, "
        "profile_host_bound: {on_ratio: 1.0}}}",
        "utf-8",
    )
    usual = answer(capsys, trace(tmp_path))
    changed = answer(capsys, trace(tmp_path), "--config.file", config)

    rules = [
        {each["rule"] for each in found["findings"] if each["finding"] == "inefficient"}
        for found in (usual, changed)
    ]
    assert "profile_launch_bound" in rules[0]
    assert "profile_launch_bound" not in rules[1]


def test_a_constant_divides_the_idle_time(tmp_path: Path, capsys: Captured) -> None:
    """Kernels 20 ns apart count as consecutive unless the constant is smaller."""
    constants = tmp_path / "constants.yaml"
    constants.write_text("profiles: {time: {adjacent_maximum_nanoseconds: 10}}", "utf-8")
    near = KinetoTrace(deviceProperties=[{"id": 0, "name": "NVIDIA A100"}])
    for number, start in enumerate((100.0, 110.02), 1):
        near.launch(number, 10.0 * number, 3.0)
        near.kernel("gemm", start, 10.0, correlation=number)
    path = near.write(tmp_path)

    waits = [
        answer(capsys, path, *more)["profiles"][0]["devices"][0]["time"]["kernel_wait_seconds"]
        for more in ((), ("--constants", constants))
    ]
    assert waits == [pytest.approx(20e-9), 0.0]


def test_limits_of_the_configuration_are_obeyed(tmp_path: Path, capsys: Captured) -> None:
    """A larger file is refused."""
    config = tmp_path / "rightsizer.yaml"
    config.write_text("profiles: {limits: {unpacked_maximum: 1MiB}}", "utf-8")
    large = launch_bound_trace(tmp_path, padding="x" * 2**21)

    assert main(["profile", str(large), "--config.file", str(config)]) == 1
    assert "unpacked" in capsys.readouterr().err
