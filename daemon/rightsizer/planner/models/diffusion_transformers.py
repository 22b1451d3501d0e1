"""Transformer denoisers: with joint attention to text, cross-attention, or none."""

from typing import Final

from rightsizer.planner.models.configuration import Configuration
from rightsizer.planner.models.layer_work import (
    LayerWork,
    attention,
    cross_attention,
    depthwise,
    embedding,
    feed_forward,
    gated_feed_forward,
    linear,
    self_attention,
    vectors,
)

_TIMES: Final = 256
"""Sines and cosines of the time embedding."""
_AURAFLOW_REGISTERS: Final = 8
_AURAFLOW_WIDTH_STEP: Final = 256
_Z_IMAGE_TIME_HIDDEN: Final = 1024
_Z_IMAGE_CONDITION: Final = 256
_Z_IMAGE_STEP: Final = 32
"""Image and text are padded to a multiple of this many tokens."""
_LARGE_PIXART: Final = 128
"""Latent pixels per side, from which PixArt receives size and aspect ratio of the image."""


def stable_diffusion_3_work(config: Configuration, side: int, text: int) -> LayerWork:
    """SD3Transformer2DModel: the position table stored with the weights is included."""
    width, patch, image = _patched(config, side)
    layers = config.needed("num_layers")
    outputs = config.needed("out_channels")
    norms = 2 * config.needed("attention_head_dim") if config.text("qk_norm") else 0
    twice = len(config.lists("dual_attention_layers"))
    work = linear(config.needed("in_channels") * patch**2, width, image)
    work += vectors(config.needed("pos_embed_max_size") ** 2 * width)
    work += embedding(_TIMES, width) + embedding(config.needed("pooled_projection_dim"), width)
    work += linear(config.needed("joint_attention_dim"), width, text)
    work += _joint_block(width, image, text, norms) * (layers - 1)
    # The last block discards its text: neither its output nor its feed-forward part exists.
    work += _stream(width, image, norms) + attention(image + text, image + text, width)
    work += linear(width, width, text) * 3 + linear(width, 2 * width) + vectors(norms)
    # A second attention, of only the image, with three more norm modulations.
    second = _projections(width, image, norms) + attention(image, image, width)
    work += (second + linear(width, 3 * width)) * twice
    return work + _final(width, patch**2 * outputs, image)


def flux_work(config: Configuration, side: int, text: int) -> LayerWork:
    """FluxTransformer2DModel; two by two latent pixels share a channel each."""
    head = config.needed("attention_head_dim")
    width = config.needed("num_attention_heads") * head
    inputs = config.needed("in_channels")
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


def qwen_image_work(config: Configuration, side: int, text: int) -> LayerWork:
    """QwenImageTransformer2DModel."""
    width, patch, image = _patched(config, side)
    head = config.needed("attention_head_dim")
    read = config.needed("joint_attention_dim")
    work = linear(config.needed("in_channels"), width, image) + embedding(_TIMES, width)
    work += vectors(read) + linear(read, width, text)
    work += _joint_block(width, image, text, 2 * head) * config.needed("num_layers")
    return work + _final(width, patch**2 * config.needed("out_channels"), image)


def auraflow_work(config: Configuration, side: int, text: int) -> LayerWork:
    """AuraFlowTransformer2DModel: no biases, and registers beside the text."""
    width, patch, image = _patched(config, side)
    outputs = config.needed("out_channels")
    words = text + _AURAFLOW_REGISTERS
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


