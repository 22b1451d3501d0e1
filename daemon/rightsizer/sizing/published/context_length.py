"""How long a text a Hugging Face model was made for."""

from typing import Final

from rightsizer.sizing.published.configuration import Configuration

__all__ = ["context_tokens"]

_KEYS: Final = ("max_position_embeddings", "n_positions")
_MOST: Final = 1e6
_MULTIPLIED: Final = frozenset({"yarn", "linear", "dynamic"})
"""Scalings whose file tells the length before them, as vLLM reads it; others tell that after."""
_SCALED: Final = "gemma3"
"""Its files tell the length after a linear scaling, alone of all."""


def context_tokens(config: Configuration) -> int | None:
    """The most tokens of one request, the scaling of positions included; `None` if not told."""
    known = next((value for key in _KEYS if (value := config.whole(key))), None)
    if known is None or config.text("model_type").startswith(_SCALED):
        return known
    scaling = Configuration(config.part("rope_scaling") or config.part("rope_parameters"), {})
    factor = scaling.values.get("factor")
    kind = scaling.text("rope_type") or scaling.text("type")
    if kind not in _MULTIPLIED or isinstance(factor, bool) or not isinstance(factor, int | float):
        return known
    if not 1 <= factor < _MOST:
        return known
    before = scaling.whole("original_max_position_embeddings") or known
    return max(known, int(before * factor))
