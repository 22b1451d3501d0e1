"""`rightsizer plan` for people: contents and readable lines."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from plan_answers import SHAPE
from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.main import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file with the requirements."""
    return tmp_path / "plan.yaml"


def test_people_see_why_and_what_else(file: Path, capsys: Captured) -> None:
    """Candidates, memory, reasons, alternatives, growth, and how to verify it."""
    file.write_text(
        json.dumps(
            {
                "model": {**SHAPE, "name": "Llama"},
                "gpus": ["T4", "L4", "H100-SXM5-80GB"],
                "load": {"tokens_per_second": 500, "tpot_ms": 60},
                "growth": {"per_month": 0.5, "months": 12},
                "parallel": {"tensor": 1, "data": 1},
            }
        ),
        encoding="utf-8",
    )

    assert main(["plan", str(file), "--details"]) == 0
    text = capsys.readouterr().out
    for part in (
        "Llama, inference",
        "1 x H100-SXM5-80GB",
        "asked for: 1,024 tokens in and 256 out, 1.95 requests/s, 500 output tokens/s, TPOT",
        "memory of each H100-SXM5-80GB: ",
        "what 1 x H100-SXM5-80GB cost:",
        "reserved, 1 year",
        "To own: $",
        "not known without prices.carbon_grams_per_kwh",
        "of 3 kinds of GPU:\n  memory is too small on 1:\n    1 x T4: memory: needs",
        "weights in fp8:",
        "as the load grows, x129.75 in 12 months:",
        "before it is trusted,",
    ):
        assert part in text


@pytest.mark.parametrize("more", [(), ("--details",), ("--all",)])
@pytest.mark.parametrize(
    "asked",
    [
        {
            "model": {**SHAPE, "parameters": 70e9, "layers": 80, "hidden": 8192, "heads": 64},
            "load": {"input_tokens": 2000, "output_tokens": 300, "tokens_per_second": 3000},
            "growth": {"per_month": 0.1, "months": 12},
            "prices": {"carbon_grams_per_kwh": 380},
        },
        {"model": SHAPE, "task": "finetune-lora", "training": {"tokens": 1e8}},
        {"model": SHAPE, "task": "training", "training": {"tokens": 1e11, "zero_stage": 3}},
        {"model": {"kind": "diffusion", "parameters": 2.6e9}, "load": {"tokens_per_second": 1e5}},
    ],
    ids=["serving", "adapters", "training", "nothing fits"],
)
def test_people_read_lines_that_a_terminal_shows_whole(
    file: Path, asked: dict[str, Any], more: tuple[str, ...], capsys: Captured
) -> None:
    """At most a hundred characters, with all candidates too, and none without its reason."""
    file.write_text(json.dumps(asked), encoding="utf-8")

    status = main(["plan", str(file), *more])
    text = capsys.readouterr().out
    assert status == ("Nothing fits" in text)
    assert ("in time: " in text) == ("  in time  " in text)  # Its legend, and the column.
    assert [line for line in text.splitlines() if len(line) > 100] == []
    kinds = len(built_in().boards)
    if "rejected, " in text and "--all" in more:
        rejected = int(text.partition("rejected, ")[2].partition(" ")[0])
        named = [line for line in text.splitlines() if re.match(r"    \d+ x \S+: \w+: ", line)]
        assert len(named) == rejected <= kinds


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--concurrency 16", r"nvidia-smi shows about 71\.3 GiB: the engine takes it ahead"),
        ("--train lora --tokens 1e8", r"nvidia-smi shows about [\d.]+ GiB: its allocator has"),
    ],
)
def test_details_tell_what_the_device_shows(line: str, said: str, capsys: Captured) -> None:
    """An engine's reserve, or blocks that an allocator keeps."""
    asked = ["plan", "llama-3.1-8b", "--gpus", "H100-SXM5-80GB", *line.split(), "--details"]
    assert main(asked) == 0
    assert re.search(said, " ".join(capsys.readouterr().out.split()))
