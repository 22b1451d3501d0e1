"""Search of layouts whose replicas share experts: when they are tried, and their cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from plan_answers import answer
from rightsizer.catalogue.catalogue import built_in
from rightsizer.planner.models.known_models import find_model
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.planner.rates import predict_rate
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.serving_settings import ServingModelSettings
from rightsizer.sizing.settings import MemorySettings, SizingSettings

Captured = pytest.CaptureFixture[str]
LOAD = {"input_tokens": 2000, "output_tokens": 500, "requests_per_second": 20}


def requirement_of(model: str) -> Requirement:
    """A served model, by its name."""
    (item,) = plan_of_flags({"model": model, "in": "2000", "out": "500"}).items
    assert item.requirement is not None
    return item.requirement


def first(path: Path, capsys: Captured, **more: Any) -> dict[str, Any]:
    """The first in rank."""
    found: dict[str, Any] = answer(path, json.dumps({"load": LOAD, **more}), capsys)
    best: dict[str, Any] = found["candidates"][0]
    return best


def test_a_mixture_may_share_its_experts(tmp_path: Path, capsys: Captured) -> None:
    """They take fewer GPUs than tensor parallel replicas, each of which has a full copy."""
    file = tmp_path / "plan.yaml"
    shared = first(file, capsys, model="deepseek-v3", gpus=["H200-SXM-141GB"])
    parallel = {"tensor": 8, "data": shared["count"] // 8}
    apart = first(file, capsys, model="deepseek-v3", gpus=["H200-SXM-141GB"], parallel=parallel)

    assert shared["fits"]
    assert shared["layout"]["expert"] > 1
    assert shared["count"] == apart["count"]
    assert shared["tokens_per_second"] > apart["tokens_per_second"]


def test_experts_are_shared_over_servers_where_one_does_not_hold_them(
    tmp_path: Path, capsys: Captured
) -> None:
    """One copy of all experts is on two servers of eight."""
    best = first(tmp_path / "plan.yaml", capsys, model="deepseek-v3", gpus=["H100-SXM5-80GB"])

    assert best["fits"]
    assert best["layout"]["expert"] >= 16
    assert best["count"] % best["layout"]["expert"] == 0


def test_experts_are_not_shared_over_pcie(tmp_path: Path, capsys: Captured) -> None:
    """Without links between GPUs of a server no such deployment was measured."""
    file = tmp_path / "plan.yaml"
    found = answer(
        file,
        json.dumps({"load": LOAD, "model": "openai/gpt-oss-120b", "gpus": ["A10G", "L40S"]}),
        capsys,
    )

    assert all(each["layout"]["expert"] == 1 for each in found["candidates"])


def test_a_dense_model_has_nothing_to_share(tmp_path: Path, capsys: Captured) -> None:
    """Neither has a model that adapters train."""
    file = tmp_path / "plan.yaml"
    dense = first(file, capsys, model="llama-3.1-8b", gpus=["H100-SXM5-80GB"])
    trained = answer(file, "model: mixtral-8x7b\ntrain: lora\ngpus: [H100-SXM5-80GB]\n", capsys)

    assert dense["layout"]["expert"] == 1
    assert all(each["layout"]["expert"] == 1 for each in trained["candidates"])


def test_a_latent_cache_is_there_once() -> None:
    """Tensor parallel ranks have a copy each; ranks with their own attention have own requests."""
    assert find_model("deepseek-v3") is not None
    requirement = requirement_of("deepseek-v3")
    room = 120e9
    most = {
        layout: ServingMemory(requirement, layout, MemorySettings()).largest_concurrency(room)
        for layout in (Parallelism(tensor=8), Parallelism(data=8, expert=8))
    }
    assert most[Parallelism(data=8, expert=8)] > 3 * most[Parallelism(tensor=8)]


def test_the_network_is_paid_beyond_a_server() -> None:
    """A slower network makes each step longer; within a server it does not matter."""
    requirement = requirement_of("deepseek-v3")
    board = built_in().boards["H200-SXM-141GB"]

    def between_ms(layout: Parallelism, network: float) -> float:
        serving = ServingModelSettings(network_bytes_per_second=network)
        settings = SizingSettings(serving=serving)
        rate = predict_rate(
            requirement, board, layout, 64.0 * layout.data, 120e9, settings=settings
        )
        assert rate.tpot_ms is not None
        return rate.tpot_ms.value

    inside = Parallelism(data=8, expert=8)
    outside = Parallelism(data=32, expert=32)
    assert between_ms(inside, 50e9) == between_ms(inside, 5e9)
    assert between_ms(outside, 50e9) < between_ms(outside, 5e9)
