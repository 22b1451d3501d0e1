"""Replay, advise and report agree on one recording."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from recordings import BOARD, write_states
from rightsizer.cli.main import main
from rightsizer.model.state import State

HOUR: Final = 3600
RECORDED_STATES: Final = {
    "stalled at the end": ((State.COMPUTE_BOUND, 600), (State.HIDDEN_STALL, 1200)),
    "advice that was closed": ((State.HIDDEN_STALL, 2 * HOUR), (State.COMPUTE_BOUND, 2 * HOUR)),
    "stalled before": ((State.HIDDEN_STALL, 4000), (State.COMPUTE_BOUND, 2000)),
    "two and a half minutes": ((State.HIDDEN_STALL, 100), (State.COMPUTE_BOUND, 50)),
    "with a gap": ((State.HIDDEN_STALL, 3000), (State.UNKNOWN, 7200), (State.IDLE_HELD, 1500)),
    "idle": ((State.IDLE_HELD, 4 * HOUR),),
    "at work": ((State.COMPUTE_BOUND, HOUR),),
    "less at its end": ((State.COMPUTE_BOUND, 1800), (State.PRODUCTIVE, 40 * HOUR)),
}
RECORDINGS: Final = Path(__file__).parents[1] / "recordings" / "data"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The printed output of a command."""
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


FIELDS: Final = ("rule", "id", "finding", "reasons", "action", "workload", "summary", "confidence")


def found(findings: list[dict[str, Any]], labels: Mapping[str, str]) -> dict[str, Any]:
    """Each finding's content by id; a report names devices by their labels."""
    quiet = ("optimized", "unknown")
    return {
        finding["id"]: [
            *(finding[name] for name in FIELDS),
            sorted(labels.get(device, device) for device in finding["devices"]),
        ]
        for finding in findings
        if finding.get("abstained") is None
        and finding["finding"] not in quiet
        and finding.get("evidence", {}).keys().isdisjoint(("held_back", "excluded"))
    }


def abstained(document: dict[str, Any]) -> set[tuple[str, ...]]:
    """Rule, devices and reason of every abstention."""
    return {
        (each["rule"], each["abstained"], *each["devices"])
        for each in document["findings"]
        if each["abstained"] is not None
    }


def assert_agreement(
    files: Sequence[Path], flags: Sequence[str], history: str, capsys: pytest.CaptureFixture[str]
) -> set[str]:
    """All three have the same findings with their ids, advice, span and coverage."""
    into = (*map(str, files), *flags, "--into", history)
    replayed = json.loads(answer(capsys, "replay", *into, "--json"))
    advised = json.loads(answer(capsys, "advise", "--history.path", history, "--json"))
    text = answer(capsys, "advise", "--history.path", history)
    report = json.loads(answer(capsys, "report", "--history.path", history, "--format", "json"))

    labels = {each["uuid"]: each["label"] for each in report["devices"]}
    complaints = found(replayed["findings"], labels)
    assert found(advised["findings"], labels) == complaints
    assert abstained(advised) == abstained(replayed)
    still_open = {each["id"] for each in replayed["advice"] if each["closed"] is None}
    assert {each["id"] for each in advised["advice"] if each["closed"] is None} == still_open
    assert {each["id"] for each in report["advice"]} == still_open
    unadvised = {key: complaint for key, complaint in complaints.items() if key not in still_open}
    assert found(report["findings"], labels) == unadvised
    assert all(identity in text for identity in (*complaints, *still_open))
    for name, value in replayed["span"].items():
        assert report["span"][name] == pytest.approx(value, abs=1e-6), name
    hours = {each["uuid"]: each["states"] for each in report["devices"]}
    for device in replayed["devices"]:
        parts = {state: time / HOUR for state, time in device["states"].items() if time}
        assert hours[device["uuid"]] == pytest.approx(parts)
    fits = {each["uuid"]: each for each in report["devices"]}
    for device in replayed["devices"]:
        row = fits[device["uuid"]]
        needs = {each["resource"]: each["need"] for each in row["fits"] if each["need"] is not None}
        assert device["needs"] == pytest.approx(needs)
        assert device["overprovisioned"] == pytest.approx(row["overprovisioned"])
    if report["summary"]["known_hours"]:
        is_quiet = not complaints and not still_open
        assert ("no rule has a finding" in "".join(report["story"])) is is_quiet
    return set(complaints)


@pytest.mark.parametrize("recorded", RECORDED_STATES)
def test_replay_advise_and_report_agree(
    recorded: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A past condition is still a finding, and an unread signal gives no verdict."""
    interval_seconds = 300 if recorded == "less at its end" else 10
    log = write_states(
        tmp_path / "log.csv", *RECORDED_STATES[recorded], interval_seconds=interval_seconds
    )
    complaints = assert_agreement([log], ("--board", BOARD), str(tmp_path / "history.db"), capsys)
    assert bool(complaints) is (recorded not in {"at work", "less at its end"})


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDINGS.iterdir()))
def test_commands_agree_on_logs_of_every_format(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Devices with different starts and ends, parts of GPUs, and isolated readings."""
    assert_agreement([RECORDINGS / name], (), str(tmp_path / "history.db"), capsys)


@pytest.mark.timeout(600)
def test_commands_agree_on_a_production_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Most of its pods end before the trace does."""
    folder = Path(os.environ.get("RIGHTSIZER_TRUTH", ""), "alibaba_genai_2026")
    files = [folder / "gpu_duty_cycle_pct.csv.gz", folder / "gpu_memory_used_bytes.csv.gz"]
    if not all(file.exists() for file in files):
        pytest.skip("RIGHTSIZER_TRUTH does not name a folder with alibaba_genai_2026")
    columns = Path(__file__).parents[2] / "config" / "columns" / "alibaba-genai-2026.yaml"
    assert_agreement(files, ("--columns", str(columns)), str(tmp_path / "history.db"), capsys)


def test_a_recording_that_begins_and_ends_in_the_middle_of_hours_is_the_whole_span(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing at its start is missing, although a report consists of hours."""
    rows = "".join(f"{1_767_229_190 + at},GPU-0,0.6\n" for at in range(181))
    (tmp_path / "log.csv").write_text(f"timestamp,device,gpu_busy\n{rows}")
    history = str(tmp_path / "history.db")
    answer(capsys, "replay", str(tmp_path / "log.csv"), "--into", history)
    span = json.loads(answer(capsys, "report", "--history.path", history, "--format", "json"))[
        "span"
    ]

    assert (span["end"] - span["start"], span["coverage_ratio"]) == (180, 1.0)
