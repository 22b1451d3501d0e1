"""Towers of a multimodal model: vision, audio, and projectors to the text."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from rightsizer.planner.models.configuration import MODEL_TYPES, Configuration
from rightsizer.planner.models.encoder_decoder import speech_encoder_parameters
from rightsizer.planner.models.vision_towers import VISION_TOWERS, Tower

_CHANNELS: Final = (128, 32)
"""Of the two convolutions before a conformer, of three by three, which halve what they see."""
_KERNEL: Final = 9
_MERGED: Final = 2
"""Patches of a side that are made one, where a file does not say."""
_SCALED: Final = 4
"""The same of InternVL and Idefics: patches that are made one."""
_HARD_TOKENS: Final = 128
"""Of each part of Gemma 3n, in a table of their own."""
_PROJECTED: Final = 512
"""The width that CLIP compares images and texts in."""
Projector = Callable[[Configuration, Configuration, int], int]
"""Of the whole model, the part, and the width of the text: how many parameters."""


def _conformer(config: Configuration) -> int:
    """Of Gemma 3n: two feed-forward parts, attention and a convolution in each layer."""
    hidden = config.needed("hidden_size")
    head = hidden // config.needed("conf_num_attention_heads")
    feed_forward = 8 * hidden**2 + 2 * hidden
    attention = 5 * hidden**2 + head + 2 * hidden
    convolution = 3 * hidden**2 + (config.needed("conf_conv_kernel_size") + 2) * hidden
    layer = 2 * feed_forward + attention + convolution + hidden
    first, second = _CHANNELS
    bins = config.needed("input_feat_size") // 4
    before = _KERNEL * first * (1 + second) + first + second + second * bins * hidden
    return before + config.needed("conf_num_hidden_layers") * layer


def _llava(outer: Configuration, part: Configuration, text: int, ends: int = 0) -> int:
    """`ends`: tokens that end a row of tiles."""
    layers = outer.values.get("vision_feature_layer")
    levels = len(layers) if isinstance(layers, list | tuple) else 1
    biases = 2 * text if outer.is_set("multimodal_projector_bias", otherwise=True) else 0
    return levels * part.needed("hidden_size") * text + text**2 + biases + ends * text


_llava_next = partial(_llava, ends=1)


def _mistral(outer: Configuration, part: Configuration, text: int) -> int:
    hidden = part.needed("hidden_size")
    joined = outer.whole("spatial_merge_size", _MERGED) or _MERGED
    biases = 2 * text if outer.is_set("multimodal_projector_bias") else 0
    return hidden + joined**2 * hidden**2 + hidden * text + text**2 + biases


def _gemma_3n(_: Configuration, part: Configuration, text: int) -> int:
    hidden = part.needed("hidden_size")
    return ((part.whole("vocab_size") or _HARD_TOKENS) + 2 + text) * hidden


def _linear(_: Configuration, part: Configuration, text: int) -> int:
    return ((part.whole("hidden_size") or part.needed("d_model")) + 1) * text


def _intern(_: Configuration, part: Configuration, text: int) -> int:
    wide = _SCALED * part.needed("hidden_size")
    return 2 * wide + (wide + 1) * text + text * (text + 1)


def _idefics(outer: Configuration, part: Configuration, text: int) -> int:
    joined = outer.whole("scale_factor", _MERGED) or _MERGED
    return joined**2 * part.needed("hidden_size") * text


def _clip(outer: Configuration, part: Configuration, text: int) -> int:
    width = outer.whole("projection_dim", _PROJECTED) or _PROJECTED
    return (part.needed("hidden_size") + text) * width + 1


_SEEING: Final[Mapping[str, tuple[str, Projector]]] = {
    "clip": ("clip_vision_model", _clip),
    "siglip": ("siglip_vision_model", lambda *_: 2),
    "llava": ("clip_vision_model", _llava),
    "llava_next": ("clip_vision_model", _llava_next),
    "llava_next_video": ("clip_vision_model", _llava_next),
    "llava_onevision": ("siglip_vision_model", _llava_next),
    "mistral3": ("pixtral", _mistral),
    "gemma3": (
        "siglip_vision_model",
        lambda _, part, text: part.needed("hidden_size") * (text + 1),
    ),
    "gemma3n": ("gemma3n_vision", _gemma_3n),
    "paligemma": ("siglip_vision_model", _linear),
    "mllama": (
        "mllama_vision_model",
        lambda _, part, text: (part.needed("vision_output_dim") + 1) * text,
    ),
    "llama4": (
        "llama4_vision_model",
        lambda _, part, text: part.needed("vision_output_dim") * text,
    ),
    "internvl": ("internvl_vision", _intern),
    "internvl_chat": ("intern_vit_6b", _intern),
    "idefics3": ("idefics3_vision", _idefics),
    "smolvlm": ("smolvlm_vision", _idefics),
    **{
        kind: (kind, lambda *_: 0)
        for kind in (
            *("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"),
            *("glm4v", "glm4v_moe"),
        )
    },
}
"""By `model_type` of the whole: the part that sees, where its own configuration does not name it,
and what joins it to the text."""
_HEARING: Final[Mapping[str, tuple[str, Projector]]] = {
    "gemma3n": ("gemma3n_audio", _gemma_3n),
    "qwen2_audio": ("qwen2_audio_encoder", _linear),
    "voxtral": (
        "voxtral_encoder",
        lambda _, part, text: part.needed("intermediate_size") * text + text**2,
    ),
}

_PARTS: Final = {"vision_config": _SEEING, "audio_config": _HEARING}
OTHER_PARTS: Final = tuple(_PARTS)
_TOWERS: Final[Mapping[str, Tower]] = {
    **VISION_TOWERS,
    "qwen2_audio_encoder": partial(
        speech_encoder_parameters, keys=("d_model", "encoder_ffn_dim", "encoder_layers")
    ),
    "voxtral_encoder": partial(
        speech_encoder_parameters, keys=("hidden_size", "intermediate_size", "num_hidden_layers")
    ),
    "gemma3n_audio": _conformer,
}


def count_towers(config: Configuration, text_width: int) -> tuple[int, tuple[str, ...]]:
    """Parameters of the parts of a model beside its text that are understood, and notes on them.

    What joins them to the text, which is so wide, is counted with them.
    """
    kind = config.text("model_type")
    counts = {key: _parameters(config, key, text_width) for key in OTHER_PARTS if config.part(key)}
    counted = sum(count or 0 for count in counts.values())
    if not counted:
        return 0, (f"only the text part of {kind} is counted, without what sees or hears",)
    left = [f"{key} of {kind} is not counted" for key, count in counts.items() if not count]
    said = f"beside the text part of {kind} what sees or hears is counted, {counted:,} parameters"
    why = "that are in memory and that no token written passes"
    tokens = "the tokens of an image or a sound are part of load.input_tokens"
    return counted, (f"{said} {why}; {tokens}", *left)


def _parameters(config: Configuration, key: str, text_width: int) -> int | None:
    """Of one part; `None` where it is not understood."""
    kind, values = config.text("model_type"), config.part(key)
    usual, projector = _PARTS[key].get(kind, (kind, None))
    named = Configuration(values).text("model_type") or usual
    named = named if named in _TOWERS else named.removesuffix("_vision")
    if named not in _TOWERS or projector is None:
        return None
    part = Configuration(values, MODEL_TYPES["towers"].get(named, {}))
    own = _TOWERS[named](part)
    return None if own is None else own + projector(config, part, text_width)
