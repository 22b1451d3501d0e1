"""What mixes the tokens of a recurrent layer."""

from dataclasses import dataclass
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.published.configuration import Configuration

__all__ = ["WIDE", "Mixer", "state_scale"]

WIDE: Final = 2
"""A number of 32 bits takes as much as two of 16."""
_SCALES: Final = {"float32": WIDE, "bfloat16": 1, "float16": 1, "auto": 1}


@dataclass(frozen=True, slots=True)
class Mixer:
    """One layer's, whatever runs in it."""

    parameters: int
    state_elements: int
    """Of one request of any length, in numbers of 16 bits."""
    inputs: int
    """Elements of one token that its first projections make."""
    width: int
    """Elements of one token that the recurrence makes of them."""


def state_scale(config: Configuration, key: str, otherwise: str) -> int:
    """How many numbers of 16 bits one of a state takes.

    Raises:
        RequirementError: the format is not known.
    """
    named = config.text(key) or otherwise
    if named not in _SCALES:
        raise RequirementError(
            f"config.json: {key}: '{named}' is not known; take one of {', '.join(_SCALES)}"
        )
    return _SCALES[named]
