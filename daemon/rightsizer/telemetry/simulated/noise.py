"""Noise that is a pure function of seed, channel and time: any moment, in any order, same bytes."""

import hashlib
from typing import Final

from rightsizer.domain.units import Nanoseconds

__all__ = ["channel", "jitter", "smooth", "uniform"]

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_STEP: Final = 0x9E3779B97F4A7C15


def channel(seed: int, *names: object) -> int:
    """The key of an independent stream of noise."""
    text = "\0".join(str(name) for name in (seed, *names))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _mix(value: int) -> int:
    # The finalizer of SplitMix64: every bit of the result depends on every bit of the value.
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def uniform(key: int, step: int) -> float:
    """A number from 0 to 1 for a whole step of a stream."""
    return _mix((key + step * _STEP) & _MASK) / 2.0**64


def smooth(key: int, time: Nanoseconds, period: Nanoseconds) -> float:
    """A number from -1 to 1 that wanders from one period's value to the next's without corners."""
    step, rest = divmod(time, period)
    part = rest / period
    weight = part * part * (3.0 - 2.0 * part)
    left = uniform(key, step)
    return 2.0 * (left + (uniform(key, step + 1) - left) * weight) - 1.0


def jitter(key: int, step: int) -> tuple[float, float, float, float]:
    """Four numbers from -1 to 1 for a step: the errors of four sensors at one moment."""
    bits = _mix((key + step * _STEP) & _MASK)
    return (
        ((bits & 0xFFFF) - 32767.5) / 32767.5,
        ((bits >> 16 & 0xFFFF) - 32767.5) / 32767.5,
        ((bits >> 32 & 0xFFFF) - 32767.5) / 32767.5,
        ((bits >> 48) - 32767.5) / 32767.5,
    )
