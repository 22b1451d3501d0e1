"""Mamba, Falcon Mamba, Mamba 2 and Jamba."""

from dataclasses import replace
from typing import Final

from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.configuration import Configuration
from rightsizer.planner.models.recurrent.hybrid import (
    ATTENTION,
    RECURRENT,
    Mamba,
    Mamba2,
    Mixer,
    agreed,
    attention_shape,
    feed_forward,
    hybrid,
    inner_width,
    layer_count,
    named_layers,
    naming_key,
    periodic_layers,
    time_step_rank,
    with_idle_experts,
)
from rightsizer.sizing.models import LayerKind, Transformer

_MAMBA: Final = {
    "vocab_size": 50280,
    "hidden_size": 768,
    "state_size": 16,
    "num_hidden_layers": 32,
    "expand": 2,
    "conv_kernel": 4,
}
_MAMBA_2: Final = {
    "num_heads": 128,
    "head_dim": 64,
    "vocab_size": 32768,
    "hidden_size": 4096,
    "state_size": 128,
    "num_hidden_layers": 64,
    "expand": 2,
    "conv_kernel": 4,
    "n_groups": 8,
}


def read_mamba(given: Configuration, name: str) -> Transformer:
    """Each channel is a head of its own, with a state of its own."""
    config = Configuration(given.values, _MAMBA)
    hidden = config.needed("hidden_size")
    # Falcon Mamba's file has an expansion of 16, and tells the width that it has beside it.
    inner = config.whole("intermediate_size") or inner_width(config, "expand")
    mixer = Mamba(
        hidden=hidden,
        inner=inner,
        state=config.needed("state_size"),
        rank=time_step_rank(config, "time_step_rank", hidden),
        reach=config.needed("conv_kernel"),
        has_bias=config.is_set("use_bias"),
        has_convolution_bias=config.is_set("use_conv_bias", otherwise=True),
    ).mixer
    return _stack(config, name, (inner, 1), mixer, is_tied=True)


def read_mamba2(given: Configuration, name: str) -> Transformer:
    """Heads, and groups of them.

    Raises:
        RequirementError: heads are not as wide together as the layer expands to.
    """
    config = Configuration(given.values, _MAMBA_2)
    heads, width = config.needed("num_heads"), config.needed("head_dim")
    inner = inner_width(config, "expand")
    if heads * width != inner:
        raise RequirementError(
            f"config.json: num_heads: {heads} heads of {width} are not {inner} wide, as hidden_size"
            " and expand tell; correct one of them"
        )
    has_bias = config.is_set("use_bias")
    mixer = Mamba2(
        hidden=config.needed("hidden_size"),
        heads=heads,
        head_dim=width,
        groups=config.needed("n_groups"),
        state=config.needed("state_size"),
        reach=config.needed("conv_kernel"),
        has_input_bias=has_bias,
        has_output_bias=has_bias,
        has_convolution_bias=config.is_set("use_conv_bias", otherwise=True),
    ).mixer
    return _stack(config, name, (heads, width), mixer, is_tied=False)


def _stack(
    config: Configuration, name: str, heads: tuple[int, int], mixer: Mixer, *, is_tied: bool
) -> Transformer:
    layers = layer_count(config)
    shape = Transformer(
        layers=layers,
        hidden=config.needed("hidden_size"),
        heads=heads[0],
        vocab=config.needed("vocab_size"),
        name=name,
        head_dim=heads[1],
        tied_embeddings=config.is_set("tie_word_embeddings", otherwise=is_tied),
    )
    kind = LayerKind(
        layers,
        has_feed_forward=False,
        recurrent_inputs=mixer.inputs,
        recurrent_width=mixer.width,
        parts=1,
    )
    return hybrid(shape, (kind,), mixer, 0.0)


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
