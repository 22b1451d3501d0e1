"""Commands leave the collector of garbage as it was."""

import gc
from pathlib import Path

import pytest

from rightsizer.cli.main import main


@pytest.mark.parametrize("command", [["plan", "gpt2", "--gpus", "l4"], ["replay", "absent.csv"]])
def test_threshold_of_collections_is_as_before(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever calls `main` keeps it, whether the command succeeds or fails."""
    monkeypatch.chdir(tmp_path)
    before = gc.get_threshold()
    main(command)
    assert gc.get_threshold() == before
