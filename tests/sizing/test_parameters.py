"""Number and place of a model's parameters."""

import pytest
from msgspec.structs import replace

from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import NumberFormat, count_parameters
from rightsizer.sizing.requirement import Parallelism
from rightsizer.sizing.serving_memory import placed_parameters, weight_bytes
from sizing_models import GIB, published

LLAMA_8B = Transformer(layers=32, hidden=4096, heads=32, vocab=128256, kv_heads=8, ffn=14336)


def test_a_shape_alone_makes_llamas_parameters() -> None:
    """No published count is needed."""
    assert count_parameters(LLAMA_8B).total == 8_030_261_248


def test_a_published_count_stands() -> None:
    """Parameters that the shape does not explain are added to the layers."""
    count = count_parameters(replace(LLAMA_8B, parameters=8.1e9))

    assert count.total == 8.1e9
    assert count.layers + count.embedding + count.head == 8.1e9


def test_tied_embeddings_are_counted_once_and_multiplied_with() -> None:
    """A separate embedding is read, not multiplied with."""
    apart = count_parameters(LLAMA_8B)
    tied = count_parameters(replace(LLAMA_8B, tied_embeddings=True))

    assert apart.total - tied.total == apart.head == 128256 * 4096
    assert apart.linear == tied.linear


def test_experts_are_all_there_and_few_are_used() -> None:
    """Shared experts, which every token uses, are added."""
    dense = replace(LLAMA_8B, ffn=2048)
    mixed = replace(dense, experts=16, experts_per_token=2, shared_experts=1)
    expert = 3 * 4096 * 2048
    router = 4096 * 16

    total = count_parameters(mixed).total - count_parameters(dense).total
    idle = count_parameters(mixed).total - count_parameters(mixed).active

    assert total == 32 * (16 * expert + router)
    assert idle == 32 * 14 * expert


def test_a_convolutional_network_has_what_is_given() -> None:
    """Nothing is derived."""
    assert count_parameters(ConvolutionalNetwork(2.5e7, 8.2e9)).total == 2.5e7


def test_a_vision_transformer_has_its_published_count() -> None:
    """The example is ViT-L/16."""
    large = VisionTransformer(layers=24, hidden=1024, heads=16)

    assert count_parameters(large).total == 304_326_632


def test_a_pipeline_of_images_has_three_models() -> None:
    """They are denoiser, text encoder and decoder."""
    assert count_parameters(Diffusion(2.6e9, text_encoder_parameters=8e8)).total == 3.484e9


def test_a_recommender_is_its_tables() -> None:
    """One sample reads few rows of them."""
    count = count_parameters(RecommenderModel(2e8, 128, 2.5e6, lookups=26))

    assert (count.total, count.active) == (2e8 * 128 + 2.5e6, 26 * 128 + 2.5e6)


@pytest.mark.parametrize(
    ("name", "number_format", "gib"),
    [
        ("Llama-3.1-70B", NumberFormat.BF16, 131.4165),
        ("Llama-3.1-70B", NumberFormat.FP8, 67.67),
        ("Llama-2-13B", NumberFormat.BF16, 24.2439),
        ("Llama-2-7B", NumberFormat.NF4_DOUBLE_QUANTIZED, 3.60),
    ],
)
def test_weights_take_what_is_published(name: str, number_format: NumberFormat, gib: float) -> None:
    """Quantized ones keep embedding and head in 16 bits."""
    model = published(name)
    found = weight_bytes(model, count_parameters(model), number_format)

    assert found / GIB == pytest.approx(gib, rel=1e-3)


def test_tensor_parallelism_divides_weights() -> None:
    """All weights are divided."""
    model = published("Llama-3.1-70B")
    found = placed_parameters(model, count_parameters(model), Parallelism(tensor=8))

    assert found == model.parameters / 8 if model.parameters else None


def test_the_fullest_stage_of_a_pipeline_has_one_end() -> None:
    """It has embedding or head, and its layers rounded up."""
    model = published("Llama-3.1-8B")
    count = count_parameters(model)
    found = placed_parameters(model, count, Parallelism(pipeline=3))

    assert found == count.embedding + count.layers * 11 / 32
