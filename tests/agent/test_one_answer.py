"""Replay, advise and report say the same of one recording."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from recordings import BOARD, write_story
from rightsizer.cli.main import main
from rightsizer.model.state import State

HOUR: Final = 3600
STORIES: Final = {
    "stalled at the end": ((State.COMPUTE_BOUND, 600), (State.HIDDEN_STALL, 1200)),
    "stalled before": ((State.HIDDEN_STALL, 4000), (State.COMPUTE_BOUND, 2000)),
    "two and a half minutes": ((State.HIDDEN_STALL, 100), (State.COMPUTE_BOUND, 50)),
    "with a gap": ((State.HIDDEN_STALL, 3000), (State.UNKNOWN, 7200), (State.IDLE_HELD, 1500)),
    "idle": ((State.IDLE_HELD, 4 * HOUR),),
    "at work": ((State.COMPUTE_BOUND, HOUR),),
}


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints."""
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def found(form: dict[str, Any]) -> set[tuple[str, str]]:
    """Rule and id of every complaint."""
    quiet = ("optimized", "unknown")
    return {
        (each["rule"], each["id"])
        for each in form["findings"]
        if each.get("abstained") is None and each["finding"] not in quiet
    }


@pytest.mark.parametrize("story", STORIES)
def test_replay_advise_and_report_agree(
    story: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same findings with the same figures, the same advice, the same span and coverage."""
    log = write_story(tmp_path / "log.csv", *STORIES[story], interval_seconds=10)
    history = str(tmp_path / "history.db")
    flags = ("--board", BOARD, "--into", history)
    replayed = json.loads(answer(capsys, "replay", str(log), *flags, "--json"))
    advised = json.loads(answer(capsys, "advise", "--history.path", history, "--json"))
    text = answer(capsys, "advise", "--history.path", history)
    report = json.loads(answer(capsys, "report", "--history.path", history, "--format", "json"))

    complaints = found(replayed)
    assert found(advised) == complaints
    assert found(report) | {(each["rule"], each["id"]) for each in report["advice"]} == complaints
    summaries = {each["id"]: each["summary"] for each in replayed["findings"]}
    assert all(each["summary"] == summaries[each["id"]] for each in report["findings"])
    assert all(identity in text for _, identity in complaints)
    still_open = {each["id"] for each in replayed["advice"] if each["closed"] is None}
    assert {each["id"] for each in advised["advice"]} == still_open
    assert {each["id"] for each in report["advice"]} == still_open
    (device,) = replayed["devices"]
    span = report["span"]
    assert span["end"] - span["start"] == device["seconds"]
    known = device["seconds"] - device["states"].get("unknown", 0)
    assert span["coverage_ratio"] == pytest.approx(known / device["seconds"])
    assert ("no rule has a finding" in "".join(report["story"])) is (not complaints)


def test_a_recording_that_begins_and_ends_in_the_middle_of_hours_is_the_whole_span(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing before its beginning is missing, although hours are what a report is made of."""
    rows = "".join(f"{1_767_229_190 + at},GPU-0,0.6\n" for at in range(181))
    (tmp_path / "log.csv").write_text(f"timestamp,device,gpu_busy\n{rows}")
    history = str(tmp_path / "history.db")
    answer(capsys, "replay", str(tmp_path / "log.csv"), "--into", history)
    span = json.loads(answer(capsys, "report", "--history.path", history, "--format", "json"))[
        "span"
    ]

    assert (span["end"] - span["start"], span["coverage_ratio"]) == (180, 1.0)
