"""What a reading can be at all; drivers write odd numbers where they have nothing to say.

DCGM's blanks (2^63 - 14 and its kin, 2^47, 2^31 - 16) and NVML's (2^64 - 1) all lie far outside.
"""

import math

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.units import Unit


def scaled(number: float, factor: float) -> float:
    """A number in its base unit; 83 % is 0.83 and nothing beside it, so that limits hold."""
    return number * factor if factor >= 1 else number / round(1 / factor)


def plausible(signal: Signal, value: float) -> float | Missing:
    """The value, or why it cannot be believed."""
    low, high = signal.bounds
    if not math.isfinite(value) or not low <= value <= high:
        return Missing.INVALID
    if signal.unit is Unit.RATIO:
        return min(value, 1.0)
    if signal is Signal.MEMORY_TEMPERATURE_CELSIUS and value == 0:
        return Missing.NOT_SUPPORTED  # Boards without the sensor read 0.
    return value
