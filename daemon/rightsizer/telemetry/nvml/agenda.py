"""What a GPU is asked in a round: all that is due while it is quick, the essential where it is not.

A driver may be slow for minutes, on one GPU, or in one call alone. What is essential is asked in
every round; the rest has what is left of a round's time, and waits its turn where that is little.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.telemetry.nvml.collector import Collector

__all__ = ["Item", "choose"]

_OVERTIME: Final = 10.0
"""What fits into no round is asked after as many times its own duration: a tenth of the time."""

_ONCE_SECONDS: Final = 3.0
"""What took longer has hung: once says little of the next time, and twice that it will again."""

_EVER_SECONDS: Final = 30.0
"""No hang says more than this: after ten times as long anything is tried again."""

_NOTHING_SECONDS: Final = 0.0001
"""What takes no longer asks the driver nothing: a device that does not have it, for one."""


@dataclass(slots=True, eq=False)
class Item:
    """A collector of one device: when it was asked, and what that took."""

    collector: Collector
    due: Nanoseconds = 0
    asked_at: Nanoseconds | None = None
    period: Nanoseconds = 0
    """Between the last two times that it was asked."""
    seconds: float = 0.0
    """How long it took the last time."""
    seconds_before: float = math.inf
    """How long it took the time before."""
    is_told: bool = False
    """Whether there is something to tell of how it fared: the device has what it reads."""
    has_failed: bool = False
    is_chosen: bool = True
    """Whether this round is to ask it, unless its time is used up before."""
    is_overtime: bool = False
    """Whether this round asks it, whatever the time."""

    def asked(self, now: Nanoseconds, duration_seconds: float) -> None:
        """Note that it was asked."""
        if self.asked_at is not None:
            self.period = now - self.asked_at
            self.seconds_before = self.seconds
        self.asked_at = now
        self.seconds = duration_seconds

    @property
    def cost_seconds(self) -> float:
        """What it may take this time: one that hung once, and came back, is soon tried again."""
        return min(self.seconds, max(self.seconds_before, _ONCE_SECONDS), _EVER_SECONDS)


def choose(items: Collection[Item], left_seconds: float, now: Nanoseconds) -> list[Item]:
    """Mark those that are asked in this round, and give those that are due and have to wait.

    Where the time is too short for all, those go first that have waited longest for what they
    cost, as far as they fit. One that does not fit may go beyond once it has waited for ten times
    what it takes: slow ones are asked less often, and none never.

    Args:
        items: The optional ones of a GPU and its MIG instances.
        left_seconds: What the essential ones leave of a round's time.
        now: On the steady clock.
    """
    due = []
    for item in items:
        item.is_overtime = False
        item.is_chosen = now >= item.due
        if item.is_chosen:
            due.append(item)
    if sum(item.cost_seconds for item in due) <= left_seconds:
        return []
    return _postponed(due, left_seconds, now)


def _postponed(due: Iterable[Item], left_seconds: float, now: Nanoseconds) -> list[Item]:
    large: list[Item] = []
    for item in sorted(due, key=lambda item: _patience(item, now), reverse=True):
        if item.cost_seconds <= max(left_seconds, _NOTHING_SECONDS):
            left_seconds -= item.cost_seconds
        else:
            large.append(item)
    patient = [item for item in large if _patience(item, now) >= _OVERTIME]
    overtime = max(patient, key=lambda item: _waited(item, now), default=None)
    for item in large:
        item.is_chosen = item.is_overtime = item is overtime
    return [item for item in large if item is not overtime]


def _patience(item: Item, now: Nanoseconds) -> float:
    """How long it has waited, in its own duration."""
    cost_seconds = item.cost_seconds
    return _waited(item, now) / cost_seconds if cost_seconds else math.inf


def _waited(item: Item, now: Nanoseconds) -> float:
    return math.inf if item.asked_at is None else seconds(now - item.asked_at)
