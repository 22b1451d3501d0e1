"""What a reading can be at all; drivers write odd numbers where they have nothing to say.

DCGM's blanks (2^63 - 14 and its kin, 2^47, 2^31 - 16) and NVML's (2^64 - 1) all lie far outside.
"""

import math
from typing import Final

from rightsizer.model.reading import Missing
from rightsizer.model.signal import SIGNALS, Signal
from rightsizer.model.units import Unit

_BOUNDS: Final[dict[Unit, tuple[float, float]]] = {
    # Rounding and MIG instances read a little above the whole; that is the whole.
    Unit.RATIO: (0.0, 1.1),
    Unit.BYTES: (0.0, 2.0**50),
    Unit.BYTES_PER_SECOND: (0.0, 1e14),
    Unit.WATTS: (0.0, 1e5),
    Unit.JOULES: (0.0, 1.4e11),
    Unit.HERTZ: (0.0, 1e11),
    Unit.CELSIUS: (-100.0, 300.0),
    Unit.COUNT: (0.0, 2.0**31 - 17),
    Unit.SECONDS: (0.0, 2e9),
}


def scaled(number: float, factor: float) -> float:
    """A number in its base unit; 83 % is 0.83 and nothing beside it, so that limits hold."""
    return number * factor if factor >= 1 else number / round(1 / factor)


def plausible(signal: Signal, value: float) -> float | Missing:
    """The value, or why it cannot be believed."""
    unit = SIGNALS[signal].unit
    low, high = _BOUNDS[unit]
    if not math.isfinite(value) or not low <= value <= high:
        return Missing.INVALID
    if unit is Unit.RATIO:
        return min(value, 1.0)
    if signal is Signal.MEMORY_TEMPERATURE_CELSIUS and value == 0:
        return Missing.NOT_SUPPORTED  # Boards without the sensor read 0.
    return value
