"""What the Llamas see with: images in tiles."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.towers.patches import patch_positions, patches, plain_layer, widths
from rightsizer.sizing.published.towers.tower import Tower

__all__ = ["TILED_TOWERS"]

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
