"""Zamba 2: Mamba 2 in all layers, and few blocks of attention that many of them share."""

from dataclasses import replace
from typing import Final

from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.configuration import Configuration
from rightsizer.planner.models.recurrent.hybrid import (
    HYBRID,
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
)
from rightsizer.sizing.models import LayerKind, Transformer
from rightsizer.sizing.parameters import attention_parameters

_USUAL_LAYERS: Final = 54
_DEFAULTS: Final = {
    "vocab_size": 32000,
    "hidden_size": 2560,
    "num_hidden_layers": _USUAL_LAYERS,
    "mamba_d_state": 64,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_ngroups": 1,
    "n_mamba_heads": 8,
    "num_attention_heads": 32,
    "num_mem_blocks": 1,
    "adapter_rank": 128,
}
_USUAL: Final = (6, 12, 18, 24, 30, 36, 42, 47, 51)
"""Layers that a shared block stands before, where the configuration does not say."""
_DOUBLE: Final = 2
"""Attention sees the embedding beside what comes from the layer before."""


def read_zamba2(given: Configuration, name: str) -> Transformer:
    """Shared blocks are counted once, and passed as often as they come."""
    config = Configuration(given.values, _DEFAULTS)
    layers = layer_count(config)
    pattern = _pattern(config, layers)
    shape = _shape(config, name, layers)
    mixer = _mixer(config)
    hidden, ffn = shape.hidden, shape.ffn or 0
    hybrids = pattern.count(HYBRID)
    blocks = min(config.needed("num_mem_blocks"), hybrids)
    width, has_bias = _DOUBLE * hidden, config.is_set("add_bias_linear")
    queries, keys = width, (shape.kv_heads or 0) * (shape.head_dim or 0)
    attention = width * (queries + 2 * keys) + queries * hidden
    block = attention + feed_forward(hidden, ffn, has_bias=has_bias) + width + hidden
    rank = config.needed("adapter_rank")
    adapter = rank * (hidden + 2 * ffn)
    if config.is_set("use_shared_attention_adapter"):
        adapter += 3 * rank * 2 * width
    plain = LayerKind(
        layers - hybrids,
        has_feed_forward=False,
        recurrent_inputs=mixer.inputs,
        recurrent_width=mixer.width,
        parts=1,
    )
    kinds = (
        plain,
        replace(plain, layers=hybrids, has_attention=True, has_feed_forward=True, parts=3),
    )
    # Of each layer with a shared block: its adapter, a matrix back, and no more norms than one.
    own = hybrids * (adapter + hidden * hidden - 2 * hidden - attention_parameters(shape))
    whole = hybrid(shape, kinds, mixer, blocks * block, own)
    return replace(whole, repeated_parameters=float((hybrids - blocks) * block))


def _shape(config: Configuration, name: str, layers: int) -> Transformer:
    """Heads share twice the width of the layer.

    Raises:
        RequirementError: they do not divide it.
    """
    shape = attention_shape(config, name, layers, is_tied=True)
    width = _DOUBLE * shape.hidden
    if width % shape.heads:
        raise RequirementError(
            f"config.json: num_attention_heads: {shape.heads} do not divide twice the hidden_size"
            f" of {shape.hidden}; take the file as published with the model"
        )
    ffn = config.whole("intermediate_size") or 4 * shape.hidden
    return replace(shape, head_dim=width // shape.heads, ffn=ffn)


def _pattern(config: Configuration, layers: int) -> tuple[str, ...]:
    """Which layers have a shared block before them.

    Raises:
        RequirementError: the keys that tell do not agree.
    """
    named = named_layers(config, (RECURRENT, HYBRID))
    listed = listed_layers(config, "hybrid_layer_ids", layers, HYBRID, RECURRENT)
    if named and listed:
        agreed("hybrid_layer_ids", listed, named, naming_key(config))
    usual = tuple(HYBRID if layer in _USUAL else RECURRENT for layer in range(_USUAL_LAYERS))
    return for_all(naming_key(config), named or listed or usual, layers)


def _mixer(config: Configuration) -> Mixer:
    inner = inner_width(config, "mamba_expand")
    has_bias = config.is_set("add_bias_linear")
    return Mamba2(
        hidden=config.needed("hidden_size"),
        heads=config.needed("n_mamba_heads"),
        head_dim=head_width(config, "n_mamba_heads", "mamba_headdim", inner),
        groups=config.needed("mamba_ngroups"),
        state=config.needed("mamba_d_state"),
        reach=config.needed("mamba_d_conv"),
        has_input_bias=has_bias,
        has_output_bias=has_bias,
        has_convolution_bias=True,
    ).mixer
