"""One profile of each format through each command that accepts profiles."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.profile_files import WRITERS, Writer
from plan_answers import SHAPE
from rightsizer.cli.main import main

BOARD: Final = "H100-SXM5-80GB"
BYTES: Final = 400e3
NO_TIME_LINE: Final = {
    "report.csv": "the profile has kernels but no timeline",
    "mlperf_log_detail.txt": "no kernel in it",
}
"""Formats that cannot be projected, and the reason."""


@pytest.fixture(params=WRITERS, ids=lambda writer: writer.name)
def profile(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of some hundred kernels."""
    writer: Writer = request.param
    writer.write(tmp_path / writer.name, BYTES)
    return tmp_path / writer.name


def question_file(folder: Path, question: Any) -> Path:
    """A file with a question."""
    path = folder / "question.yaml"
    path.write_text(json.dumps(question), encoding="utf-8")
    return path


def test_it_is_projected_or_refused_with_a_remedy(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To another board, from the one named in it or on the command line."""
    question = question_file(profile.parent, {"gpu": BOARD, "to": ["L40S"]})
    code = main(["project", str(question), "--profile", str(profile), "--json"])
    captured = capsys.readouterr()
    if (reason := NO_TIME_LINE.get(profile.name)) is not None:
        assert code == 1
        assert f"{profile.name}: {reason}" in captured.err
        assert "take a trace" in captured.err or "a benchmark's log" in captured.err
        return
    (found,) = json.loads(captured.out)
    assert found["time_ratio_low"] < found["time_ratio"] < found["time_ratio_high"]
    assert sum(found["profile"]["time_shares"].values()) == pytest.approx(1.0, abs=1e-5)


def test_it_is_held_against_a_plan_or_refused(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shares of time from formats with a timeline, rates from a load generator."""
    load = {"input_tokens": 1000, "output_tokens": 200}
    question = question_file(profile.parent, {"model": SHAPE, "load": load})
    code = main(["plan", str(question), "--measured", str(profile), "--board", BOARD, "--json"])
    captured = capsys.readouterr()
    if profile.name == "report.csv":
        assert code == 1
        assert NO_TIME_LINE[profile.name] in captured.err
        return
    measured = json.loads(captured.out)["measured"]
    figures = {each["what"]: each["measured"] for each in measured["comparisons"]}
    assert measured["candidate"]["gpu"] == BOARD
    if profile.name in NO_TIME_LINE:
        assert figures["tokens_per_second"] > 0
    else:
        assert 0 < figures["kernel_time"] <= 1
