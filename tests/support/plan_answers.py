"""Requirement of a line of `rightsizer plan`; its answer to a text, or its error."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from rightsizer.cli.main import main
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.sizing.requirement import Requirement

__all__ = ["SHAPE", "answer", "answered", "refusal", "requirement_of"]

SHAPE: Final = {
    "parameters": 8030261248,
    "layers": 32,
    "hidden": 4096,
    "heads": 32,
    "kv_heads": 8,
    "ffn": 14336,
    "vocab": 128256,
}


def answer(path: Path, text: str, capsys: pytest.CaptureFixture[str], *more: str) -> Any:
    """What a plan of a text is in JSON."""
    path.write_text(text, encoding="utf-8")
    status = main(["plan", str(path), "--json", *more])
    return answered(status, capsys.readouterr().out)


def answered(status: int, out: str) -> Any:
    """What a plan has printed in JSON; its exit status is 0 if something fits every question."""
    found = json.loads(out)
    answers = found if isinstance(found, list) else [found]
    is_answered = all("error" not in each and each["nothing_fits"] is None for each in answers)
    assert status == (0 if is_answered else 1)
    return found


def refusal(path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Error for an invalid text, without the names of command and file."""
    path.write_text(text, encoding="utf-8")
    status = main(["plan", str(path), "--json"])
    out, err = capsys.readouterr()
    assert (status, out) == (1, "")
    return err.replace(f"rightsizer: {path}", "FILE").strip()


def requirement_of(**options: str) -> Requirement:
    """The requirement of a line."""
    requirement = plan_of_flags(options).items[0].requirement
    assert requirement is not None
    return requirement
