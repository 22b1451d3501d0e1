"""Mixtures of experts in training: what spreading their experts over replicas saves and costs."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from plan_answers import answer
from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.main import main
from rightsizer.planner.benchmark_check import layout_of_count
from rightsizer.planner.candidate import PlanCandidate, PredictedRate
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.planner.search import Search
from rightsizer.sizing.memory import training_memory
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement, Training
from rightsizer.sizing.settings import MemorySettings, SizingSettings
from rightsizer.sizing.training import training_rate

Captured = pytest.CaptureFixture[str]


def trained(model: str = "qwen3-30b-a3b", zero_stage: int = 0) -> Requirement:
    """Full training of a known mixture."""
    (item,) = plan_of_flags({"model": model, "train": "full"}).items
    assert item.requirement is not None
    training = Training(sequence=4096, global_batch=512, zero_stage=zero_stage)
    return replace(item.requirement, training=training)


def state_bytes(requirement: Requirement, layout: Parallelism) -> float:
    """Weights, gradients and optimizer on a GPU."""
    found = training_memory(requirement, layout, MemorySettings())
    return found.weights_bytes + found.gradients_bytes + found.optimizer_bytes


def speed(requirement: Requirement, layout: Parallelism, board: str = "H100-SXM5-80GB") -> float:
    """Tokens per second of all GPUs."""
    return training_rate(requirement, built_in().boards[board], layout).units_per_second.value


def test_replicas_share_the_experts() -> None:
    """Of 30.5 billion parameters 28.99 are in experts; eight replicas hold an eighth of them each.

    Source of the count: config.json of Qwen3-30B-A3B, 48 layers of 128 experts.
    """
    requirement = trained()
    alone = Parallelism(data=8)
    spread = Parallelism(data=8, expert=8)
    saved = state_bytes(requirement, alone) - state_bytes(requirement, spread)
    in_experts = 48 * 128 * 3 * 2048 * 768

    assert saved == pytest.approx(16.0 * in_experts * 7 / 8, rel=0.03)


@given(data=st.sampled_from([2, 4, 8, 16]), stage=st.integers(0, 3), tensor=st.sampled_from([1, 2]))
def test_spreading_never_takes_more_memory(data: int, stage: int, tensor: int) -> None:
    """Full sharding already divides all alike, up to what is gathered at a time."""
    requirement = trained(zero_stage=stage)
    sizes = [
        state_bytes(requirement, Parallelism(tensor, 1, data, expert))
        for expert in (1, 2, 4, 8, 16)
        if expert <= data
    ]

    assert sizes == sorted(sizes, reverse=True)
    if stage == 3:
        assert sizes == pytest.approx([sizes[0]] * len(sizes))


def test_full_sharding_gathers_less_of_experts_that_are_spread() -> None:
    """Otherwise every GPU receives all experts of a layer for each micro batch."""
    requirement = trained("deepseek-v3", zero_stage=3)
    alone = Parallelism(1, 4, 64)
    spread = Parallelism(1, 4, 64, 64)

    assert speed(requirement, spread) > 2.0 * speed(requirement, alone)


def test_tokens_cross_the_network_only_between_servers() -> None:
    """Eight GPUs are one server, 64 are eight servers of H100 and one rack of GB200."""
    requirement = trained()
    one = Parallelism(data=64, expert=8)
    several = Parallelism(data=64, expert=64)

    assert speed(requirement, several) < 0.8 * speed(requirement, one)
    assert speed(requirement, several, "GB200") > 0.9 * speed(requirement, one, "GB200")


def test_experts_with_a_narrower_input_exchange_less() -> None:
    """Nemotron 3 Super projects tokens to a quarter of their width first."""
    requirement = trained("nemotron-3-super")
    model = requirement.model
    layout = Parallelism(data=64, expert=64)
    assert isinstance(model, Transformer)
    assert model.expert_input == 1024
    as_wide = replace(requirement, model=replace(model, expert_input=None))

    assert speed(requirement, layout) > 1.3 * speed(as_wide, layout)


def test_dense_models_are_not_changed_by_the_layout_of_experts() -> None:
    """There are none to spread."""
    requirement = trained("llama-3.1-8b", zero_stage=1)
    alone = Parallelism(data=8)
    spread = Parallelism(data=8, expert=8)

    assert speed(requirement, spread) == speed(requirement, alone)
    assert state_bytes(requirement, spread) == state_bytes(requirement, alone)


@pytest.mark.parametrize(
    ("more", "is_spread"),
    [
        ({"train": "full"}, True),
        ({"train": "full", "framework": "megatron"}, True),
        ({"train": "full", "framework": "trl"}, False),
        ({"train": "lora"}, False),
    ],
)
def test_experts_are_spread_where_the_framework_can(
    tmp_path: Path, capsys: Captured, more: dict[str, str], *, is_spread: bool
) -> None:
    """Adapters, and frameworks without expert parallelism, keep them whole."""
    asked = {"model": "qwen3-30b-a3b", "gpus": ["H100-SXM5-80GB"], **more}
    found = answer(tmp_path / "plan.yaml", json.dumps(asked), capsys)

    assert (found["candidates"][0]["layout"]["expert"] > 1) is is_spread


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (
            {"train": "full", "framework": "fsdp"},
            "fsdp does not spread experts; maxtext and megatron",
        ),
        ({"train": "lora"}, "adapters are trained beside whole experts"),
        ({"train": "full", "model": "llama-3.1-8b"}, "has no experts"),
    ],
)
def test_a_layout_that_cannot_run_is_refused(
    tmp_path: Path, capsys: Captured, more: dict[str, str], fault: str
) -> None:
    """With the reason; one that was planned can be stated as it ran."""
    file = tmp_path / "plan.yaml"
    stated = {"model": "qwen3-30b-a3b", "gpus": ["H100-SXM5-80GB"], "layout": "dp8 ep8"}
    file.write_text(json.dumps({**stated, **more}))
    assert main(["plan", str(file)]) == 1
    assert fault in capsys.readouterr().err
    found = answer(file, json.dumps({**stated, "train": "full"}), capsys)
    assert found["candidates"][0]["layout"]["expert"] == 8
    assert any(each.startswith("framework is not given") for each in found["notes"])


@pytest.mark.parametrize("node_gpus", [2, 4, 8])
def test_experts_are_spread_within_a_node_of_the_setting(node_gpus: int) -> None:
    """Compared with experts over all 64 GPUs, and whole ones on each."""
    training = replace(SizingSettings().training, node_gpus=node_gpus)
    search = Search(
        trained(zero_stage=3), replace(SizingSettings(), training=training), lambda _: None
    )
    found = search.all(built_in().boards["L40S"])

    assert {each.layout.expert for each in found} == {1, node_gpus, 64}


def test_fewer_gpus_than_planned_share_fewer_experts() -> None:
    """A log of 16 GPUs of a plan for 64."""
    requirement = trained("deepseek-v3")
    planned = PlanCandidate(
        "H100-SXM5-80GB",
        Parallelism(1, 1, 64, 64),
        training_memory(requirement, Parallelism(1, 1, 64, 64), MemorySettings()),
        80e9,
        PredictedRate(),
    )

    assert layout_of_count(planned, 16, "run.log") == Parallelism(1, 1, 16, 16)
    assert layout_of_count(planned, 96, "run.log") == Parallelism(1, 1, 96, 32)


def test_a_published_run_of_671_billion_parameters() -> None:
    """DeepSeek-V3: 14.8 trillion tokens in 2.664 million hours of H800, with experts over 64 GPUs.

    Source: arXiv:2412.19437, table 1 and section 3.2.
    """
    requirement = trained("deepseek-v3", zero_stage=1)
    training = replace(requirement.training, global_batch=15360)
    layout = Parallelism(1, 16, 128, 64)
    rate = training_rate(
        replace(requirement, training=training), built_in().boards["H800-SXM5-80GB"], layout
    ).units_per_second

    assert rate.low <= 14.8e12 / (2.664e6 * 3600.0) * 2048 <= rate.high
