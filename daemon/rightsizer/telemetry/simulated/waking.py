"""What the first readings of a GPU show that the driver has just woken: work that nobody does."""

import math
from dataclasses import replace
from typing import Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.simulated.physics import BoardState, Surroundings

__all__ = ["waking"]

_LASTS: Final[Nanoseconds] = 5 * NANOSECONDS_PER_SECOND
_BUSY: Final[Nanoseconds] = NANOSECONDS_PER_SECOND
_POWER_RATIO: Final = 0.41
"""An L40S shows 145 W of 350 and 100 % with no process; it is over within seconds."""


def waking(state: BoardState, around: Surroundings, elapsed: Nanoseconds) -> BoardState:
    """A state as it is read some time after the GPU was woken; one at work looks as it is."""
    if not 0 <= elapsed < _LASTS or state.load.gpu_busy > 0.0:
        return state
    electrical = state.electrical
    extra = _POWER_RATIO * around.power_limit_watts - electrical.power_watts
    fading = math.exp(-elapsed / NANOSECONDS_PER_SECOND)
    watts = electrical.power_watts + max(0.0, extra) * fading
    busy = 1.0 if elapsed < _BUSY else 0.0
    return replace(
        state,
        load=replace(state.load, gpu_busy=busy),
        electrical=replace(electrical, power_watts=watts),
    )
