"""Newer families of Hugging Face models: mixtures, windows, encoder-decoders."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from plan_answers import answer
from published_families import MORE_PUBLISHED
from published_models import PUBLISHED
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.hugging_face import read_config
from rightsizer.sizing.forward_pass import Attention
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat, count_parameters
from rightsizer.sizing.requirement import Parallelism, Precisions
from rightsizer.sizing.serving_memory import kv_cache, weight_bytes
from rightsizer.sizing.serving_settings import ServingModelSettings

GPT_OSS = {
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"],
    }
}


def test_a_family_has_its_published_parameters() -> None:
    """Within half a percent where cards round, exact elsewhere."""
    for name in MORE_PUBLISHED:
        known = MORE_PUBLISHED[name]
        count = count_parameters(read_config(known.config).model)

        assert count.total - count.unread == pytest.approx(known.parameters, rel=5e-3), name


def test_a_token_takes_what_its_layers_keep() -> None:
    """Latent, grouped, windowed and no caches are compared with keys and values by hand."""
    for name in MORE_PUBLISHED:
        known = MORE_PUBLISHED[name]
        cache = kv_cache(read_config(known.config).model, NumberFormat.BF16)

        assert cache.bytes_per_token == known.cached_bytes, name
        assert cache.windowed_bytes_per_token == known.windowed_bytes, name


@pytest.mark.parametrize(
    ("name", "active"),
    [
        ("Llama-4-Scout", 17.2e9),
        ("Llama-4-Maverick", 17.2e9),
        ("Kimi-K2", 32.6e9),
        ("Phi-3.5-MoE", 6.6e9),
        ("dbrx", 36.5e9),
        ("OLMoE-1B-7B", 1.28e9),
        ("granite-3.0-3b-a800m", 0.88e9),
        ("deepseek-moe-16b", 2.83e9),
        ("Qwen3-Next-80B-A3B", 3.88e9),
        ("DeepSeek-V3.2", 37.6e9 + 61 * 13_959_424),
        ("dots.llm1", 14e9),
        ("Hunyuan-A13B", 13e9),
        ("Ling-lite", 2.75e9),
        ("Ling-mini-2.0", 1.43e9),
        ("ERNIE-4.5-300B", 47e9),
    ],
)
def test_a_token_passes_the_published_part(name: str, active: float) -> None:
    """It includes dense layers between mixed ones, and shared experts."""
    model = read_config(MORE_PUBLISHED[name].config).model

    assert count_parameters(model).active == pytest.approx(active, rel=0.02)


def test_recurrent_layers_keep_a_state_and_no_cache() -> None:
    """Qwen3-Next has 36 such layers of 32 heads of 128 by 128, and three convolution steps."""
    model = read_config(MORE_PUBLISHED["Qwen3-Next-80B-A3B"].config).model
    state = 36 * (32 * 128 * 128 + 3 * 8192) * 2

    cache = kv_cache(model, NumberFormat.BF16)

    assert (cache.state_bytes, cache.request_bytes(0)) == (state, state)
    assert cache.request_bytes(1600) == state + 1600 * cache.bytes_per_token
    assert kv_cache(model, NumberFormat.FP8, Parallelism(2, 2)).state_bytes == state / 4


@pytest.mark.parametrize(("kept", "ratio"), [("float32", 2), ("bfloat16", 1), (None, 1)])
def test_delta_nets_may_keep_a_state_in_32_bits(kept: str | None, ratio: int) -> None:
    """Qwen3.5's files say so; convolutions' tokens stay in 16."""
    config = {**MORE_PUBLISHED["Qwen3-Next-80B-A3B"].config, "mamba_ssm_dtype": kept}
    model = read_config(config).model
    assert isinstance(model, Transformer)

    assert model.state_elements == 36 * (ratio * 32 * 128 * 128 + 3 * 8192)


def test_a_state_is_read_for_every_token() -> None:
    """Full attention in each layer would read more for a long request, and less for a short one."""
    model = read_config(MORE_PUBLISHED["Qwen3-Next-80B-A3B"].config).model
    assert isinstance(model, Transformer)
    everywhere = replace(model, cached_layers=None, state_elements=0.0)
    board = built_in().get("H100-SXM5-80GB")
    mixed, full = (
        Attention(each, Precisions(), board, Parallelism(), ServingModelSettings())
        for each in (model, everywhere)
    )

    assert mixed.of_new_tokens(1, 100_000).bandwidth < full.of_new_tokens(1, 100_000).bandwidth
    assert mixed.of_new_tokens(1, 100).bandwidth > full.of_new_tokens(1, 100).bandwidth
    assert mixed.of_prompt(8192).compute == pytest.approx(full.of_prompt(8192).compute / 4)


@pytest.mark.parametrize(
    ("more", "dense"),
    [
        ({}, 0),
        ({"mlp_only_layers": [0, 5]}, 2),
        ({"decoder_sparse_step": 2}, 24),
        ({"first_k_dense_replace": 3}, 3),
        ({"moe_layers": [1, 3]}, 46),
    ],
)
def test_layers_without_experts_are_counted(more: dict[str, Any], dense: int) -> None:
    """Each family has its own key for them."""
    model = read_config({**PUBLISHED["Qwen3-30B-A3B"][0], **more}).model

    assert isinstance(model, Transformer)
    assert model.dense_layers == dense


def test_a_mixture_has_to_tell_how_many_experts_a_token_passes() -> None:
    """A default of one would be silently wrong."""
    config = dict(PUBLISHED["Mixtral-8x7B"][0])
    del config["num_experts_per_tok"]

    with pytest.raises(RequirementError, match="num_experts_per_tok: is missing"):
        read_config(config)


@pytest.mark.parametrize(
    ("name", "published"), [("gpt-oss-20b", 13.76e9), ("gpt-oss-120b", 65.25e9)]
)
def test_attention_that_is_left_out_of_quantized_weights_takes_16_bits(
    name: str, published: float
) -> None:
    """Sizes are those of published checkpoints."""
    read = read_config({**PUBLISHED[name][0], **GPT_OSS})
    assert read.weights is not None
    size = weight_bytes(read.model, count_parameters(read.model), read.weights)

    assert size == pytest.approx(published, rel=0.01)


def _leaves_attention_out(modules: list[str]) -> bool:
    asked = {"quant_method": "fp8", "ignored_layers": modules}
    model = read_config({**PUBLISHED["Llama-3.1-8B"][0], "quantization_config": asked}).model
    assert isinstance(model, Transformer)
    return model.attention_in_16_bits


@pytest.mark.parametrize(
    "modules",
    [["re:.*self_attn.*"], [f"model.layers.{layer}.self_attn*" for layer in range(32)]],
)
def test_attention_is_left_out_where_the_checkpoint_says_so(modules: list[str]) -> None:
    """The checkpoint lists all layers, by a pattern or one by one."""
    assert _leaves_attention_out(modules)


@pytest.mark.parametrize(
    "modules",
    [
        [],
        ["lm_head"],
        ["model.layers.3.self_attn.q_proj"],
        [f"vision_tower.encoder.layers.{layer}.self_attn.k_proj" for layer in range(27)],
        ["re:.*audio_tower.*self_attn.*"],
    ],
)
def test_attention_is_quantized_elsewhere(modules: list[str]) -> None:
    """A single excluded layer does not count, nor do vision and audio parts."""
    assert not _leaves_attention_out(modules)


@pytest.mark.parametrize("text", ["tie_word_embeddings", "quantization_config"])
def test_text_part_inherits_missing_values_from_the_whole(text: str) -> None:
    """The text part's own values take precedence."""
    value = {"tie_word_embeddings": True, "quantization_config": {"quant_method": "fp8"}}[text]
    inner = {key: each for key, each in PUBLISHED["Qwen3-8B"][0].items() if key != text}
    read = read_config({"model_type": "qwen3_vl", "text_config": inner, text: value})

    assert isinstance(read.model, Transformer)
    assert read.model.tied_embeddings or read.weights is NumberFormat.FP8


