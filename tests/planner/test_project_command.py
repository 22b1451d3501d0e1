"""`rightsizer project`: questions of a file, answers in their order."""

import json
from pathlib import Path
from typing import Any

import pytest

from rightsizer.cli.main import main

QUESTION: dict[str, Any] = {
    "gpu": "NVIDIA H100 80GB HBM3",
    "precision": {"from": "bf16", "to": "bf16"},
    "shares": {
        "sm_active": 0.7,
        "tensor_active": 0.25,
        "dram_active": 0.35,
        "gpu_busy": 0.9,
        "pcie_receive": 5e-05,
        "pcie_transmit": 0.01,
        "nvlink_receive": 0.0,
        "nvlink_transmit": 0.0,
        "sm_clock_ratio": 0.95,
    },
    "memory_bytes": 31e9,
    "to": ["L40S", "H100-SXM5-80GB:3g.40gb"],
}
KEYS = {
    "target",
    "time_ratio",
    "time_ratio_low",
    "time_ratio_high",
    "shares",
    "fits",
    "bottleneck",
    "profile",
    "assumed",
}


def question_file(folder: Path, text: str) -> Path:
    """A file with a question."""
    file = folder / "profile.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def answer(capsys: pytest.CaptureFixture[str], file: Path) -> Any:
    """The JSON answer."""
    assert main(["project", str(file), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_one_question_has_an_answer_per_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the documented names, in the order of the file."""
    found = answer(capsys, question_file(tmp_path, json.dumps(QUESTION, indent="\t")))
    assert [each["target"] for each in found] == QUESTION["to"]
    assert all(each.keys() == KEYS for each in found)
    assert found[0]["fits"] is True
    assert found[0]["shares"].keys() >= QUESTION["shares"].keys()
    assert found[0]["time_ratio_low"] < found[0]["time_ratio"] < found[0]["time_ratio_high"]


def test_a_list_has_a_list_and_goes_on_after_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error stands in the item's place, with its line."""
    blind = {**QUESTION, "shares": {"gpu_busy": 0.9}}
    found = answer(
        capsys, question_file(tmp_path, json.dumps([QUESTION, blind, QUESTION], indent=1))
    )
    assert found[0] == found[2]
    assert set(found[1]) == {"error"}
    assert "profile.yaml:31:3: shares: without sm_active" in found[1]["error"]


def test_several_documents_are_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """YAML has both forms."""
    text = json.dumps(QUESTION)
    found = answer(capsys, question_file(tmp_path, f"{text}\n---\n{text}\n"))
    assert len(found) == 2
    assert found[0] == found[1]


def test_a_target_that_lacks_the_format_says_so_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other targets are answered."""
    question = QUESTION | {"precision": {"from": "bf16", "to": "fp8"}, "to": ["A30", "L40S"]}
    found = answer(capsys, question_file(tmp_path, json.dumps(question)))
    assert found[0].keys() == {"target", "error"}
    assert "A30 does not compute in fp8" in found[0]["error"]
    assert found[1].keys() == KEYS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpus: H100", "profile.yaml:1:1: gpus: unknown key; did you mean 'gpu'?"),
        (
            "gpu: H100-SXM5-80GB\nshares:\n  sm_activ: 0.5\nto: L4",
            "profile.yaml:3:3: shares.sm_activ: unknown key; did you mean 'sm_active'?",
        ),
        (
            "gpu: H100-SXM5-80GB\nshares: {sm_active: 87}\nto: L4",
            "profile.yaml:2:10: shares.sm_active: must be between 0 and 1 (got 87); it is a ratio",
        ),
        ("gpu: H100-SXM5-80GB\nshares: {}", "to: is required: GPUs or MIG slices"),
        ("gpu: L4\nto: L40S\nprecision: {from: fp9}", "(got 'fp9'); did you mean 'fp8'?"),
        ("gpu: L4\nto: 'A30:5g'", "profile.yaml:2:1: to: 'A30:5g': A30 has no MIG profile '5g'"),
        ("gpu: L9000\nto: L4", "profile.yaml:1:1: gpu: board 'L9000' is not in the catalogue"),
        ("", "is empty; 'rightsizer project --help' shows what it takes"),
        ("a: [", "look at the indentation, quotes and brackets"),
        ("- 1\n", ""),
    ],
)
def test_faults_have_place_and_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    """An error of the only question is the whole output."""
    code = main(["project", str(question_file(tmp_path, text)), "--json"])
    said = capsys.readouterr()
    if text.startswith("-"):
        assert code == 0
        assert "must be a mapping" in json.loads(said.out)[0]["error"]
    else:
        assert code == 1
        assert message in said.err


def test_a_file_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the remedy."""
    assert main(["project", str(tmp_path / "none.yaml")]) == 1
    assert "none.yaml: there is no such file; check the path" in capsys.readouterr().err


def test_people_get_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line per target, followed by an explanation of the columns."""
    file = question_file(tmp_path, json.dumps([QUESTION, {**QUESTION, "shares": {}}]))
    assert main(["project", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["target", "time", "from", "to"]
    assert lines[1].startswith("L40S ")
    assert "yes" in lines[1]
    assert "without sm_active" in " ".join(" ".join(lines).split())
    assert lines[-1].endswith("idle time included.")


def test_a_configuration_says_what_of_memory_nobody_can_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A larger reservation of the driver may leave too little memory."""
    question = QUESTION | {"memory_bytes": 45e9, "to": ["L40S"]}
    settings = tmp_path / "rightsizer.yaml"
    settings.write_text("sizing: {memory: {driver_reserved: 8GiB}}\n", encoding="utf-8")
    file = question_file(tmp_path, json.dumps(question))
    usual, own = (
        (main(["project", str(file), "--json", *more]), json.loads(capsys.readouterr().out))
        for more in ((), ("--config.file", str(settings)))
    )

    assert (usual[0], own[0]) == (0, 0)
    assert (usual[1][0]["fits"], own[1][0]["fits"]) == (True, False)


def test_an_item_that_fails_is_marked_in_the_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the marker of the other commands, and only its error."""
    assert main(["project", str(question_file(tmp_path, json.dumps([QUESTION, 3])))]) == 0

    (output,) = (line for line in capsys.readouterr().out.splitlines() if "error" in line)
    assert output.startswith("error: ")


def test_a_family_is_each_of_its_boards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in plans."""
    found = answer(capsys, question_file(tmp_path, json.dumps({**QUESTION, "to": ["a100-80gb"]})))

    assert [each["target"] for each in found] == ["A100-PCIE-80GB", "A100-SXM4-80GB"]
