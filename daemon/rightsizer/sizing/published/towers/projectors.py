"""What joins a part that sees or hears to the text, in models whose parts do not hold it."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.sizing.published.configuration import Configuration

__all__ = ["PROJECTORS", "Projector"]

_MERGED: Final = 2
"""Patches of a side that are made one, where a file does not say."""
_SCALED: Final = 4
"""The same of InternVL and Idefics: patches that are made one."""
_HARD_TOKENS: Final = 128
"""Of each part of Gemma 3n, in a table of their own."""
_PROJECTED: Final = 512
"""The width that CLIP compares images and texts in."""


def _none(_: Configuration, __: Configuration, ___: int) -> int:
    return 0


def _llava(outer: Configuration, part: Configuration, text: int) -> int:
    layers = outer.values.get("vision_feature_layer")
    levels = len(layers) if isinstance(layers, list | tuple) else 1
    biases = 2 * text if outer.is_set("multimodal_projector_bias", otherwise=True) else 0
    return levels * part.needed("hidden_size") * text + text**2 + biases


def _llava_next(outer: Configuration, part: Configuration, text: int) -> int:
    """With the token that ends a row of tiles."""
    return _llava(outer, part, text) + text


def _mistral(outer: Configuration, part: Configuration, text: int) -> int:
    hidden = part.needed("hidden_size")
    joined = outer.whole("spatial_merge_size", _MERGED) or _MERGED
    biases = 2 * text if outer.is_set("multimodal_projector_bias") else 0
    return hidden + joined**2 * hidden**2 + hidden * text + text**2 + biases


def _gemma(_: Configuration, part: Configuration, text: int) -> int:
    hidden = part.needed("hidden_size")
    return hidden * text + hidden


def _gemma_3n(_: Configuration, part: Configuration, text: int) -> int:
    hidden = part.needed("hidden_size")
    return ((part.whole("vocab_size") or _HARD_TOKENS) + 2 + text) * hidden


def _linear(_: Configuration, part: Configuration, text: int) -> int:
    return ((part.whole("hidden_size") or part.needed("d_model")) + 1) * text


def _unbiased(_: Configuration, part: Configuration, text: int) -> int:
    return part.needed("vision_output_dim") * text


def _crossed(_: Configuration, part: Configuration, text: int) -> int:
    return (part.needed("vision_output_dim") + 1) * text


def _intern(_: Configuration, part: Configuration, text: int) -> int:
    wide = _SCALED * part.needed("hidden_size")
    return 2 * wide + (wide + 1) * text + text * (text + 1)


def _idefics(outer: Configuration, part: Configuration, text: int) -> int:
    joined = outer.whole("scale_factor", _MERGED) or _MERGED
    return joined**2 * part.needed("hidden_size") * text


def _voxtral(_: Configuration, part: Configuration, text: int) -> int:
    """Of four frames at a time."""
    return part.needed("intermediate_size") * text + text**2


def _clip(outer: Configuration, part: Configuration, text: int) -> int:
    width = outer.whole("projection_dim", _PROJECTED) or _PROJECTED
    return (part.needed("hidden_size") + text) * width + 1


def _siglip(_: Configuration, __: Configuration, ___: int) -> int:
    return 2


Projector = Callable[[Configuration, Configuration, int], int]
"""Of the whole model, the part, and the width of the text: how many parameters."""

PROJECTORS: Final[Mapping[str, Projector]] = MappingProxyType(
    {
        "clip": _clip,
        "siglip": _siglip,
        "llava": _llava,
        "llava_next": _llava_next,
        "llava_next_video": _llava_next,
        "llava_onevision": _llava_next,
        "mistral3": _mistral,
        "gemma3": _gemma,
        "gemma3n": _gemma_3n,
        "paligemma": _linear,
        "qwen2_audio": _linear,
        "voxtral": _voxtral,
        "mllama": _crossed,
        "llama4": _unbiased,
        "internvl": _intern,
        "internvl_chat": _intern,
        "idefics3": _idefics,
        "smolvlm": _idefics,
        **dict.fromkeys(
            (
                *("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"),
                *("glm4v", "glm4v_moe"),
            ),
            _none,
        ),
    }
)
"""By `model_type` of the whole model."""
