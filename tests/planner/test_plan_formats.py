"""`rightsizer plan`: a board without the requested format is reported, not silently ranked."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.main import main
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.roofline import board_format

Captured = pytest.CaptureFixture[str]
Ask = Callable[..., Any]


@pytest.fixture
def ask(capsys: Captured) -> Ask:
    """Candidates of a line by GPU, and its notes."""

    def answered(*arguments: str) -> Any:
        assert main(["plan", "--model", "llama-3.1-8b", *arguments, "--json"]) == 0
        plan = json.loads(capsys.readouterr().out)
        return {each["gpu"]: each for each in plan["candidates"]}, plan["notes"]

    return answered


@pytest.mark.parametrize(
    ("gpu", "asked", "name", "faults"),
    [
        ("T4", NumberFormat.BF16, "fp16", 0),
        ("V100-SXM2-16GB", NumberFormat.BF16, "fp16", 0),
        ("A100-SXM4-80GB", NumberFormat.BF16, "bf16", 0),
        ("T4", NumberFormat.FP16, "fp16", 0),
        ("T4", NumberFormat.FP8, "fp8", 1),
        ("A100-SXM4-80GB", NumberFormat.FP8, "fp8 as bf16", 0),
        ("L4", NumberFormat.FP8, "fp8", 0),
        ("H100-SXM5-80GB", NumberFormat.FP8, "fp8", 0),
        ("MI300X", NumberFormat.FP8, "fp8", 0),
        ("T4", NumberFormat.INT8, "int8", 0),
        ("P100-PCIE-16GB", NumberFormat.INT8, "int8", 1),
        ("V100-SXM2-16GB", NumberFormat.NVFP4, "nvfp4", 1),
        ("H100-SXM5-80GB", NumberFormat.NVFP4, "nvfp4 as bf16", 0),
        ("MI300X", NumberFormat.NVFP4, "nvfp4", 1),
        ("B200", NumberFormat.NVFP4, "nvfp4", 0),
        ("T4", NumberFormat.INT4, "int4", 0),
    ],
)
def test_board_runs_what_it_has_units_for(
    gpu: str, asked: NumberFormat, name: str, faults: int
) -> None:
    """Else in the nearest supported one with a note, or rejected with a reason."""
    found = board_format(built_in().boards[gpu], asked, trains=False)

    assert found.name == name
    assert bool(found.fault) == faults
    assert bool(found.note) is (name != asked)


def test_weights_of_8_bits_are_not_trained_on_boards_without_units() -> None:
    """Unpacking requires constant weights."""
    found = board_format(built_in().boards["A100-SXM4-80GB"], NumberFormat.FP8, trains=True)

    assert found.fault == "no fp8, which Ada, Hopper and later have; ask for int4 or bf16"


def test_bf16_before_ampere_is_offered_as_fp16(ask: Ask) -> None:
    """In the candidate, in the notes and in the command to run."""
    found, notes = ask("--gpus", "v100-sxm2-32gb,a100-80gb")

    assert found["V100-SXM2-32GB"]["format"] == "fp16"
    assert found["V100-SXM2-32GB"]["format_note"].startswith("fp16 in place of bf16")
    assert found["A100-SXM4-80GB"]["format"] is None
    assert any(note.startswith("V100-SXM2-32GB: fp16 in place of bf16") for note in notes)


def test_fp8_before_ada_is_unpacked_or_rejected(ask: Ask) -> None:
    """Ampere unpacks, older boards do not fit, and the reason is the format."""
    found, _ = ask("--gpus", "t4,a100-80gb,l40s", "--precision", "fp8")

    assert found["L40S"]["format"] is None
    assert found["A100-SXM4-80GB"]["format"] == "fp8 as bf16"
    assert not found["T4"]["fits"]
    assert found["T4"]["rank"] is None
    assert found["T4"]["reasons"][0].startswith("format: no fp8, which Ada, Hopper and later have")


def test_people_see_which_gpus_run_another_format(capsys: Captured) -> None:
    """A mark in the table, and a note on the format."""
    line = ["plan", "--model", "llama-3.1-8b", "--precision", "fp8", "--gpus"]
    assert main([*line, "a100-80gb,h100-80gb"]) == 0
    with_other = capsys.readouterr().out
    assert main([*line, "h100-80gb"]) == 0

    assert "x A100-SXM4-80GB* " in with_other
    assert "*: not in the format asked for" in with_other
    assert "note: A100-PCIE-80GB, A100-SXM4-80GB: fp8 unpacked to bf16" in with_other
    assert "*" not in capsys.readouterr().out


def test_checkpoint_in_its_own_format_is_offered_where_it_is_unpacked(capsys: Captured) -> None:
    """The name of the checkpoint states the format."""
    line = ["plan", "--model", "Llama-3.1-8B-Instruct-FP8", "--gpus", "h100,a100,t4", "--json"]
    assert main(line) == 0
    candidates = json.loads(capsys.readouterr().out)["candidates"]
    found = {candidate["gpu"]: candidate for candidate in candidates}

    assert found["H100-SXM5-80GB"]["format"] is None
    assert found["A100-SXM4-80GB"]["format"] == "fp8 as bf16"
    assert not found["T4"]["fits"]


@pytest.mark.parametrize(
    ("spelled", "weights"),
    [("fp4", "nvfp4"), ("bfloat16", "bf16"), ("awq", "int4"), ("FP8", "fp8")],
)
def test_format_is_named_as_engines_name_it(spelled: str, weights: str, capsys: Captured) -> None:
    """In either case."""
    line = ["plan", "--model", "8B", "--gpus", "b200", "--precision", spelled]
    assert main(line) == 0

    assert f"parameters in {weights}\n" in capsys.readouterr().out


def test_comparison_says_which_board_lacks_the_format(capsys: Captured) -> None:
    """The best format that it supports counts."""
    line = ["compare", "a30", "l4", "--workload", "llm-serving", "--precision", "fp8"]
    assert main(line) == 0

    assert "note: A30 has no fp8: its best usable format counts" in capsys.readouterr().out


@pytest.mark.parametrize("gpu", ["MI300X", "A100-SXM4-80GB", "B200"])
def test_mxfp4_of_a_model_published_in_it_is_its_own(gpu: str, capsys: Captured) -> None:
    """Weights of gpt-oss are unpacked on boards without 4-bit units."""
    line = ("plan", "--model", "gpt-oss-120b", "--gpus", gpu, "--json")
    answers = []
    for more in ((), ("--precision", "mxfp4")):
        assert main([*line, *more]) == 0
        answers.append(json.loads(capsys.readouterr().out)["candidates"])

    assert answers[0] == answers[1]
    assert answers[0][0]["fits"]
