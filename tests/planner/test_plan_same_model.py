"""`rightsizer plan`: a model by name and by its published files has one answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from rightsizer.cli.main import main
from rightsizer.planner.models.known_models import find_model

Captured = pytest.CaptureFixture[str]


def candidates(capsys: Captured, model: str, *load: str) -> Any:
    """The candidates of a line."""
    assert main(["plan", "--model", model, *load, "--gpus", "h100,l40s", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["candidates"]


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("sdxl", ("--rps", "5")),
        ("sd3-medium", ("--rps", "1")),
        ("flux.1-dev", ("--rps", "1")),
    ],
)
def test_pipeline_by_name_is_that_of_its_folder(
    name: str, load: tuple[str, ...], tmp_path: Path, capsys: Captured
) -> None:
    """Denoiser, text encoders and decoder, each in the file of its folder."""
    known = find_model(name)
    assert known is not None
    for part, values in known.config.items():
        file = tmp_path / part if part.endswith(".json") else tmp_path / part / "config.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(values), encoding="utf-8")

    assert candidates(capsys, name, *load) == candidates(capsys, str(tmp_path), *load)


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("whisper-large-v3", ("--streams", "20")),
        ("vit-b/16", ("--rps", "1000")),
        ("clip-vit-l-14", ("--rps", "1000")),
        ("t5-base", ("--rps", "10")),
        ("llama-4-scout", ("--rps", "1")),
        ("gpt-oss-20b", ("--rps", "1")),
        ("bge-m3", ("--rps", "100")),
    ],
)
def test_model_by_name_is_that_of_its_file(
    name: str, load: tuple[str, ...], tmp_path: Path, capsys: Captured
) -> None:
    """Unit, rates, memory and costs are the same."""
    known = find_model(name)
    assert known is not None
    (tmp_path / "config.json").write_text(json.dumps(known.config), encoding="utf-8")

    assert candidates(capsys, name, *load) == candidates(capsys, str(tmp_path), *load)
