"""A grid: one UTC day cut into equal stretches, as a range query cuts it."""

from dataclasses import dataclass
from typing import Final

from rightsizer.domain.block import BLOCK_SPAN
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds

__all__ = ["COARSE_STEP", "DAY", "FINE_STEP", "Grid"]

DAY: Final[Nanoseconds] = 86400 * NANOSECONDS_PER_SECOND
FINE_STEP: Final[Nanoseconds] = BLOCK_SPAN
COARSE_STEP: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Grid:
    """The stretches of a day. A sample at a time stands for the stretch that ends there."""

    day: int
    """Days since the epoch."""
    step: Nanoseconds
    """Five minutes, or an hour."""

    @property
    def start(self) -> Nanoseconds:
        """Wall time at which the day begins."""
        return self.day * DAY

    @property
    def end(self) -> Nanoseconds:
        """Wall time at which the next one begins."""
        return self.start + DAY

    @property
    def count(self) -> int:
        """How many stretches there are."""
        return DAY // self.step

    def place(self, time: Nanoseconds) -> int | None:
        """Which stretch a sample of this time stands for; `None` for one of another day.

        Stores answer to the millisecond, so that what is off by less is no other stretch.
        """
        found = (time - self.start + self.step // 2) // self.step - 1
        return found if 0 <= found < self.count else None
