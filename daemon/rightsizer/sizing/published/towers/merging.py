"""Vision transformers that make one token of a square of patches themselves: Qwen-VL, GLM-V."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.towers.patches import (
    merger,
    patch_positions,
    patches,
    plain_layer,
    widths,
)
from rightsizer.sizing.published.towers.tower import Tower

__all__ = ["MERGING_TOWERS"]

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
