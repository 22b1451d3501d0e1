"""How far a value is from a threshold, on one scale for all signals and tiers.

A half at the threshold, 1 far inside, 0 far outside or where the value is unknown.
"""

import math
from typing import Final

__all__ = ["MATCH", "above", "below"]

MATCH: Final = 0.5
"""From here on a value is inside."""
_JUST_OUTSIDE: Final = math.nextafter(MATCH, 0.0)


def above(value: float | None, threshold: float) -> float:
    """How far a value is above a threshold; a half of the threshold is halfway out."""
    if value is None:
        return 0.0
    if value < threshold:
        return min(_JUST_OUTSIDE, MATCH * value / threshold)
    return MATCH + MATCH * (value - threshold) / (1.0 - threshold) if threshold < 1 else 1.0


def below(value: float | None, threshold: float) -> float:
    """How far a value is below a threshold; twice the threshold is halfway out."""
    if value is None:
        return 0.0
    if value < threshold:
        return MATCH + MATCH * (threshold - value) / threshold
    return min(_JUST_OUTSIDE, MATCH * threshold / value) if value > 0 else 0.0
