"""How many annotations may still be made: a bucket that fills up evenly over the day."""

from typing import Final

from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.edge.clock import Clock

__all__ = ["Allowance"]

_DAY: Final[Nanoseconds] = nanoseconds(86400.0)


class Allowance:
    """Begins full, and is refilled on the steady clock."""

    def __init__(self, clock: Clock, capacity: int, per_day: int) -> None:
        # One more than a run tells one by one: there is a sum of the rest beside them.
        self._clock, self._capacity, self._per_day = clock, capacity + 1, per_day
        self._level = float(self._capacity)
        self._filled = clock.time()

    @property
    def left(self) -> int:
        """How many there may be now."""
        now = self._clock.time()
        grown = self._level + (now - self._filled) * self._per_day / _DAY
        self._level, self._filled = min(float(self._capacity), grown), now
        return int(self._level)

    def take(self) -> None:
        """One was made."""
        self._level = max(0.0, self._level - 1.0)
