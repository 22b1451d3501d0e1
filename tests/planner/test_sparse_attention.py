"""Sparse attention with an indexer, and shared caches."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from published_families import MORE_PUBLISHED
from published_multimodal import MULTIMODAL
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.hugging_face import read_config
from rightsizer.sizing.forward_pass import Attention, ForwardPass
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat, count_parameters
from rightsizer.sizing.requirement import Parallelism, Precisions
from rightsizer.sizing.serving_memory import kv_cache
from rightsizer.sizing.serving_settings import ServingModelSettings

V3_2 = MORE_PUBLISHED["DeepSeek-V3.2"].config
GLM = MORE_PUBLISHED["GLM-5"].config
KEYS = 61 * 132
"""DeepSeek-V3.2 has 128 elements of 8 bits and a scale in each layer."""
LATENT = 61 * 576 * 2


def read(config: dict[str, Any]) -> Transformer:
    """The model of a configuration."""
    model = read_config(config).model
    assert isinstance(model, Transformer)
    return model


def attention(model: Transformer) -> Attention:
    """Attention on an H200."""
    board = built_in().get("H200-SXM-141GB")
    return Attention(model, Precisions(), board, Parallelism(), ServingModelSettings())


def test_an_indexer_is_read_with_its_parameters() -> None:
    """It has queries from 1536, one key of 128 with its norm, and a weight for each of 64 heads."""
    sparse = read(V3_2)
    dense = read({**V3_2, "model_type": "deepseek_v3", **_shape()})
    added = count_parameters(sparse).total - count_parameters(dense).total

    assert added == 61 * (1536 * 64 * 128 + 7168 * 128 + 2 * 128 + 7168 * 64)


def _shape() -> dict[str, int]:
    """Values of DeepSeek-V3's file and of V3.2's class."""
    return {
        "vocab_size": 129280,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "n_shared_experts": 1,
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "qk_nope_head_dim": 128,
    }


def test_a_token_keeps_a_key_to_be_picked_by() -> None:
    """It is in 8 bits for any cache, whole on each GPU, and divided by stages only."""
    model = read(V3_2)
    cache = kv_cache(model, NumberFormat.BF16, Parallelism(tensor=8))

    assert (cache.bytes_per_token, cache.index_bytes_per_token) == (LATENT, KEYS)
    assert cache.request_bytes(1600) == 1600 * (LATENT + KEYS)
    assert kv_cache(model, NumberFormat.FP32).index_bytes_per_token == KEYS
    assert kv_cache(model, NumberFormat.BF16, Parallelism(pipeline=4)).index_bytes_per_token == (
        16 * 132
    )


def test_a_new_token_reads_all_keys_and_few_of_the_others() -> None:
    """DeepSeek-V3.2 reads 2048 of them."""
    found = attention(read(V3_2))
    costs = [found.of_new_tokens(1, tokens) for tokens in (2048, 100_000)]
    # Products hide a part of the reads.
    short, long = (math.sqrt(cost.bandwidth * cost.seconds) for cost in costs)

    assert short * found.bytes_per_second == pytest.approx(2048 * (LATENT + KEYS))
    assert long * found.bytes_per_second == pytest.approx(2048 * LATENT + 100_000 * KEYS)


def test_a_long_prompt_takes_less_than_dense_attention_would() -> None:
    """A short one takes more, for the lookup in the cache."""
    model = read(V3_2)
    sparse = attention(model)
    dense = attention(replace(model, indexer=None))

    assert sparse.of_prompt(131_072).compute < dense.of_prompt(131_072).compute / 2
    assert sparse.of_prompt(1024).compute > dense.of_prompt(1024).compute
    assert sparse.of_new_tokens(1, 131_072).compute < dense.of_new_tokens(1, 131_072).compute / 4


def test_each_layer_with_an_indexer_takes_a_step_longer() -> None:
    """Its kernels start one after another; GLM-5 has 78 such layers, or 21 where others share."""
    shared = read({**GLM, "index_topk_freq": 4})
    board = built_in().get("H200-SXM-141GB")
    models = (read(GLM), shared, replace(shared, indexer=None))
    every, some, none = (
        ForwardPass(model, Precisions(), board, Parallelism(), ServingModelSettings())
        .decode(1, 2048)
        .latency
        for model in models
    )

    assert some - none == pytest.approx(21 * 85e-6)
    assert every - none == pytest.approx(78 * 85e-6)


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ({}, 78),
        ({"index_topk_freq": 4}, 21),
        ({"index_topk_pattern": "FFS" * 26}, 52),
        ({"indexer_types": ["full", "shared"] * 39}, 39),
    ],
)
def test_layers_may_look_at_what_an_earlier_one_picked(more: dict[str, Any], layers: int) -> None:
    """GLM-5 supports it; each layer without an indexer saves its key."""
    model = read({**GLM, **more})

    assert model.indexer is not None
    assert model.indexer.layers == layers
    assert kv_cache(model, NumberFormat.BF16).index_bytes_per_token == layers * 132


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({**GLM, "indexer_types": ["full"]}, "indexer_types"),
        ({**V3_2, "index_topk": 0}, "index_topk"),
        ({"model_type": "gemma3n_text", "num_kv_shared_layers": 35}, "num_kv_shared_layers"),
        ({"model_type": "gemma3n_text", "layer_types": ["full_attention"]}, "layer_types"),
        ({"model_type": "gemma3n_text", "intermediate_size": [8192] * 3}, "intermediate_size"),
        (
            {"model_type": "mllama_text_model", "num_hidden_layers": 32},
            "cross_attention_layers",
        ),
    ],
)
def test_contradicting_settings_are_refused_by_key(config: dict[str, Any], key: str) -> None:
    """The error names the key."""
    with pytest.raises(RequirementError, match=key):
        read(config)


def test_shared_caches_are_kept_once_and_read_by_all() -> None:
    """Gemma 3n: of 35 layers 4 keep everything and 16 a window; 7 and 28 read them."""
    model = read(MULTIMODAL["gemma-3n-E4B"].config)
    layer = 2 * 2 * 256 * 2
    cache = kv_cache(model, NumberFormat.BF16)
    found = attention(model)
    read_bytes = found.of_new_tokens(1, 10_000).bandwidth * found.bytes_per_second

    assert cache.bytes_per_token == pytest.approx(4 * layer)
    assert cache.windowed_bytes_per_token == 16 * layer
    assert read_bytes == pytest.approx(layer * (7 * 10_000 + 28 * 512))


def test_layers_that_look_at_an_image_keep_nothing_of_the_text() -> None:
    """8 of 40 layers of Llama 3.2 Vision; a text token is cached as in Llama 3.1 8B."""
    model = read(MULTIMODAL["Llama-3.2-11B-Vision"].config)

    assert (model.layers, model.cached_layers) == (40, 32)
    assert kv_cache(model, NumberFormat.BF16).bytes_per_token == 131_072


def test_layers_may_be_of_several_widths() -> None:
    """A slice of Gemma 3n has a width for each; together they give its parameters."""
    mixed = {"model_type": "gemma3n_text", "intermediate_size": [8192] * 10 + [16384] * 25}
    alike = {"model_type": "gemma3n_text", "intermediate_size": 16384}
    saved = 10 * 3 * 2048 * 8192
    less = count_parameters(read(alike)).total - count_parameters(read(mixed)).total

    assert less == pytest.approx(saved, rel=1e-3)


def test_experts_that_do_nothing_are_chosen_too() -> None:
    """A third in LongCat-Flash: of 12 experts 8 compute, on average 27 billion parameters."""
    model = read(MORE_PUBLISHED["LongCat-Flash"].config)

    assert (model.layers, model.dense_layers, model.experts_per_token) == (56, 28, 8)
    assert count_parameters(model).active == pytest.approx(27e9, rel=0.05)
