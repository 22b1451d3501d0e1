"""Collectors of one device and the scheduler of what each poll reads."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.collectors import COLLECTORS
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import FieldKey, NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_OVERTIME: Final = 10.0
"""What fits into no round is asked after as many times its own duration: a tenth of the time."""

_ONCE_SECONDS: Final = 3.0
"""What took longer has hung: once says little of the next time, and twice that it will again."""

_EVER_SECONDS: Final = 30.0
"""No hang says more than this: after ten times as long anything is tried again."""

_NOTHING_SECONDS: Final = 0.0001
"""What takes no longer asks the driver nothing: a device that does not have it, for one."""


@dataclass(slots=True, eq=False)
class ScheduledCollector:
    """A collector of one device: when it was asked, and what that took."""

    collector: NvmlCollector
    due: Nanoseconds = 0
    asked_at: Nanoseconds | None = None
    period: Nanoseconds = 0
    """Between the last two times that it was asked."""
    seconds: float = 0.0
    seconds_before: float = math.inf
    has_outcome: bool = False
    """Whether there is something to tell of how it fared: the device has what it reads."""
    has_failed: bool = False
    is_scheduled: bool = True
    """Whether this round is to ask it, unless its time is used up before."""
    ignores_budget: bool = False
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


def schedule(
    items: Collection[ScheduledCollector], left_seconds: float, now: Nanoseconds
) -> list[ScheduledCollector]:
    """Mark those that are asked in this round, and give those that are due and have to wait.

    Where the time is too short for all, those go first that have waited longest for what they
    cost, as far as they fit. One that does not fit may go beyond once it has waited for ten times
    what it takes: slow ones are asked less often, and none never.
    """
    due = []
    for item in items:
        item.ignores_budget = False
        item.is_scheduled = now >= item.due
        if item.is_scheduled:
            due.append(item)
    # None costs more than it took, and what all took is the quicker sum.
    if sum([item.seconds for item in due]) <= left_seconds:
        return []
    if sum(item.cost_seconds for item in due) <= left_seconds:
        return []
    return _postponed(due, left_seconds, now)


def _postponed(
    due: Iterable[ScheduledCollector], left_seconds: float, now: Nanoseconds
) -> list[ScheduledCollector]:
    large: list[ScheduledCollector] = []
    for item in sorted(due, key=lambda item: _patience(item, now), reverse=True):
        if item.cost_seconds <= max(left_seconds, _NOTHING_SECONDS):
            left_seconds -= item.cost_seconds
        else:
            large.append(item)
    patient = [item for item in large if _patience(item, now) >= _OVERTIME]
    overtime = max(patient, key=lambda item: _waited(item, now), default=None)
    for item in large:
        item.is_scheduled = item.ignores_budget = item is overtime
    return [item for item in large if item is not overtime]


def _patience(item: ScheduledCollector, now: Nanoseconds) -> float:
    cost_seconds = item.cost_seconds
    return _waited(item, now) / cost_seconds if cost_seconds else math.inf


def _waited(item: ScheduledCollector, now: Nanoseconds) -> float:
    return math.inf if item.asked_at is None else seconds(now - item.asked_at)


@dataclass(slots=True)
class DeviceCollectors:
    """A device, and the collectors that make sense for it."""

    handle: DeviceHandle
    essential: tuple[ScheduledCollector, ...]
    optional: tuple[ScheduledCollector, ...]
    """Those of every round, while the driver is quick."""
    slow: tuple[ScheduledCollector, ...]
    absent: Mapping[Signal, NvmlFailure]
    last: ReadingBuilder | None = None
    """What the last round found; what it had no time for holds on."""
    slow_builder: ReadingBuilder | None = None
    """What the slow collectors found last; it holds until they read again."""

    @classmethod
    def of(cls, handle: DeviceHandle) -> Self:
        """A device with the collectors that are enabled and apply to it."""
        device = handle.target.device
        kind = "not of a MIG instance" if device.mig else "not of a GPU with MIG instances"
        disabled = handle.settings.disabled_collectors
        enabled = [found for found in COLLECTORS if found.name not in disabled]
        absent = {
            signal: NvmlFailure(Missing.NOT_SUPPORTED, collector.name, kind)
            for collector in enabled
            if not collector.applies_to(device)
            for signal in collector.signals
        }
        items = tuple(ScheduledCollector(found) for found in enabled if found.applies_to(device))
        essential = tuple(item for item in items if item.collector.is_essential)
        slow = tuple(item for item in items if item.collector.is_slow)
        optional = tuple(item for item in items if item not in (*essential, *slow))
        return cls(handle, essential, optional, slow, absent)

    @property
    def waiting(self) -> tuple[ScheduledCollector, ...]:
        """All that may have to wait, where the driver is slow."""
        return (*self.optional, *self.slow)

    def due_fields(self) -> list[FieldKey]:
        """The numbered fields that this round is to ask for."""
        items = (*self.essential, *self.waiting)
        return [key for item in items if item.is_scheduled for key in item.collector.fields]
