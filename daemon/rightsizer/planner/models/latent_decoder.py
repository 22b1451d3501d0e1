"""Latent decoders: parameters and scale of KL, deep and video autoencoders."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from rightsizer.model.frozen import dataclass
from rightsizer.planner.models.configuration import DESCRIBE, Configuration, wrong
from rightsizer.planner.models.layer_work import LayerWork, convolution, depthwise, linear, vectors
from rightsizer.planner.models.unet import residual_block

_COLORS: Final = 3
_REMEDY: Final = DESCRIBE.format(", decoder_parameters")
_VOLUME: Final = 27
"""Of a kernel of 3 by 3 pixels in 3 frames."""
_PLANE: Final = 9
_FRAMES: Final = 3


def deep_autoencoder_parameters(config: Configuration) -> float:
    """Count encoder and decoder."""
    latents, head = config.needed("latent_channels"), config.needed("attention_head_dim")
    work = LayerWork()
    for half in ("encoder", "decoder"):
        channels = config.wholes(f"{half}_block_out_channels")
        layers = config.wholes(f"{half}_layers_per_block", len(channels))
        scales = config.lists(f"{half}_qkv_multiscales")
        kinds = _kinds(config, f"{half}_block_types", len(channels))
        for at, width in enumerate(channels):
            kernels = scales[at] if at < len(scales) else ()
            sizes = Configuration({half: kernels}).wholes(half) if kernels else ()
            work += _block(kinds[at], width, head, sizes) * layers[at]
        # Convolutions between resolutions; where pixels become channels, four become one.
        if half == "encoder":
            part = 4 if config.text("downsample_block_type") == "pixel_unshuffle" else 1
            steps = [(fine, coarse // part) for fine, coarse in pairwise(channels)]
            steps += [(_COLORS, channels[0]), (channels[-1], latents)]
        else:
            times = 4 if config.text("upsample_block_type") == "pixel_shuffle" else 1
            steps = [(coarse, times * fine) for fine, coarse in pairwise(channels)]
            steps += [(latents, channels[-1]), (channels[0], _COLORS)]
            work += vectors(2 * channels[0])
        work = sum((convolution(inputs, outputs, 3, 0) for inputs, outputs in steps), work)
    return work.parameters


def _kinds(config: Configuration, key: str, count: int) -> tuple[str, ...]:
    names = config.names(key) or (config.text(key) or "ResBlock",) * count
    known = ("ResBlock", "EfficientViTBlock")
    if len(names) != count or not set(names) <= set(known):
        raise wrong(key, f"{list(names)} is not counted; known are {', '.join(known)}", _REMEDY)
    return names


def _block(kind: str, width: int, head: int, kernels: tuple[int, ...]) -> LayerWork:
    if kind == "ResBlock":
        twice = convolution(width, width, 3, 0) + convolution(width, width, 3, 0, bias=False)
        return twice + vectors(2 * width)
    work = linear(width, width, 0, bias=False) * 3 + vectors(2 * width)
    for kernel in kernels:
        work += vectors(3 * width * kernel**2, 3 * width * head)
    work += linear(width * (1 + len(kernels)), width, 0, bias=False)
    work += convolution(width, 8 * width, 1, 0) + depthwise(8 * width, 3, 0)
    return work + convolution(4 * width, width, 1, 0, bias=False) + vectors(2 * width)


def frame_autoencoder_parameters(config: Configuration) -> float:
    """Count encoder and decoder."""
    base, latents = config.needed("base_dim"), config.needed("z_dim")
    widths = [base * times for times in config.wholes("dim_mult")]
    layers = config.needed("num_res_blocks")
    joined = config.lists("temperal_downsample")
    first, last = widths[0], widths[-1]
    middle = 2 * _frame_block(last, last) + 4 * last * (last + 1) + last
    count = 2 * middle + last + first
    count += _VOLUME * (_COLORS * first + last * 2 * latents + latents * last + first * _COLORS)
    count += first + 2 * latents + last + _COLORS
    count += 2 * latents * (2 * latents + 1) + latents * (latents + 1)
    count += sum(_frames([first, *widths], layers, joined))
    count += sum(_frames([last, *widths[::-1]], layers + 1, joined[::-1], is_up=True))
    return float(count)


def _frames(
    widths: list[int], layers: int, joined: tuple[object, ...], *, is_up: bool = False
) -> Iterator[int]:
    """Each upsampling halves the channels, as input of the next block."""
    for at, (before, width) in enumerate(pairwise(widths)):
        inputs = before // 2 if is_up and at else before
        yield _frame_block(inputs, width) + (layers - 1) * _frame_block(width, width)
        if at + 2 < len(widths):
            outputs, frames = (width // 2, 2 * width) if is_up else (width, width)
            yield _PLANE * width * outputs + outputs
            if joined[at : at + 1] == (True,):
                yield _FRAMES * width * frames + frames


def _frame_block(inputs: int, outputs: int) -> int:
    """Two convolutions with a norm before each, and a skip connection."""
    count = inputs + outputs + (_VOLUME * (inputs + outputs) + 2) * outputs
    return count + ((inputs + 1) * outputs if inputs != outputs else 0)


@dataclass(frozen=True, slots=True)
class LatentDecoder:
    """Properties of an autoencoder that a plan needs."""

    parameters: float
    """Including the encoder, which pipelines load too."""
    scale: int
    """Pixels per latent pixel, of one side."""


def read_decoder(values: Mapping[str, object]) -> LatentDecoder:
    """Return the autoencoder of a parsed `config.json`."""
    config = Configuration(values)
    kind = config.text("_class_name")
    if kind not in DECODERS:
        remedy = f"{_REMEDY}. Known are {', '.join(DECODERS)}"
        raise wrong("_class_name", f"'{kind}' is no decoder that is known", remedy)
    count, levels = DECODERS[kind]
    return LatentDecoder(count(config), 2 ** (len(config.wholes(levels)) - 1))


def _plain(config: Configuration) -> float:
    """AutoencoderKL: of Stable Diffusion, SD3, FLUX."""
    channels = config.wholes("block_out_channels")
    layers = config.whole("layers_per_block", 1) or 1
    latents = config.needed("latent_channels")
    first, last = channels[0], channels[-1]
    middle = residual_block(last, last, 0) * 2
    if config.is_set("mid_block_add_attention", otherwise=True):
        middle += linear(last, last, 0) * 4 + vectors(2 * last)
    work = middle * 2 + vectors(2 * last, 2 * first)
    work += convolution(_COLORS, first, 3, 0) + convolution(last, 2 * latents, 3, 0)
    work += convolution(latents, last, 3, 0) + convolution(first, _COLORS, 3, 0)
    work += _levels(channels, layers) + _levels(channels[::-1], layers + 1)
    for key, width in (("use_quant_conv", 2 * latents), ("use_post_quant_conv", latents)):
        if config.is_set(key, otherwise=True):
            work += convolution(width, width, 1, 0)
    return work.parameters


def _levels(channels: tuple[int, ...], layers: int) -> LayerWork:
    """Residual blocks of each resolution, and a convolution from each to the next."""
    work, inputs = LayerWork(), channels[0]
    for at, width in enumerate(channels):
        work += residual_block(inputs, width, 0) + residual_block(width, width, 0) * (layers - 1)
        if at + 1 < len(channels):
            work += convolution(width, width, 3, 0)
        inputs = width
    return work


DECODERS: Final[Mapping[str, tuple[Callable[[Configuration], float], str]]] = {
    "AutoencoderKL": (_plain, "block_out_channels"),
    "AutoencoderKLQwenImage": (frame_autoencoder_parameters, "dim_mult"),
    "AutoencoderDC": (deep_autoencoder_parameters, "decoder_block_out_channels"),
}
"""By diffusers class: the function that counts it, and the key of its resolutions."""
