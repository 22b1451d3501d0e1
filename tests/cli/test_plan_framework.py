"""`rightsizer plan --framework` and `--layout`: names as people use them."""

import json
from typing import Any

import pytest

from rightsizer.cli.main import main
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.sizing.requirement import Parallelism, Requirement

Captured = pytest.CaptureFixture[str]


def requirement_of(**options: str) -> Requirement:
    """The requirement of a line."""
    requirement = plan_of_flags(options).items[0].requirement
    assert requirement is not None
    return requirement


def answer_of(capsys: Captured, *options: str) -> Any:
    """The JSON answer to a line."""
    assert main(["plan", *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("word", "framework"),
    [("peft", "peft"), ("HF", "transformers"), ("llamafactory", "llama-factory"), ("NeMo", "nemo")],
)
def test_framework_is_named_as_people_do(word: str, framework: str) -> None:
    """On the command line; the answer says which was taken."""
    asked = requirement_of(model="llama-3.1-8b", train="lora", framework=word)
    assert asked.training.framework == framework


def test_missing_framework_is_reported_where_frameworks_differ(capsys: Captured) -> None:
    """Of adapters and encoders, with what others would take."""
    line = ["--tokens", "1M", "--gpus", "h100-sxm5-80gb"]
    for model, train, is_told in (("8B", "lora", 1), ("8B", "full", 0), ("bert-base", "full", 1)):
        answer = answer_of(capsys, "--model", model, "--train", train, *line)
        told = [each for each in answer["notes"] if each.startswith("framework is not given")]
        assert len(told) == is_told
        assert answer["framework"] is None
        named = answer_of(capsys, "--model", model, "--train", train, "--framework", "peft", *line)
        assert not [each for each in named["notes"] if each.startswith("framework")]
        assert named["framework"] == "peft"


@pytest.mark.parametrize(
    ("words", "layout"),
    [
        ("tp4 pp2", Parallelism(4, 2)),
        ("TP=4,DP=2", Parallelism(4, 1, 2)),
        ("tp8 dp2 ep16", Parallelism(8, 1, 2, 2)),
        ("ep16", Parallelism(1, 1, 16, 16)),
        ("dp8 ep8", Parallelism(1, 1, 8, 8)),
        ("tp8 ep8", Parallelism(8)),
    ],
)
def test_layout_is_named_as_engines_do(words: str, layout: Parallelism) -> None:
    """`ep` counts the GPUs that hold one copy of the experts."""
    assert requirement_of(model="deepseek-v3", layout=words).parallel == layout
