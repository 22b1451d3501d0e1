"""Reading a `config.json`."""

from typing import Any

import pytest

from published_models import PUBLISHED
from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.hugging_face import read_config
from rightsizer.planner.models.known_models import find_model
from rightsizer.sizing.models import Transformer, VisionTransformer
from rightsizer.sizing.parameters import NumberFormat, count_parameters
from sizing_models import published


def test_a_published_model_has_its_published_parameters() -> None:
    """Counts of fifty models of two dozen families agree exactly."""
    counts = {
        name: (count_parameters(read_config(config, name).model).total, parameters)
        for name, (config, parameters) in PUBLISHED.items()
    }
    assert {name: pair for name, pair in counts.items() if pair[0] != pair[1]} == {}


@pytest.mark.parametrize(
    ("name", "active", "tolerance"),
    [
        ("Mixtral-8x7B", 12.9e9, 0.01),
        ("DeepSeek-V3", 37e9, 0.02),
        ("Qwen3-30B-A3B", 3.3e9, 0.03),
        ("Qwen3-235B-A22B", 22e9, 0.02),
        ("Qwen1.5-MoE-A2.7B", 2.7e9, 0.02),
    ],
)
def test_a_mixture_of_experts_uses_its_published_part(
    name: str, active: float, tolerance: float
) -> None:
    """The part is the one in its name or paper."""
    assert count_parameters(published(name)).active == pytest.approx(active, rel=tolerance)


def test_latent_attention_and_dense_first_layers_are_read() -> None:
    """The shape is DeepSeek-V3's."""
    model = published("DeepSeek-V3")

    assert (model.kv_lora_rank, model.rope_head_dim, model.query_lora_rank) == (512, 64, 1536)
    assert (model.experts, model.shared_experts, model.dense_layers) == (256, 1, 3)
    assert (model.ffn, model.dense_ffn) == (2048, 18432)


@pytest.mark.parametrize(
    ("name", "more", "window", "windowed"),
    [
        ("gemma-2-9b", {}, 4096, 21),
        ("gemma-3-1b", {}, 512, 22),
        ("gpt-oss-20b", {}, 128, 12),
        ("Mistral-7B", {"sliding_window": 4096}, 4096, None),
        ("Mistral-7B", {"sliding_window": None}, None, None),
        ("Qwen2.5-7B", {"sliding_window": 131072, "use_sliding_window": False}, None, None),
        ("Qwen2.5-7B", {"sliding_window": 131072, "max_window_layers": 28}, None, None),
        ("Qwen2.5-7B", {"sliding_window": 131072, "max_window_layers": 21}, None, None),
        (
            "Qwen2.5-7B",
            {"sliding_window": 131072, "max_window_layers": 21, "use_sliding_window": True},
            131072,
            7,
        ),
        (
            "gpt-oss-20b",
            {"layer_types": ["sliding_attention", "full_attention"] * 10},
            128,
            10,
        ),
        ("gpt-oss-20b", {"layer_types": ["full_attention"] * 24}, None, None),
    ],
)
def test_windows_are_those_of_the_family(
    name: str, more: dict[str, Any], window: int | None, windowed: int | None
) -> None:
    """Gemma 2 windows every second layer, Gemma 3 five of six, Qwen 2 none unless configured."""
    model = read_config({**PUBLISHED[name][0], **more}).model

    assert isinstance(model, Transformer)
    assert (model.sliding_window, model.windowed_layers) == (window, windowed)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, None),
        ({"torch_dtype": "bfloat16"}, NumberFormat.BF16),
        ({"dtype": "float16"}, NumberFormat.FP16),
        ({"torch_dtype": "float32"}, NumberFormat.FP32),
        ({"quantization_config": {"quant_method": "fp8"}}, NumberFormat.FP8),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, NumberFormat.INT4),
        ({"quantization_config": {"quant_method": "gptq", "bits": 8}}, NumberFormat.INT8),
        ({"quantization_config": {"quant_method": "mxfp4"}}, NumberFormat.INT4),
        ({"quantization_config": {"quant_method": "gptq_marlin", "bits": 4}}, NumberFormat.INT4),
        ({"quantization_config": {"quant_method": "intel/auto-round"}}, NumberFormat.INT4),
        ({"quantization": {"group_size": 64, "bits": 8}}, NumberFormat.INT8),
        (
            {"quantization_config": {"quant_method": "torchao", "quant_type": "int4_weight_only"}},
            NumberFormat.INT4,
        ),
        (
            {
                "quantization_config": {
                    "quant_method": "torchao",
                    "quant_type": {"default": {"_type": "Float8DynamicActivationInt4WeightConfig"}},
                }
            },
            NumberFormat.INT4,
        ),
        (
            {"quantization_config": {"quant_method": "quanto", "weights": "float8"}},
            NumberFormat.FP8,
        ),
        (
            {
                "quantization_config": {
                    "quant_method": "hqq",
                    "quant_config": {"weight_quant_params": {"nbits": 8}},
                }
            },
            NumberFormat.INT8,
        ),
        (
            {"expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8"}},
            NumberFormat.NVFP4,
        ),
        (
            {
                "quantization_config": {
                    "quant_method": "modelopt",
                    "quantization": {"quant_algo": "FP8"},
                }
            },
            NumberFormat.FP8,
        ),
        (
            {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
            NumberFormat.NF4,
        ),
        (
            {"quantization_config": {"load_in_4bit": True, "bnb_4bit_use_double_quant": True}},
            NumberFormat.NF4_DOUBLE_QUANTIZED,
        ),
        (
            {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
            NumberFormat.INT8,
        ),
        (
            {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
            NumberFormat.NVFP4,
        ),
        (
            {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}},
                }
            },
            NumberFormat.INT8,
        ),
        (
            {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
                }
            },
            NumberFormat.FP8,
        ),
    ],
)
def test_the_format_of_the_checkpoint_is_read(
    config: dict[str, Any], expected: NumberFormat | None
) -> None:
    """It comes from the data type, or from the quantization."""
    assert read_config({**PUBLISHED["Llama-3.1-8B"][0], **config}).weights is expected


