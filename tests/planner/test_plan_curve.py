"""Curve of a plan: what other rates and latencies cost."""

import json

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.cli.main import main
from rightsizer.planner.detail_blocks import detail_blocks
from rightsizer.planner.planner import GpuPlan, Planner
from rightsizer.planner.served.engine import requirement_of
from rightsizer.report.block_text import text_of

PLANNER = Planner(built_in(), built_in_prices())
ASKED = {"model": "llama-3.1-8b", "in": 1000, "out": 300, "gpus": ["H100", "L40S"]}


def planned(**asked: object) -> GpuPlan:
    """A plan with its curve."""
    return PLANNER.with_curve(PLANNER.plan(requirement_of({**ASKED, **asked})))


@pytest.mark.parametrize(
    "asked", [{"rps": 20}, {"rps": 20, "tpot": "30ms", "ttft": "p95=1s"}, {"concurrency": 100}]
)
def test_no_point_is_better_for_less(asked: dict[str, object]) -> None:
    """Whoever pays more gets a greater rate, or shorter latencies."""
    plan = planned(**asked)
    assert len(plan.curve) > 1
    dollars = [point.dollars_per_hour for point in plan.curve]
    assert dollars == sorted(dollars)
    for point in plan.curve:
        assert point.candidate.fits
        assert point.candidate.is_sure
        others = [other for other in plan.curve if other is not point]
        assert not any(other.is_better(point) for other in others)


def test_first_candidate_is_on_its_curve_or_its_price_buys_more() -> None:
    """It may hold twice the rate as it is."""
    plan = planned(rps=20, tpot="30ms")
    best = plan.best
    assert best is not None
    first = plan.curve[0]
    assert first.dollars_per_hour <= (best.dollars_per_hour or 0.0)
    assert any(
        point.candidate == best or point.dollars_per_hour == best.dollars_per_hour
        for point in plan.curve
    )


@pytest.mark.parametrize("limits", [{}, {"tpot": 30.0}, {"ttft": 800.0, "tpot": 30.0}])
def test_each_point_is_the_answer_of_a_plan(limits: dict[str, float]) -> None:
    """Without a latency that is asked for, only rates vary, and nothing limits them."""
    plan = planned(rps=10, **{name: f"{limit}ms" for name, limit in limits.items()})
    for point in plan.curve:
        scaled = {name: f"{point.latency_ratio * limit}ms" for name, limit in limits.items()}
        question = {**ASKED, "rps": 10 * point.rate_ratio, **scaled}
        best = PLANNER.plan(requirement_of(question)).best
        assert best is not None
        assert point.candidate.with_spares == best.with_spares
        assert point.dollars_per_hour == best.dollars_per_hour
        assert point.limits.keys() == {f"{name}_ms" for name in limits}
    ratios = {(point.rate_ratio, point.latency_ratio) for point in plan.curve}
    assert any(latency != 1.0 for _, latency in ratios) == bool(limits)


def test_training_has_no_curve() -> None:
    """Its time is its price."""
    asked = {"model": "llama-3.1-8b", "task": "finetune-lora", "gpus": ["H100"]}
    assert PLANNER.with_curve(PLANNER.plan(requirement_of(asked))).curve == ()


def test_curve_is_drawn_and_encoded(capsys: pytest.CaptureFixture[str]) -> None:
    """In the details, on a page and in JSON, with what keeps each point."""
    text = text_of(detail_blocks(planned(rps=20, tpot="30ms")))
    assert "cost against rate and latency" in text
    model = ["plan", "--model", "llama-3.1-8b"]
    question = [*model, "--rps", "20", "--tpot", "30ms", "--gpus", "L40S"]
    main([*question, "--json"])
    (first, *_) = json.loads(capsys.readouterr().out)["curve"]
    assert first["gpu"] == "L40S"
    assert first["tpot_ms_asked"] in {15.0, 21.0, 30.0, 60.0}
    assert first["cost_per_hour"] > 0.0
    main([*question, "--format", "html"])
    assert "cost against rate and latency" in capsys.readouterr().out
