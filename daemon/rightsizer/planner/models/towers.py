"""Towers of multimodal models: vision (plain, merging, tiled), audio, projectors to text."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.planner.models.configuration import MODEL_TYPES, Configuration
from rightsizer.planner.models.formulas import FUNCTIONS, Formulas, formula_rows

COLORS: Final = 3
"""Channels of an image, if a file does not state them."""
_CHANNEL_KEYS: Final = ("num_channels", "in_channels")
_SCALED: Final = 4
"""Widths of the feed-forward part, if a file does not state them."""
_LARGEST_TOKENS: Final = 16_384
"""Of one image, where any resolution is taken: `max_pixels` of Qwen2-VL's processor and later."""
_ANY_RESOLUTION: Final = frozenset(
    {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"}
)
_GATED: Final = frozenset({"qwen2_5_vl", "pixtral", "glm4v", "glm4v_moe"})
OTHER_PARTS: Final = ("vision_config", "audio_config")


def _square(config: Configuration, key: str) -> Configuration:
    """Return a configuration with one number for a square, which a file may state as two."""
    value = config.values.get(key)
    if isinstance(value, list | tuple) and value:
        return Configuration({key: value[0]})
    return config


def channels(config: Configuration) -> int:
    """Return the numbers per pixel."""
    return next((count for key in _CHANNEL_KEYS if (count := config.whole(key))), COLORS)


def count_towers(config: Configuration, text_width: int) -> tuple[int, tuple[str, ...]]:
    """Return the parameters of known parts beside the text, and notes on them.

    Their projectors to the text, of the given width, are included.
    """
    kind = config.text("model_type")
    counts = {key: _parameters(config, key, text_width) for key in OTHER_PARTS if config.part(key)}
    counted = sum(count or 0 for count in counts.values())
    if not counted:
        return 0, (f"only the text part of {kind} is counted, without vision and audio",)
    left = [f"{key} of {kind} is not counted" for key, count in counts.items() if not count]
    note = f"beside the text part of {kind} vision and audio are counted, {counted:,} parameters"
    why = "in memory that no output token passes"
    tokens = "the tokens of an image or a sound are part of load.input_tokens"
    return counted, (f"{note} {why}; {tokens}", *left)


def _parameters(outer: Configuration, key: str, text_width: int) -> int | None:
    """Return the parameters of one part; `None` if unknown."""
    projector = formula_rows("projectors").get(outer.text("model_type"), {})
    named, part = _tower(outer, key)
    tower = formula_rows("towers").get(named)
    if tower is None or key not in projector:
        return None
    functions: Mapping[str, Callable[..., Any]] = {
        **FUNCTIONS,
        "channels": lambda: channels(part),
        "length": part.length,
        "side": lambda of: _square(part, of).needed(of),
        "outer_is_set": outer.is_set,
        "outer_length": outer.length,
        "outer_whole": outer.whole,
    }
    count: int | None = Formulas(tower, part, {}, functions)["parameters"]
    joined: int = Formulas(projector, part, {"text_width": text_width}, functions)[key]
    return None if count is None else count + joined


def _tower(config: Configuration, key: str) -> tuple[str, Configuration]:
    """Return the type of a part, and its values."""
    kind = config.text("model_type")
    values = config.part(key)
    towers = formula_rows("towers")
    usual = formula_rows("projectors").get(kind, {}).get(key.replace("config", "part"), kind)
    named = Configuration(values).text("model_type") or usual
    named = named if named in towers else named.removesuffix("_vision")
    return named, Configuration(values, MODEL_TYPES["towers"].get(named, {}))


def encoder_elements(config: Configuration) -> float:
    """Numbers live while an engine tries the largest image; 0 without a tower for images.

    Pixels in three numbers of 16 bits, two streams, what is merged, and the widest part.
    """
    named, part = _tower(config, "vision_config")
    width = part.whole("embed_dim" if named == "qwen2_vl" else "hidden_size")
    patch = _square(part, "patch_size").whole("patch_size")
    if named not in formula_rows("towers") or not width or not patch:
        return 0.0
    ffn = part.whole("intermediate_size") or (part.whole("mlp_ratio") or _SCALED) * width
    merged = part.whole("spatial_merge_size")
    sides = _square(part, "image_size").whole("image_size")
    patches = (sides or 0) // patch * ((sides or 0) // patch)
    if merged and named in _ANY_RESOLUTION:
        patches = _LARGEST_TOKENS * merged**2
    pixels = channels(part) * (part.whole("temporal_patch_size") or 1) * patch**2
    matrices = 3 if named in _GATED else 2
    return float(patches * (3 * pixels + 3 * width + matrices * ffn))
