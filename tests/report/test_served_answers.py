"""Answers of `rightsizer served`, asked of the program in a process of its own."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from rightsizer.model.errors import RightsizerError
from rightsizer.model.served_load import ServedLoad
from rightsizer.report.served_answers import served_answers

LOAD = ServedLoad("llama-3.1-8b", "vllm", 60.0, board="NVIDIA L40S", devices=("GPU-0",))


def test_answers_are_those_of_the_command() -> None:
    """With the load that they are about."""
    (answer,) = served_answers((LOAD,), None, ("L40S",))
    assert answer["load"]["devices"] == ["GPU-0"]
    assert answer["needs"] == "unknown, no request was finished"


def test_failure_of_the_planner_is_told(tmp_path: Path) -> None:
    """In its own words."""
    absent = tmp_path / "absent.yaml"
    with pytest.raises(RightsizerError, match=r"'served' failed: .*absent.yaml"):
        served_answers((LOAD,), absent)


def test_nothing_is_asked_of_no_loads() -> None:
    """No process starts."""
    assert served_answers((), Path("/nowhere")) == []


def test_loads_of_a_thousand_engines_are_asked_about_at_once() -> None:
    """A fleet has more of them than a document may hold otherwise."""
    loads = [replace(LOAD, board="", workload=f"{number:01000}") for number in range(1100)]
    answers = served_answers(loads, None, ("L40S",))
    assert len(answers) == len(loads)
