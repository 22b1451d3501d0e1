"""Published models that see or hear: their configurations and the parameters of the whole."""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["MULTIMODAL"]


class Multimodal(NamedTuple):
    """A model as its card's safetensors index counts it; a few cards round."""

    config: dict[str, Any]
    parameters: float
    """Of text, tower and what joins them."""


_ROWS: Final = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))

MULTIMODAL: Final = {name: Multimodal(**row) for name, row in _ROWS.items()}
