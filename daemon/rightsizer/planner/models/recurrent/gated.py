"""LFM 2 and RecurrentGemma: gated convolutions and linear recurrences between attention."""

from dataclasses import replace
from itertools import cycle, islice
from typing import Final

from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.configuration import Configuration
from rightsizer.planner.models.recurrent.hybrid import (
    ATTENTION,
    RECURRENT,
    WIDE,
    Mixer,
    agreed,
    attention_shape,
    feed_forward,
    for_all,
    hybrid,
    layer_count,
    listed_layers,
    named_layers,
    naming_key,
    with_idle_experts,
)
from rightsizer.sizing.models import LayerKind, Transformer

_DENSE: Final = {
    "vocab_size": 65536,
    "hidden_size": 2560,
    "intermediate_size": 12288,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "conv_L_cache": 3,
    "block_multiple_of": 256,
}
_MIXTURE: Final = {
    "vocab_size": 65536,
    "hidden_size": 2048,
    "intermediate_size": 7168,
    "moe_intermediate_size": 1792,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "conv_L_cache": 3,
    "num_dense_layers": 2,
    "num_experts": 32,
    "num_experts_per_tok": 4,
}


def read_lfm2(given: Configuration, name: str) -> Transformer:
    """Layers of attention are named or listed; where neither, all have attention."""
    config = Configuration(given.values, _DENSE)
    ffn = _feed_forward_width(config)
    layers = layer_count(config)
    return _stack(config, name, ffn, layers * feed_forward(config.needed("hidden_size"), ffn))


def read_lfm2_mixture(given: Configuration, name: str) -> Transformer:
    """The first layers have no experts.

    Raises:
        RequirementError: there are more of them than layers, or kinds are not told.
    """
    config = Configuration(given.values, _MIXTURE)
    layers, dense = layer_count(config), config.whole("num_dense_layers") or 0
    if dense > layers:
        raise RequirementError(
            f"config.json: num_dense_layers: {dense} of {layers} layers; take at most all of them"
        )
    hidden, ffn = config.needed("hidden_size"), config.needed("intermediate_size")
    experts, width = config.needed("num_experts"), config.needed("moe_intermediate_size")
    expert = feed_forward(hidden, width)
    has_bias = config.is_set("use_expert_bias", otherwise=True)
    mixed = experts * (expert + hidden + (1 if has_bias else 0))
    inner = dense * feed_forward(hidden, ffn) + (layers - dense) * mixed
    if named_layers(config, (ATTENTION, RECURRENT)) is None:
        raise RequirementError(
            "config.json: layer_types: is missing; take the file as published with the model"
        )
    mixture = replace(
        _stack(config, name, width, inner),
        experts=experts,
        experts_per_token=config.needed("num_experts_per_tok"),
        dense_layers=dense,
        dense_ffn=ffn,
    )
    return with_idle_experts(mixture, layers - dense, expert)


def _stack(config: Configuration, name: str, ffn: int, feed_forwards: int) -> Transformer:
    layers = layer_count(config)
    pattern = _pattern(config, layers)
    is_tied = config.is_set("tie_embedding", otherwise=True)
    shape = replace(
        attention_shape(config, name, layers, is_tied=is_tied), query_key_norm=True, ffn=ffn
    )
    mixer = _short_convolution(config, shape.hidden)
    attending = pattern.count(ATTENTION)
    kinds = (
        LayerKind(attending, has_attention=True),
        LayerKind(layers - attending, recurrent_inputs=mixer.inputs, recurrent_width=mixer.width),
    )
    return hybrid(shape, kinds, mixer, feed_forwards)


def _pattern(config: Configuration, layers: int) -> tuple[str, ...]:
    named = named_layers(config, (ATTENTION, RECURRENT))
    listed = listed_layers(config, "full_attn_idxs", layers, ATTENTION, RECURRENT)
    if named and listed:
        agreed("full_attn_idxs", listed, named, naming_key(config))
    return for_all(naming_key(config), named or listed or (ATTENTION,) * layers, layers)


def _short_convolution(config: Configuration, hidden: int) -> Mixer:
    """Two gates and what they gate; all that is kept are the last tokens before the convolution."""
    reach, has_bias = config.needed("conv_L_cache"), config.is_set("conv_bias")
    bias = (3 + 1 + 1) * hidden if has_bias else 0
    return Mixer(
        parameters=4 * hidden * hidden + hidden * reach + bias,
        state_elements=hidden * (reach - 1),
        inputs=3 * hidden,
        width=hidden,
    )


def _feed_forward_width(config: Configuration) -> int:
    """Two thirds of what the file tells, scaled and rounded up, unless it says otherwise.

    Raises:
        RequirementError: nothing is left of it.
    """
    told = config.whole("block_ff_dim") or config.needed("intermediate_size")
    if not config.is_set("block_auto_adjust_ff_dim", otherwise=True):
        return told
    scaled = int(config.number("block_ffn_dim_multiplier", 1.0) * (2 * told // 3))
    whole = config.needed("block_multiple_of")
    if not scaled:
        raise RequirementError(
            f"config.json: block_ffn_dim_multiplier: leaves nothing of {told}; take the file as"
            " published with the model"
        )
    return -(-scaled // whole) * whole


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
        ffn=_gemma_feed_forward_width(config),
    )
    mixer = _mixer(config, shape)
    kinds = (
        LayerKind(attending, has_attention=True),
        LayerKind(layers - attending, recurrent_inputs=mixer.inputs, recurrent_width=mixer.width),
    )
    one = feed_forward(shape.hidden, shape.ffn or 0, has_bias=True)
    # The output of attention always has a bias.
    return hybrid(shape, kinds, mixer, layers * one, attending * shape.hidden)


def _gemma_feed_forward_width(config: Configuration) -> int:
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
