"""Grid: a UTC day, or several, cut into equal steps as a range query cuts them."""

from dataclasses import dataclass
from typing import Final

from rightsizer.model.block import BLOCK_SPAN
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

DAY: Final[Nanoseconds] = 86400 * NANOSECONDS_PER_SECOND
FINE_STEP: Final[Nanoseconds] = BLOCK_SPAN
COARSE_STEP: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Grid:
    """The stretches of some days. A sample at a time stands for the stretch that ends there."""

    day: int
    """The first, in days since the epoch."""
    step: Nanoseconds
    """Five minutes, or an hour."""
    days: int = 1
    """How many there are, one after the other."""

    @property
    def start(self) -> Nanoseconds:
        """Wall time at which the first day begins."""
        return self.day * DAY

    @property
    def end(self) -> Nanoseconds:
        """Wall time at which the last day is over."""
        return self.start + self.days * DAY

    @property
    def count(self) -> int:
        """How many stretches there are."""
        return self.days * (DAY // self.step)

    @property
    def each_day(self) -> tuple["Grid", ...]:
        """The same, a grid for each day."""
        return tuple(Grid(self.day + place, self.step) for place in range(self.days))

    def parts(self, days: int) -> tuple["Grid", ...]:
        """The same in grids of so many days, oldest first; the last one may have fewer."""
        return tuple(
            Grid(self.day + first, self.step, min(days, self.days - first))
            for first in range(0, self.days, days)
        )

    def by(self, step: Nanoseconds) -> "Grid":
        """The same days by another step."""
        return Grid(self.day, step, self.days)

    def place(self, time: Nanoseconds) -> int | None:
        """Which stretch a sample of this time stands for; `None` for one of other days.

        Stores answer to the millisecond, so that what is off by less is no other stretch.
        """
        found = (time - self.start + self.step // 2) // self.step - 1
        return found if 0 <= found < self.count else None


@dataclass(frozen=True, slots=True)
class ClippedGrid(Grid):
    """A grid that ends before its days do. What is read with it is kept with the whole grid."""

    first: int = 0
    """So many stretches from the beginning are looked at."""

    @property
    def end(self) -> Nanoseconds:
        """Wall time at which the last stretch that is looked at is over."""
        return self.start + self.first * self.step

    @property
    def count(self) -> int:
        """How many stretches are looked at."""
        return self.first
