"""Denoisers that read the text by attention of its own, or none: PixArt, DiT, Hunyuan-DiT, Sana."""

from typing import Final

from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.diffusion.layer_work import (
    Work,
    attention,
    depthwise,
    embedding,
    feed_forward,
    linear,
    vectors,
)

__all__ = ["dit_work", "hunyuan_dit_work", "pixart_work", "sana_work"]

_TIMES: Final = 256
"""Sines and cosines that a time is told by."""
_LARGE_PIXART: Final = 128
"""Latent pixels of a side, from which on PixArt is told size and aspect ratio of the image."""
_HUNYUAN_CLIP_TOKENS: Final = 77
_HUNYUAN_T5_TOKENS: Final = 256
_HUNYUAN_TEXT_HIDDEN: Final = 4
_HUNYUAN_SIZES: Final = 6


def pixart_work(config: Configuration, side: int, text: int) -> Work:
    """PixArtTransformer2DModel, Alpha and Sigma."""
    width, patch, image = _patched(config, side)
    read, outputs = config.needed("cross_attention_dim"), config.needed("out_channels")
    bias = config.is_set("attention_bias", otherwise=True)
    work = linear(config.needed("in_channels") * patch**2, width, image)
    work += embedding(_TIMES, width) + linear(width, 6 * width)
    if captions := config.whole("caption_channels"):
        work += embedding(captions, width, rows=text)
    is_large = config.whole("sample_size") == _LARGE_PIXART
    if config.is_set("use_additional_conditions", otherwise=is_large):
        work += embedding(_TIMES, width // 3) * 2
    block = _projections(width, image, bias=bias) + attention(image, image, width)
    block += _reading(width, image, read, text, bias=bias)
    block += feed_forward(width, 4 * width, image) + vectors(6 * width)
    work += block * config.needed("num_layers")
    return work + vectors(2 * width) + linear(width, patch**2 * outputs, image)


def dit_work(config: Configuration, side: int, _text: int) -> Work:
    """DiTTransformer2DModel: each block has a table of classes and an embedding of time.

    Those of all blocks but one are 75 of the 750 M parameters of DiT-XL/2, and not in its paper.
    """
    width, patch, image = _patched(config, side)
    inputs = config.needed("in_channels")
    bias = config.is_set("attention_bias", otherwise=True)
    classes = config.whole("num_embeds_ada_norm", 1000) or 1000
    block = _projections(width, image, bias=bias) + attention(image, image, width)
    block += feed_forward(width, 4 * width, image) + embedding(_TIMES, width)
    block += vectors((classes + 1) * width) + linear(width, 6 * width)
    work = linear(inputs * patch**2, width, image) + block * config.needed("num_layers")
    outputs = config.whole("out_channels") or inputs
    return work + linear(width, 2 * width) + linear(width, patch**2 * outputs, image)


def hunyuan_dit_work(config: Configuration, side: int, _text: int) -> Work:
    """HunyuanDiT2DModel: two texts side by side, and blocks that look back at early ones."""
    width, patch = config.needed("hidden_size"), config.needed("patch_size")
    head = width // config.needed("num_attention_heads")
    layers, image = config.needed("num_layers"), (side // patch) ** 2
    read, second = config.needed("cross_attention_dim"), config.needed("cross_attention_dim_t5")
    clip = config.whole("text_len", _HUNYUAN_CLIP_TOKENS) or _HUNYUAN_CLIP_TOKENS
    other = config.whole("text_len_t5", _HUNYUAN_T5_TOKENS) or _HUNYUAN_T5_TOKENS
    channels = config.needed("in_channels")
    outputs = channels * (2 if config.is_set("learn_sigma", otherwise=True) else 1)
    work = vectors((clip + other) * read) + linear(channels * patch**2, width, image)
    work += embedding(second, _HUNYUAN_TEXT_HIDDEN * second, read, other)
    work += _hunyuan_conditions(config, width, second, other)
    inner = int(width * config.number("mlp_ratio", 4.0))
    block = linear(width, width) + vectors(3 * 2 * width, 4 * 2 * head)
    block += _projections(width, image) + attention(image, image, width)
    block += _reading(width, image, read, clip + other) + feed_forward(width, inner, image)
    skip = vectors(2 * 2 * width) + linear(2 * width, width, image)
    work += block * layers + skip * (layers - layers // 2 - 1)
    return work + linear(width, 2 * width) + linear(width, patch**2 * outputs, image)


def _hunyuan_conditions(config: Configuration, width: int, second: int, tokens: int) -> Work:
    """The time, the second text in one vector, and the style and size of the image."""
    pooled = config.needed("pooled_projection_dim")
    work = embedding(_TIMES, width) + vectors((tokens + 1) * second)
    work += linear(second, second) + linear(second, second, tokens + 1) * 2
    work += linear(second, pooled) + attention(1, tokens + 1, second)
    inputs = pooled
    if config.is_set("use_style_cond_and_image_meta_size", otherwise=True):
        work += vectors(width)
        inputs += _HUNYUAN_SIZES * _TIMES + width
    return work + embedding(inputs, 4 * width, width)


def sana_work(config: Configuration, side: int, text: int) -> Work:
    """SanaTransformer2DModel: linear attention, and convolutions in the feed-forward part."""
    width, patch, image = _patched(config, side)
    head, outputs = config.needed("attention_head_dim"), config.needed("out_channels")
    read, layers = config.needed("cross_attention_dim"), config.needed("num_layers")
    bias = config.is_set("attention_bias")
    work = linear(config.needed("in_channels") * patch**2, width, image)
    times = 2 if config.is_set("guidance_embeds") else 1
    work += embedding(_TIMES, width) * times + linear(width, 6 * width)
    work += embedding(config.needed("caption_channels"), width, rows=text) + vectors(width)
    # Keys by values first, a row of ones beneath; then queries by what that made.
    looked = Work(0.0, 4.0 * image * width * (head + 1))
    own = linear(width, width, image, bias=bias) * 3 + linear(width, width, image) + looked
    norms = vectors(4 * width) if config.text("qk_norm") else Work()
    inner = int(width * config.number("mlp_ratio", 2.5))
    mixed = linear(width, 2 * inner, image) + linear(inner, width, image, bias=False)
    mixed += depthwise(2 * inner, 3, image)
    block = own + norms + _reading(width, image, read, text) + mixed + vectors(6 * width)
    work += block * layers + vectors(2 * width)
    return work + linear(width, patch**2 * outputs, image)


def _patched(config: Configuration, side: int) -> tuple[int, int, int]:
    """The width, pixels of a patch's side, and patches of an image."""
    width = config.needed("num_attention_heads") * config.needed("attention_head_dim")
    patch = config.needed("patch_size")
    return width, patch, (side // patch) ** 2


def _projections(width: int, rows: int, *, bias: bool = True) -> Work:
    return linear(width, width, rows, bias=bias) * 3 + linear(width, width, rows)


def _reading(width: int, rows: int, read: int, text: int, *, bias: bool = True) -> Work:
    """Attention of the image to a text of another width."""
    own = linear(width, width, rows, bias=bias) + linear(width, width, rows)
    return own + linear(read, width, text, bias=bias) * 2 + attention(rows, text, width)
