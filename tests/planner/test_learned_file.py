"""Learned file: what is added to it at once by several is all kept."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from rightsizer.model.errors import RightsizerError
from rightsizer.planner.learned import learn, read_learned
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
