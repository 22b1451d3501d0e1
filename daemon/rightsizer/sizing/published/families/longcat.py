"""LongCat-Flash: two attentions and two feed-forward parts beside the experts of a layer."""

from dataclasses import replace

from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import attention_parameters
from rightsizer.sizing.published.configuration import Configuration

__all__ = ["with_double_layers"]


def with_double_layers(shape: Transformer, config: Configuration) -> Transformer:
    """The shape with twice the layers, half of which have experts beside their dense part.

    Some of the experts that a router may choose hand a token on as it is, so that fewer of the
    real ones are passed: by their share, as a router in balance chooses (arXiv:2509.01322).
    """
    idle = config.whole("zero_expert_num", 0) or 0
    chosen = max(1, round(shape.experts_per_token * shape.experts / (shape.experts + idle)))
    dense = 3 * shape.hidden * (shape.dense_ffn or 0)
    layer = attention_parameters(shape) + 2 * shape.hidden
    router = idle * (shape.hidden + 1)
    added = shape.layers * (layer + 2 * dense + router)
    return replace(
        shape,
        layers=2 * shape.layers,
        dense_layers=shape.layers,
        experts_per_token=chosen,
        parameters=(shape.parameters or 0.0) + added,
    )
