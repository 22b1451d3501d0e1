"""Autoencoders of diffusers, which turn latents into pixels: how large, and how far they scale."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.diffusion.deep_autoencoder import deep_autoencoder_parameters
from rightsizer.sizing.published.diffusion.diffusion_unet import residual_block
from rightsizer.sizing.published.diffusion.frame_autoencoder import frame_autoencoder_parameters
from rightsizer.sizing.published.diffusion.layer_work import Work, convolution, linear, vectors

__all__ = ["DECODERS", "LatentDecoder", "read_decoder"]

_COLORS: Final = 3


@dataclass(frozen=True, slots=True)
class LatentDecoder:
    """What a plan has to know of an autoencoder."""

    parameters: float
    """With the encoder, which pipelines load too."""
    scale: int
    """Pixels by latent pixels, of one side."""


def read_decoder(values: Mapping[str, object]) -> LatentDecoder:
    """The autoencoder that a parsed `config.json` describes.

    Raises:
        RequirementError: its class is not known, or what it says cannot be counted.
    """
    config = Configuration(values, {})
    kind = config.text("_class_name")
    if kind not in DECODERS:
        raise RequirementError(
            f"config.json: _class_name: '{kind}' is no decoder that is known; describe the model in"
            " the plan instead (kind: diffusion, parameters, forward_flops, decoder_parameters)."
            f" Known are {', '.join(DECODERS)}"
        )
    count, levels = DECODERS[kind]
    return LatentDecoder(count(config), 2 ** (len(config.wholes(levels)) - 1))


def _plain(config: Configuration) -> float:
    """AutoencoderKL: Stable Diffusion's, SD3's, FLUX's."""
    channels = config.wholes("block_out_channels")
    layers = config.whole("layers_per_block", 1) or 1
    latents = config.needed("latent_channels")
    looks = config.is_set("mid_block_add_attention", otherwise=True)
    first, last = channels[0], channels[-1]
    middle = residual_block(last, last, 0) * 2
    if looks:
        middle += linear(last, last, 0) * 4 + vectors(2 * last)
    work = middle * 2 + vectors(2 * last, 2 * first)
    work += convolution(_COLORS, first, 3, 0) + convolution(last, 2 * latents, 3, 0)
    work += convolution(latents, last, 3, 0) + convolution(first, _COLORS, 3, 0)
    work += _levels(channels, layers) + _levels(channels[::-1], layers + 1)
    for key, width in (("use_quant_conv", 2 * latents), ("use_post_quant_conv", latents)):
        if config.is_set(key, otherwise=True):
            work += convolution(width, width, 1, 0)
    return work.parameters


def _levels(channels: tuple[int, ...], layers: int) -> Work:
    """Residual blocks of each resolution, and a convolution from each to the next."""
    work, inputs = Work(), channels[0]
    for at, width in enumerate(channels):
        work += residual_block(inputs, width, 0) + residual_block(width, width, 0) * (layers - 1)
        if at + 1 < len(channels):
            work += convolution(width, width, 3, 0)
        inputs = width
    return work


DECODERS: Final[Mapping[str, tuple[Callable[[Configuration], float], str]]] = MappingProxyType(
    {
        "AutoencoderKL": (_plain, "block_out_channels"),
        "AutoencoderKLQwenImage": (frame_autoencoder_parameters, "dim_mult"),
        "AutoencoderDC": (deep_autoencoder_parameters, "decoder_block_out_channels"),
    }
)
"""By the class that diffusers load it with: what counts it, and the key of its resolutions."""
