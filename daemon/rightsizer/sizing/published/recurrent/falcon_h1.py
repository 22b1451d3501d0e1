"""Falcon-H1: attention and Mamba 2 side by side in every layer."""

from dataclasses import replace
from typing import Final

from rightsizer.sizing.layer_kind import LayerKind
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.recurrent.hybrid import attention_shape, feed_forward, hybrid
from rightsizer.sizing.published.recurrent.layer_pattern import layer_count
from rightsizer.sizing.published.recurrent.mixer import Mixer
from rightsizer.sizing.published.recurrent.state_space import Mamba2
from rightsizer.sizing.published.recurrent.widths import head_width, inner_width

__all__ = ["read_falcon_h1"]

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
    mixer, ffn = _mixer(config), config.needed("intermediate_size")
    kind = LayerKind(
        layers,
        has_attention=True,
        recurrent_inputs=mixer.inputs,
        recurrent_width=mixer.width,
    )
    one = feed_forward(shape.hidden, ffn, has_bias=config.is_set("mlp_bias"))
    output_bias = layers * shape.hidden if has_bias else 0
    return hybrid(replace(shape, ffn=ffn), (kind,), mixer, layers * one, output_bias)


def _mixer(config: Configuration) -> Mixer:
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
