"""What the parts that see have in common: patches of an image, and plain layers."""

from typing import Final

from rightsizer.sizing.published.configuration import Configuration

__all__ = ["COLORS", "channels", "merger", "patch_positions", "patches", "plain_layer", "widths"]

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
