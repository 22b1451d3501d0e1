"""LFM 2: gated short convolutions between layers of attention, some of them with experts."""

from dataclasses import replace
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.layer_kind import LayerKind
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.recurrent.hybrid import (
    attention_shape,
    feed_forward,
    hybrid,
    with_idle_experts,
)
from rightsizer.sizing.published.recurrent.layer_pattern import (
    ATTENTION,
    RECURRENT,
    agreed,
    for_all,
    layer_count,
    listed_layers,
    named_layers,
    naming_key,
)
from rightsizer.sizing.published.recurrent.mixer import Mixer

__all__ = ["read_lfm2", "read_lfm2_mixture"]

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
