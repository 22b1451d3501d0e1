"""Which layers of a Hugging Face model look back through a window, and how far."""

from typing import Final

from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.families.family import Family

__all__ = ["read_window"]

_WINDOWED: Final = frozenset({"sliding_attention", "chunked_attention"})


def read_window(
    config: Configuration, family: Family, layers: int
) -> tuple[int | None, int | None]:
    """How far windowed layers look back, and how many there are.

    Gemma 2 windows every second layer, Gemma 3 five of six, Llama 4 chunks three of four; Qwen
    only where it is switched on.
    """
    window = config.whole(family.window)
    is_qwen = config.text("model_type").startswith("qwen")
    if not window or not config.is_set("use_sliding_window", otherwise=not is_qwen):
        return None, None
    kinds = config.names("layer_types")
    if kinds:
        windowed = sum(kind in _WINDOWED for kind in kinds)
        return (window, windowed) if windowed else (None, None)
    if letters := config.text("sliding_window_pattern"):
        # EXAONE 4 spells it, L for a window, and its last layer looks back at everything.
        whole, rest = divmod(layers - 1, len(letters))
        return window, whole * letters.count("L") + letters[:rest].count("L")
    pattern = config.whole("sliding_window_pattern") or family.window_pattern
    if pattern:
        return window, layers - layers // pattern
    if is_qwen or config.whole("max_window_layers") is not None:
        full = min(config.whole("max_window_layers") or 0, layers)
        return (window, layers - full) if full < layers else (None, None)
    return window, None
