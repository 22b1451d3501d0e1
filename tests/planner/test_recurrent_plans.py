"""`rightsizer plan` over models with recurrent layers, from a file to an answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from plan_answers import answer, refusal
from published_recurrent import PUBLISHED_RECURRENT

NAMES = sorted(PUBLISHED_RECURRENT)
H100_BYTES_PER_SECOND = 3.35e12


def _plan(name: str, folder: Path, **asked: Any) -> str:
    config = {"torch_dtype": "bfloat16", **PUBLISHED_RECURRENT[name].config}
    (folder / "config.json").write_text(json.dumps(config))
    return json.dumps({"model": {"config": "."}, "gpus": ["H100-SXM5-80GB"], **asked})


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_planned_to_be_served(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Memory has weights and caches, and a token takes at least the time of reading its part."""
    known = PUBLISHED_RECURRENT[name]
    load = {"input_tokens": 1904, "output_tokens": 144, "concurrency": 1}
    found = answer(tmp_path / "plan.yaml", _plan(name, tmp_path, load=load), capsys)

    best = found["candidates"][0]
    gpus = best["count"]
    memory = found["memory"]
    tensor = best["layout"]["tensor"]
    weights = memory["weights_bytes"] * gpus
    assert best["fits"]
    assert weights == pytest.approx(2 * known.parameters, rel=0.02)
    assert memory["kv_cache_bytes"] >= known.state_bytes / tensor
    assert memory["kv_cache_bytes"] <= known.state_bytes + known.token_bytes * 2048
    least_ms = 2 * known.active / (gpus * H100_BYTES_PER_SECOND) * 1e3
    assert 0.8 * least_ms < best["tpot_ms"] < 10 * least_ms + 20
    assert 0 < best["tokens_per_second"] <= 1e3 / (0.8 * least_ms)


@pytest.mark.parametrize("task", ["training", "finetune-qlora"])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_planned_to_be_trained(
    name: str, task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no faster than all units allow, and activations are at most those of all layers."""
    known = PUBLISHED_RECURRENT[name]
    has_feed_forward = "mamba" not in known.config["model_type"]
    targets = ["up", "down"] if has_feed_forward else ["head"]
    asked = {"task": task, "training": {"zero_stage": 3}, "lora": {"targets": targets}}
    found = answer(tmp_path / "plan.yaml", _plan(name, tmp_path, **asked), capsys)

    best = found["candidates"][0]
    flops = (6 if task == "training" else 4) * 0.9 * known.active * best["tokens_per_second"]
    assert 0 < flops < best["count"] * 990e12
    elements = known.config["num_hidden_layers"] * known.config["hidden_size"] * 2048
    # A pipeline's fullest stage keeps as many micro batches as there are stages.
    kept = found["memory"]["activations_bytes"] * best["layout"]["tensor"]
    assert 10 * elements < kept < 150 * elements


def test_recomputing_keeps_the_inputs_of_layers_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with all models, less recomputation keeps more."""
    kept = []
    for recompute in ("full", "selective", "none"):
        training = {"recompute": recompute, "fused_loss": True}
        asked = _plan("mamba-2.8b", tmp_path, task="training", training=training, parallel={})
        memory = answer(tmp_path / "plan.yaml", asked, capsys)["memory"]
        kept.append(memory["activations_bytes"])

    assert kept == sorted(kept)
    assert kept[2] > 3 * kept[0]


@pytest.mark.parametrize(
    ("name", "targets", "message"),
    [
        ("mamba-2.8b", ["q", "up"], "q, up is in no layer of this model; take some of head"),
        ("Codestral-Mamba-7B", ["o"], "o is in no layer of this model; take some of head"),
    ],
)
def test_state_space_layer_has_no_adapter_targets_of_attention(
    name: str, targets: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A state space has no queries; its own matrices are not among the targets."""
    asked = _plan(name, tmp_path, task="finetune-lora", lora={"targets": targets})

    assert message in refusal(tmp_path / "plan.yaml", asked, capsys)


def test_adapters_are_beside_the_layers_that_have_the_matrix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """4 layers of Nemotron-H have queries, and 24 an up projection."""
    found = []
    for target in ("q", "up"):
        more = {"lora": {"rank": 16, "targets": [target]}, "parallel": {}}
        asked = _plan("Nemotron-H-8B", tmp_path, task="finetune-lora", **more)
        found.append(answer(tmp_path / "plan.yaml", asked, capsys)["memory"]["gradients_bytes"])

    assert found == [16 * 4 * (4096 + 4096) * 2, 16 * 24 * (4096 + 21504) * 2]
