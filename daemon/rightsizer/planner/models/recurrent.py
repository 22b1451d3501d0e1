"""Models whose layers keep a state of a request, by `model_type`; LFM 2 and RecurrentGemma here."""

from collections.abc import Mapping
from itertools import cycle, islice
from typing import Final

from rightsizer.planner.models import hybrid, mamba
from rightsizer.planner.models.configuration import ConfigReader, Configuration, wrong
from rightsizer.planner.models.hybrid import ATTENTION, RECURRENT, WIDE, Mixer
from rightsizer.sizing.models import Transformer

_REPEATED: Final = (RECURRENT, RECURRENT, ATTENTION)
_TYPES: Final = ("block_types", "_block_types")


def read_lfm2(config: Configuration, name: str) -> Transformer:
    """Layers of attention are named or listed; where neither, all have attention."""
    ffn = _lfm2_width(config)
    one = hybrid.feed_forward(config.needed("hidden_size"), ffn)
    return _lfm2_stack(config, name, ffn, hybrid.layer_count(config) * one)


def read_lfm2_mixture(config: Configuration, name: str) -> Transformer:
    """The first layers have no experts."""
    layers, dense = hybrid.layer_count(config), config.whole("num_dense_layers") or 0
    if dense > layers:
        raise wrong("num_dense_layers", f"{dense} of {layers} layers", "take at most all of them")
    hidden, ffn = config.needed("hidden_size"), config.needed("intermediate_size")
    experts, width = config.needed("num_experts"), config.needed("moe_intermediate_size")
    expert = hybrid.feed_forward(hidden, width)
    has_bias = config.is_set("use_expert_bias", otherwise=True)
    mixed = experts * (expert + hidden + (1 if has_bias else 0))
    feed_forwards = dense * hybrid.feed_forward(hidden, ffn) + (layers - dense) * mixed
    if hybrid.named_layers(config, (ATTENTION, RECURRENT)) is None:
        raise wrong("layer_types", "is missing")
    whole = _lfm2_stack(config, name, width, feed_forwards)
    parts = {"experts": experts, "dense_layers": dense, "dense_ffn": ffn}
    return hybrid.mixture(whole, config, layers - dense, expert, **parts)


def _lfm2_stack(config: Configuration, name: str, ffn: int, feed_forwards: int) -> Transformer:
    layers, is_tied = hybrid.layer_count(config), config.is_set("tie_embedding", otherwise=True)
    usual = (ATTENTION,) * layers
    pattern = hybrid.layer_pattern(config, layers, usual, ATTENTION, "full_attn_idxs")
    shape = hybrid.attention_shape(
        config, name, layers, is_tied=is_tied, query_key_norm=True, ffn=ffn
    )
    hidden, reach = shape.hidden, config.needed("conv_L_cache")
    # Two gates and what they gate; all that is kept are the last tokens before the convolution.
    bias = (3 + 1 + 1) * hidden if config.is_set("conv_bias") else 0
    count = 4 * hidden * hidden + hidden * reach + bias
    mixer = Mixer(count, hidden * (reach - 1), inputs=3 * hidden, width=hidden)
    return hybrid.in_turns(shape, pattern.count(ATTENTION), mixer, feed_forwards)


def _lfm2_width(config: Configuration) -> int:
    """Of the feed-forward part: two thirds of the stated one, scaled and rounded up, by default."""
    stated = config.whole("block_ff_dim") or config.needed("intermediate_size")
    if not config.is_set("block_auto_adjust_ff_dim", otherwise=True):
        return stated
    scaled = int(config.number("block_ffn_dim_multiplier", 1.0) * (2 * stated // 3))
    whole = config.needed("block_multiple_of")
    if not scaled:
        raise wrong("block_ffn_dim_multiplier", f"leaves nothing of {stated}")
    return -(-scaled // whole) * whole


def read_recurrent_gemma(config: Configuration, name: str) -> Transformer:
    """The pattern of a few layers repeats."""
    layers, stated = hybrid.layer_count(config), config.needed("intermediate_size")
    repeated = hybrid.named_layers(config, (ATTENTION, RECURRENT), _TYPES) or _REPEATED
    attending = tuple(islice(cycle(repeated), layers)).count(ATTENTION)
    ffn = stated // 2  # Of both matrices into it together.
    if not ffn:
        raise wrong("intermediate_size", f"{stated} has no half", "")
    has_bias, window = config.is_set("attention_bias"), config.needed("attention_window_size")
    parts = {"attention_bias": has_bias, "sliding_window": window, "ffn": ffn}
    shape = hybrid.attention_shape(config, name, layers, is_tied=True, **parts)
    one = hybrid.feed_forward(shape.hidden, ffn, has_bias=True)
    # The output of attention always has a bias.
    beside = 0 if has_bias else attending * shape.hidden
    mixer = _linear_recurrence(config, shape)
    return hybrid.in_turns(shape, attending, mixer, layers * one, beside)


def _linear_recurrence(config: Configuration, shape: Transformer) -> Mixer:
    """The real-gated linear recurrent unit (arXiv:2402.19427, section 2.4) in 32 bits."""
    width = config.whole("lru_width") or shape.hidden
    heads, reach = shape.heads, config.needed("conv1d_width")
    if width % heads:
        raise wrong("lru_width", f"{width} does not divide by {heads} num_attention_heads")
    branches = 3 * shape.hidden * width + 2 * width + shape.hidden
    convolution = width * (reach + 1)
    gates = 2 * (width * (width // heads) + width) + width
    state = WIDE * width + width * (reach - 1)
    return Mixer(branches + convolution + gates, state, inputs=4 * width, width=width)


READERS: Final[Mapping[str, ConfigReader]] = {
    "bamba": mamba.read_bamba,
    "falcon_h1": mamba.read_falcon_h1,
    **dict.fromkeys(("mamba", "falcon_mamba"), mamba.read_mamba),
    "granitemoehybrid": mamba.read_granite_hybrid,
    "jamba": mamba.read_jamba,
    "lfm2": read_lfm2,
    "lfm2_moe": read_lfm2_mixture,
    "mamba2": mamba.read_mamba2,
    "nemotron_h": mamba.read_nemotron_h,
    "recurrent_gemma": read_recurrent_gemma,
    "zamba2": mamba.read_zamba2,
}
"""Each as its class in transformers has it; the tests hold them against published counts."""
