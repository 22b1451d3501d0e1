"""Denoisers that attend to image and text at once: SD3, FLUX, AuraFlow, Qwen-Image, Z-Image."""

from typing import Final

from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.diffusion.layer_work import (
    Work,
    attention,
    embedding,
    feed_forward,
    gated_feed_forward,
    linear,
    vectors,
)

__all__ = [
    "auraflow_work",
    "flux_work",
    "qwen_image_work",
    "stable_diffusion_3_work",
    "z_image_work",
]

_TIMES: Final = 256
"""Sines and cosines that a time is told by."""
_AURAFLOW_REGISTERS: Final = 8
_AURAFLOW_WIDTH_STEP: Final = 256
_Z_IMAGE_TIME_HIDDEN: Final = 1024
_Z_IMAGE_CONDITION: Final = 256
_Z_IMAGE_STEP: Final = 32
"""Image and text are filled up to a multiple of so many tokens."""


def stable_diffusion_3_work(config: Configuration, side: int, text: int) -> Work:
    """SD3Transformer2DModel: the table of positions, which is kept beside the weights, counts."""
    head, layers = config.needed("attention_head_dim"), config.needed("num_layers")
    width, patch = config.needed("num_attention_heads") * head, config.needed("patch_size")
    image, outputs = (side // patch) ** 2, config.needed("out_channels")
    norms = 2 * head if config.text("qk_norm") else 0
    twice = len(config.lists("dual_attention_layers"))
    work = linear(config.needed("in_channels") * patch**2, width, image)
    work += vectors(config.needed("pos_embed_max_size") ** 2 * width)
    work += embedding(_TIMES, width) + embedding(config.needed("pooled_projection_dim"), width)
    work += linear(config.needed("joint_attention_dim"), width, text)
    work += _joint_block(width, image, text, norms) * (layers - 1)
    # The last block's text goes nowhere: neither its output nor its feed-forward part is there.
    work += _stream(width, image, norms) + attention(image + text, image + text, width)
    work += linear(width, width, text) * 3 + linear(width, 2 * width) + vectors(norms)
    # A second attention, of the image alone, with three more changes of its norm.
    second = _projections(width, image, norms) + attention(image, image, width)
    work += (second + linear(width, 3 * width)) * twice
    return work + _final(width, patch**2 * outputs, image)


def flux_work(config: Configuration, side: int, text: int) -> Work:
    """FluxTransformer2DModel; two by two latent pixels stand in one channel each."""
    head = config.needed("attention_head_dim")
    width, inputs = config.needed("num_attention_heads") * head, config.needed("in_channels")
    patch = config.whole("patch_size", 1) or 1
    image = (side // (2 * patch)) ** 2
    times = 2 if config.is_set("guidance_embeds") else 1
    work = linear(inputs, width, image) + embedding(_TIMES, width) * times
    work += embedding(config.needed("pooled_projection_dim"), width)
    work += linear(config.needed("joint_attention_dim"), width, text)
    work += _joint_block(width, image, text, 2 * head) * config.needed("num_layers")
    rows = image + text
    single = linear(width, width, rows) * 3 + attention(rows, rows, width)
    single += linear(width, 4 * width, rows) + linear(5 * width, width, rows)
    single += linear(width, 3 * width) + vectors(2 * head)
    work += single * config.needed("num_single_layers")
    outputs = config.whole("out_channels") or inputs
    return work + _final(width, patch**2 * outputs, image)


def qwen_image_work(config: Configuration, side: int, text: int) -> Work:
    """QwenImageTransformer2DModel."""
    head, patch = config.needed("attention_head_dim"), config.needed("patch_size")
    width, read = config.needed("num_attention_heads") * head, config.needed("joint_attention_dim")
    image = (side // patch) ** 2
    work = linear(config.needed("in_channels"), width, image) + embedding(_TIMES, width)
    work += vectors(read) + linear(read, width, text)
    work += _joint_block(width, image, text, 2 * head) * config.needed("num_layers")
    return work + _final(width, patch**2 * config.needed("out_channels"), image)


def auraflow_work(config: Configuration, side: int, text: int) -> Work:
    """AuraFlowTransformer2DModel: no biases, and registers beside the text."""
    width = config.needed("num_attention_heads") * config.needed("attention_head_dim")
    patch, outputs = config.needed("patch_size"), config.needed("out_channels")
    image, words = (side // patch) ** 2, text + _AURAFLOW_REGISTERS
    rows = image + words
    work = linear(config.needed("in_channels") * patch**2, width, image)
    work += vectors(config.needed("pos_embed_max_size") * width, _AURAFLOW_REGISTERS * width)
    work += embedding(_TIMES, width)
    work += linear(config.needed("joint_attention_dim"), width, text, bias=False)
    joint = _auraflow_stream(width, image) + _auraflow_stream(width, words)
    joint += attention(rows, rows, width)
    single = _auraflow_stream(width, rows) + attention(rows, rows, width)
    work += joint * config.needed("num_mmdit_layers")
    work += single * config.needed("num_single_dit_layers")
    work += linear(width, 2 * width, bias=False)
    return work + linear(width, patch**2 * outputs, image, bias=False)


def z_image_work(config: Configuration, side: int, text: int) -> Work:
    """ZImageTransformer2DModel: image and text by themselves first, then in one stream."""
    width, head = config.needed("dim"), config.needed("dim") // config.needed("n_heads")
    norms = 2 * head if config.is_set("qk_norm", otherwise=True) else 0
    patch, read = config.wholes("all_patch_size")[0], config.needed("cap_feat_dim")
    pixels = patch**2 * config.needed("in_channels")
    image, words = _filled_up((side // patch) ** 2), _filled_up(text)
    condition = min(width, _Z_IMAGE_CONDITION)
    work = linear(pixels, width, image) + vectors(2 * width)
    work += embedding(_TIMES, _Z_IMAGE_TIME_HIDDEN, condition)
    work += vectors(read) + linear(read, width, words)
    changes = linear(condition, 4 * width)
    before = _z_image_block(width, image, norms) + changes + _z_image_block(width, words, norms)
    work += before * config.needed("n_refiner_layers")
    work += (_z_image_block(width, image + words, norms) + changes) * config.needed("n_layers")
    return work + linear(condition, width) + linear(width, pixels, image)


def _joint_block(width: int, image: int, text: int, norms: int) -> Work:
    """A stream each for image and text, which attend to both."""
    both = attention(image + text, image + text, width)
    return _stream(width, image, norms) + _stream(width, text, norms) + both


def _stream(width: int, rows: int, norms: int) -> Work:
    """The matrices of one block, and how the time changes its norms."""
    changes = linear(width, 6 * width)
    return _projections(width, rows, norms) + feed_forward(width, 4 * width, rows) + changes


def _projections(width: int, rows: int, norms: int) -> Work:
    return linear(width, width, rows) * 4 + vectors(norms)


def _final(width: int, outputs: int, image: int) -> Work:
    return linear(width, 2 * width) + linear(width, outputs, image)


def _auraflow_stream(width: int, rows: int) -> Work:
    inner = 8 * width // 3
    inner += -inner % _AURAFLOW_WIDTH_STEP
    changes = linear(width, 6 * width, bias=False)
    matrices = linear(width, width, rows, bias=False) * 4
    return matrices + gated_feed_forward(width, inner, rows) + changes


def _z_image_block(width: int, rows: int, norms: int) -> Work:
    matrices = linear(width, width, rows, bias=False) * 4 + vectors(norms, 4 * width)
    inner = int(width / 3 * 8)
    return matrices + gated_feed_forward(width, inner, rows) + attention(rows, rows, width)


def _filled_up(tokens: int) -> int:
    return tokens + -tokens % _Z_IMAGE_STEP
