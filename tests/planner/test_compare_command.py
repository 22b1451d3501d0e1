"""`rightsizer compare`: flags, files, and their errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from rightsizer.cli.main import main

Captured = pytest.CaptureFixture[str]
FLAGS = ("--workload", "inference-llm-offline", "--from", "L40S", "--to", "NVIDIA H200")


def answer(captured: Captured, *arguments: str | Path) -> Any:
    """The JSON answer."""
    assert main(["compare", *map(str, arguments), "--json"]) == 0
    return json.loads(captured.readouterr().out)


def test_flags_ask_one_question(capsys: Captured) -> None:
    """Boards are found by key and by NVML name, and shown by key."""
    found = answer(capsys, *FLAGS)
    assert list(found) == ["workload", "from", "to", "ratio", "ratio_low", "ratio_high"]
    assert (found["from"], found["to"]) == ("L40S", "H200-SXM-141GB")
    assert 2.0 < found["ratio_low"] < found["ratio"] < found["ratio_high"]


def test_a_list_gives_a_list_with_errors_in_place(capsys: Captured, tmp_path: Path) -> None:
    """A failing item does not affect the others."""
    file = tmp_path / "asked.json"
    good = {"workload": "training-cnn", "from": "T4", "to": "A30", "precision": None}
    bad = {"workload": "training-cnn", "from": "T4", "to": "A31"}
    file.write_text(json.dumps([good, bad, good | {"precision": "fp8"}, {"to": "T4"}]))
    first, second, third, fourth = answer(capsys, file)
    assert first["ratio"] > 1.0
    assert "to: board 'A31' is not in the catalogue" in second["error"]
    assert third["workload"] == "training-cnn"
    assert "workload: is required" in fourth["error"]


def test_gpus_that_train_together_exchange_gradients(capsys: Captured, tmp_path: Path) -> None:
    """The number is a flag, or a key of a question; without it the answer is the middle."""
    pair = ("A100-PCIE-80GB", "A100-SXM4-80GB", "--workload", "training-transformer-encoder")
    one, eight = (answer(capsys, *pair, "--gpus", count)["ratio"] for count in ("1", "8"))
    assert one < answer(capsys, *pair)["ratio"] < eight
    file = tmp_path / "asked.json"
    asked = {"workload": pair[3], "from": pair[0], "to": pair[1], "gpus": 8}
    served = asked | {"workload": "inference-cnn"}
    file.write_text(json.dumps([asked, asked | {"gpus": 0}, served]))
    valid, none, wrong = answer(capsys, file)
    assert valid["ratio"] == eight
    assert "gpus: must be between 1 and 1000000" in none["error"]
    assert "gpus: inference-cnn is compared GPU by GPU" in wrong["error"]


def test_a_file_with_one_question_gives_one_answer(capsys: Captured, tmp_path: Path) -> None:
    """In YAML too; errors have their place."""
    file = tmp_path / "asked.yaml"
    file.write_text("workload: inference-cnn\nfrom: T4\nto: L4\nprecision: int8\n")
    assert answer(capsys, file)["ratio"] > 1.0
    file.write_text("workload: inference-cnn\nfrom: T4\nto: L4\nprecision: int9\n")
    assert main(["compare", str(file)]) == 1
    assert "asked.yaml:4:1: precision: 'int9'" in capsys.readouterr().err
    file.write_text("workload: inference-cnn\nfrom: T4\nto: L4\nprecise: int8\n")
    assert main(["compare", str(file)]) == 1
    assert "precise" in capsys.readouterr().err


def test_slices_are_compared_too(capsys: Captured, tmp_path: Path) -> None:
    """By board and profile; the error for an unknown one lists the board's profiles."""
    file = tmp_path / "asked.json"
    asked = {"workload": "inference-cnn", "from": "A30", "to": "A30:1g.6gb"}
    file.write_text(json.dumps([asked, asked | {"to": "A30:9g.6gb"}]))
    found, wrong = answer(capsys, file)
    assert found["to"] == "A30:1g.6gb"
    assert 0.25 < found["ratio"] < 0.3
    assert "A30 has no MIG profile '9g.6gb'; it has 1g.6gb" in wrong["error"]


