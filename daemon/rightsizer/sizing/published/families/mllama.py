"""Llama 3.2 Vision: layers between those of the text that look at an image."""

from dataclasses import replace
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import head_dimension
from rightsizer.sizing.published.configuration import Configuration

__all__ = ["with_cross_attention"]

_CROSSED: Final = (3, 8, 13, 18, 23, 28, 33, 38)
"""Where the configuration does not name them."""
_IMAGE_TOKENS: Final = 8
"""Rows of the embedding that the vocabulary does not count."""
_GATES: Final = 2


def with_cross_attention(shape: Transformer, config: Configuration) -> Transformer:
    """The shape with norms of queries and keys, and gates, in the layers that look at an image.

    They keep nothing of the text: a token of it is cached by the others.

    Raises:
        RequirementError: a layer is named that is not there.
    """
    listed = config.lists("cross_attention_layers") or _CROSSED
    crossed = {layer for layer in range(shape.layers) if layer in listed}
    if len(crossed) < len(listed):
        raise RequirementError(
            f"config.json: cross_attention_layers: names layers beyond the {shape.layers}"
            " of num_hidden_layers; take the file as published with the model"
        )
    of_layer = 2 * head_dimension(shape) + _GATES
    added = len(crossed) * of_layer + _IMAGE_TOKENS * shape.hidden
    return replace(
        shape,
        parameters=(shape.parameters or 0.0) + added,
        cached_layers=shape.layers - len(crossed),
    )
