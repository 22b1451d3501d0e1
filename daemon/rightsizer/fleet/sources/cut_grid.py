"""A day of which only the first stretches are looked at, as the others are still to come."""

from dataclasses import dataclass

from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.kept.grid import Grid

__all__ = ["CutGrid"]


@dataclass(frozen=True, slots=True)
class CutGrid(Grid):
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
