"""Vision transformers of multimodal models: plain, merging, tiled."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from rightsizer.planner.models.configuration import Configuration
from rightsizer.sizing.parameters import plain_layer

Tower = Callable[[Configuration], int | None]
"""What counts its parameters; `None` where its shape is not known."""

COLORS: Final = 3
"""Channels of an image, where a file does not say."""
_CHANNELS: Final = ("num_channels", "in_channels")
_TIMM_PARAMETERS: Final = {"mobilenetv5_300m_enc": 294_126_912}
"""Of networks that a file names and does not describe: what the published counts of gemma-3n-E2B
and E4B leave for it, the same in both."""
_DEEP_MERGERS: Final = 3
"""Of Qwen3-VL, where a file does not list their layers."""
_TILE_SHAPES: Final = 8
"""Of four tiles, where a file does not list them."""


def _side(config: Configuration, key: str) -> int:
    """Of a square, which a file may spell as two numbers."""
    value = config.values.get(key)
    if isinstance(value, list | tuple) and value:
        return Configuration({key: value[0]}).needed(key)
    return config.needed(key)


def channels(config: Configuration) -> int:
    """Numbers of one pixel."""
    return next((count for key in _CHANNELS if (count := config.whole(key))), COLORS)


def _patch_positions(config: Configuration) -> int:
    return (_side(config, "image_size") // _side(config, "patch_size")) ** 2


def _patches(config: Configuration, hidden: int) -> int:
    """The convolution that makes patches, over two pictures of a film where it does."""
    frames = config.whole("temporal_patch_size", 1) or 1
    return channels(config) * frames * _side(config, "patch_size") ** 2 * hidden


def _widths(config: Configuration) -> tuple[int, int, int]:
    """Layers, their width, and that of their feed-forward part."""
    layers = config.needed("depth" if "depth" in config.defaults else "num_hidden_layers")
    return layers, config.needed("hidden_size"), config.needed("intermediate_size")


def _merger(config: Configuration, hidden: int, out: str = "out_hidden_size") -> int:
    """Two matrices that make one token of a square of patches."""
    wide = config.needed("spatial_merge_size") ** 2 * hidden
    return wide * (wide + 1) + (wide + 1) * config.needed(out)


def _plain(config: Configuration, norms: int = 4, vectors: int = 2) -> int:
    """With so many vectors of norms outside layers, and more of positions than patches."""
    layers, hidden, ffn = _widths(config)
    positions = (_patch_positions(config) + vectors) * hidden
    return _patches(config, hidden) + positions + norms * hidden + layers * plain_layer(hidden, ffn)


_without_class = partial(_plain, norms=2, vectors=1)
"""The vector beside positions is a bias of the convolution; others have a class in two vectors."""


def _siglip(config: Configuration) -> int:
    _, hidden, ffn = _widths(config)
    has_head = config.is_set("vision_use_head", otherwise=True)
    # A probe in place of one norm of a layer: it is as wide as half of that.
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
    layers, hidden = config.needed("depth"), config.needed("embed_dim")
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
    """With mergers of layers between, each with a norm as wide as what it joins."""
    listed = config.values.get("deepstack_visual_indexes")
    count = len(listed) if isinstance(listed, list | tuple) else _DEEP_MERGERS
    _, hidden, _ = _widths(config)
    deep = _merger(config, hidden) + 2 * config.needed("spatial_merge_size") ** 2 * hidden
    return _qwen_3_5(config) + count * deep


def _glm(config: Configuration) -> int:
    """Its layers are as wide inside as the text, its merger as their key says."""
    layers, hidden, ffn = _widths(config)
    out, joined = config.needed("out_hidden_size"), config.needed("spatial_merge_size")
    bias = 3 * hidden if config.is_set("attention_bias") else 0
    layer = 4 * hidden**2 + bias + 3 * hidden * out + 2 * hidden
    positions = (_patch_positions(config) + 1) * hidden
    joining = (joined**2 * hidden + 1) * out + out**2 + 2 * out + 3 * out * ffn
    return _patches(config, hidden) + positions + 2 * hidden + layers * layer + joining


def _llama_3(config: Configuration) -> int:
    """Two stacks, tables of positions for each shape of tiles, and gates."""
    layers, hidden, ffn = _widths(config)
    gated = config.whole("num_global_layers", 0) or 0
    listed = config.values.get("supported_aspect_ratios")
    shapes = (len(listed) if isinstance(listed, list | tuple) else _TILE_SHAPES) + 1
    tiles, places = config.needed("max_num_tiles"), _patch_positions(config) + 1
    layer = plain_layer(hidden, ffn) - 4 * hidden  # Attention has no biases.
    tables = shapes * tiles * (places + 2) * hidden + places * hidden
    beside = 5 * hidden + 3  # The class, two norms, the gates of three tables.
    return _patches(config, hidden) + tables + beside + (layers + gated) * layer + 2 * gated


def _llama_4(config: Configuration) -> int:
    inputs, out = config.needed("projector_input_dim"), config.needed("projector_output_dim")
    return _plain(config) + config.needed("intermediate_size") * inputs + out**2


VISION_TOWERS: Final[Mapping[str, Tower]] = {
    "clip_vision_model": _plain,
    "siglip_vision_model": _siglip,
    "idefics3_vision": _without_class,
    "smolvlm_vision": _without_class,
    "pixtral": _pixtral,
    "internvl_vision": _intern,
    "intern_vit_6b": _intern,
    "gemma3n_vision": _timm,
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
}
"""By `model_type` of the part."""
