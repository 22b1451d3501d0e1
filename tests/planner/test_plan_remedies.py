"""`rightsizer plan` if nothing fits: changes that would fit on the requested GPUs."""

import json
from pathlib import Path
from typing import Any

import pytest

from plan_answers import SHAPE, answer
from rightsizer.cli.main import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file with the requirements."""
    return tmp_path / "plan.yaml"


def remedies(file: Path, capsys: Captured, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The changes offered if nothing fits, each with its memory."""
    plan = answer(file, json.dumps({"model": SHAPE, **asked}), capsys)

    assert plan["nothing_fits"]
    for each in plan["alternatives"]:
        assert each["candidate"]["fits"]
        assert each["candidate"]["memory"]["total_bytes"] > 0
    return list(plan["alternatives"])


def test_adapters_fit_where_full_training_does_not(file: Path, capsys: Captured) -> None:
    """On the one available GPU, each change with its memory and speed."""
    asked = {"train": "full", "tokens": 1e8, "gpus": ["L40S"], "parallel": {"tensor": 1}}
    found = remedies(file, capsys, asked)
    by_change = {each["change"]: each["candidate"] for each in found}

    assert {"LoRA (train: lora)", "QLoRA (train: qlora)"} <= set(by_change)
    assert all(each["training_hours"] > 0 for each in by_change.values())
    whole = by_change["LoRA (train: lora)"]
    packed = by_change["QLoRA (train: qlora)"]
    assert packed["memory"]["total_bytes"] < whole["memory"]["total_bytes"]


def test_each_change_that_is_enough_is_reported(file: Path, capsys: Captured) -> None:
    """Smaller micro batches, activations recomputed or offloaded to the host."""
    training = {"micro_batch": 8, "sequence": 2048, "recompute": "none"}
    asked = {"train": "lora", "gpus": ["H100-SXM5-80GB"], "parallel": {"tensor": 1}}
    found = remedies(file, capsys, {**asked, "training": training})
    changes = " ".join(each["change"] for each in found)

    for part in ("micro_batch: 1", "recompute: full", "offload: activations"):
        assert part in changes


def test_chunked_loss_is_offered_where_logits_are_too_many(file: Path, capsys: Captured) -> None:
    """Unsloth has it already; an open layout says which key to leave out."""
    training = {"micro_batch": 12, "sequence": 2048, "recompute": "full"}
    asked = {"train": "lora", "gpus": ["L40S"], "parallel": {"tensor": 1}, "training": training}
    changes = [
        remedy["change"] for remedy in remedies(file, capsys, {**asked, "framework": "fsdp"})
    ]
    assert "logits and loss in chunks (fused_loss: true)" in changes
    assert "the layout left open (no layout or parallel)" in changes
    has_it = {"model": SHAPE, **asked, "framework": "unsloth"}
    assert not answer(file, json.dumps(has_it), capsys)["nothing_fits"]


def test_several_are_reported_together_where_one_is_not_enough(
    file: Path, capsys: Captured
) -> None:
    """As few as suffice, the cheapest first; another task does not add to them."""
    asked = {"model": "llama-3.1-405b", "train": "full", "gpus": ["L4"]}
    closed = remedies(file, capsys, asked)
    (together,) = (each for each in closed if each["kind"] == "together")
    assert together["change"].count(";") >= 1
    assert "train:" not in together["change"]


def test_late_option_is_shown_without_its_limits(file: Path, capsys: Captured) -> None:
    """So that the achievable latency is visible."""
    asked = {"load": {"ttft_ms": 1, "tokens_per_second": 10}, "gpus": ["L4"]}
    last = remedies(file, capsys, asked)[-1]

    assert last["kind"] == "load"
    assert last["candidate"]["ttft_ms"] > 1


def test_people_see_it_under_why_nothing_fits(file: Path, capsys: Captured) -> None:
    """In the summary too, with GiB and hours."""
    asked = {"model": SHAPE, "train": "full", "tokens": 1e8, "gpus": ["L40S"]}
    file.write_text(json.dumps({**asked, "parallel": {"tensor": 1}}), encoding="utf-8")
    page = file.with_name("plan.html")
    assert main(["plan", str(file), "--html", str(page)]) == 1
    text = capsys.readouterr().out

    assert "what would fit on what is asked for:" in text
    assert " GiB of each" in text
    assert " h, " in text
    (row,) = (line for line in page.read_text("utf-8").splitlines() if "QLoRA" in line)
    assert " GiB of each, " in row
    assert " h" in row
