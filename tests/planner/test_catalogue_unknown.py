"""`rightsizer catalogue NAME` of an unknown GPU: the driver's data, and no guess."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvml_driver import FakeDriver, FakeGpu, installed
from rightsizer.cli.main import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[str]:
    """A configuration of a node with a future GPU, without a bus."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text(f"path: {{sysfs: {tmp_path}}}\n", encoding="utf-8")
    with installed(FakeDriver(FakeGpu("GPU-1", name="NVIDIA R300", memory_total=400 << 30))):
        yield str(file)


def test_unknown_board_shows_only_the_figures_of_the_driver(
    settings: str, capsys: Captured
) -> None:
    """By the driver's name, with or without the brand; with the remedy."""
    assert main(["catalogue", "r300", "--config.file", settings]) == 0
    text = capsys.readouterr().out

    assert text.startswith("NVIDIA R300\n  unknown to the catalogue\n")
    assert "400.00 GiB" in text
    assert "Hopper" in text
    assert "Describe it in a file of boards" in text
    assert "bandwidth, peaks and prices are unknown" in text


def test_programs_see_that_it_has_no_key(settings: str, capsys: Captured) -> None:
    """Among known boards, in the requested order."""
    assert main(["catalogue", "T4", "R300", "--json", "--config.file", settings]) == 0
    known, unknown = json.loads(capsys.readouterr().out)

    assert known["key"] == "T4"
    assert (unknown["key"], unknown["price"]) == (None, None)
    assert unknown["memory_bytes"] == 400 << 30
    assert unknown["names"] == ["NVIDIA R300"]


def test_board_neither_known_nor_present_is_refused(settings: str, capsys: Captured) -> None:
    """With the places that were searched."""
    assert main(["catalogue", "R301", "--config.file", settings]) == 2
    error = capsys.readouterr().err

    assert "board 'R301' is not in the catalogue" in error
    assert "no GPU of this node is called so either" in error
