"""Models with a recurrent state per request, by `model_type`: Mamba, its hybrids, and others."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from rightsizer.planner.models import hybrid
from rightsizer.planner.models.configuration import ConfigReader, Configuration, wrong
from rightsizer.planner.models.hybrid import ATTENTION, RECURRENT, Mixer
from rightsizer.planner.models.special_layers import state_scale
from rightsizer.sizing.models import LayerKind, Transformer
from rightsizer.sizing.parameters import attention_parameters

_HYBRID: Final = "hybrid"
_FEED_FORWARD: Final = "mlp"
_EXPERTS: Final = "moe"
_JAMBA: Final = ("mamba_d_state", "mamba_dt_rank", "mamba_d_conv")
_BAMBA: Final = ("mamba_n_heads", "mamba_n_groups", "mamba_d_state", "mamba_d_conv")
_CHANNELS: Final = "mamba_d_ssm"
_RENAMED: Final = {
    "mamba_n_groups": "n_groups",
    "mamba_d_conv": "conv_kernel",
    "mamba_conv_bias": "use_conv_bias",
    "num_local_experts": "n_routed_experts",
}
"""Keys that the class reads under another name."""
_PATTERN: Final = "hybrid_override_pattern"
_LETTERS: Final = {"M": RECURRENT, "*": ATTENTION, "-": _FEED_FORWARD, "E": _EXPERTS}
_USUAL: Final = (RECURRENT, _EXPERTS, ATTENTION, _FEED_FORWARD)
_NEMOTRON: Final = ("mamba_num_heads", "n_groups", "ssm_state_size", "conv_kernel")
_ZAMBA: Final = ("n_mamba_heads", "mamba_ngroups", "mamba_d_state", "mamba_d_conv")
_ZAMBA_HYBRIDS: Final = (6, 12, 18, 24, 30, 36, 42, 47, 51)
"""Layers after a shared block, if the configuration does not state them."""
_DOUBLE: Final = 2
"""Attention receives the embedding beside the previous layer's output."""


def read_mamba(config: Configuration, name: str) -> Transformer:
    """Mamba and Falcon Mamba: each channel is a head with its own state."""
    # Falcon Mamba's file has an unused expansion of 16, beside the real width.
    inner = config.whole("intermediate_size") or hybrid.inner_width(config, "expand")
    keys = ("state_size", "time_step_rank", "conv_kernel")
    mixer = hybrid.mamba_mixer(config, inner, keys, ("use_bias", "use_conv_bias"))
    return _stack(config, name, (inner, 1), mixer, is_tied=True)


def read_mamba2(config: Configuration, name: str) -> Transformer:
    """Mamba 2."""
    heads = config.needed("num_heads")
    width = config.needed("head_dim")
    inner = hybrid.inner_width(config, "expand")
    if heads * width != inner:
        fault = f"{heads} heads of {width} are not {inner} wide, as hidden_size and expand tell"
        raise wrong("num_heads", fault, "correct one of them")
    keys = ("num_heads", "n_groups", "state_size", "conv_kernel")
    mixer = hybrid.mamba2_mixer(config, width, keys, ("use_bias", "use_bias", "use_conv_bias"))
    return _stack(config, name, (heads, width), mixer, is_tied=False)


def _stack(
    config: Configuration, name: str, heads: tuple[int, int], mixer: Mixer, *, is_tied: bool
) -> Transformer:
    layers = hybrid.layer_count(config)
    shape = Transformer(
        layers=layers,
        hidden=config.needed("hidden_size"),
        heads=heads[0],
        vocab=config.needed("vocab_size"),
        name=name,
        head_dim=heads[1],
        tied_embeddings=config.is_set("tie_word_embeddings", otherwise=is_tied),
    )
    return hybrid.with_layer_kinds(
        shape, [mixer.kind(layers, has_feed_forward=False, parts=1)], mixer, 0.0
    )


