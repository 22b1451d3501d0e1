"""Questions to the planner: any file gives an answer or our own error."""

import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings

from mutations import mutated_bytes, mutated_tree
from plan_answers import SHAPE, answered
from rightsizer.cli.main import main

PLAN: Final[dict[str, Any]] = {
    "model": dict(SHAPE),
    "precision": {"weights": "fp8"},
    "load": {"input_tokens": 2000, "output_tokens": 300, "concurrency": 2},
    "growth": {"per_month": 0.1, "months": 12},
    "gpus": ["L4"],
}
PROJECT: Final[dict[str, Any]] = {
    "gpu": "H100-SXM5-80GB",
    "precision": {"from": "bf16", "to": "bf16"},
    "shares": {"gpu_busy": 0.9, "sm_active": 0.7, "tensor_active": 0.25, "dram_active": 0.35},
    "memory_bytes": 31.0e9,
    "to": ["L40S", "H100-SXM5-80GB:3g.40gb"],
}
COMPARE: Final[dict[str, Any]] = {
    "workload": "inference-cnn",
    "from": "T4",
    "to": "L4",
    "precision": "int8",
}
QUESTIONS: Final = {"plan": PLAN, "project": PROJECT, "compare": COMPARE}
bounded = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

Asks = Callable[[str, bytes], None]


@pytest.fixture
def ask(tmp_path: Path) -> Asks:
    """Check that the output is JSON, or an error that names the file."""

    def ask(command: str, content: bytes) -> None:
        file = tmp_path / "question.yaml"
        file.write_bytes(content)
        out = StringIO()
        err = StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main([command, str(file), "--json"])
        if command == "plan" and out.getvalue():
            answered(status, out.getvalue())
        elif status == 0:
            json.loads(out.getvalue())
        else:
            assert (status, out.getvalue()) == (1, "")
            assert err.getvalue().startswith(f"rightsizer: {file}")

    return ask


@pytest.mark.parametrize("command", QUESTIONS)
def test_the_questions_themselves_are_answered(ask: Asks, tmp_path: Path, command: str) -> None:
    """The unmodified input is answered."""
    file = tmp_path / "right.json"
    file.write_text(json.dumps(QUESTIONS[command]))
    with redirect_stdout(StringIO()) as out:
        assert main([command, str(file), "--json"]) == 0
    assert json.loads(out.getvalue())


@bounded
@given(mutated_tree(PLAN))
def test_a_plan_with_odd_values(ask: Asks, question: Any) -> None:
    """Sizes, formats, loads and names are of any kind."""
    ask("plan", json.dumps(question).encode())


@bounded
@given(mutated_tree(PROJECT))
def test_a_projection_with_odd_values(ask: Asks, question: Any) -> None:
    """Shares, boards and formats are of any kind."""
    ask("project", json.dumps(question).encode())


@bounded
@given(mutated_tree(COMPARE))
def test_a_comparison_with_odd_values(ask: Asks, question: Any) -> None:
    """Workloads, boards and formats are of any kind."""
    ask("compare", json.dumps(question).encode())


@bounded
@given(mutated_bytes(json.dumps(PLAN, indent=1).encode()))
def test_a_question_with_odd_bytes(ask: Asks, content: bytes) -> None:
    """It may no longer be JSON, YAML or text."""
    ask("plan", content)
