"""Jamba: Mamba between layers of attention, experts in every second layer."""

from dataclasses import replace
from typing import Final

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
    layer_count,
    named_layers,
    naming_key,
    periodic_layers,
)
from rightsizer.sizing.published.recurrent.state_space import Mamba
from rightsizer.sizing.published.recurrent.widths import inner_width, time_step_rank

__all__ = ["read_jamba"]

_DEFAULTS: Final = {
    "vocab_size": 65536,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_experts_per_tok": 2,
    "num_experts": 16,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
}


def read_jamba(given: Configuration, name: str) -> Transformer:
    """The model, every so many layers with attention and every so many with experts."""
    config = Configuration(given.values, _DEFAULTS)
    layers = layer_count(config)
    shape = attention_shape(config, name, layers)
    attending = _attending(config, layers)
    hidden, ffn = shape.hidden, config.needed("intermediate_size")
    mixer = Mamba(
        hidden=hidden,
        inner=inner_width(config, "mamba_expand"),
        state=config.needed("mamba_d_state"),
        rank=time_step_rank(config, "mamba_dt_rank", hidden),
        reach=config.needed("mamba_d_conv"),
        has_bias=config.is_set("mamba_proj_bias"),
        has_convolution_bias=config.is_set("mamba_conv_bias", otherwise=True),
        has_norms=True,
    ).mixer
    experts = config.needed("num_experts")
    mixed = sum(periodic_layers(config, "expert", layers)) if experts > 1 else 0
    kinds = (
        LayerKind(attending, has_attention=True),
        LayerKind(
            layers - attending,
            recurrent_inputs=mixer.inputs,
            recurrent_width=mixer.width,
        ),
    )
    one = feed_forward(hidden, ffn)
    inner = (layers - mixed) * one + mixed * (experts * one + experts * hidden)
    whole = hybrid(replace(shape, ffn=ffn), kinds, mixer, inner)
    if not mixed:
        return whole
    chosen = config.needed("num_experts_per_tok")
    mixture = replace(
        whole, experts=experts, experts_per_token=chosen, dense_layers=layers - mixed, dense_ffn=ffn
    )
    return with_idle_experts(mixture, mixed, one)


def _attending(config: Configuration, layers: int) -> int:
    """How many layers have attention, where several keys tell the same."""
    periodic = tuple(
        ATTENTION if has_attention else RECURRENT
        for has_attention in periodic_layers(config, "attn", layers)
    )
    named = named_layers(config, (ATTENTION, RECURRENT))
    if named:
        agreed(naming_key(config), named, periodic, "attn_layer_period")
    return periodic.count(ATTENTION)
