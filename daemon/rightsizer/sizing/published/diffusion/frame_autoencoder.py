"""AutoencoderKLQwenImage: made for video, of which an image is one frame."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from rightsizer.sizing.published.configuration import Configuration

__all__ = ["frame_autoencoder_parameters"]

_COLORS: Final = 3
_VOLUME: Final = 27
"""Of a kernel of 3 by 3 pixels in 3 frames."""
_PLANE: Final = 9
_FRAMES: Final = 3


def frame_autoencoder_parameters(config: Configuration) -> float:
    """All of them, encoder and decoder.

    Raises:
        RequirementError: what it says cannot be counted.
    """
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
    count += sum(_frames_down([first, *widths], layers, joined))
    count += sum(_frames_up([last, *widths[::-1]], layers + 1, joined[::-1]))
    return float(count)


def _frames_down(widths: list[int], layers: int, joined: tuple[object, ...]) -> Iterator[int]:
    for at, (inputs, width) in enumerate(pairwise(widths)):
        yield _frame_block(inputs, width) + (layers - 1) * _frame_block(width, width)
        if at + 2 < len(widths):
            yield _PLANE * width * width + width
            if joined[at : at + 1] == (True,):
                yield _FRAMES * width * width + width


def _frames_up(widths: list[int], layers: int, joined: tuple[object, ...]) -> Iterator[int]:
    """Each step up halves the channels, which the next block takes in."""
    for at, (before, width) in enumerate(pairwise(widths)):
        inputs = before // 2 if at else before
        yield _frame_block(inputs, width) + (layers - 1) * _frame_block(width, width)
        if at + 2 < len(widths):
            yield _PLANE * width * (width // 2) + width // 2
            if joined[at : at + 1] == (True,):
                yield _FRAMES * width * 2 * width + 2 * width


def _frame_block(inputs: int, outputs: int) -> int:
    """Two convolutions with a norm before each, and a way around."""
    count = inputs + outputs + (_VOLUME * (inputs + outputs) + 2) * outputs
    return count + ((inputs + 1) * outputs if inputs != outputs else 0)
