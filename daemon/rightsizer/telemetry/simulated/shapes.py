"""How a workload's load varies over a day: pure functions of noise and time of day."""

import math
from dataclasses import dataclass
from typing import Final, Protocol

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.simulated.noise import uniform

__all__ = ["Bursty", "Constant", "Diurnal", "Shape"]

_DAY_SECONDS: Final = 86400.0
_QUIETEST_BURST: Final = 0.35


class Shape(Protocol):
    """A course of load."""

    def intensity(self, key: int, time: Nanoseconds) -> float:
        """The load at a time, of the phase's full load, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The same load all the time."""

    level: float = 1.0

    def intensity(self, key: int, time: Nanoseconds) -> float:
        """Its level, whatever the time."""
        del key, time
        return self.level


@dataclass(frozen=True, slots=True)
class Bursty:
    """Requests that come in bursts of differing strength, and nothing between them."""

    level: float = 1.0
    share: float = 0.6
    """Of the intervals, how many have a burst."""
    interval_seconds: float = 20.0

    def intensity(self, key: int, time: Nanoseconds) -> float:
        """The strength of the interval's burst, 0 where it has none."""
        return self.level * _burst(key, time, self.interval_seconds, self.share)


@dataclass(frozen=True, slots=True)
class Diurnal:
    """Bursts that follow the sun: most around the peak, none in the depth of the night."""

    level: float = 1.0
    share: float = 0.95
    interval_seconds: float = 20.0
    peak_seconds: float = 15 * 3600.0
    """Time of day with most load."""
    night_ratio: float = 0.0
    """Load twelve hours from the peak, of the peak's."""

    def intensity(self, key: int, time: Nanoseconds) -> float:
        """The strength of a burst, which is rarer and weaker away from the peak."""
        sun = self.sun(time)
        if sun <= 0.0:
            return 0.0
        burst = _burst(key, time, self.interval_seconds, self.share * math.sqrt(sun))
        return self.level * burst * (0.4 + 0.6 * sun)

    def sun(self, time: Nanoseconds) -> float:
        """How much of the peak's load the time of day has, 0 to 1."""
        moment = time / NANOSECONDS_PER_SECOND % _DAY_SECONDS
        angle = 2.0 * math.pi * (moment - self.peak_seconds) / _DAY_SECONDS
        # A fifth of the cosine is cut off below, so that a night has hours without any request.
        wave = max(0.0, (0.6 + math.cos(angle)) / 1.6)
        return self.night_ratio + (1.0 - self.night_ratio) * wave


def _burst(key: int, time: Nanoseconds, interval_seconds: float, share: float) -> float:
    step = time // round(interval_seconds * NANOSECONDS_PER_SECOND)
    if uniform(key, 2 * step) >= share:
        return 0.0
    return _QUIETEST_BURST + (1.0 - _QUIETEST_BURST) * uniform(key, 2 * step + 1)
