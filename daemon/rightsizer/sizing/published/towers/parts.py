"""The parts of a Hugging Face model that see or hear: what they add in memory, and what is said."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.towers.audio import AUDIO_TOWERS
from rightsizer.sizing.published.towers.merging import MERGING_TOWERS
from rightsizer.sizing.published.towers.plain import PLAIN_TOWERS
from rightsizer.sizing.published.towers.projectors import PROJECTORS
from rightsizer.sizing.published.towers.tiled import TILED_TOWERS

__all__ = ["OTHER_PARTS", "Towers"]

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
