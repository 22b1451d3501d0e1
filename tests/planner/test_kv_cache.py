"""Memory of the attention cache."""

import pytest
from msgspec.structs import replace

from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.hugging_face import read_config
from rightsizer.planner.models.known_models import find_model
from rightsizer.sizing.models import ConvolutionalNetwork, Model, Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Parallelism, Precisions
from rightsizer.sizing.serving_memory import kv_cache, kv_cache_format
from sizing_models import published

BF16 = Precisions()
SINGLE = Parallelism()


def token_bytes_of(model: Model, precision: Precisions, layout: Parallelism = SINGLE) -> float:
    """Bytes of a token before any window is full."""
    cache = kv_cache(model, kv_cache_format(precision), layout)
    return cache.bytes_per_token + cache.windowed_bytes_per_token


@pytest.mark.parametrize(
    ("name", "token_bytes"),
    [
        ("Llama-2-7B", 524_288),
        ("Llama-3.1-8B", 131_072),
        ("Mistral-7B", 131_072),
        ("Llama-3.1-70B", 327_680),
        ("Qwen2.5-7B", 57_344),
        ("falcon-7b", 8_192),
        ("DeepSeek-V3", 70_272),
        ("bert-base-uncased", 0),
    ],
)
def test_a_token_takes_what_is_published(name: str, token_bytes: int) -> None:
    """Covers as many key heads as query heads, fewer, one, compressed, and none."""
    assert token_bytes_of(published(name), BF16) == token_bytes


def test_blocks_of_a_search_cache_where_they_attend() -> None:
    """49 of 80 layers of Llama Nemotron Super, 8 heads of 128 each; a block may do nothing."""
    known = find_model("Llama-3_3-Nemotron-Super-49B")
    assert known is not None
    config = {**known.config}
    blocks = config["block_configs"]
    assert token_bytes_of(read_config(config).model, BF16) == 49 * 2 * 8 * 128 * 2

    config["block_configs"] = [*blocks[:-1], {"attention": {"no_op": True}, "ffn": {"no_op": True}}]
    shorter = read_config(config).model
    assert isinstance(shorter, Transformer)
    assert (shorter.layers, shorter.cached_layers) == (79, 48)
    with pytest.raises(RequirementError, match="block_configs: 79 of 80 layers"):
        read_config({**config, "block_configs": blocks[:-1]})


@pytest.mark.parametrize(("tensor", "part"), [(1, 1), (2, 2), (8, 8), (16, 8)])
def test_tensor_parallelism_divides_down_to_one_head(tensor: int, part: int) -> None:
    """Llama 3 has 8 key heads; on more GPUs each keeps one."""
    found = token_bytes_of(published("Llama-3.1-70B"), BF16, Parallelism(tensor))

    assert found == 327_680 / part


def test_latent_attention_cache_is_not_divided() -> None:
    """It has no heads."""
    found = token_bytes_of(published("DeepSeek-V3"), BF16, Parallelism(tensor=8))

    assert found == 70_272


def test_a_pipeline_divides_layers_rounded_up() -> None:
    """61 layers on 4 GPUs are 16 on the fullest."""
    found = token_bytes_of(published("DeepSeek-V3"), BF16, Parallelism(pipeline=4))

    assert found == 70_272 / 61 * 16


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2), (1024, 64)])
def test_a_request_takes_whole_blocks(tokens: int, blocks: int) -> None:
    """A block has 16 tokens."""
    cache = kv_cache(published("Llama-3.1-8B"), NumberFormat.BF16)

    assert cache.request_bytes(tokens) == blocks * 16 * 131_072


def test_a_window_caps_the_layers_that_have_it() -> None:
    """Half of Gemma 2's layers attend to 4096 tokens."""
    cache = kv_cache(published("gemma-2-9b"), NumberFormat.BF16)
    token = 42 * 2 * 8 * 256 * 2

    assert cache.request_bytes(4096) == token * 4096
    assert cache.request_bytes(32768) == token / 2 * (4096 + 32768)


def test_a_window_of_all_layers_bounds_a_request() -> None:
    """Mistral's first release had one."""
    model = replace(published("Mistral-7B"), sliding_window=4096)
    cache = kv_cache(model, NumberFormat.BF16)

    assert cache.request_bytes(100_000) == 4096 * 131_072


def test_compressed_attention_keeps_one_entry_of_many_tokens() -> None:
    """DeepSeek-V4-Flash: 21 layers of 4 tokens each, with 8-bit keys of an indexer, 20 of 128."""
    known = find_model("deepseek-v4-flash")
    assert known is not None
    cache = kv_cache(read_config(known.config).model, NumberFormat.BF16)

    assert cache.bytes_per_token == 2 * (21 * (512 + 64) / 4 + 20 * 512 / 128)
    assert (cache.windowed_bytes_per_token, cache.window_tokens) == (2 * 43 * 512, 128)


def test_wide_and_narrow_heads_are_divided_alike() -> None:
    """Gemma 4 has 8 KV heads in layers with a window, and 2 of twice the width in the others."""
    known = find_model("gemma-4-26b-a4b")
    assert known is not None
    model = read_config(known.config).model
    whole = kv_cache(model, NumberFormat.BF16)
    half = kv_cache(model, NumberFormat.BF16, Parallelism(tensor=2))

    assert whole.bytes_per_token == 2 * 5 * 2 * 2 * 512
    assert whole.windowed_bytes_per_token == 2 * 25 * 2 * 8 * 256
    assert half.bytes_per_token == whole.bytes_per_token / 2


def test_other_kinds_of_models_keep_nothing() -> None:
    """Convolutions keep no past."""
    assert kv_cache(ConvolutionalNetwork(2.5e7, 8.2e9), NumberFormat.FP16).request_bytes(9) == 0


@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        (Precisions(), NumberFormat.BF16),
        (Precisions(NumberFormat.FP8), NumberFormat.BF16),
        (Precisions(NumberFormat.NVFP4), NumberFormat.BF16),
        (Precisions(NumberFormat.INT4), NumberFormat.BF16),
        (Precisions(NumberFormat.FP32), NumberFormat.FP32),
        (Precisions(NumberFormat.FP8, NumberFormat.BF16), NumberFormat.BF16),
    ],
)
def test_the_cache_is_of_sixteen_bits(precision: Precisions, expected: NumberFormat) -> None:
    """Another format can be given."""
    assert kv_cache_format(precision) is expected


def test_eight_bits_take_half() -> None:
    """The reference is 16 bits."""
    model = published("Llama-3.1-8B")

    assert token_bytes_of(model, Precisions(kv_cache=NumberFormat.FP8)) == 131_072 / 2
