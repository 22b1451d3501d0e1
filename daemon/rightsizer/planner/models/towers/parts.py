"""Towers of a multimodal model: vision, audio, and projectors to the text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rightsizer.planner.models.configuration import Configuration
from rightsizer.planner.models.families.encoder_decoder import speech_encoder_parameters
from rightsizer.planner.models.towers.vision import (
    MERGING_TOWERS,
    PLAIN_TOWERS,
    TILED_TOWERS,
    Tower,
)

_WHISPER: Final = MappingProxyType(
    {
        "d_model": 1280,
        "encoder_layers": 32,
        "encoder_ffn_dim": 5120,
        "num_mel_bins": 128,
        "max_source_positions": 1500,
    }
)
_VOXTRAL: Final = MappingProxyType(
    {
        "hidden_size": 1280,
        "num_hidden_layers": 32,
        "intermediate_size": 5120,
        "num_mel_bins": 128,
        "max_source_positions": 1500,
    }
)
_CONFORMER: Final = MappingProxyType(
    {
        "hidden_size": 1536,
        "conf_num_attention_heads": 8,
        "conf_num_hidden_layers": 12,
        "conf_conv_kernel_size": 5,
        "input_feat_size": 128,
    }
)
_CHANNELS: Final = (128, 32)
"""Of the two convolutions before a conformer, of three by three, which halve what they see."""
_KERNEL: Final = 9


def _whisper(config: Configuration) -> int:
    return speech_encoder_parameters(
        config,
        hidden=config.needed("d_model"),
        ffn=config.needed("encoder_ffn_dim"),
        layers=config.needed("encoder_layers"),
    )


def _voxtral(config: Configuration) -> int:
    return speech_encoder_parameters(
        config,
        hidden=config.needed("hidden_size"),
        ffn=config.needed("intermediate_size"),
        layers=config.needed("num_hidden_layers"),
    )


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


AUDIO_TOWERS: Final[Mapping[str, Tower]] = MappingProxyType(
    {
        "qwen2_audio_encoder": (_whisper, _WHISPER),
        "voxtral_encoder": (_voxtral, _VOXTRAL),
        "gemma3n_audio": (_conformer, _CONFORMER),
    }
)
"""By `model_type` of the part: what counts it, and the values that its files leave out."""


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


def _voxtral_projector(_: Configuration, part: Configuration, text: int) -> int:
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
        "voxtral": _voxtral_projector,
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


OTHER_PARTS: Final = ("vision_config", "audio_config")
_TOWERS: Final = {**PLAIN_TOWERS, **MERGING_TOWERS, **TILED_TOWERS, **AUDIO_TOWERS}
_UNNAMED: Final = MappingProxyType(
    {
        "clip": "clip_vision_model",
        "siglip": "siglip_vision_model",
        "llava": "clip_vision_model",
        "llava_next": "clip_vision_model",
        "llava_next_video": "clip_vision_model",
        "llava_onevision": "siglip_vision_model",
        "mistral3": "pixtral",
        "gemma3": "siglip_vision_model",
        "paligemma": "siglip_vision_model",
        "mllama": "mllama_vision_model",
        "llama4": "llama4_vision_model",
        "internvl": "internvl_vision",
        "internvl_chat": "intern_vit_6b",
        "idefics3": "idefics3_vision",
        "smolvlm": "smolvlm_vision",
        "gemma3n": "gemma3n_vision",
    }
)
"""The part that sees, where its own configuration does not name it; elsewhere as the whole."""
_UNNAMED_AUDIO: Final = MappingProxyType(
    {
        "gemma3n": "gemma3n_audio",
        "qwen2_audio": "qwen2_audio_encoder",
        "voxtral": "voxtral_encoder",
    }
)
_WIDTHS: Final = MappingProxyType(
    {"gemma3n_vision": MappingProxyType({"hidden_size": 2048})}
    | {"llama4_vision_model": MappingProxyType({"vision_output_dim": 7680})}
    | {"mllama_vision_model": MappingProxyType({"vision_output_dim": 7680})}
)
"""That only what joins a part to the text goes by."""


@dataclass(frozen=True, slots=True)
class Towers:
    """The parts of one model."""

    parameters: int
    """Of all that are understood, with what joins them to the text."""
    notes: tuple[str, ...]

    @classmethod
    def of(cls, config: Configuration, text_width: int) -> "Towers":
        """Those of a whole model, whose text is so wide.

        Raises:
            RequirementError: a value of theirs cannot be.
        """
        kind = config.text("model_type")
        told = [key for key in OTHER_PARTS if config.part(key)]
        counts = {key: _parameters(config, key, text_width) for key in told}
        counted = sum(count or 0 for count in counts.values())
        if not counted:
            return cls(0, (f"only the text part of {kind} is counted, without what sees or hears",))
        left = [f"{key} of {kind} is not counted" for key, count in counts.items() if not count]
        said = (
            f"beside the text part of {kind} what sees or hears is counted, {counted:,} parameters"
            " that are in memory and that no token written passes; the tokens of an image or a"
            " sound are part of load.input_tokens"
        )
        return cls(counted, (said, *left))


def _parameters(config: Configuration, key: str, text_width: int) -> int | None:
    """Of one part; `None` where it is not understood."""
    kind = config.text("model_type")
    unnamed: Mapping[str, str] = _UNNAMED if key == "vision_config" else _UNNAMED_AUDIO
    values = config.part(key)
    named = Configuration(values, {}).text("model_type") or unnamed.get(kind, kind)
    tower = _TOWERS.get(named) or _TOWERS.get(named.removesuffix("_vision"))
    projector = PROJECTORS.get(kind)
    if tower is None or projector is None:
        return None
    count, defaults = tower
    part = Configuration(values, MappingProxyType({**defaults, **_WIDTHS.get(named, {})}))
    own = count(part)
    return None if own is None else own + projector(config, part, text_width)
