"""What happens within a second: the ripple of power, and the swings of a busy share."""

from typing import Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.simulated.noise import uniform
from rightsizer.telemetry.simulated.physics import BoardState, Surroundings

__all__ = ["UTILIZATION_SAMPLES_PER_SECOND", "instant_watts", "sampled_busy", "shown_watts"]

UTILIZATION_SAMPLES_PER_SECOND: Final = 6
_POWER_STEP: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 50
_RIPPLE_RATIO: Final = 0.05
"""Of what a board draws beyond its idle draw."""
_SWING: Final = 3.0
_KEY: Final = 0x6D6F6D656E7473


def instant_watts(state: BoardState, around: Surroundings, time: Nanoseconds) -> float:
    """The draw of a moment: kernels come and go, and the mean of a second smooths them."""
    extra = max(0.0, state.power_watts - around.idle_watts)
    ripple = 2.0 * uniform(_KEY, time // _POWER_STEP) - 1.0
    return state.power_watts + _RIPPLE_RATIO * ripple * extra


def shown_watts(
    state: BoardState, around: Surroundings, time: Nanoseconds, *, averages: bool
) -> float:
    """What a board's own power reading is: the mean of a second, or the moment's draw."""
    return state.power_watts if averages else instant_watts(state, around, time)


def sampled_busy(busy: float, number: int) -> float:
    """A sample of a busy share: one with gaps swings to both sides, and two samples make it up.

    Args:
        busy: The mean.
        number: Of the sample, six to a second.
    """
    pair, is_second = divmod(number - 1, 2)
    room = min(busy, 1.0 - busy, _SWING * busy * (1.0 - busy))
    swing = room * uniform(_KEY, pair)
    return busy - swing if is_second else busy + swing
