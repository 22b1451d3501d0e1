"""LFM 2 and RecurrentGemma: gated convolutions and linear recurrences between attention."""

from itertools import cycle, islice
from typing import Final

from rightsizer.planner.models.configuration import Configuration, wrong
from rightsizer.planner.models.recurrent.hybrid import (
    ATTENTION,
    RECURRENT,
    WIDE,
    Mixer,
    attention_shape,
    feed_forward,
    in_turns,
    layer_count,
    layer_pattern,
    mixture,
    named_layers,
)
from rightsizer.sizing.models import Transformer

_REPEATED: Final = (RECURRENT, RECURRENT, ATTENTION)
_TYPES: Final = ("block_types", "_block_types")


def read_lfm2(config: Configuration, name: str) -> Transformer:
    """Layers of attention are named or listed; where neither, all have attention."""
    ffn = _lfm2_width(config)
    one = feed_forward(config.needed("hidden_size"), ffn)
    return _lfm2_stack(config, name, ffn, layer_count(config) * one)


def read_lfm2_mixture(config: Configuration, name: str) -> Transformer:
    """The first layers have no experts.

    Raises:
        RequirementError: there are more of them than layers, or kinds are not named.
    """
    layers, dense = layer_count(config), config.whole("num_dense_layers") or 0
    if dense > layers:
        raise wrong("num_dense_layers", f"{dense} of {layers} layers", "take at most all of them")
    hidden, ffn = config.needed("hidden_size"), config.needed("intermediate_size")
    experts, width = config.needed("num_experts"), config.needed("moe_intermediate_size")
    expert = feed_forward(hidden, width)
    has_bias = config.is_set("use_expert_bias", otherwise=True)
    mixed = experts * (expert + hidden + (1 if has_bias else 0))
    feed_forwards = dense * feed_forward(hidden, ffn) + (layers - dense) * mixed
    if named_layers(config, (ATTENTION, RECURRENT)) is None:
        raise wrong("layer_types", "is missing")
    return mixture(
        _lfm2_stack(config, name, width, feed_forwards),
        layers - dense,
        expert,
        experts=experts,
        experts_per_token=config.needed("num_experts_per_tok"),
        dense_layers=dense,
        dense_ffn=ffn,
    )


def _lfm2_stack(config: Configuration, name: str, ffn: int, feed_forwards: int) -> Transformer:
    layers, is_tied = layer_count(config), config.is_set("tie_embedding", otherwise=True)
    pattern = layer_pattern(config, layers, (ATTENTION,) * layers, ATTENTION, "full_attn_idxs")
    shape = attention_shape(config, name, layers, is_tied=is_tied, query_key_norm=True, ffn=ffn)
    hidden, reach = shape.hidden, config.needed("conv_L_cache")
    # Two gates and what they gate; all that is kept are the last tokens before the convolution.
    bias = (3 + 1 + 1) * hidden if config.is_set("conv_bias") else 0
    count = 4 * hidden * hidden + hidden * reach + bias
    mixer = Mixer(count, hidden * (reach - 1), inputs=3 * hidden, width=hidden)
    return in_turns(shape, pattern.count(ATTENTION), mixer, feed_forwards)


def _lfm2_width(config: Configuration) -> int:
    """Of the feed-forward part: two thirds of the stated one, scaled and rounded up, by default.

    Raises:
        RequirementError: nothing is left of it.
    """
    stated = config.whole("block_ff_dim") or config.needed("intermediate_size")
    if not config.is_set("block_auto_adjust_ff_dim", otherwise=True):
        return stated
    scaled = int(config.number("block_ffn_dim_multiplier", 1.0) * (2 * stated // 3))
    whole = config.needed("block_multiple_of")
    if not scaled:
        raise wrong("block_ffn_dim_multiplier", f"leaves nothing of {stated}")
    return -(-scaled // whole) * whole


def read_recurrent_gemma(config: Configuration, name: str) -> Transformer:
    """The pattern of a few layers repeats.

    Raises:
        RequirementError: the feed-forward part has no width.
    """
    layers, stated = layer_count(config), config.needed("intermediate_size")
    repeated = named_layers(config, (ATTENTION, RECURRENT), _TYPES) or _REPEATED
    attending = tuple(islice(cycle(repeated), layers)).count(ATTENTION)
    ffn = stated // 2  # Of both matrices into it together.
    if not ffn:
        raise wrong("intermediate_size", f"{stated} has no half", "")
    has_bias, window = config.is_set("attention_bias"), config.needed("attention_window_size")
    parts = {"attention_bias": has_bias, "sliding_window": window, "ffn": ffn}
    shape = attention_shape(config, name, layers, is_tied=True, **parts)
    one = feed_forward(shape.hidden, ffn, has_bias=True)
    # The output of attention always has a bias.
    beside = 0 if has_bias else attending * shape.hidden
    return in_turns(shape, attending, _linear_recurrence(config, shape), layers * one, beside)


def _linear_recurrence(config: Configuration, shape: Transformer) -> Mixer:
    """The real-gated linear recurrent unit between two branches (arXiv:2402.19427, section 2.4).

    Its state is kept in 32 bits.

    Raises:
        RequirementError: heads do not divide its width.
    """
    width = config.whole("lru_width") or shape.hidden
    heads, reach = shape.heads, config.needed("conv1d_width")
    if width % heads:
        raise wrong("lru_width", f"{width} does not divide by {heads} num_attention_heads")
    branches = 3 * shape.hidden * width + 2 * width + shape.hidden
    convolution = width * (reach + 1)
    gates = 2 * (width * (width // heads) + width) + width
    state = WIDE * width + width * (reach - 1)
    return Mixer(branches + convolution + gates, state, inputs=4 * width, width=width)
