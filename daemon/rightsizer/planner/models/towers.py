"""Towers of multimodal models: vision (plain, merging, tiled), audio, projectors to text."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from rightsizer.planner.models.configuration import MODEL_TYPES, Configuration
from rightsizer.planner.models.encoder_decoder import speech_encoder_parameters
from rightsizer.sizing.parameters import plain_layer

Tower = Callable[[Configuration], int | None]
"""Counts its parameters; `None` if its shape is unknown."""

COLORS: Final = 3
"""Channels of an image, if a file does not state them."""
_CHANNEL_KEYS: Final = ("num_channels", "in_channels")
_TIMM_PARAMETERS: Final = {"mobilenetv5_300m_enc": 294_126_912}
"""Networks that a file names without describing: the remainder of the published counts of
gemma-3n-E2B and E4B, equal in both."""
_DEEP_MERGERS: Final = 3
"""Of Qwen3-VL, if a file does not list their layers."""
_TILE_SHAPES: Final = 8
"""For four tiles, if a file does not list them."""
_CHANNELS: Final = (128, 32)
"""Of the two 3x3 convolutions before a conformer, each of which halves the resolution."""
_KERNEL: Final = 9
_MERGED: Final = 2
"""Patches per side that are merged, if a file does not state them."""
_SCALED: Final = 4
"""The same for InternVL and Idefics: patches that are merged."""
_HARD_TOKENS: Final = 128
"""Per part of Gemma 3n, in a separate table."""
_LARGEST_TOKENS: Final = 16_384
"""Of one image, where any resolution is taken: `max_pixels` of Qwen2-VL's processor and later."""
_ANY_RESOLUTION: Final = frozenset(
    {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"}
)
_GATED: Final = frozenset({"qwen2_5_vl", "pixtral", "glm4v", "glm4v_moe"})
_PROJECTED: Final = 512
"""Width of CLIP's joint image-text space."""
Projector = Callable[[Configuration, Configuration, int], int]
"""Counts parameters by the whole model, the part, and the width of the text."""


def _side(config: Configuration, key: str) -> int:
    """Return the side of a square, which must be stated."""
    return _square(config, key).needed(key)


def _square(config: Configuration, key: str) -> Configuration:
    """Return a configuration with one number for a square, which a file may state as two."""
    value = config.values.get(key)
    if isinstance(value, list | tuple) and value:
        return Configuration({key: value[0]})
    return config


def channels(config: Configuration) -> int:
    """Return the numbers per pixel."""
    return next((count for key in _CHANNEL_KEYS if (count := config.whole(key))), COLORS)


def _patch_positions(config: Configuration) -> int:
    return (_side(config, "image_size") // _side(config, "patch_size")) ** 2


def _patches(config: Configuration, hidden: int) -> int:
    """Convolution that produces patches, over two frames of a video where applicable."""
    frames = config.whole("temporal_patch_size", 1) or 1
    return channels(config) * frames * _side(config, "patch_size") ** 2 * hidden


def _widths(config: Configuration) -> tuple[int, int, int]:
    """Number of layers, their width, and that of their feed-forward part."""
    layers = config.needed("depth" if "depth" in config.defaults else "num_hidden_layers")
    return layers, config.needed("hidden_size"), config.needed("intermediate_size")


def _merger(config: Configuration, hidden: int, out: str = "out_hidden_size") -> int:
    """Two matrices that merge a square of patches into one token."""
    wide = config.needed("spatial_merge_size") ** 2 * hidden
    return wide * (wide + 1) + (wide + 1) * config.needed(out)


def _plain(config: Configuration, norms: int = 4, vectors: int = 2) -> int:
    """Count a plain tower with `norms` vectors outside layers, and `vectors` extra positions."""
    layers, hidden, ffn = _widths(config)
    positions = (_patch_positions(config) + vectors) * hidden
    return _patches(config, hidden) + positions + norms * hidden + layers * plain_layer(hidden, ffn)


_without_class = partial(_plain, norms=2, vectors=1)
"""The extra vector is a bias of the convolution; others have a class in two vectors."""


def _siglip(config: Configuration) -> int:
    _, hidden, ffn = _widths(config)
    has_head = config.is_set("vision_use_head", otherwise=True)
    # A probe replaces one norm of a layer, and has half its width.
    pooled = plain_layer(hidden, ffn) - hidden if has_head else 0
    return _without_class(config) + pooled


def _pixtral(config: Configuration) -> int:
    layers, hidden, ffn = _widths(config)
    layer = 4 * hidden**2 + 3 * hidden * ffn + 2 * hidden
    return _patches(config, hidden) + hidden + layers * layer


def _intern(config: Configuration) -> int:
    """InternViT, by the keys of transformers and by those of its own files."""
    layers, hidden, ffn = _widths(config)
    has_bias = config.is_set("attention_bias") or config.is_set("qkv_bias")
    has_norms = config.is_set("use_qk_norm") or config.is_set("qk_normalization")
    layer = 4 * hidden**2 + hidden + 2 * hidden * ffn + ffn + hidden
    layer += (3 * hidden if has_bias else 0) + (2 * hidden if has_norms else 0)
    norm = hidden if config.text("norm_type") == "rms_norm" else 2 * hidden
    positions = (_patch_positions(config) + 3) * hidden
    return _patches(config, hidden) + positions + layers * (layer + 2 * norm + 2 * hidden)


def _timm(config: Configuration) -> int | None:
    return _TIMM_PARAMETERS.get(config.text("architecture") or next(iter(_TIMM_PARAMETERS)))


def _qwen_2(config: Configuration) -> int:
    layers = config.needed("depth")
    hidden = config.needed("embed_dim")
    layer = plain_layer(hidden, config.needed("mlp_ratio") * hidden)
    joining = _merger(config, hidden, "hidden_size")
    return _patches(config, hidden) + layers * layer + 2 * hidden + joining


def _qwen_2_5(config: Configuration) -> int:
    layers, hidden, ffn = _widths(config)
    layer = 4 * hidden * (hidden + 1) + 3 * hidden * ffn + 2 * ffn + hidden + 2 * hidden
    joining = _merger(config, hidden)
    return _patches(config, hidden) + layers * layer + hidden + joining


def _qwen_3_5(config: Configuration) -> int:
    layers, hidden, ffn = _widths(config)
    positions = (config.needed("num_position_embeddings") + 1) * hidden
    joining = 2 * hidden + _merger(config, hidden)
    return _patches(config, hidden) + positions + layers * plain_layer(hidden, ffn) + joining


def _qwen_3(config: Configuration) -> int:
    """With mergers between layers, each with a norm as wide as the merged patches."""
    listed = config.values.get("deepstack_visual_indexes")
    count = len(listed) if isinstance(listed, list | tuple) else _DEEP_MERGERS
    _, hidden, _ = _widths(config)
    deep = _merger(config, hidden) + 2 * config.needed("spatial_merge_size") ** 2 * hidden
    return _qwen_3_5(config) + count * deep


def _glm(config: Configuration) -> int:
    """The feed-forward width is that of the text, the merger's has its own key."""
    layers, hidden, ffn = _widths(config)
    out = config.needed("out_hidden_size")
    joined = config.needed("spatial_merge_size")
    bias = 3 * hidden if config.is_set("attention_bias") else 0
    layer = 4 * hidden**2 + bias + 3 * hidden * out + 2 * hidden
    positions = (_patch_positions(config) + 1) * hidden
    joining = (joined**2 * hidden + 1) * out + out**2 + 2 * out + 3 * out * ffn
    return _patches(config, hidden) + positions + 2 * hidden + layers * layer + joining


def _llama_3(config: Configuration) -> int:
    """Two stacks, position tables for each shape of tiles, and gates."""
    layers, hidden, ffn = _widths(config)
    gated = config.whole("num_global_layers", 0) or 0
    listed = config.values.get("supported_aspect_ratios")
    shapes = (len(listed) if isinstance(listed, list | tuple) else _TILE_SHAPES) + 1
    tiles = config.needed("max_num_tiles")
    places = _patch_positions(config) + 1
    layer = plain_layer(hidden, ffn) - 4 * hidden  # Attention has no biases.
    tables = shapes * tiles * (places + 2) * hidden + places * hidden
    beside = 5 * hidden + 3  # The class, two norms, the gates of three tables.
    return _patches(config, hidden) + tables + beside + (layers + gated) * layer + 2 * gated


def _llama_4(config: Configuration) -> int:
    inputs = config.needed("projector_input_dim")
    out = config.needed("projector_output_dim")
    return _plain(config) + config.needed("intermediate_size") * inputs + out**2


def _gemma_4(config: Configuration) -> int:
    layers, hidden, ffn = _widths(config)
    positions = 2 * config.needed("position_embedding_size") * hidden
    head = hidden // config.needed("num_attention_heads")
    layer = 4 * hidden**2 + 2 * head + 3 * hidden * ffn + 4 * hidden
    return _patches(config, hidden) + positions + layers * layer


def _gemma_4_audio(config: Configuration) -> int:
    """Gemma 3n's by other keys, and a projection behind it."""
    keys = {
        "conf_num_hidden_layers": "num_hidden_layers",
        "conf_conv_kernel_size": "conv_kernel_size",
    }
    keys |= {"conf_num_attention_heads": "num_attention_heads"}
    renamed = {old: config.values[new] for old, new in keys.items() if new in config.values}
    out = config.needed("output_proj_dims")
    within = _conformer(Configuration({**config.values, **renamed}, config.defaults))
    return within + out * (config.needed("hidden_size") + 1)


def _conformer(config: Configuration) -> int:
    """Gemma 3n's: two feed-forward parts, attention and a convolution in each layer."""
    hidden = config.needed("hidden_size")
    head = hidden // config.needed("conf_num_attention_heads")
    feed_forward = 8 * hidden**2 + 2 * hidden
    attention = 5 * hidden**2 + head + 2 * hidden
    convolution = 3 * hidden**2 + (config.needed("conf_conv_kernel_size") + 2) * hidden
    layer = 2 * feed_forward + attention + convolution + hidden
    first, second = _CHANNELS
    bins = config.needed("input_feat_size") // 4
    before = _KERNEL * first * (1 + second) + first + second + second * bins * hidden
    return before + config.needed("conf_num_hidden_layers") * layer


def _llava(outer: Configuration, part: Configuration, text: int, ends: int = 0) -> int:
    """`ends`: tokens at the end of a row of tiles."""
    layers = outer.values.get("vision_feature_layer")
    levels = len(layers) if isinstance(layers, list | tuple) else 1
    biases = 2 * text if outer.is_set("multimodal_projector_bias", otherwise=True) else 0
    return levels * part.needed("hidden_size") * text + text**2 + biases + ends * text


_llava_next = partial(_llava, ends=1)


def _mistral(outer: Configuration, part: Configuration, text: int) -> int:
    hidden = part.needed("hidden_size")
    joined = outer.whole("spatial_merge_size", _MERGED) or _MERGED
    biases = 2 * text if outer.is_set("multimodal_projector_bias") else 0
    return hidden + joined**2 * hidden**2 + hidden * text + text**2 + biases


def _gemma_3n(_: Configuration, part: Configuration, text: int) -> int:
    hidden = part.needed("hidden_size")
    return ((part.whole("vocab_size") or _HARD_TOKENS) + 2 + text) * hidden


def _linear(_: Configuration, part: Configuration, text: int) -> int:
    return ((part.whole("hidden_size") or part.needed("d_model")) + 1) * text


def _intern_projector(_: Configuration, part: Configuration, text: int) -> int:
    wide = _SCALED * part.needed("hidden_size")
    return 2 * wide + (wide + 1) * text + text * (text + 1)


def _idefics(outer: Configuration, part: Configuration, text: int) -> int:
    joined = outer.whole("scale_factor", _MERGED) or _MERGED
    return joined**2 * part.needed("hidden_size") * text


def _clip(outer: Configuration, part: Configuration, text: int) -> int:
    width = outer.whole("projection_dim", _PROJECTED) or _PROJECTED
    return (part.needed("hidden_size") + text) * width + 1


_VISION_PARTS: Final[Mapping[str, tuple[str, Projector]]] = {
    "clip": ("clip_vision_model", _clip),
    "siglip": ("siglip_vision_model", lambda *_: 2),
    "llava": ("clip_vision_model", _llava),
    "llava_next": ("clip_vision_model", _llava_next),
    "llava_next_video": ("clip_vision_model", _llava_next),
    "llava_onevision": ("siglip_vision_model", _llava_next),
    "mistral3": ("pixtral", _mistral),
    "gemma3": (
        "siglip_vision_model",
        lambda _, part, text: part.needed("hidden_size") * (text + 1),
    ),
    "gemma3n": ("gemma3n_vision", _gemma_3n),
    "gemma4": ("gemma4_vision", lambda _, part, text: part.needed("hidden_size") * text),
    "paligemma": ("siglip_vision_model", _linear),
    "mllama": (
        "mllama_vision_model",
        lambda _, part, text: (part.needed("vision_output_dim") + 1) * text,
    ),
    "llama4": (
        "llama4_vision_model",
        lambda _, part, text: part.needed("vision_output_dim") * text,
    ),
    "internvl": ("internvl_vision", _intern_projector),
    "internvl_chat": ("intern_vit_6b", _intern_projector),
    "idefics3": ("idefics3_vision", _idefics),
    "smolvlm": ("smolvlm_vision", _idefics),
    **{
        kind: (kind, lambda *_: 0)
        for kind in (
            "qwen2_vl",
            "qwen2_5_vl",
            "qwen3_vl",
            "qwen3_vl_moe",
            "qwen3_5",
            "qwen3_5_moe",
            "glm4v",
            "glm4v_moe",
        )
    },
}
"""By `model_type` of the whole: the vision part, if its configuration does not name it, and its
projector to the text."""
_AUDIO_PARTS: Final[Mapping[str, tuple[str, Projector]]] = {
    "gemma3n": ("gemma3n_audio", _gemma_3n),
    "gemma4": ("gemma4_audio", lambda _, part, text: part.needed("output_proj_dims") * text),
    "qwen2_audio": ("qwen2_audio_encoder", _linear),
    "voxtral": (
        "voxtral_encoder",
        lambda _, part, text: part.needed("intermediate_size") * text + text**2,
    ),
}

_PARTS: Final = {"vision_config": _VISION_PARTS, "audio_config": _AUDIO_PARTS}
OTHER_PARTS: Final = tuple(_PARTS)
_TOWERS: Final[Mapping[str, Tower]] = {
    "clip_vision_model": _plain,
    "siglip_vision_model": _siglip,
    "idefics3_vision": _without_class,
    "smolvlm_vision": _without_class,
    "pixtral": _pixtral,
    "internvl_vision": _intern,
    "intern_vit_6b": _intern,
    "gemma3n_vision": _timm,
    "gemma4_vision": _gemma_4,
    "qwen2_vl": _qwen_2,
    "qwen2_5_vl": _qwen_2_5,
    "qwen3_vl": _qwen_3,
    "qwen3_vl_moe": _qwen_3,
    "qwen3_5": _qwen_3_5,
    "qwen3_5_moe": _qwen_3_5,
    "glm4v": _glm,
    "glm4v_moe": _glm,
    "mllama_vision_model": _llama_3,
    "llama4_vision_model": _llama_4,
    "qwen2_audio_encoder": partial(
        speech_encoder_parameters, keys=("d_model", "encoder_ffn_dim", "encoder_layers")
    ),
    "voxtral_encoder": partial(
        speech_encoder_parameters, keys=("hidden_size", "intermediate_size", "num_hidden_layers")
    ),
    "gemma3n_audio": _conformer,
    "gemma4_audio": _gemma_4_audio,
}
"""By `model_type` of the part."""


def count_towers(config: Configuration, text_width: int) -> tuple[int, tuple[str, ...]]:
    """Return the parameters of known parts beside the text, and notes on them.

    Their projectors to the text, of the given width, are included.
    """
    kind = config.text("model_type")
    counts = {key: _parameters(config, key, text_width) for key in OTHER_PARTS if config.part(key)}
    counted = sum(count or 0 for count in counts.values())
    if not counted:
        return 0, (f"only the text part of {kind} is counted, without vision and audio",)
    left = [f"{key} of {kind} is not counted" for key, count in counts.items() if not count]
    note = f"beside the text part of {kind} vision and audio are counted, {counted:,} parameters"
    why = "in memory that no output token passes"
    tokens = "the tokens of an image or a sound are part of load.input_tokens"
    return counted, (f"{note} {why}; {tokens}", *left)


def _parameters(config: Configuration, key: str, text_width: int) -> int | None:
    """Return the parameters of one part; `None` if unknown."""
    _, projector = _PARTS[key].get(config.text("model_type"), ("", None))
    named, part = _tower(config, key)
    if named not in _TOWERS or projector is None:
        return None
    own = _TOWERS[named](part)
    return None if own is None else own + projector(config, part, text_width)


def _tower(config: Configuration, key: str) -> tuple[str, Configuration]:
    """Return the type of a part, and its values."""
    kind = config.text("model_type")
    values = config.part(key)
    usual, _ = _PARTS[key].get(kind, (kind, None))
    named = Configuration(values).text("model_type") or usual
    named = named if named in _TOWERS else named.removesuffix("_vision")
    return named, Configuration(values, MODEL_TYPES["towers"].get(named, {}))


def encoder_elements(config: Configuration) -> float:
    """Numbers live while an engine tries the largest image; 0 without a tower for images.

    Pixels in three numbers of 16 bits, two streams, what is merged, and the widest part.
    """
    named, part = _tower(config, "vision_config")
    width = part.whole("embed_dim" if named == "qwen2_vl" else "hidden_size")
    patch = _square(part, "patch_size").whole("patch_size")
    if named not in _TOWERS or not width or not patch:
        return 0.0
    ffn = part.whole("intermediate_size") or (part.whole("mlp_ratio") or _SCALED) * width
    merged = part.whole("spatial_merge_size")
    sides = _square(part, "image_size").whole("image_size")
    patches = (sides or 0) // patch * ((sides or 0) // patch)
    if merged and named in _ANY_RESOLUTION:
        patches = _LARGEST_TOKENS * merged**2
    pixels = channels(part) * (part.whole("temporal_patch_size") or 1) * patch**2
    matrices = 3 if named in _GATED else 2
    return float(patches * (3 * pixels + 3 * width + matrices * ffn))
