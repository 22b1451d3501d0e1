"""Grid: days in equal steps, on which samples stand for the intervals that end with them."""

from typing import Any, Final

from rightsizer.model.block import BLOCK_SPAN
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

DAY: Final[Nanoseconds] = 86400 * NANOSECONDS_PER_SECOND
FINE_STEP: Final[Nanoseconds] = BLOCK_SPAN
COARSE_STEP: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Grid:
    """The intervals of some days. A sample at a time stands for the interval that ends there."""

    day: int
    """The first, in days since the epoch."""
    step: Nanoseconds
    """Five minutes, or an hour."""
    days: int = 1
    """How many there are, one after the other."""
    clipped: int = 0
    """Intervals that are read, from the beginning; 0 for all. The frame has the whole grid."""

    @property
    def start(self) -> Nanoseconds:
        """Wall time at which the first day begins."""
        return self.day * DAY

    @property
    def end(self) -> Nanoseconds:
        """Wall time at which the last interval is over."""
        return self.time(self.count)

    @property
    def count(self) -> int:
        """Number of intervals."""
        return self.clipped or self.days * (DAY // self.step)

    def time(self, place: int) -> Nanoseconds:
        """Wall time at which an interval begins."""
        return self.start + place * self.step

    def parts(self) -> "tuple[Grid, ...]":
        """The same in grids of a day each, oldest first."""
        return tuple(Grid(self.day + place, self.step) for place in range(self.days))

    def by(self, step: Nanoseconds) -> "Grid":
        """The same days by another step."""
        return Grid(self.day, step, self.days)

    def places(self, times: Any) -> Any:
        """Indices of the intervals that times stand for, one or many, those of other days too.

        Stores answer to the millisecond, so that what is off by less is the same interval.
        """
        return (times - self.start + self.step // 2) // self.step - 1
