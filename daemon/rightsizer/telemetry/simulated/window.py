"""When something of a scenario holds: pure, and open to any time in any order."""

from dataclasses import dataclass
from typing import Final

from rightsizer.domain.units import Nanoseconds, nanoseconds

__all__ = ["DAY", "Window"]

DAY: Final[Nanoseconds] = nanoseconds(86400.0)


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, once or again and again."""

    begin: Nanoseconds
    """After midnight where it comes every day, else after the simulation's start."""
    length: Nanoseconds | None = None
    """`None` to the end: of the day, of the period, or for ever."""
    period: Nanoseconds | None = None
    """From one beginning to the next; `None` where it comes once."""
    is_daily: bool = False

    def since(self, time: Nanoseconds, start: Nanoseconds) -> Nanoseconds | None:
        """How long it has held; `None` where it does not hold.

        Args:
            time: When.
            start: When the simulation started.
        """
        elapsed = self._elapsed(time, start)
        if elapsed is None or (self.length is not None and elapsed >= self.length):
            return None
        if self.is_daily and self.length is None and elapsed >= DAY - self.begin:
            return None
        return elapsed

    def begun(self, time: Nanoseconds, start: Nanoseconds) -> int:
        """How often it has begun since the simulation's start, that very moment included."""
        if self.is_daily:
            return max(0, (time - self.begin) // DAY - (start - 1 - self.begin) // DAY)
        elapsed = time - start - self.begin
        if elapsed < 0:
            return 0
        return 1 if self.period is None else elapsed // self.period + 1

    def last_begun(self, time: Nanoseconds, start: Nanoseconds) -> Nanoseconds | None:
        """When it last began, `None` where it has not begun since the start."""
        elapsed = self._elapsed(time, start)
        return time - elapsed if elapsed is not None and self.begun(time, start) else None

    def _elapsed(self, time: Nanoseconds, start: Nanoseconds) -> Nanoseconds | None:
        if self.is_daily:
            return (time - self.begin) % DAY
        elapsed = time - start - self.begin
        if elapsed < 0:
            return None
        return elapsed if self.period is None else elapsed % self.period
