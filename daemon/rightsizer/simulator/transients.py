"""Noise and transients as pure functions of seed, channel and time."""

import hashlib
import math
from typing import Final

from msgspec.structs import replace

from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.simulator.physics import BoardEnvironment, BoardState

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_STEP: Final = 0x9E3779B97F4A7C15
UTILIZATION_SAMPLES_PER_SECOND: Final = 6
_POWER_STEP: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 50
_RIPPLE_RATIO: Final = 0.05
"""Relative to the draw above idle."""
_SWING: Final = 3.0
_KEY: Final = 0x6D6F6D656E7473
_LASTS: Final[Nanoseconds] = 5 * NANOSECONDS_PER_SECOND
_BUSY: Final[Nanoseconds] = NANOSECONDS_PER_SECOND
_POWER_RATIO: Final = 0.41
"""An idle L40S shows 145 W of 350 and 100% for a few seconds."""


def channel(seed: int, *names: object) -> int:
    """Return the key of an independent noise stream."""
    text = "\0".join(str(name) for name in (seed, *names))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _mix(value: int) -> int:
    # Finalizer of SplitMix64: every input bit affects every output bit.
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def uniform(key: int, step: int) -> float:
    """Return a number from 0 to 1 for a step of a stream."""
    return _mix((key + step * _STEP) & _MASK) / 2.0**64


def smooth(key: int, time: Nanoseconds, period: Nanoseconds) -> float:
    """Return a number from -1 to 1 that varies smoothly between the values of periods."""
    step, rest = divmod(time, period)
    part = rest / period
    weight = part * part * (3.0 - 2.0 * part)
    left = uniform(key, step)
    return 2.0 * (left + (uniform(key, step + 1) - left) * weight) - 1.0


def jitter(key: int, step: int) -> tuple[float, float, float, float]:
    """Return four numbers from -1 to 1 for a step: errors of four sensors at one time."""
    bits = _mix((key + step * _STEP) & _MASK)
    return (
        ((bits & 0xFFFF) - 32767.5) / 32767.5,
        ((bits >> 16 & 0xFFFF) - 32767.5) / 32767.5,
        ((bits >> 32 & 0xFFFF) - 32767.5) / 32767.5,
        ((bits >> 48) - 32767.5) / 32767.5,
    )


def shown_watts(
    state: BoardState, around: BoardEnvironment, time: Nanoseconds, *, averages: bool
) -> float:
    """Return the board's own power reading: mean of a second, or instantaneous draw."""
    # Kernels start and stop; the mean of a second smooths that.
    extra = 0.0 if averages else max(0.0, state.power_watts - around.idle_watts)
    ripple = 2.0 * uniform(_KEY, time // _POWER_STEP) - 1.0
    return state.power_watts + _RIPPLE_RATIO * ripple * extra


def sampled_busy(busy: float, number: int) -> float:
    """Return a sample of a mean busy share by its number, six a second.

    A share with gaps varies in both directions, and pairs of samples average out.
    """
    pair, is_second = divmod(number - 1, 2)
    room = min(busy, 1.0 - busy, _SWING * busy * (1.0 - busy))
    swing = room * uniform(_KEY, pair)
    return busy - swing if is_second else busy + swing


def wake_transient(state: BoardState, around: BoardEnvironment, elapsed: Nanoseconds) -> BoardState:
    """Return the state as read some time after a wake-up; unchanged if the GPU is busy."""
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