def test_people_get_a_line(capsys: Captured, tmp_path: Path) -> None:
    """One sentence per answer, errors included."""
    assert main(["compare", *FLAGS]) == 0
    assert "H200-SXM-141GB does" in capsys.readouterr().out
    file = tmp_path / "asked.json"
    file.write_text('[{"workload": "inference-cnn", "from": "T4", "to": "A31"}]')
    assert main(["compare", str(file)]) == 0
    assert capsys.readouterr().out.startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--workload, --from, --to missing"),
        (("--workload", "cooking", *FLAGS[2:]), "--workload: 'cooking'"),
        ((*FLAGS[:4], "--to", "L44"), "did you mean L4"),
        ((*FLAGS, "--precision", "fp17"), "--precision: 'fp17'"),
        ((*FLAGS, "--gpus", "8"), "--gpus: inference-llm-offline is compared GPU by GPU"),
        (("asked.yaml", *FLAGS), "the file asks already"),
    ],
)
def test_wrong_flags_are_usage(capsys: Captured, arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2, and the remedy."""
    assert main(["compare", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_configuration_names_boards_of_ones_own(capsys: Captured, tmp_path: Path) -> None:
    """As for the agent."""
    boards = tmp_path / "boards.yaml"
    settings = tmp_path / "rightsizer.yaml"
    boards.write_text(
        "boards:\n  LAB-1: {architecture: Hopper, compute_capability: '9.0', sm_count: 132,"
        " memory_mib: 81559, memory_bandwidth_gbs: 3350, power_limit_watts: 700,"
        " dense_peak_tera: {bf16: 989}}\n",
        encoding="utf-8",
    )
    settings.write_text(f"catalogue: {{boards_file: {boards}}}\n", encoding="utf-8")
    asked = ("--workload", "inference-cnn", "--from", "T4", "--to", "LAB-1")

    found = answer(capsys, *asked, "--config.file", settings)
    assert (found["to"], found["ratio"] > 1.0) == ("LAB-1", True)
    assert main(["compare", *asked]) == 2


def test_a_configuration_says_what_of_memory_nobody_can_have(
    capsys: Captured, tmp_path: Path
) -> None:
    """A model with little memory to spare suffers more from a larger reservation."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("sizing: {memory: {driver_reserved: 20GiB}}", encoding="utf-8")
    asked = ("--workload", "inference-llm", "--from", "H200-SXM-141GB", "--to", "L40S")
    usual = answer(capsys, *asked)
    found = answer(capsys, *asked, "--config.file", str(settings))

    assert found["ratio"] < usual["ratio"]


def test_an_empty_file_points_to_the_help_of_its_own_command(
    capsys: Captured, tmp_path: Path
) -> None:
    """Not to that of another command that reads such files."""
    file = tmp_path / "asked.yaml"
    file.write_text("")

    assert main(["compare", str(file)]) == 1
    assert "'rightsizer compare --help' shows what it takes" in capsys.readouterr().err


def test_two_names_and_a_workload_are_a_question(capsys: Captured) -> None:
    """A family means its usual board, and a note says which."""
    found = answer(capsys, "a100", "h100", "--workload", "llm-serving")

    assert (found["from"], found["to"]) == ("A100-SXM4-80GB", "H100-SXM5-80GB")
    assert found["workload"] == "inference-llm"
    assert found["ratio"] > 1.5
    assert found["notes"][1].startswith("h100 is read as H100-SXM5-80GB; name another")


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("llm-serving-offline", "inference-llm-offline"),
        ("bert-online", "inference-transformer-encoder-server"),
        ("serving-server-resnet", "inference-cnn-server"),
        ("batch-sdxl", "inference-diffusion-offline"),
        ("train-llm", "training-llm"),
        ("bert_serving", "inference-transformer-encoder"),
        ("sdxl-serving", "inference-diffusion"),
    ],
)
def test_workload_is_named_as_people_name_it(capsys: Captured, spelled: str, name: str) -> None:
    """In either order."""
    assert answer(capsys, "t4", "l4", "--workload", spelled)["workload"] == name


def test_gpus_are_compared_in_twos(capsys: Captured) -> None:
    """More questions go into a file."""
    assert main(["compare", "h100", "--workload", "llm-serving"]) == 2
    assert "'h100': is one GPU; name the other beside it" in capsys.readouterr().err
    assert main(["compare", "t4", "l4", "a30", "--workload", "llm-serving"]) == 2
    assert "two GPUs are compared at a time" in capsys.readouterr().err
