"""More published models: keys, windows and experts of the families that came later."""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["MORE_PUBLISHED"]


class Published(NamedTuple):
    """A model as its card and its safetensors index tell of it; a few cards round."""

    config: dict[str, Any]
    parameters: float
    """Of the text part."""
    cached_bytes: float
    """Of a token in 16 bits, in layers that look back at everything."""
    windowed_bytes: float
    """The same of layers with a window."""


_ROWS: Final = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))

MORE_PUBLISHED: Final = {name: Published(**row) for name, row in _ROWS.items()}
