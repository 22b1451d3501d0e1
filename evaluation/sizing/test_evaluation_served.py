"""Evaluation of engines that run: halves, and what is learned of them."""

from typing import Final

import pytest
from msgspec.structs import replace

from evaluation.sizing.served import SiteRow, _crossed, _halves, load_of
from evaluation.sizing.serving_truth import Row
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.site import SiteFigure, SiteLoad, SiteResidual, SiteShares, SiteSubject

SUBJECT: Final = SiteSubject("a", "vllm", "L40S", "", "bf16")
SMALL: Final = Transformer(layers=2, hidden=64, heads=4, ffn=128, vocab=100)
ROW: Final = SiteRow(
    "here", False, SiteResidual(SUBJECT, SiteLoad(1, 2, 3), SiteFigure.TPOT, 0.2, 0.1), 0.16, 0.16
)


def rows() -> list[SiteRow]:
    """Four models, alike in all but their names."""
    return [
        replace(ROW, residual=replace(ROW.residual, subject=replace(SUBJECT, model=name)))
        for name in "abcd"
    ]


def test_no_row_is_learned_and_scored() -> None:
    """Each is scored once."""
    scored: list[SiteRow] = []
    for learned, held in _halves(rows(), lambda row: row.model):
        assert not {row.model for row in learned} & {row.model for row in held}
        scored += held
    assert sorted(row.model for row in scored) == list("abcd")


def test_error_in_common_is_learned() -> None:
    """By the share that models have in common."""
    shares = {"here": SiteShares(0.6, 0.1, 0.1, 0.1)}
    before, after = _crossed(rows(), lambda row: row.model, shares)
    assert not any(scored.is_covered for scored in before)
    assert all(scored.is_covered for scored in after)


def test_measured_row_is_the_load_of_an_engine() -> None:
    """Requests in flight are those of its rate and times."""
    row = Row(
        id="1",
        file="a.csv",
        model_name="Qwen/Qwen3-32B",
        system="h100_sxm",
        requirement=Requirement(SMALL, load=RequestLoad(1024.0, 128.0)),
        layout=Parallelism(2),
        concurrency=8.0,
        ttft_ms=154.0,
        tpot_ms=18.0,
    )
    load = load_of(row)
    assert load.requests_per_second == pytest.approx(8.0 / (0.154 + 0.018 * 128))
    assert len(load.devices) == 2
    assert load.weight_format == "bf16"