def read_jamba(config: Configuration, name: str) -> Transformer:
    """Layers with attention, and layers with experts, each at a regular period."""
    layers = hybrid.layer_count(config)
    ffn = config.needed("intermediate_size")
    shape = hybrid.attention_shape(config, name, layers, ffn=ffn)
    is_attending = hybrid.periodic_layers(config, "attn", layers)
    if named := hybrid.named_layers(config, (ATTENTION, RECURRENT)):
        periodic = tuple(ATTENTION if attends else RECURRENT for attends in is_attending)
        hybrid.check_agreement(hybrid.naming_key(config), named, periodic, "attn_layer_period")
    inner = hybrid.inner_width(config, "mamba_expand")
    keys = _JAMBA
    biases = ("mamba_proj_bias", "mamba_conv_bias")
    mixer = hybrid.mamba_mixer(config, inner, keys, biases, has_norms=True)
    experts = config.needed("num_experts")
    mixed = sum(hybrid.periodic_layers(config, "expert", layers)) if experts > 1 else 0
    one = hybrid.feed_forward(shape.hidden, ffn)
    feed_forwards = (layers - mixed) * one + mixed * experts * (one + shape.hidden)
    whole = hybrid.alternating_layers(shape, sum(is_attending), mixer, feed_forwards)
    if not mixed:
        return whole
    parts = {"experts": experts, "dense_layers": layers - mixed, "dense_ffn": ffn}
    return hybrid.with_chosen_experts(whole, config, mixed, one, **parts)


def _bamba_mixer(config: Configuration, inner: int, bias: str, *, has_norm: bool = True) -> Mixer:
    head_dim = hybrid.head_width(config, "mamba_n_heads", "mamba_d_head", inner)
    biases = ("mamba_proj_bias", bias, "mamba_conv_bias")
    return hybrid.mamba2_mixer(config, head_dim, _BAMBA, biases, has_norm=has_norm)


def read_bamba(config: Configuration, name: str) -> Transformer:
    """Layers of attention are listed; if none is, all are recurrent."""
    layers = hybrid.layer_count(config)
    ffn = config.needed("intermediate_size")
    pattern = hybrid.layer_pattern(config, layers, "attn_layer_indices")
    has_bias = config.is_set("attention_bias")
    shape = hybrid.attention_shape(config, name, layers, attention_bias=has_bias, ffn=ffn)
    mixer = _bamba_mixer(config, hybrid.inner_width(config, "mamba_expand"), "mamba_proj_bias")
    one = hybrid.feed_forward(shape.hidden, ffn, has_bias=config.is_set("mlp_bias"))
    return hybrid.alternating_layers(shape, pattern.count(ATTENTION), mixer, layers * one)


