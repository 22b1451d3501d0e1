"""Impossible models and layouts."""

import pytest

from rightsizer.model.errors import RequirementError
from rightsizer.planner.requirement_checks import check_model, layout_fault
from rightsizer.planner.transformer_shape import TransformerDescription, completed_shape
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    Model,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.requirement import Parallelism
from sizing_models import published


@pytest.mark.parametrize(
    "model",
    [
        published("DeepSeek-V3"),
        VisionTransformer(12, 768, 12),
        ConvolutionalNetwork(2.5e7, 8.2e9),
        Diffusion(2.6e9),
        RecommenderModel(2e8, 128, 2.5e6),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_that_can_be_is_accepted(model: Model) -> None:
    """This holds for every kind."""
    check_model(model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Transformer(2, 64, 4, 100, windowed_layers=1), "no sliding_window is given"),
        (Transformer(2, 64, 4, 100, dense_layers=3), r"model\.dense_layers: 3 of 2 layers"),
        (Transformer(2, 64, 4, 100, shared_experts=-1), "is negative"),
        (VisionTransformer(12, 768, 7), r"model\.heads: a hidden width of 768"),
        (VisionTransformer(12, 768, 12, image=8), r"model\.patch: 16 pixels of an image of 8"),
        (ConvolutionalNetwork(0, 8.2e9), r"model\.parameters: 0 is not above 0"),
        (Diffusion(2.6e9, steps=0), r"model\.steps: 0 is not above 0"),
        (Diffusion(2.6e9, text_encoder_parameters=-1), r"text_encoder_parameters: -1 is negative"),
        (RecommenderModel(0, 128, 2.5e6), r"model\.embedding_rows: 0 is not above 0"),
    ],
)
def test_impossible_value_is_refused_by_its_key(model: Model, message: str) -> None:
    """The error names the key."""
    with pytest.raises(RequirementError, match=message):
        check_model(model)


@pytest.mark.parametrize(
    ("model", "layout", "message"),
    [
        (published("Llama-3.1-8B"), Parallelism(4, 2, 2), None),
        (published("Llama-3.1-8B"), Parallelism(3), "32 heads do not divide by 3"),
        (Transformer(40, 5120, 40, 100352, kv_heads=10), Parallelism(4), "10 kv_heads do not"),
        (Transformer(40, 5120, 40, 100352, kv_heads=10), Parallelism(5), None),
        (completed_shape(TransformerDescription(parameters=13e9)), Parallelism(5), None),
        (published("falcon-7b"), Parallelism(1), None),
        (Transformer(32, 4096, 32, 32000, kv_heads=1), Parallelism(8), None),
        (Transformer(2, 1280, 10, 100, kv_heads=4, kv_lora_rank=64), Parallelism(5), None),
        (published("Llama-3.1-8B"), Parallelism(1, 33), "33 stages for 32 layers"),
        (published("Llama-3.1-8B"), Parallelism(0), "at least 1"),
        (Diffusion(2.6e9), Parallelism(2), None),
    ],
)
def test_a_layout_has_to_divide_the_model(
    model: Model, layout: Parallelism, message: str | None
) -> None:
    """Tensor parallelism divides heads, stages divide layers."""
    fault = layout_fault(model, layout)

    assert fault is None if message is None else message in str(fault)
