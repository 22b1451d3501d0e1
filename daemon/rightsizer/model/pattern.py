"""How a load goes over hours, days and weeks, and where it is heading."""

from typing import Protocol

from rightsizer.model.block import Blocks, Measure
from rightsizer.model.frozen import dataclass
from rightsizer.model.window import Window


@dataclass(frozen=True, slots=True)
class Shape:
    """How a load repeats itself. Hours are UTC's; a week begins on Monday."""

    hours_of_day: tuple[float | None, ...]
    """The mean of each over all days; `None` where nothing of it is known."""
    known_days: float
    """Known time, in days."""
    is_daily: bool
    """It repeats itself day by day, and not only because it changes slowly."""
    is_weekly: bool
    """Weeks resemble each other more than days do."""
    covers_cycle: bool
    """Every hour of a week was seen; a shorter history cannot exclude a week's cycle."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A robust straight line through daily values, with its uncertainty."""

    slope_per_day: float
    slope_low: float
    slope_high: float
    """The true slope lies between the two with a probability of `level_ratio`."""
    level_ratio: float
    value: float
    """Of the line, on the last day."""
    days: int
    """Values that it rests on."""

    @property
    def is_growing(self) -> bool:
        """Whether even the lower end of the interval grows."""
        return self.slope_low > 0

    def days_until(self, limit: float) -> tuple[float, float] | None:
        """After how many days the line reaches a limit, at the earliest and at the latest.

        `None` where it may not grow at all.
        """
        if not self.is_growing:
            return None
        left = max(0.0, limit - self.value)
        return left / self.slope_high, left / self.slope_low


@dataclass(frozen=True, slots=True)
class Exceedance:
    """How often five minutes would have gone beyond a capacity."""

    share: float
    blocks: int
    effective_blocks: float
    """How many independent ones they are worth."""


class Past(Protocol):
    """What is known of a case beyond its windows; worked out when it is asked for."""

    @property
    def window(self) -> Window | None:
        """What the workload did over all its devices, over the case's span."""

    def blocks(self) -> Blocks:
        """The same in blocks, over all that is remembered."""

    def shape(self, measure: Measure) -> Shape | None:
        """How it repeats itself, over all that is remembered."""

    def trend(self, measure: Measure) -> Trend | None:
        """Where it is heading, over all that is remembered."""

    def effective_samples(self, blocks: Blocks, measure: Measure) -> float:
        """How many independent means of five minutes some blocks are worth."""

    def exceedance(self, blocks: Blocks, measure: Measure, capacity: float) -> Exceedance | None:
        """In how many of some blocks the peak was beyond a capacity; `None` without any."""
