"""Vision transformers of multimodal models: plain, merging, tiled."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.planner.models.configuration import Configuration

Tower = tuple[Callable[[Configuration], int | None], Mapping[str, int]]
"""What counts its parameters, `None` where its shape is not known, and values left out."""


COLORS: Final = 3
"""Channels of an image, where a file does not say."""
_CHANNELS: Final = ("num_channels", "in_channels")


def _side(config: Configuration, key: str) -> int:
    """Of a square, which a file may spell as two numbers."""
    value = config.values.get(key)
    if isinstance(value, list | tuple) and value:
        return Configuration({key: value[0]}, {}).needed(key)
    return config.needed(key)


def channels(config: Configuration) -> int:
    """Numbers of one pixel."""
    return next((count for key in _CHANNELS if (count := config.whole(key))), COLORS)


def patch_positions(config: Configuration) -> int:
    """How many patches an image has."""
    return (_side(config, "image_size") // _side(config, "patch_size")) ** 2


def patches(config: Configuration, hidden: int) -> int:
    """The convolution that makes patches, over two pictures of a film where it does."""
    frames = config.whole("temporal_patch_size", 1) or 1
    return channels(config) * frames * _side(config, "patch_size") ** 2 * hidden


def widths(config: Configuration) -> tuple[int, int, int]:
    """Layers, their width, and that of their feed-forward part."""
    layers = config.needed("depth" if "depth" in config.defaults else "num_hidden_layers")
    return layers, config.needed("hidden_size"), config.needed("intermediate_size")


def plain_layer(hidden: int, ffn: int) -> int:
    """Attention and two matrices with biases, and two norms of two vectors."""
    return 4 * hidden * (hidden + 1) + 2 * hidden * ffn + ffn + hidden + 4 * hidden


def merger(hidden: int, joined: int, out: int) -> int:
    """Two matrices that make one token of a square of patches."""
    wide = joined**2 * hidden
    return wide * (wide + 1) + (wide + 1) * out


_TIMM_PARAMETERS: Final = MappingProxyType({"mobilenetv5_300m_enc": 294_126_912})
"""Of networks that a file names and does not describe: what the published counts of gemma-3n-E2B
and E4B leave for it, the same in both."""
_CLIP: Final = MappingProxyType(
    {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "image_size": 224,
        "patch_size": 32,
    }
)
_SIGLIP: Final = MappingProxyType({**_CLIP, "patch_size": 16})
_IDEFICS: Final = MappingProxyType({**_CLIP, "hidden_size": 1152})
_PIXTRAL: Final = MappingProxyType(
    {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": 16}
)
_INTERN: Final = MappingProxyType(
    {**_PIXTRAL, "image_size": 448, "patch_size": 14, "num_hidden_layers": 24}
)


def _clip(config: Configuration) -> int:
    layers, hidden, ffn = widths(config)
    positions = (patch_positions(config) + 2) * hidden  # And the class token itself.
    return patches(config, hidden) + positions + 4 * hidden + layers * plain_layer(hidden, ffn)


def _without_class(config: Configuration) -> int:
    layers, hidden, ffn = widths(config)
    positions = (patch_positions(config) + 1) * hidden  # And a bias of the convolution.
    return patches(config, hidden) + positions + 2 * hidden + layers * plain_layer(hidden, ffn)


def _siglip(config: Configuration) -> int:
    _, hidden, ffn = widths(config)
    has_head = config.is_set("vision_use_head", otherwise=True)
    # A probe in place of one norm of a layer: it is as wide as half of that.
    pooled = plain_layer(hidden, ffn) - hidden if has_head else 0
    return _without_class(config) + pooled


def _pixtral(config: Configuration) -> int:
    layers, hidden, ffn = widths(config)
    layer = 4 * hidden**2 + 3 * hidden * ffn + 2 * hidden
    return patches(config, hidden) + hidden + layers * layer


def _intern(config: Configuration) -> int:
    """InternViT, by the keys of transformers and by those of its own files."""
    layers, hidden, ffn = widths(config)
    has_bias = config.is_set("attention_bias") or config.is_set("qkv_bias")
    has_norms = config.is_set("use_qk_norm") or config.is_set("qk_normalization")
    layer = 4 * hidden**2 + hidden + 2 * hidden * ffn + ffn + hidden
    layer += (3 * hidden if has_bias else 0) + (2 * hidden if has_norms else 0)
    norm = hidden if config.text("norm_type") == "rms_norm" else 2 * hidden
    positions = (patch_positions(config) + 3) * hidden
    return patches(config, hidden) + positions + layers * (layer + 2 * norm + 2 * hidden)


def _timm(config: Configuration) -> int | None:
    return _TIMM_PARAMETERS.get(config.text("architecture") or next(iter(_TIMM_PARAMETERS)))


PLAIN_TOWERS: Final[Mapping[str, Tower]] = MappingProxyType(
    {
        "clip_vision_model": (_clip, _CLIP),
        "siglip_vision_model": (_siglip, _SIGLIP),
        "idefics3_vision": (_without_class, _IDEFICS),
        "smolvlm_vision": (_without_class, _IDEFICS),
        "pixtral": (_pixtral, _PIXTRAL),
        "internvl_vision": (_intern, _INTERN),
        "intern_vit_6b": (_intern, _INTERN),
        "gemma3n_vision": (_timm, MappingProxyType({})),
    }
)
"""By `model_type` of the part: what counts it, and the values that its files leave out."""


_QWEN_2: Final = MappingProxyType(
    {
        "depth": 32,
        "embed_dim": 1280,
        "hidden_size": 3584,
        "mlp_ratio": 4,
        "patch_size": 14,
        "temporal_patch_size": 2,
        "spatial_merge_size": 2,
    }
)
_QWEN_2_5: Final = MappingProxyType({**_QWEN_2, "intermediate_size": 3420, "out_hidden_size": 3584})
_QWEN_3: Final = MappingProxyType(
    {
        **_QWEN_2_5,
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "patch_size": 16,
        "num_position_embeddings": 2304,
    }
)
_GLM: Final = MappingProxyType(
    {
        **_QWEN_2_5,
        "depth": 24,
        "hidden_size": 1536,
        "intermediate_size": 13696,
        "out_hidden_size": 4096,
        "image_size": 336,
    }
)
_DEEP_MERGERS: Final = 3
"""Of Qwen3-VL, where a file does not list their layers."""


def _qwen_2(config: Configuration) -> int:
    layers, hidden = config.needed("depth"), config.needed("embed_dim")
    layer = plain_layer(hidden, config.needed("mlp_ratio") * hidden)
    joining = merger(hidden, config.needed("spatial_merge_size"), config.needed("hidden_size"))
    return patches(config, hidden) + layers * layer + 2 * hidden + joining


def _qwen_2_5(config: Configuration) -> int:
    layers, hidden, ffn = widths(config)
    layer = 4 * hidden * (hidden + 1) + 3 * hidden * ffn + 2 * ffn + hidden + 2 * hidden
    joined = config.needed("spatial_merge_size")
    joining = merger(hidden, joined, config.needed("out_hidden_size"))
    return patches(config, hidden) + layers * layer + hidden + joining


def _qwen_3_5(config: Configuration) -> int:
    layers, hidden, ffn = widths(config)
    joined = config.needed("spatial_merge_size")
    positions = (config.needed("num_position_embeddings") + 1) * hidden
    joining = 2 * hidden + merger(hidden, joined, config.needed("out_hidden_size"))
    return patches(config, hidden) + positions + layers * plain_layer(hidden, ffn) + joining


def _qwen_3(config: Configuration) -> int:
    """With mergers of layers between, each with a norm as wide as what it joins."""
    listed = config.values.get("deepstack_visual_indexes")
    count = len(listed) if isinstance(listed, list | tuple) else _DEEP_MERGERS
    _, hidden, _ = widths(config)
    joined = config.needed("spatial_merge_size")
    deep = merger(hidden, joined, config.needed("out_hidden_size")) + 2 * joined**2 * hidden
    return _qwen_3_5(config) + count * deep


def _glm(config: Configuration) -> int:
    """Its layers are as wide inside as the text, its merger as their key says."""
    layers, hidden, ffn = widths(config)
    out, joined = config.needed("out_hidden_size"), config.needed("spatial_merge_size")
    bias = 3 * hidden if config.is_set("attention_bias") else 0
    layer = 4 * hidden**2 + bias + 3 * hidden * out + 2 * hidden
    positions = (patch_positions(config) + 1) * hidden
    joining = (joined**2 * hidden + 1) * out + out**2 + 2 * out + 3 * out * ffn
    return patches(config, hidden) + positions + 2 * hidden + layers * layer + joining


MERGING_TOWERS: Final[Mapping[str, Tower]] = MappingProxyType(
    {
        "qwen2_vl": (_qwen_2, _QWEN_2),
        "qwen2_5_vl": (_qwen_2_5, _QWEN_2_5),
        "qwen3_vl": (_qwen_3, _QWEN_3),
        "qwen3_vl_moe": (_qwen_3, _QWEN_3),
        "qwen3_5": (_qwen_3_5, _QWEN_3),
        "qwen3_5_moe": (_qwen_3_5, _QWEN_3),
        "glm4v": (_glm, _GLM),
        "glm4v_moe": (_glm, _GLM),
    }
)
"""By `model_type` of the part: what counts it, and the values that its files leave out."""


_LLAMA_3: Final = MappingProxyType(
    {
        "hidden_size": 1280,
        "intermediate_size": 5120,
        "num_hidden_layers": 32,
        "num_global_layers": 8,
        "image_size": 448,
        "patch_size": 14,
        "max_num_tiles": 4,
    }
)
_LLAMA_4: Final = MappingProxyType(
    {
        "hidden_size": 768,
        "intermediate_size": 5632,
        "num_hidden_layers": 34,
        "image_size": 448,
        "patch_size": 14,
        "projector_input_dim": 4096,
        "projector_output_dim": 4096,
    }
)
_TILE_SHAPES: Final = 8
"""Of four tiles, where a file does not list them."""


def _llama_3(config: Configuration) -> int:
    """Two stacks, tables of positions for each shape of tiles, and gates."""
    layers, hidden, ffn = widths(config)
    gated = config.whole("num_global_layers", 0) or 0
    listed = config.values.get("supported_aspect_ratios")
    shapes = (len(listed) if isinstance(listed, list | tuple) else _TILE_SHAPES) + 1
    tiles, places = config.needed("max_num_tiles"), patch_positions(config) + 1
    layer = plain_layer(hidden, ffn) - 4 * hidden  # Attention has no biases.
    tables = shapes * tiles * (places + 2) * hidden + places * hidden
    beside = 5 * hidden + 3  # The class, two norms, the gates of three tables.
    return patches(config, hidden) + tables + beside + (layers + gated) * layer + 2 * gated


def _llama_4(config: Configuration) -> int:
    layers, hidden, ffn = widths(config)
    out = config.needed("projector_output_dim")
    positions = (patch_positions(config) + 2) * hidden  # And the class token itself.
    tower = patches(config, hidden) + positions + 4 * hidden + layers * plain_layer(hidden, ffn)
    return tower + ffn * config.needed("projector_input_dim") + out**2


TILED_TOWERS: Final[Mapping[str, Tower]] = MappingProxyType(
    {
        "mllama_vision_model": (_llama_3, _LLAMA_3),
        "llama4_vision_model": (_llama_4, _LLAMA_4),
    }
)
"""By `model_type` of the part: what counts it, and the values that its files leave out."""
