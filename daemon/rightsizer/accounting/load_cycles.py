"""Cycles of a device's load: work and pauses that take turns at a steady pace."""

from collections import deque
from typing import Final

from rightsizer.accounting.settings import LoadCycleSettings
from rightsizer.model.entry import LoadCycle
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds, seconds

_REMEMBERED: Final = 8
"""Cycles that the next one is compared with."""
_ALIKE: Final = 0.75
"""Part of those that must be as long as the next one."""
_JITTER: Final = 0.1
"""By how much of its distance a reading may be late."""
_HYSTERESIS: Final = 0.1
"""Part of the swing by which a load must pass the middle of it."""


class LoadCycleDetector:
    """One device's load over time.

    A cycle goes from one rise of the load over the middle of its recent range to the next. It is
    told where the cycles before took about as long: requests that come by chance do not.
    """

    def __init__(self, settings: LoadCycleSettings | None = None) -> None:
        self._settings = settings or LoadCycleSettings()
        self._longest = nanoseconds(self._settings.longest_seconds)
        self._coarsest = nanoseconds(self._settings.coarsest_seconds * (1 + _JITTER))
        self._lengths: deque[Nanoseconds] = deque(maxlen=_REMEMBERED)
        self._lowest = self._highest = 0.0
        self._is_high: bool | None = None
        self._length: Nanoseconds = 0
        self._busy = 0.0

    def resolves(self, duration: Nanoseconds) -> bool:
        """Whether a stretch is short enough to tell cycles."""
        return duration <= self._coarsest

    def see(self, duration: Nanoseconds, busy: float | None) -> LoadCycle | None:
        """Add a stretch; the cycle that ended before it, where it is one of several alike."""
        if busy is None or not self.resolves(duration):
            self._restart()
            return None
        found = self._close() if self._rises(duration, busy) else None
        self._length += duration
        self._busy += busy * seconds(duration)
        return found

    def _rises(self, duration: Nanoseconds, busy: float) -> bool:
        """Follow the range of the load, which is forgotten in the time of the longest cycle."""
        if self._is_high is None:
            self._lowest = self._highest = busy
            self._is_high = False
            return False
        forgotten = duration / (self._longest + duration)
        self._lowest += forgotten * (busy - self._lowest)
        self._highest += forgotten * (busy - self._highest)
        self._lowest, self._highest = min(self._lowest, busy), max(self._highest, busy)
        swing = self._highest - self._lowest
        if swing < self._settings.swing_ratio:
            self._length, self._busy, self._is_high = 0, 0.0, False
            self._lengths.clear()
            return False
        middle, was_high = self._lowest + swing / 2, self._is_high
        if abs(busy - middle) > _HYSTERESIS * swing:
            self._is_high = busy > middle
        return self._is_high and not was_high

    def _close(self) -> LoadCycle | None:
        length, busy = self._length, self._busy
        self._length, self._busy = 0, 0.0
        if not 0 < length <= self._longest:
            self._lengths.clear()
            return None
        self._lengths.append(length)
        tolerance = self._settings.tolerance_ratio * length
        alike = sum(abs(length - other) <= tolerance for other in self._lengths)
        if len(self._lengths) < _REMEMBERED or alike < _ALIKE * _REMEMBERED:
            return None
        return LoadCycle(length / NANOSECONDS_PER_SECOND, busy)

    def _restart(self) -> None:
        self._lengths.clear()
        self._is_high, self._length, self._busy = None, 0, 0.0
