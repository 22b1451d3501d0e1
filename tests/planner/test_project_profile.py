"""`rightsizer project` with a profiler's files in place of shares, or beside them."""

import json
from pathlib import Path
from typing import Any

import pytest

from profile_examples import launch_bound_trace, loader_bound_trace
from profile_mlperf import summary
from profile_nsight import details_page
from rightsizer.cli.main import main

Captured = pytest.CaptureFixture[str]
SECTION = "GPU Speed Of Light Throughput"


def named(trace: Path) -> Path:
    """A trace of a GPU in the catalogue."""
    text = trace.read_text(encoding="utf-8")
    trace.write_text(text.replace('"NVIDIA A100"', '"NVIDIA A100-SXM4-80GB"'), encoding="utf-8")
    return trace


def question_file(folder: Path, **question: Any) -> Path:
    """A file with a question."""
    file = folder / "question.yaml"
    file.write_text(json.dumps({"to": ["L40S"], **question}), encoding="utf-8")
    return file


def answer(capsys: Captured, *arguments: object) -> Any:
    """The JSON answer."""
    assert main(["project", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_trace_takes_the_place_of_shares(tmp_path: Path, capsys: Captured) -> None:
    """With the board that it names; its shares sum to 1, and assumptions are named."""
    trace = named(loader_bound_trace(tmp_path, "loader.json"))
    (found,) = answer(capsys, question_file(tmp_path, profile=trace.name))

    assert sum(found["profile"]["time_shares"].values()) == pytest.approx(1.0, abs=1e-5)
    assert found["profile"]["source"] == trace.name
    assert found["profile"]["steps"] > 0
    assert any("tensor cores wait for them" in each for each in found["assumed"])
    assert found["time_ratio_low"] < found["time_ratio"] < found["time_ratio_high"]


def test_counters_beside_the_trace_leave_less_to_assume(tmp_path: Path, capsys: Captured) -> None:
    """The interval is narrower."""
    trace = named(loader_bound_trace(tmp_path, "loader.json")).name
    shares = {"sm_active": 0.5, "tensor_active": 0.1, "dram_active": 0.3}
    (alone,) = answer(capsys, question_file(tmp_path, profile=trace))
    (counted,) = answer(capsys, question_file(tmp_path, profile=trace, shares=shares))

    assert len(counted["assumed"]) < len(alone["assumed"])
    width, narrower = (
        each["time_ratio_high"] / each["time_ratio_low"] for each in (alone, counted)
    )
    assert narrower < width


def test_the_flag_is_for_questions_that_name_none(tmp_path: Path, capsys: Captured) -> None:
    """Questions with a profile keep their own."""
    own = named(loader_bound_trace(tmp_path, "loader.json"))
    usual = named(launch_bound_trace(tmp_path, "launch.json"))
    file = tmp_path / "questions.yaml"
    file.write_text(json.dumps([{"to": ["L40S"]}, {"to": ["L40S"], "profile": own.name}]))
    found = answer(capsys, file, "--profile", usual)

    assert [each[0]["profile"]["source"] for each in found] == [usual.name, own.name]


def test_without_a_profile_nothing_is_said_of_one(tmp_path: Path, capsys: Captured) -> None:
    """The keys are present and empty."""
    shares = {"sm_active": 0.5, "tensor_active": 0.1, "dram_active": 0.3}
    (found,) = answer(capsys, question_file(tmp_path, gpu="H100-SXM5-80GB", shares=shares))

    assert found["profile"] is None
    assert found["assumed"] == []


def test_people_are_told_where_the_time_went(tmp_path: Path, capsys: Captured) -> None:
    """Under the table, with the assumptions."""
    trace = named(launch_bound_trace(tmp_path, "launch.json"))
    assert main(["project", str(question_file(tmp_path)), "--profile", str(trace)]) == 0
    text = capsys.readouterr().out

    assert f"by {trace.name}" in text
    assert "waits for the host" in text
    assert "assumed: kernels with tensor cores" in text


def test_another_board_than_the_recorded_one_is_refused(tmp_path: Path, capsys: Captured) -> None:
    """Comparing two boards would be meaningless."""
    trace = named(loader_bound_trace(tmp_path, "loader.json")).name
    assert main(["project", str(question_file(tmp_path, profile=trace, gpu="T4"))]) == 1
    assert "gpu: the profile was recorded on" in capsys.readouterr().err


def test_a_trace_that_breaks_off_is_refused(tmp_path: Path, capsys: Captured) -> None:
    """As by every rule: the missing part may fill the time."""
    trace = named(loader_bound_trace(tmp_path, "loader.json"))
    trace.write_text(trace.read_text(encoding="utf-8")[:-2000], encoding="utf-8")
    assert main(["project", str(question_file(tmp_path)), "--profile", str(trace)]) == 1
    assert "loader.json is not whole" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("result.txt", summary(), "no kernel in it"),
        ("ncu.csv", details_page([(SECTION, "Duration", "ns", "2,000")]), "no timeline"),
        ("notes.txt", "notes", "of no known format"),
    ],
)
def test_a_profile_that_cannot_carry_it_is_refused(
    tmp_path: Path, capsys: Captured, name: str, content: str, message: str
) -> None:
    """With the place of the key, or the file named by the command line."""
    (tmp_path / name).write_text(content, encoding="utf-8")

    assert main(["project", str(question_file(tmp_path, profile=name))]) == 1
    key = capsys.readouterr().err
    assert "question.yaml:1:" in key
    assert message in key
    assert "gpu: is required" not in key
    assert main(["project", str(question_file(tmp_path)), "--profile", str(tmp_path / name)]) == 1
    flag = capsys.readouterr().err
    assert message in flag
    assert "question.yaml" not in flag