def test_a_part_that_sees_is_said_of_flat_configurations_too() -> None:
    """Qwen2-VL has the keys of its text beside those of its vision part."""
    config = MORE_PUBLISHED["Qwen2-VL-7B"].config

    assert read_config(config).notes[0].startswith("beside the text part of qwen2_vl")


def test_a_configuration_without_a_kind_is_told_as_one() -> None:
    """The error does not report it as kind ''."""
    with pytest.raises(RequirementError, match="model_type: is missing"):
        read_config({"hidden_size": 4096})


@pytest.mark.parametrize(
    ("quantized", "expected"),
    [
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}, NumberFormat.INT4),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, NumberFormat.FP8),
        ({"quant_method": "auto-round", "bits": 4}, NumberFormat.INT4),
    ],
)
def test_an_algorithm_is_read_by_its_name(
    quantized: dict[str, Any], expected: NumberFormat
) -> None:
    """Model Optimizer has many, not all of 8 bits."""
    config = {**PUBLISHED["Llama-3.1-8B"][0], "quantization_config": quantized}

    assert read_config(config).weights is expected


def test_a_mixed_algorithm_is_not_guessed() -> None:
    """It is rejected."""
    asked = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}

    with pytest.raises(RequirementError, match=r"precision\.weights"):
        read_config({**PUBLISHED["Llama-3.1-8B"][0], "quantization_config": asked})


@pytest.mark.parametrize(
    ("scaling", "longest"),
    [
        (None, 32_768),
        ({"rope_type": "llama3", "factor": 8.0}, 32_768),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}, 131_072),
        ({"type": "linear", "factor": 2}, 65_536),
    ],
)
def test_the_longest_text_is_read(scaling: dict[str, Any] | None, longest: int) -> None:
    """Its scaling of positions is the file's."""
    config = {
        **PUBLISHED["Qwen2.5-7B"][0],
        "max_position_embeddings": 32_768,
        "rope_scaling": scaling,
    }

    assert read_config(config).context_tokens == longest


