"""Nemotron-H: a layer is a Mamba 2, an attention, a feed-forward part or experts, alone."""

from dataclasses import replace
from typing import Final

from rightsizer.planner.models.configuration import Configuration
from rightsizer.planner.models.recurrent.hybrid import (
    ATTENTION,
    EXPERTS,
    FEED_FORWARD,
    RECURRENT,
    Mamba2,
    Mixer,
    agreed,
    attention_shape,
    feed_forward,
    for_all,
    hybrid,
    layer_count,
    named_layers,
    naming_key,
    spelled_layers,
    state_scale,
    with_idle_experts,
)
from rightsizer.sizing.models import LayerKind, Transformer

_DEFAULTS: Final = {
    "vocab_size": 131072,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 21504,
    "ssm_state_size": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "conv_kernel": 4,
    "n_routed_experts": 8,
    "moe_intermediate_size": 7688,
    "moe_shared_expert_intermediate_size": 7688,
    "num_experts_per_tok": 2,
}
_RENAMED: Final = {
    "mamba_n_groups": "n_groups",
    "mamba_d_conv": "conv_kernel",
    "mamba_conv_bias": "use_conv_bias",
    "num_local_experts": "n_routed_experts",
}
"""Keys that the class reads under another name."""
_PATTERN: Final = "hybrid_override_pattern"
_LETTERS: Final = {"M": RECURRENT, "*": ATTENTION, "-": FEED_FORWARD, "E": EXPERTS}
_USUAL: Final = (RECURRENT, EXPERTS, ATTENTION, FEED_FORWARD)


def read_nemotron_h(given: Configuration, name: str) -> Transformer:
    """Layers are spelled by a letter each, or named."""
    renamed = {
        new: given.values[old]
        for old, new in _RENAMED.items()
        if old in given.values and new not in given.values
    }
    config = Configuration({**given.values, **renamed}, _DEFAULTS)
    pattern = _pattern(config)
    layers = len(pattern)
    has_bias = config.is_set("attention_bias")
    bare = attention_shape(config, name, layers)
    shape = replace(bare, attention_bias=has_bias, gated_ffn=False)
    mixer = _mixer(config)
    hidden, ffn = shape.hidden, config.needed("intermediate_size")
    dense, mixed = pattern.count(FEED_FORWARD), pattern.count(EXPERTS)
    kinds = (
        LayerKind(pattern.count(ATTENTION), has_attention=True, has_feed_forward=False, parts=1),
        LayerKind(
            pattern.count(RECURRENT),
            has_feed_forward=False,
            recurrent_inputs=mixer.inputs,
            recurrent_width=mixer.width,
            parts=1,
        ),
        LayerKind(dense + mixed, parts=1),
    )
    one = feed_forward(hidden, ffn, is_gated=False, has_bias=config.is_set("mlp_bias"))
    bias = pattern.count(ATTENTION) * hidden if has_bias else 0
    whole = hybrid(replace(shape, ffn=ffn), kinds, mixer, dense * one, bias)
    return _with_experts(whole, config, dense, mixed) if mixed else whole


def _with_experts(shape: Transformer, config: Configuration, dense: int, mixed: int) -> Transformer:
    """The shape with experts in some layers, which may work on less than the layer's width."""
    hidden, has_bias = shape.hidden, config.is_set("mlp_bias")
    experts, width = config.needed("n_routed_experts"), config.needed("moe_intermediate_size")
    shared = config.needed("moe_shared_expert_intermediate_size")
    latent = config.whole("moe_latent_size")
    expert = feed_forward(latent or hidden, width, is_gated=False)
    layer = experts * (expert + hidden + 1)
    layer += feed_forward(hidden, shared, is_gated=False, has_bias=has_bias)
    if latent:
        layer += 2 * hidden * latent + (hidden + latent if has_bias else 0)
    mixture = replace(
        shape,
        parameters=(shape.parameters or 0.0) + mixed * layer,
        ffn=width,
        experts=experts,
        experts_per_token=config.needed("num_experts_per_tok"),
        shared_experts=-(-shared // width),
        dense_layers=shape.layers - mixed,
        dense_ffn=shape.ffn if dense else None,
    )
    return with_idle_experts(mixture, mixed, expert)


def _pattern(config: Configuration) -> tuple[str, ...]:
    """The kind of each layer.

    Raises:
        RequirementError: the keys that tell do not agree.
    """
    named = named_layers(config, _USUAL)
    spelled = spelled_layers(config, _PATTERN, _LETTERS)
    if named and spelled:
        agreed(_PATTERN, spelled, named, naming_key(config))
    pattern = named or spelled or _USUAL
    if config.whole("num_hidden_layers") is None:
        return pattern
    key = naming_key(config) if named or not spelled else _PATTERN
    return for_all(key, pattern, layer_count(config))


def _mixer(config: Configuration) -> Mixer:
    has_bias = config.is_set("use_bias")
    return Mamba2(
        hidden=config.needed("hidden_size"),
        heads=config.needed("mamba_num_heads"),
        head_dim=config.needed("mamba_head_dim"),
        groups=config.needed("n_groups"),
        state=config.needed("ssm_state_size"),
        reach=config.needed("conv_kernel"),
        has_input_bias=has_bias,
        has_output_bias=has_bias,
        has_convolution_bias=config.is_set("use_conv_bias", otherwise=True),
        state_scale=state_scale(config, "mamba_ssm_cache_dtype", "float32"),
    ).mixer
