"""UNet2DConditionModel of diffusers: Stable Diffusion 1, 2 and XL, and derivatives."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.planner.models.configuration import DESCRIBE, MODEL_TYPES, Configuration, wrong
from rightsizer.planner.models.layer_work import (
    LayerWork,
    convolution,
    cross_attention,
    embedding,
    gated_feed_forward,
    linear,
    self_attention,
    vectors,
)

_DOWN: Final[Mapping[str, bool]] = {"DownBlock2D": False, "CrossAttnDownBlock2D": True}
_UP: Final[Mapping[str, bool]] = {"UpBlock2D": False, "CrossAttnUpBlock2D": True}
"""Whether a level of this type has attention."""
_MIDDLE: Final = "UNetMidBlock2DCrossAttn"
_REMEDY: Final = DESCRIBE.format("")


class _Level(Struct, frozen=True):
    """One resolution, down or up."""

    channels: int
    layers: int
    depth: int
    """Transformer blocks after each residual one; 0 without attention."""
    text_width: int
    side: int


def unet_work(config: Configuration, side: int, text: int) -> LayerWork:
    """Count the whole network; `side` in latent pixels, `text` in prompt tokens."""
    for key, usual in MODEL_TYPES["unet"].items():
        value = config.values.get(key, usual[0])
        listed = config.lists(key)
        plain = listed[0] if listed and listed == listed[:1] * len(listed) else value
        if plain not in usual:
            raise wrong(key, f"{value!r} is not counted", _REMEDY)
    down = _levels(config, side, "down_block_types", _DOWN)
    up = _levels(config, side, "up_block_types", _UP)
    first = down[0].channels
    time = 4 * down[0].channels
    work = convolution(
        config.whole("in_channels", 4) or 4, first, config.whole("conv_in_kernel", 3) or 3, side**2
    )
    work += embedding(first, time) + _conditions(config, first, time, text)
    work += _down(down, time, text) + _middle(config, down[-1], time, text)
    work += _up(up, time, text)
    outputs = config.whole("out_channels", 4) or 4
    kernel = config.whole("conv_out_kernel", 3) or 3
    return work + vectors(2 * first) + convolution(first, outputs, kernel, side**2)


def residual_block(inputs: int, outputs: int, positions: int, time: int = 0) -> LayerWork:
    """Two convolutions with a norm before each, time between them, and a skip connection."""
    work = vectors(2 * inputs, 2 * outputs)
    work += convolution(inputs, outputs, 3, positions) + convolution(outputs, outputs, 3, positions)
    if time:
        work += linear(time, outputs)
    return work + convolution(inputs, outputs, 1, positions) if inputs != outputs else work


def _levels(
    config: Configuration, side: int, key: str, types: Mapping[str, bool]
) -> tuple[_Level, ...]:
    channels = config.wholes("block_out_channels")
    count = len(channels)
    layers = config.wholes("layers_per_block", count, 2)
    depths = config.wholes("transformer_layers_per_block", count, 1)
    widths = config.wholes("cross_attention_dim", count, 1280)
    names = config.names(key)
    if len(names) != count or not all(name in types for name in names):
        known = f"known are {', '.join(types)}, one for each of block_out_channels"
        raise wrong(key, f"{list(names)} is not counted; {known}", _REMEDY)
    if types is _UP:
        names = names[::-1]
    sides = [side]
    while len(sides) < count:
        sides.append((sides[-1] + 1) // 2)
    return tuple(
        _Level(channels[at], layers[at], depths[at] * types[names[at]], widths[at], sides[at])
        for at in range(count)
    )


def _conditions(config: Configuration, first: int, time: int, text: int) -> LayerWork:
    """Conditions of an image beside its time: size, and guidance strength."""
    work = LayerWork()
    if config.text("addition_embed_type"):
        work += embedding(config.needed("projection_class_embeddings_input_dim"), time)
    if strengths := config.whole("time_cond_proj_dim"):
        work += linear(strengths, first, bias=False)
    if width := config.whole("encoder_hid_dim"):
        work += linear(width, config.needed("cross_attention_dim"), text)
    return work


def _down(levels: tuple[_Level, ...], time: int, text: int) -> LayerWork:
    work = LayerWork()
    inputs = levels[0].channels
    for at, level in enumerate(levels):
        width = level.channels
        area = level.side**2
        work += residual_block(inputs, width, area, time)
        work += residual_block(width, width, area, time) * (level.layers - 1)
        work += _transformer(level, text) * level.layers
        if at + 1 < len(levels):
            work += convolution(width, width, 3, levels[at + 1].side ** 2)
        inputs = width
    return work


def _middle(config: Configuration, coarsest: _Level, time: int, text: int) -> LayerWork:
    kind = config.values.get("mid_block_type", _MIDDLE)
    if kind is None:
        return LayerWork()
    if kind != _MIDDLE:
        fault = f"{kind!r} is not counted; known is {_MIDDLE}"
        raise wrong("mid_block_type", fault, _REMEDY)
    count = len(config.wholes("block_out_channels"))
    depth = config.wholes("transformer_layers_per_block", count, 1)[-1]
    blocks = residual_block(coarsest.channels, coarsest.channels, coarsest.side**2, time) * 2
    return blocks + _transformer(replace(coarsest, depth=depth), text)


def _up(levels: tuple[_Level, ...], time: int, text: int) -> LayerWork:
    """Each block receives the output of the same resolution on the way down.

    One more than on the way down: the last receives the output of the finer resolution.
    """
    work = LayerWork()
    inputs = levels[-1].channels
    for at in reversed(range(len(levels))):
        level = levels[at]
        finer = levels[max(0, at - 1)]
        width = level.channels
        area = level.side**2
        work += residual_block(inputs + width, width, area, time)
        work += residual_block(2 * width, width, area, time) * (level.layers - 1)
        work += residual_block(width + finer.channels, width, area, time)
        work += _transformer(level, text) * (level.layers + 1)
        if at:
            work += convolution(width, width, 3, finer.side**2)
        inputs = width
    return work


def _transformer(level: _Level, text: int) -> LayerWork:
    """Blocks of attention to the image and to the text, between two projections."""
    if not level.depth:
        return LayerWork()
    width = level.channels
    rows = level.side**2
    block = self_attention(width, rows, bias=False) + vectors(6 * width)
    block += cross_attention(width, rows, level.text_width, text, bias=False)
    block += gated_feed_forward(width, 4 * width, rows, bias=True)
    return vectors(2 * width) + linear(width, width, rows) * 2 + block * level.depth