def test_a_length_that_is_scaled_already_stands() -> None:
    """Gemma 3's files state it after a linear scaling, as vLLM reads it."""
    scaled = {
        "max_position_embeddings": 131_072,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    }
    config = {**PUBLISHED["gemma-3-1b"][0], **scaled}

    assert read_config(config).context_tokens == 131_072


@pytest.mark.parametrize("name", ["SmolLM3-3B", "command-r7b"])
def test_embeddings_are_tied_where_the_class_ties_them(name: str) -> None:
    """A published file omits its class's default."""
    known = MORE_PUBLISHED[name]
    config = {key: value for key, value in known.config.items() if key != "tie_word_embeddings"}

    total = count_parameters(read_config(config).model).total

    assert total == pytest.approx(known.parameters, rel=5e-3)


@pytest.mark.parametrize(
    ("pattern", "windowed"), [("LLLG", 48), (None, 48), ("LG", 32), (2, 32), ("L", 63)]
)
def test_a_pattern_of_windows_may_be_spelled(pattern: str | int | None, windowed: int) -> None:
    """EXAONE 4 does so, with full attention in its last layer."""
    config = {
        **PUBLISHED["Llama-3.1-8B"][0],
        "model_type": "exaone4",
        "num_hidden_layers": 64,
        "sliding_window": 4096,
        "sliding_window_pattern": pattern,
    }
    model = read_config(config).model

    assert isinstance(model, Transformer)
    assert model.windowed_layers == windowed


def test_requests_longer_than_the_model_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A note reports them, as positions may be scaled."""
    config = {**PUBLISHED["gpt2"][0], "n_positions": 1024}
    (tmp_path / "config.json").write_text(json.dumps(config))
    asked = {"model": {"config": "."}, "gpus": ["L4"], "load": {"input_tokens": 2000}}

    plan = answer(tmp_path / "plan.yaml", json.dumps(asked), capsys)

    (note,) = plan["notes"]
    assert note == (
        "2,256 tokens are more than the 1,024 that the model was made for; ask for fewer, or make"
        " sure that its positions are stretched"
    )


@pytest.mark.parametrize(
    ("name", "asked", "notes"),
    [
        ("bert-base-uncased", {"input_tokens": 512}, 0),
        ("bert-base-uncased", {"input_tokens": 513}, 1),
        ("bart-large", {"input_tokens": 1000, "output_tokens": 100}, 0),
    ],
)
def test_an_answer_that_is_no_part_of_the_text_is_not_counted(
    name: str, asked: dict[str, int], notes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An encoder has no answer, and a decoder beside one has positions of its own."""
    known = MORE_PUBLISHED[name].config if name in MORE_PUBLISHED else PUBLISHED[name][0]
    config = {"max_position_embeddings": 512, **known}
    (tmp_path / "config.json").write_text(json.dumps(config))
    asked_of = {"model": {"config": "."}, "gpus": ["L4"], "load": asked}

    plan = answer(tmp_path / "plan.yaml", json.dumps(asked_of), capsys)

    assert len(plan["notes"]) == notes


@pytest.mark.parametrize(("gpu", "notes"), [("A100-SXM4-80GB", 1), ("H100-SXM5-80GB", 0)])
def test_a_format_without_units_is_said(
    gpu: str, notes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """fp8 on Ampere saves memory and no compute."""
    asked = {"model": {"parameters": 8e9}, "gpus": [gpu], "precision": {"weights": "fp8"}}

    plan = answer(tmp_path / "plan.yaml", json.dumps(asked), capsys)

    assert len(plan["notes"]) == notes
    assert all(note.startswith(f"{gpu}: fp8 unpacked to bf16") for note in plan["notes"])


@pytest.mark.parametrize(("asked", "weights"), [(None, "mxfp4"), ("fp8", "fp8")])
def test_weights_in_another_format_leave_nothing_out(
    asked: str | None, weights: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Parts kept in 16 bits are known for the checkpoint's own format only."""
    config = {**PUBLISHED["gpt-oss-20b"][0], **GPT_OSS}
    (tmp_path / "config.json").write_text(json.dumps(config))
    plan = {"model": {"config": "."}, "gpus": ["H100-SXM5-80GB"], "parallel": {}}
    if asked:
        plan["precision"] = {"weights": asked}

    found = answer(tmp_path / "plan.yaml", json.dumps(plan), capsys)["memory"]["weights_bytes"]

    expected = {"mxfp4": 13.72e9, "fp8": 20_914_757_184 + 2 * 579_133_440}[weights]
    assert found == pytest.approx(expected, rel=2e-3)
