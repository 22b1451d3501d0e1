"""Grid of days in equal steps; a sample stands for the interval that ends with it."""

from typing import Any, Final

from msgspec import Struct

from rightsizer.model.values import BLOCK_SPAN, NANOSECONDS_PER_SECOND, Nanoseconds

DAY: Final[Nanoseconds] = 86400 * NANOSECONDS_PER_SECOND
FINE_STEP: Final[Nanoseconds] = BLOCK_SPAN
COARSE_STEP: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND


class Grid(Struct, frozen=True):
    """Intervals of some days. A sample stands for the interval that ends at its time."""

    day: int
    """First day, counted since the epoch."""
    step: Nanoseconds
    """Five minutes or an hour."""
    days: int = 1
    """Number of consecutive days."""
    clipped: int = 0
    """Number of leading intervals that are read; 0 for all. Frames have the whole grid."""

    @property
    def start(self) -> Nanoseconds:
        """Wall time of the start of the first day."""
        return self.day * DAY

    @property
    def end(self) -> Nanoseconds:
        """Wall time of the end of the last interval."""
        return self.time(self.count)

    @property
    def count(self) -> int:
        """Number of intervals."""
        return self.clipped or self.days * (DAY // self.step)

    def time(self, place: int) -> Nanoseconds:
        """Return the wall time of an interval's start."""
        return self.start + place * self.step

    def inside(self, start: Nanoseconds, end: Nanoseconds) -> tuple[int, int]:
        """Return the first interval that begins in a span, and the one after the last."""
        first, last = (-(-(time - self.start) // self.step) for time in (start, end))
        return max(0, first), min(self.count, last)

    def parts(self) -> "tuple[Grid, ...]":
        """Split into grids of a day each, oldest first."""
        return tuple(Grid(self.day + place, self.step) for place in range(self.days))

    def by(self, step: Nanoseconds) -> "Grid":
        """Return the same days with another step."""
        return Grid(self.day, step, self.days)

    def places(self, times: Any) -> Any:
        """Return the intervals of one or many times, which may lie on other days.

        Stores answer in milliseconds, so smaller differences are ignored.
        """
        return (times - self.start + self.step // 2) // self.step - 1
