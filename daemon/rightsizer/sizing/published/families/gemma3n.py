"""Gemma 3n: embeddings of each layer, several residual streams, caches that layers share."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.unread_parameters import UnreadParameters

__all__ = ["with_layer_embeddings"]

_WINDOWED: Final = "sliding_attention"
_PATTERN: Final = 5
"""Each so-many-th layer looks back at everything, where the configuration does not say."""


def with_layer_embeddings(shape: Transformer, config: Configuration) -> Transformer:
    """The shape with what `Gemma3nTextModel` has beside attention and feed-forward parts.

    A token reads one row of each layer's table, which stays in memory as the embedding does. The
    last layers keep no keys and values: they look at those of the last layer of their kind
    before them.

    Raises:
        RequirementError: more layers share than there are.
    """
    hidden, layers = shape.hidden, shape.layers
    width = config.needed("hidden_size_per_layer_input")
    streams = config.needed("altup_num_inputs")
    mixing = streams**2 * (streams + 1) + streams * hidden + 2 * hidden
    low_rank = (2 * config.needed("laurel_rank") + 1) * hidden
    entering = (2 * width + 1) * hidden
    beside = layers * width * hidden + width + 2 * (streams - 1) * hidden**2
    total = (shape.parameters or 0.0) + layers * (mixing + low_rank + entering) + beside
    shared = config.whole("num_kv_shared_layers", 0) or 0
    if shared >= layers:
        raise RequirementError(
            f"config.json: num_kv_shared_layers: {shared} of {layers} layers; some keep their own"
        )
    windowed = _windowed(config, layers)
    return replace(
        shape,
        parameters=total,
        windowed_layers=sum(windowed) if shape.sliding_window else None,
        cached_layers=layers - shared,
        borrowed_layers=shared,
        borrowed_windowed_layers=sum(windowed[layers - shared :]) if shape.sliding_window else 0,
        unread=UnreadParameters(
            tables=float(config.needed("vocab_size_per_layer_input") * layers * width)
        ),
    )


def _windowed(config: Configuration, layers: int) -> Sequence[bool]:
    kinds = config.names("layer_types")
    if not kinds:
        return [(layer + 1) % _PATTERN != 0 for layer in range(layers)]
    if len(kinds) != layers:
        raise RequirementError(f"config.json: layer_types: {len(kinds)} of {layers} layers")
    return [kind == _WINDOWED for kind in kinds]