@pytest.mark.parametrize(
    ("group_size", "expected"), [(16, NumberFormat.NVFP4), (32, NumberFormat.INT4)]
)
def test_four_bits_of_llm_compressor_depend_on_their_group(
    group_size: int, expected: NumberFormat
) -> None:
    """Sixteen weights share a scale in nvfp4, 32 in mxfp4, which is as large as int4."""
    weights = {"num_bits": 4, "type": "float", "group_size": group_size}
    asked = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": weights}},
    }
    config = {**PUBLISHED["Llama-3.1-8B"][0], "quantization_config": asked}

    assert read_config(config).weights is expected


def test_an_unknown_quantization_is_an_error() -> None:
    """The error names the method and what to give instead."""
    config = {**PUBLISHED["gpt2"][0], "quantization_config": {"quant_method": "quip"}}

    with pytest.raises(RequirementError, match=r"'quip' is not known.*precision\.weights"):
        read_config(config)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("awq", "'awq' is no mapping"),
        ({"quant_method": "awq", "bits": 3}, "'awq' in 3 bits is not known"),
    ],
)
def test_a_quantization_that_says_too_little_is_an_error(given: object, message: str) -> None:
    """It is read neither as none nor as a similar one."""
    config = {**PUBLISHED["gpt2"][0], "quantization_config": given}

    with pytest.raises(
        RequirementError, match=rf"quantization_config: {message}.*precision\.weights"
    ):
        read_config(config)


def test_an_unknown_family_is_an_error() -> None:
    """The error names the family, what to give instead, and known families."""
    with pytest.raises(RequirementError, match=r"'rwkv' is not known.*parameters.*llama.*mamba"):
        read_config({"model_type": "rwkv"})


def test_a_missing_key_is_an_error() -> None:
    """The error names the key."""
    config = dict(PUBLISHED["Qwen3-8B"][0])
    del config["num_hidden_layers"]

    with pytest.raises(RequirementError, match="num_hidden_layers: is missing"):
        read_config(config)


@pytest.mark.parametrize("value", ["32", 1.5, True, -1, 0, [32]])
def test_a_value_that_is_no_count_is_an_error(value: object) -> None:
    """The error names the key."""
    config = {**PUBLISHED["Qwen3-8B"][0], "num_hidden_layers": value}

    with pytest.raises(RequirementError, match="num_hidden_layers"):
        read_config(config)


@pytest.mark.parametrize(("heads", "fault"), [(0, "0 is not above 0"), (7, "does not divide by 7")])
@pytest.mark.parametrize("kind", ["bart", "m2m_100", "marian", "mbart", "pegasus", "whisper"])
def test_heads_of_the_second_stack_are_checked(kind: str, heads: int, fault: str) -> None:
    """As those of the first: the error names the key."""
    whisper = find_model("whisper-large-v3")
    assert whisper is not None
    config = {**whisper.config, "model_type": kind, "max_position_embeddings": 1024}
    assert isinstance(read_config(config).model, Transformer)

    with pytest.raises(RequirementError, match=f"decoder_attention_heads: .*{fault}"):
        read_config({**config, "decoder_attention_heads": heads})


@pytest.mark.parametrize(
    ("kind", "key"), [("qwen3", "num_key_value_heads"), ("falcon", "num_kv_heads")]
)
def test_no_heads_of_keys_are_an_error(kind: str, key: str) -> None:
    """They are not read as the attention heads."""
    config = {**PUBLISHED["Qwen3-8B"][0], "model_type": kind, key: 0}

    with pytest.raises(RequirementError, match=f"{key}: 0 is not above 0"):
        read_config(config)


def test_of_several_parts_all_are_read_and_said() -> None:
    """LLaVA omits Llama's defaults, and its vision part those of CLIP."""
    found = read_config(
        {
            "model_type": "llava",
            "torch_dtype": "float16",
            "text_config": {"model_type": "llama", "vocab_size": 32064},
            "vision_config": {"model_type": "clip_vision_model"},
        }
    )
    count = count_parameters(found.model)

    assert count.total - count.unread == 6_738_939_904
    assert count.unread == 87_456_000 + 768 * 4096 + 4096 + 4096 * 4097
    assert found.weights is NumberFormat.FP16
    (note,) = found.notes
    assert note == (
        "beside the text part of llava vision and audio are counted, 107,387,136 parameters in"
        " memory that no output token passes; the tokens of an image or a sound are part of"
        " load.input_tokens"
    )


def test_clips_text_part_has_its_published_parameters() -> None:
    """Its configuration omits all values."""
    found = read_config({"model_type": "clip", "text_config": {"hidden_act": "quick_gelu"}})

    assert count_parameters(found.model).total == 63_165_952


def test_a_vision_transformer_is_one() -> None:
    """Its classes are those in the file."""
    config = {**PUBLISHED["vit-base-patch16-224"][0], "id2label": {"0": "cat", "1": "dog"}}
    model = read_config(config, "pets").model

    assert isinstance(model, VisionTransformer)
    assert (model.classes, model.tokens, model.name) == (2, 197, "pets")


@pytest.mark.parametrize(("name", "cached"), [("bert-base-uncased", 0), ("t5-small", 6)])
def test_encoders_cache_nothing(name: str, cached: int) -> None:
    """T5's decoder layers have a cache."""
    assert published(name).cached_layers == cached
