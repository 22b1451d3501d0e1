"""AutoencoderDC, of Sana: it scales far, with linear attention in its coarse levels."""

from itertools import pairwise
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.diffusion.layer_work import (
    Work,
    convolution,
    depthwise,
    linear,
    vectors,
)

__all__ = ["deep_autoencoder_parameters"]

_COLORS: Final = 3


def deep_autoencoder_parameters(config: Configuration) -> float:
    """All of them, encoder and decoder.

    Raises:
        RequirementError: what it says cannot be counted.
    """
    latents, head = config.needed("latent_channels"), config.needed("attention_head_dim")
    work = Work()
    for half in ("encoder", "decoder"):
        channels = config.wholes(f"{half}_block_out_channels")
        layers = config.wholes(f"{half}_layers_per_block", len(channels))
        scales = config.lists(f"{half}_qkv_multiscales")
        kinds = _kinds(config, f"{half}_block_types", len(channels))
        for at, width in enumerate(channels):
            kernels = scales[at] if at < len(scales) else ()
            sizes = Configuration({half: kernels}, {}).wholes(half) if kernels else ()
            work += _block(kinds[at], width, head, sizes) * layers[at]
        work += _steps(config, half, channels)
        if half == "encoder":
            work += convolution(_COLORS, channels[0], 3, 0)
            work += convolution(channels[-1], latents, 3, 0)
        else:
            work += convolution(latents, channels[-1], 3, 0) + vectors(2 * channels[0])
            work += convolution(channels[0], _COLORS, 3, 0)
    return work.parameters


def _kinds(config: Configuration, key: str, count: int) -> tuple[str, ...]:
    names = config.names(key) or (config.text(key) or "ResBlock",) * count
    known = ("ResBlock", "EfficientViTBlock")
    if len(names) != count or not set(names) <= set(known):
        raise RequirementError(
            f"config.json: {key}: {list(names)} is not counted; known are {', '.join(known)};"
            " describe the model in the plan instead (kind: diffusion, parameters, forward_flops,"
            " decoder_parameters)"
        )
    return names


def _block(kind: str, width: int, head: int, kernels: tuple[int, ...]) -> Work:
    if kind == "ResBlock":
        twice = convolution(width, width, 3, 0) + convolution(width, width, 3, 0, bias=False)
        return twice + vectors(2 * width)
    work = linear(width, width, 0, bias=False) * 3 + vectors(2 * width)
    for kernel in kernels:
        work += vectors(3 * width * kernel**2, 3 * width * head)
    work += linear(width * (1 + len(kernels)), width, 0, bias=False)
    work += convolution(width, 8 * width, 1, 0) + depthwise(8 * width, 3, 0)
    return work + convolution(4 * width, width, 1, 0, bias=False) + vectors(2 * width)


def _steps(config: Configuration, half: str, channels: tuple[int, ...]) -> Work:
    """Convolutions between resolutions; where pixels move to channels, four make one."""
    work = Work()
    for fine, coarse in pairwise(channels):
        if half == "encoder":
            is_moved = config.text("downsample_block_type") == "pixel_unshuffle"
            work += convolution(fine, coarse // 4 if is_moved else coarse, 3, 0)
        else:
            is_moved = config.text("upsample_block_type") == "pixel_shuffle"
            work += convolution(coarse, 4 * fine if is_moved else fine, 3, 0)
    return work