def read_granite_hybrid(config: Configuration, name: str) -> Transformer:
    """Each layer has a shared feed-forward part, and experts if there are any."""
    layers = hybrid.layer_count(config)
    pattern = hybrid.layer_pattern(config, layers)
    has_bias = config.is_set("attention_bias")
    shape = hybrid.attention_shape(config, name, layers, attention_bias=has_bias)
    mixer = _bamba_mixer(config, hybrid.inner_width(config, "mamba_expand"), "mamba_proj_bias")
    hidden = shape.hidden
    shared = config.needed("shared_intermediate_size")
    experts = config.whole("num_local_experts") or 0
    ffn = config.needed("intermediate_size") if experts else shared
    expert = hybrid.feed_forward(hidden, ffn)
    feed_forwards = layers * (hybrid.feed_forward(hidden, shared) + experts * (expert + hidden))
    attending = pattern.count(ATTENTION)
    whole = hybrid.alternating_layers(replace(shape, ffn=ffn), attending, mixer, feed_forwards)
    if not experts:
        return whole
    parts = {"experts": experts, "shared_experts": -(-shared // ffn)}
    return hybrid.with_chosen_experts(whole, config, layers, expert, **parts)


def read_falcon_h1(config: Configuration, name: str) -> Transformer:
    """Each layer has both attention with a cache and a mixer with a state."""
    layers = hybrid.layer_count(config)
    ffn = config.needed("intermediate_size")
    has_bias = config.is_set("attention_bias")
    shape = hybrid.attention_shape(config, name, layers, attention_bias=has_bias, ffn=ffn)
    # Null means the expanded width of the layer, a missing key the class's default.
    is_null = _CHANNELS in config.values and config.values[_CHANNELS] is None
    inner = hybrid.inner_width(config, "mamba_expand") if is_null else config.needed(_CHANNELS)
    has_norm = config.is_set("mamba_rms_norm")
    mixer = _bamba_mixer(config, inner, "projectors_bias", has_norm=has_norm)
    one = hybrid.feed_forward(shape.hidden, ffn, has_bias=config.is_set("mlp_bias"))
    return hybrid.with_layer_kinds(
        shape, [mixer.kind(layers, has_attention=True)], mixer, layers * one
    )


def read_nemotron_h(given: Configuration, name: str) -> Transformer:
    """Each layer is only one of Mamba 2, attention, feed-forward part or experts."""
    values = given.values
    renamed = {new: values[old] for old, new in _RENAMED.items() if old in values}
    config = replace(given, values={**renamed, **values})
    pattern = _nemotron_pattern(config)
    has_bias = config.is_set("attention_bias")
    ffn = config.needed("intermediate_size")
    shape = hybrid.attention_shape(
        config, name, len(pattern), attention_bias=has_bias, gated_ffn=False, ffn=ffn
    )
    head_dim = config.needed("mamba_head_dim")
    biases = ("use_bias", "use_bias", "use_conv_bias")
    scale = state_scale(config, "mamba_ssm_cache_dtype", "float32")
    mixer = hybrid.mamba2_mixer(config, head_dim, _NEMOTRON, biases, state_scale=scale)
    dense = pattern.count(_FEED_FORWARD)
    mixed = pattern.count(_EXPERTS)
    kinds = (
        LayerKind(pattern.count(ATTENTION), has_attention=True, has_feed_forward=False, parts=1),
        mixer.kind(pattern.count(RECURRENT), has_feed_forward=False, parts=1),
        LayerKind(dense + mixed, parts=1),
    )
    has_ffn_bias = config.is_set("mlp_bias")
    one = hybrid.feed_forward(shape.hidden, ffn, is_gated=False, has_bias=has_ffn_bias)
    whole = hybrid.with_layer_kinds(shape, kinds, mixer, dense * one)
    return _with_experts(whole, config, dense, mixed) if mixed else whole


def _with_experts(shape: Transformer, config: Configuration, dense: int, mixed: int) -> Transformer:
    """Return the shape with experts in some layers, whose input may be narrower."""
    hidden = shape.hidden
    has_bias = config.is_set("mlp_bias")
    experts = config.needed("n_routed_experts")
    width = config.needed("moe_intermediate_size")
    shared = config.needed("moe_shared_expert_intermediate_size")
    latent = config.whole("moe_latent_size")
    expert = hybrid.feed_forward(latent or hidden, width, is_gated=False)
    layer = experts * (expert + hidden + 1)
    layer += hybrid.feed_forward(hidden, shared, is_gated=False, has_bias=has_bias)
    if latent:
        layer += 2 * hidden * latent + (hidden + latent if has_bias else 0)
    return hybrid.with_chosen_experts(
        shape,
        config,
        mixed,
        expert,
        parameters=(shape.parameters or 0.0) + mixed * layer,
        ffn=width,
        experts=experts,
        expert_input=latent,
        shared_experts=-(-shared // width),
        dense_layers=shape.layers - mixed,
        dense_ffn=shape.ffn if dense else None,
    )


def _nemotron_pattern(config: Configuration) -> hybrid.Kinds:
    """Return the kind of each layer, by name or by letter."""
    named = hybrid.named_layers(config, _USUAL)
    letters = config.text(_PATTERN)
    for letter in letters:
        if letter not in _LETTERS:
            raise wrong(_PATTERN, f"'{letter}' is none of {' '.join(_LETTERS)}")
    spelled = tuple(_LETTERS[letter] for letter in letters)
    if named and spelled:
        hybrid.check_agreement(_PATTERN, spelled, named, hybrid.naming_key(config))
    pattern = named or spelled or _USUAL
    if config.whole("num_hidden_layers") is None:
        return pattern
    key = hybrid.naming_key(config) if named or not spelled else _PATTERN
    return hybrid.check_layer_count(key, pattern, hybrid.layer_count(config))


def read_zamba2(config: Configuration, name: str) -> Transformer:
    """Mamba 2 in all layers, and a few blocks of attention shared by many, counted once."""
    layers = hybrid.layer_count(config)
    places = range(config.defaults["num_hidden_layers"])
    usual = tuple(_HYBRID if layer in _ZAMBA_HYBRIDS else RECURRENT for layer in places)
    pattern = hybrid.layer_pattern(config, layers, "hybrid_layer_ids", marked=_HYBRID, usual=usual)
    hybrids = pattern.count(_HYBRID)
    shape = hybrid.attention_shape(config, name, layers, is_tied=True)
    hidden = shape.hidden
    width = _DOUBLE * shape.hidden
    if width % shape.heads:
        fault = f"{shape.heads} do not divide twice the hidden_size of {hidden}"
        raise wrong("num_attention_heads", fault)
    ffn = config.whole("intermediate_size") or 4 * hidden
    shape = replace(shape, head_dim=width // shape.heads, ffn=ffn)
    inner = hybrid.inner_width(config, "mamba_expand")
    bias = "add_bias_linear"
    head_dim = hybrid.head_width(config, "n_mamba_heads", "mamba_headdim", inner)
    mixer = hybrid.mamba2_mixer(config, head_dim, _ZAMBA, (bias, bias, ""))
    blocks = min(config.needed("num_mem_blocks"), hybrids)
    keys = (shape.kv_heads or 0) * (width // shape.heads)
    block = width * (width + 2 * keys) + width * hidden + width + hidden
    block += hybrid.feed_forward(hidden, ffn, has_bias=config.is_set(bias))
    rank = config.needed("adapter_rank")
    adapter = rank * (hidden + 2 * ffn)
    if config.is_set("use_shared_attention_adapter"):
        adapter += 3 * rank * 2 * width
    plain = mixer.kind(layers - hybrids, has_feed_forward=False, parts=1)
    kinds = (plain, mixer.kind(hybrids, has_attention=True, parts=3))
    # For each layer with a shared block: adapter, a matrix back, and only one norm.
    own = hybrids * (adapter + hidden * hidden - 2 * hidden - attention_parameters(shape))
    whole = hybrid.with_layer_kinds(shape, kinds, mixer, blocks * block, own)
    return replace(whole, repeated_parameters=float((hybrids - blocks) * block))


def read_lfm2(config: Configuration, name: str) -> Transformer:
    """Layers of attention are named or listed; if neither, all have attention."""
    ffn = _lfm2_width(config)
    one = hybrid.feed_forward(config.needed("hidden_size"), ffn)
    return _lfm2_stack(config, name, ffn, hybrid.layer_count(config) * one)


def read_lfm2_mixture(config: Configuration, name: str) -> Transformer:
    """The first layers have no experts."""
    layers = hybrid.layer_count(config)
    dense = config.whole("num_dense_layers") or 0
    if dense > layers:
        raise wrong("num_dense_layers", f"{dense} of {layers} layers", "take at most all of them")
    hidden = config.needed("hidden_size")
    ffn = config.needed("intermediate_size")
    experts = config.needed("num_experts")
    width = config.needed("moe_intermediate_size")
    expert = hybrid.feed_forward(hidden, width)
    has_bias = config.is_set("use_expert_bias", otherwise=True)
    mixed = experts * (expert + hidden + (1 if has_bias else 0))
    feed_forwards = dense * hybrid.feed_forward(hidden, ffn) + (layers - dense) * mixed
    if hybrid.named_layers(config, (ATTENTION, RECURRENT)) is None:
        raise wrong("layer_types", "is missing")
    whole = _lfm2_stack(config, name, width, feed_forwards)
    parts = {"experts": experts, "dense_layers": dense, "dense_ffn": ffn}
    return hybrid.with_chosen_experts(whole, config, layers - dense, expert, **parts)


def _lfm2_stack(config: Configuration, name: str, ffn: int, feed_forwards: int) -> Transformer:
    layers = hybrid.layer_count(config)
    is_tied = config.is_set("tie_embedding", otherwise=True)
    pattern = hybrid.layer_pattern(config, layers, "full_attn_idxs", usual=(ATTENTION,) * layers)
    shape = hybrid.attention_shape(
        config, name, layers, is_tied=is_tied, query_key_norm=True, ffn=ffn
    )
    hidden = shape.hidden
    reach = config.needed("conv_L_cache")
    # Two gates and their input; only the last tokens before the convolution are kept.
    bias = (3 + 1 + 1) * hidden if config.is_set("conv_bias") else 0
    count = 4 * hidden * hidden + hidden * reach + bias
    mixer = Mixer(count, hidden * (reach - 1), inputs=3 * hidden, width=hidden)
    return hybrid.alternating_layers(shape, pattern.count(ATTENTION), mixer, feed_forwards)


def _lfm2_width(config: Configuration) -> int:
    """Width of the feed-forward part: by default 2/3 of the stated one, scaled and rounded up."""
    stated = config.whole("block_ff_dim") or config.needed("intermediate_size")
    if not config.is_set("block_auto_adjust_ff_dim", otherwise=True):
        return stated
    scaled = int(config.number("block_ffn_dim_multiplier", 1.0) * (2 * stated // 3))
    whole = config.needed("block_multiple_of")
    if not scaled:
        raise wrong("block_ffn_dim_multiplier", f"leaves nothing of {stated}")
    return -(-scaled // whole) * whole


READERS: Final[Mapping[str, ConfigReader]] = {
    "bamba": read_bamba,
    "falcon_h1": read_falcon_h1,
    **dict.fromkeys(("mamba", "falcon_mamba"), read_mamba),
    "granitemoehybrid": read_granite_hybrid,
    "jamba": read_jamba,
    "lfm2": read_lfm2,
    "lfm2_moe": read_lfm2_mixture,
    "mamba2": read_mamba2,
    "nemotron_h": read_nemotron_h,
    "zamba2": read_zamba2,
}
"""Each follows its transformers class; tests compare them with published counts."""
