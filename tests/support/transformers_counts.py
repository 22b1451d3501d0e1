"""Modules of transformers for small configurations in transformers' format."""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["COUNTED"]


class Counted(NamedTuple):
    """A model as transformers builds it from its configuration (5.23.0 or its own version; CPU).

    The configuration is what the class writes, without keys that no shape depends on.
    """

    config: dict[str, Any]
    parameters: int
    """Weights that are tied once, with the buffers of experts that checkpoints hold."""
    cached_bytes: float | None = None
    """Of a token in 16 bits, as long as all layers see it; `None` where there is no cache."""
    windowed_bytes: float = 0.0
    """The same of layers with a window."""


_ROWS: Final = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))

COUNTED: Final = {name: Counted(**row) for name, row in _ROWS.items()}
