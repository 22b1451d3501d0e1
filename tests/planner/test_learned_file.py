"""Learned file: what is added to it at once by several is all kept."""

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from rightsizer.io import files
from rightsizer.model.errors import RightsizerError
from rightsizer.planner.learned import forget, learn, read_learned
from rightsizer.sizing.site import SiteFigure, SiteLoad, SiteResidual, SiteSubject

CHAT: Final = SiteSubject("Llama-3.1-8B", "vllm", "H100-SXM5-80GB", "", "bf16")
LOADS: Final = [SiteLoad.of(2.0**power, 1500.0, 300.0) for power in range(10)]


def residuals(load: SiteLoad) -> tuple[SiteResidual, ...]:
    """What an engine teaches of one load."""
    return (SiteResidual(CHAT, load, SiteFigure.TPOT, 0.1, 0.1),)


def test_what_several_learn_at_once_is_kept(tmp_path: Path) -> None:
    """Each adds to what the others have written; no lock and no half of a file stay."""
    learned = tmp_path / "learned.json"

    with ThreadPoolExecutor(len(LOADS)) as pool:
        sites = [pool.submit(learn, learned, residuals(load)) for load in LOADS]

    site = read_learned(learned)
    assert site is not None
    assert {residual.load for residual in site.residuals} == set(LOADS)
    assert sorted(len(added.result().residuals) for added in sites) == [*range(1, 11)]
    assert [path.name for path in tmp_path.iterdir()] == ["learned.json"]


def test_closed_folder_of_a_learned_file_is_named(tmp_path: Path) -> None:
    """Nothing is locked where nothing can be written."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RightsizerError, match="of learned measurements"):
        learn(tmp_path / "file" / "learned.json", residuals(LOADS[0]))


def test_file_that_may_not_be_read_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root learned it, and the folder is writable: what it holds stays, and the remedy is told."""
    learned = tmp_path / "learned.json"
    learn(learned, residuals(LOADS[0]))
    before = learned.read_bytes()
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(RightsizerError, match=r"may not read it; join group rightsizer"):
        learn(learned, residuals(LOADS[1]))

    assert learned.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["learned.json"]


def test_lock_of_another_is_waited_for_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither learns nor forgets beside a process that keeps the folder; both do after it ended."""
    learned = tmp_path / "learned.json"
    learn(learned, residuals(LOADS[0]))
    monkeypatch.setattr(files, "_LOCK_PATIENCE_SECONDS", 0.05)
    holder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)

    with pytest.raises(RightsizerError, match=rf"folder '{tmp_path}' is locked .*; end it"):
        learn(learned, residuals(LOADS[1]))
    with pytest.raises(RightsizerError, match="is locked"):
        forget(learned)
    os.close(holder)

    assert len(learn(learned, residuals(LOADS[1])).residuals) == 2
    assert [forget(learned), forget(learned), forget(tmp_path / "no" / "file")] == [
        True,
        False,
        False,
    ]


def test_left_lock_file_hinders_nobody(tmp_path: Path) -> None:
    """A folder in its place stands for a file of root, which no one else may open."""
    (tmp_path / "learned.json.lock").mkdir()
    assert learn(tmp_path / "learned.json", residuals(LOADS[0])).residuals
