"""Load patterns: periodicity over days and weeks, trend, and idle times."""

from typing import Protocol

from msgspec import Struct

from rightsizer.model.block import Blocks, Measure
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window


class Shape(Struct, frozen=True):
    """Periodicity of a load. Hours are UTC; weeks begin on Monday."""

    hours_of_day: tuple[float | None, ...]
    """Mean of each hour of the day; `None` if unknown."""
    known_days: float
    """Known time, in days."""
    is_daily: bool
    """Whether it repeats daily, rather than just changing slowly."""
    is_weekly: bool
    """Whether weeks are more alike than days."""
    covers_cycle: bool
    """Whether every hour of a week was seen; less cannot rule out a weekly cycle."""


class Trend(Struct, frozen=True):
    """Robust linear fit of daily values, with its uncertainty."""

    slope_per_day: float
    slope_low: float
    slope_high: float
    """Bounds of the true slope, with probability `level_ratio`."""
    level_ratio: float
    value: float
    """Fitted value of the last day."""
    days: int
    """Number of daily values."""

    @property
    def is_growing(self) -> bool:
        """Whether even the lower bound of the slope is positive."""
        return self.slope_low > 0

    def days_until(self, limit: float) -> tuple[float, float] | None:
        """Earliest and latest number of days until the line reaches a limit.

        `None` if it may not grow at all.
        """
        if not self.is_growing:
            return None
        left = max(0.0, limit - self.value)
        return left / self.slope_high, left / self.slope_low


class Exceedance(Struct, frozen=True):
    """Share of five-minute blocks above a capacity."""

    share: float
    blocks: int
    effective_blocks: float
    """Number of independent blocks that they are equivalent to."""


class IdleGap(Struct, frozen=True):
    """Interval without work."""

    seconds: float
    has_ended: bool
    """False if its end was not observed; its length is then a lower bound."""
    start: Nanoseconds = 0


class Past(Protocol):
    """History of a case beyond its windows, computed on demand."""

    @property
    def window(self) -> Window | None:
        """Window of the workload over all its devices and the case's span."""

    def blocks(self) -> Blocks:
        """Blocks of the workload over the whole history."""

    def shape(self, measure: Measure) -> Shape | None:
        """Periodicity over the whole history."""

    def trend(self, measure: Measure) -> Trend | None:
        """Trend over the whole history."""

    def idle_gaps(self, busy_ratio: float) -> tuple[IdleGap, ...]:
        """Times below a busy ratio over the whole history, oldest first."""

    def effective_samples(self, blocks: Blocks, measure: Measure) -> float:
        """Number of independent five-minute means that the blocks are equivalent to."""

    def exceedance(self, blocks: Blocks, measure: Measure, capacity: float) -> Exceedance | None:
        """Share of blocks with a peak above a capacity; `None` without blocks."""