def z_image_work(config: Configuration, side: int, text: int) -> LayerWork:
    """ZImageTransformer2DModel: separate image and text layers first, then one stream."""
    width = config.needed("dim")
    head = config.needed("dim") // config.needed("n_heads")
    norms = 2 * head if config.is_set("qk_norm", otherwise=True) else 0
    patch = config.wholes("all_patch_size")[0]
    read = config.needed("cap_feat_dim")
    pixels = patch**2 * config.needed("in_channels")
    image, words = (each + -each % _Z_IMAGE_STEP for each in ((side // patch) ** 2, text))
    condition = min(width, _Z_IMAGE_CONDITION)
    work = linear(pixels, width, image) + vectors(2 * width)
    work += embedding(_TIMES, _Z_IMAGE_TIME_HIDDEN, condition)
    work += vectors(read) + linear(read, width, words)
    changes = linear(condition, 4 * width)
    before = _z_image_block(width, image, norms) + changes + _z_image_block(width, words, norms)
    work += before * config.needed("n_refiner_layers")
    work += (_z_image_block(width, image + words, norms) + changes) * config.needed("n_layers")
    return work + linear(condition, width) + linear(width, pixels, image)


def _joint_block(width: int, image: int, text: int, norms: int) -> LayerWork:
    """Separate streams for image and text, which attend to both."""
    both = attention(image + text, image + text, width)
    return _stream(width, image, norms) + _stream(width, text, norms) + both


def _stream(width: int, rows: int, norms: int) -> LayerWork:
    """Matrices of one block, and the modulation of its norms by time."""
    changes = linear(width, 6 * width)
    return _projections(width, rows, norms) + feed_forward(width, 4 * width, rows) + changes


def _projections(width: int, rows: int, norms: int) -> LayerWork:
    return linear(width, width, rows) * 4 + vectors(norms)


def _final(width: int, outputs: int, image: int) -> LayerWork:
    return linear(width, 2 * width) + linear(width, outputs, image)


def _auraflow_stream(width: int, rows: int) -> LayerWork:
    inner = 8 * width // 3
    inner += -inner % _AURAFLOW_WIDTH_STEP
    changes = linear(width, 6 * width, bias=False)
    matrices = linear(width, width, rows, bias=False) * 4
    return matrices + gated_feed_forward(width, inner, rows) + changes


def _z_image_block(width: int, rows: int, norms: int) -> LayerWork:
    matrices = linear(width, width, rows, bias=False) * 4 + vectors(norms, 4 * width)
    inner = int(width / 3 * 8)
    return matrices + gated_feed_forward(width, inner, rows) + attention(rows, rows, width)


def pixart_work(config: Configuration, side: int, text: int) -> LayerWork:
    """PixArtTransformer2DModel, Alpha and Sigma."""
    width, patch, image = _patched(config, side)
    read = config.needed("cross_attention_dim")
    outputs = config.needed("out_channels")
    bias = config.is_set("attention_bias", otherwise=True)
    work = linear(config.needed("in_channels") * patch**2, width, image)
    work += embedding(_TIMES, width) + linear(width, 6 * width)
    if captions := config.whole("caption_channels"):
        work += embedding(captions, width, rows=text)
    is_large = config.whole("sample_size") == _LARGE_PIXART
    if config.is_set("use_additional_conditions", otherwise=is_large):
        work += embedding(_TIMES, width // 3) * 2
    block = self_attention(width, image, bias=bias)
    block += cross_attention(width, image, read, text, bias=bias)
    block += feed_forward(width, 4 * width, image) + vectors(6 * width)
    work += block * config.needed("num_layers")
    return work + vectors(2 * width) + linear(width, patch**2 * outputs, image)


def dit_work(config: Configuration, side: int, _text: int) -> LayerWork:
    """DiTTransformer2DModel: each block has a class table and a time embedding.

    All but one of these tables are 75 of the 750 M parameters of DiT-XL/2, absent in its paper.
    """
    width, patch, image = _patched(config, side)
    inputs = config.needed("in_channels")
    bias = config.is_set("attention_bias", otherwise=True)
    classes = config.whole("num_embeds_ada_norm", 1000) or 1000
    block = self_attention(width, image, bias=bias)
    block += feed_forward(width, 4 * width, image) + embedding(_TIMES, width)
    block += vectors((classes + 1) * width) + linear(width, 6 * width)
    work = linear(inputs * patch**2, width, image) + block * config.needed("num_layers")
    outputs = config.whole("out_channels") or inputs
    return work + linear(width, 2 * width) + linear(width, patch**2 * outputs, image)


def sana_work(config: Configuration, side: int, text: int) -> LayerWork:
    """SanaTransformer2DModel: linear attention, and convolutions in the feed-forward part."""
    width, patch, image = _patched(config, side)
    head = config.needed("attention_head_dim")
    outputs = config.needed("out_channels")
    read = config.needed("cross_attention_dim")
    layers = config.needed("num_layers")
    bias = config.is_set("attention_bias")
    work = linear(config.needed("in_channels") * patch**2, width, image)
    times = 2 if config.is_set("guidance_embeds") else 1
    work += embedding(_TIMES, width) * times + linear(width, 6 * width)
    work += embedding(config.needed("caption_channels"), width, rows=text) + vectors(width)
    # Keys times values first, with a row of ones; then queries times the result.
    looked = LayerWork(0.0, 4.0 * image * width * (head + 1))
    layer_work = linear(width, width, image, bias=bias) * 3 + linear(width, width, image) + looked
    norms = vectors(4 * width) if config.text("qk_norm") else LayerWork()
    inner = int(width * config.number("mlp_ratio", 2.5))
    mixed = linear(width, 2 * inner, image) + linear(inner, width, image, bias=False)
    mixed += depthwise(2 * inner, 3, image)
    block = (
        layer_work + norms + cross_attention(width, image, read, text) + mixed + vectors(6 * width)
    )
    work += block * layers + vectors(2 * width)
    return work + linear(width, patch**2 * outputs, image)


def _patched(config: Configuration, side: int) -> tuple[int, int, int]:
    """Return width, pixels of a patch's side, and number of patches."""
    width = config.needed("num_attention_heads") * config.needed("attention_head_dim")
    patch = config.needed("patch_size")
    return width, patch, (side // patch) ** 2
