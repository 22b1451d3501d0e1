"""Bamba, Granite 4 and Falcon-H1: Mamba 2 between or beside attention."""

from dataclasses import replace
from typing import Final

from rightsizer.planner.models.configuration import Configuration
from rightsizer.planner.models.recurrent.hybrid import (
    ATTENTION,
    RECURRENT,
    Mamba2,
    Mixer,
    agreed,
    attention_shape,
    feed_forward,
    for_all,
    head_width,
    hybrid,
    inner_width,
    layer_count,
    listed_layers,
    named_layers,
    naming_key,
    with_idle_experts,
)
from rightsizer.sizing.models import LayerKind, Transformer

_MIXER: Final = {
    "mamba_n_heads": 128,
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
}
_BAMBA: Final = {
    **_MIXER,
    "vocab_size": 128000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
_GRANITE: Final = {
    **_MIXER,
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "shared_intermediate_size": 1024,
}


def read_bamba(given: Configuration, name: str) -> Transformer:
    """Layers of attention are listed; where none is, all are recurrent."""
    config = Configuration(given.values, _BAMBA)
    layers = layer_count(config)
    listed = listed_layers(config, "attn_layer_indices", layers, ATTENTION, RECURRENT)
    named = named_layers(config, (ATTENTION, RECURRENT))
    if named and listed:
        agreed("attn_layer_indices", listed, named, naming_key(config))
    pattern = for_all(naming_key(config), named or listed or (RECURRENT,) * layers, layers)
    has_bias, ffn = config.is_set("attention_bias"), config.needed("intermediate_size")
    shape = replace(attention_shape(config, name, layers), attention_bias=has_bias, ffn=ffn)
    mixer = _mixer(config)
    kinds = _kinds(pattern, mixer)
    inner = layers * feed_forward(shape.hidden, ffn, has_bias=config.is_set("mlp_bias"))
    bias = pattern.count(ATTENTION) * shape.hidden if has_bias else 0
    return hybrid(shape, kinds, mixer, inner, bias)


def read_granite_hybrid(given: Configuration, name: str) -> Transformer:
    """Each layer has a part that every token passes, and experts where there are any.

    Raises:
        RequirementError: more or fewer layers are named than there are.
    """
    config = Configuration(given.values, _GRANITE)
    layers = layer_count(config)
    named = named_layers(config, (ATTENTION, RECURRENT)) or (RECURRENT,) * layers
    pattern = for_all(naming_key(config), named, layers)
    has_bias = config.is_set("attention_bias")
    shape = replace(attention_shape(config, name, layers), attention_bias=has_bias)
    mixer = _mixer(config)
    hidden, shared = shape.hidden, config.needed("shared_intermediate_size")
    experts = config.whole("num_local_experts") or 0
    ffn = config.needed("intermediate_size") if experts else shared
    expert = feed_forward(hidden, ffn)
    inner = layers * (feed_forward(hidden, shared) + experts * (expert + hidden))
    bias = pattern.count(ATTENTION) * hidden if has_bias else 0
    whole = hybrid(replace(shape, ffn=ffn), _kinds(pattern, mixer), mixer, inner, bias)
    if not experts:
        return whole
    mixture = replace(
        whole,
        experts=experts,
        experts_per_token=config.needed("num_experts_per_tok"),
        shared_experts=-(-shared // ffn),
    )
    return with_idle_experts(mixture, layers, expert)


def _mixer(config: Configuration) -> Mixer:
    inner = inner_width(config, "mamba_expand")
    has_bias = config.is_set("mamba_proj_bias")
    return Mamba2(
        hidden=config.needed("hidden_size"),
        heads=config.needed("mamba_n_heads"),
        head_dim=head_width(config, "mamba_n_heads", "mamba_d_head", inner),
        groups=config.needed("mamba_n_groups"),
        state=config.needed("mamba_d_state"),
        reach=config.needed("mamba_d_conv"),
        has_input_bias=has_bias,
        has_output_bias=has_bias,
        has_convolution_bias=config.is_set("mamba_conv_bias", otherwise=True),
    ).mixer


def _kinds(pattern: tuple[str, ...], mixer: Mixer) -> tuple[LayerKind, LayerKind]:
    return (
        LayerKind(pattern.count(ATTENTION), has_attention=True),
        LayerKind(
            pattern.count(RECURRENT), recurrent_inputs=mixer.inputs, recurrent_width=mixer.width
        ),
    )


_CHANNELS: Final = "mamba_d_ssm"
_DEFAULTS: Final = {
    "vocab_size": 128000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "mamba_n_heads": 128,
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    _CHANNELS: 1024,
}


def read_falcon_h1(given: Configuration, name: str) -> Transformer:
    """Each layer keeps both, a cache and a state."""
    config = Configuration(given.values, _DEFAULTS)
    layers = layer_count(config)
    has_bias = config.is_set("attention_bias")
    shape = replace(attention_shape(config, name, layers), attention_bias=has_bias)
    mixer, ffn = _falcon_mixer(config), config.needed("intermediate_size")
    kind = LayerKind(
        layers,
        has_attention=True,
        recurrent_inputs=mixer.inputs,
        recurrent_width=mixer.width,
    )
    one = feed_forward(shape.hidden, ffn, has_bias=config.is_set("mlp_bias"))
    output_bias = layers * shape.hidden if has_bias else 0
    return hybrid(replace(shape, ffn=ffn), (kind,), mixer, layers * one, output_bias)


def _falcon_mixer(config: Configuration) -> Mixer:
    # Null stands for as many channels as the layer expands to, and nothing for the class's default.
    is_null = _CHANNELS in config.values and config.values[_CHANNELS] is None
    inner = inner_width(config, "mamba_expand") if is_null else config.needed(_CHANNELS)
    return Mamba2(
        hidden=config.needed("hidden_size"),
        heads=config.needed("mamba_n_heads"),
        head_dim=head_width(config, "mamba_n_heads", "mamba_d_head", inner),
        groups=config.needed("mamba_n_groups"),
        state=config.needed("mamba_d_state"),
        reach=config.needed("mamba_d_conv"),
        has_input_bias=config.is_set("mamba_proj_bias"),
        has_output_bias=config.is_set("projectors_bias"),
        has_convolution_bias=config.is_set("mamba_conv_bias", otherwise=True),
        has_norm=config.is_set("mamba_rms_norm"),
    ).mixer
