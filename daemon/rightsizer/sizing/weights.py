"""What weights take on one GPU of a layout."""

import math
from typing import Final

from rightsizer.sizing.models import Diffusion, Model, Recommender, Transformer, VisionTransformer
from rightsizer.sizing.number_format import NumberFormat
from rightsizer.sizing.parameters import ParameterCount, attention_parameters
from rightsizer.sizing.requirement import Parallelism

__all__ = ["kept_parameters", "placed_parameters", "weight_bytes"]

_SINGLE: Final = Parallelism()


def weight_bytes(
    model: Model,
    count: ParameterCount,
    number_format: NumberFormat,
    layout: Parallelism = _SINGLE,
) -> float:
    """Of the fullest GPU.

    Quantized checkpoints keep embedding and head in 16 bits; those of recommenders are all that
    there is to quantize, and of a diffusion model only the denoiser is.
    """
    if isinstance(model, Recommender):
        return placed_parameters(model, count, layout) * number_format.bytes_per_parameter
    if isinstance(model, Diffusion):
        beside = count.total - model.parameters
        return (
            model.parameters / layout.tensor * number_format.bytes_per_parameter
            + beside * number_format.bytes_per_embedding
        )
    staged, ends = _placed(model, count, layout)
    kept = kept_parameters(model, count, number_format) * staged / count.layers
    ends += kept
    staged -= kept
    if isinstance(model, Transformer) and model.unread.are_towers_quantized:
        towers = model.unread.towers / layout.tensor
        ends -= towers
        staged += towers
    return staged * number_format.bytes_per_parameter + ends * number_format.bytes_per_embedding


def kept_parameters(model: Model, count: ParameterCount, number_format: NumberFormat) -> float:
    """Parameters of all layers that a quantized checkpoint keeps in 16 bits."""
    if not isinstance(model, Transformer) or not model.attention_in_16_bits:
        return 0.0
    if not number_format.is_quantized:
        return 0.0
    return min(count.layers, model.attending_layers * attention_parameters(model))


def placed_parameters(model: Model, count: ParameterCount, layout: Parallelism = _SINGLE) -> float:
    """Parameters on the fullest GPU that training changes, before data parallelism shards them.

    Of a diffusion model that is the denoiser; text encoder and decoder stay as they are.
    """
    if isinstance(model, Diffusion):
        return model.parameters / layout.tensor
    return sum(_placed(model, count, layout))


def _placed(model: Model, count: ParameterCount, layout: Parallelism) -> tuple[float, float]:
    """Parameters of the fullest stage's layers, and of its embedding and head.

    The first stage holds the embedding and what is not read, the last one the head, or the
    embedding again where they are one.
    """
    if isinstance(model, Transformer | VisionTransformer):
        stage_share = math.ceil(model.layers / layout.pipeline) / model.layers
    else:
        stage_share = 1.0 / layout.pipeline
    first = count.embedding + count.unread
    ends = first + count.head if layout.pipeline == 1 else max(first, count.head)
    return count.layers * stage_share / layout.tensor, ends / layout.tensor
