"""RecurrentGemma: gated linear recurrences, and windowed attention in every third layer."""

from dataclasses import replace
from itertools import cycle, islice
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.layer_kind import LayerKind
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.recurrent.hybrid import attention_shape, feed_forward, hybrid
from rightsizer.sizing.published.recurrent.layer_pattern import (
    ATTENTION,
    RECURRENT,
    layer_count,
    named_layers,
)
from rightsizer.sizing.published.recurrent.mixer import WIDE, Mixer

__all__ = ["read_recurrent_gemma"]

_DEFAULTS: Final = {
    "num_hidden_layers": 26,
    "vocab_size": 256000,
    "hidden_size": 2560,
    "intermediate_size": 7680,
    "num_attention_heads": 10,
    "attention_window_size": 2048,
    "conv1d_width": 4,
}
_REPEATED: Final = (RECURRENT, RECURRENT, ATTENTION)
_TYPES: Final = ("block_types", "_block_types")


def read_recurrent_gemma(given: Configuration, name: str) -> Transformer:
    """The pattern of a few layers comes again and again."""
    config = Configuration(given.values, _DEFAULTS)
    layers = layer_count(config)
    repeated = named_layers(config, (ATTENTION, RECURRENT), _TYPES) or _REPEATED
    pattern = tuple(islice(cycle(repeated), layers))
    attending = pattern.count(ATTENTION)
    has_bias = config.is_set("attention_bias")
    shape = replace(
        attention_shape(config, name, layers, is_tied=True),
        attention_bias=has_bias,
        sliding_window=config.needed("attention_window_size"),
        ffn=_feed_forward_width(config),
    )
    mixer = _mixer(config, shape)
    kinds = (
        LayerKind(attending, has_attention=True),
        LayerKind(layers - attending, recurrent_inputs=mixer.inputs, recurrent_width=mixer.width),
    )
    one = feed_forward(shape.hidden, shape.ffn or 0, has_bias=True)
    # The output of attention always has a bias.
    return hybrid(shape, kinds, mixer, layers * one, attending * shape.hidden)


def _feed_forward_width(config: Configuration) -> int:
    """Half of what the file tells, which is that of both matrices into it together.

    Raises:
        RequirementError: there is none.
    """
    told = config.needed("intermediate_size")
    if not told // 2:
        raise RequirementError(f"config.json: intermediate_size: {told} has no half")
    return told // 2


def _mixer(config: Configuration, shape: Transformer) -> Mixer:
    """The real-gated linear recurrent unit between two branches (arXiv:2402.19427, section 2.4).

    Its state is kept in 32 bits.

    Raises:
        RequirementError: heads do not divide its width.
    """
    width = config.whole("lru_width") or shape.hidden
    heads, reach = shape.heads, config.needed("conv1d_width")
    if width % heads:
        raise RequirementError(
            f"config.json: lru_width: {width} does not divide by {heads} num_attention_heads;"
            " take the file as published with the model"
        )
    branches = 3 * shape.hidden * width + 2 * width + shape.hidden
    convolution = width * (reach + 1)
    gates = 2 * (width * (width // heads) + width) + width
    return Mixer(
        parameters=branches + convolution + gates,
        state_elements=WIDE * width + width * (reach - 1),
        inputs=4 * width,
        width=width,
    )
