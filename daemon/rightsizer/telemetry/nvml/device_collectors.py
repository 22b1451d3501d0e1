"""Collectors of one device, and the scheduler that selects what each round reads."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from rightsizer.model.values import Missing, Nanoseconds, Signal, seconds
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.collectors import COLLECTORS
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import FieldKey, NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_OVERTIME: Final = 10.0
"""A collector that exceeds every budget runs after ten times its duration: 10% of the time."""

_ONCE_SECONDS: Final = 3.0
"""A longer call has hung: a single one predicts little, two in a row predict a third."""

_EVER_SECONDS: Final = 30.0
"""Cap of the cost: after ten times this time any collector is tried again."""

_NOTHING_SECONDS: Final = 0.0001
"""A shorter read makes no driver call, for example because the device lacks the signal."""


@dataclass(slots=True, eq=False)
class ScheduledCollector:
    """A collector of one device with its schedule and cost."""

    collector: NvmlCollector
    reported_name: str = field(init=False)
    due: Nanoseconds = 0
    run_at: Nanoseconds | None = None
    period: Nanoseconds = 0
    """Time between its last two runs."""
    seconds: float = 0.0
    seconds_before: float = math.inf
    has_outcome: bool = False
    """Whether its outcome is reported: the device has what it reads."""
    trouble: NvmlFailure | None = None
    """Why it counts as failed."""
    is_scheduled: bool = True
    """Whether it runs in this round, unless the time is used up before."""
    ignores_budget: bool = False
    """Whether it runs in this round regardless of the time."""

    def __post_init__(self) -> None:
        # Kept, since each round asks for it twice.
        self.reported_name = self.collector.reported_name

    def record_run(self, now: Nanoseconds, duration_seconds: float) -> None:
        """Record a run."""
        if self.run_at is not None:
            self.period = now - self.run_at
            self.seconds_before = self.seconds
        self.run_at = now
        self.seconds = duration_seconds

    @property
    def cost_seconds(self) -> float:
        """Expected duration; stays low after a single hang, so that a retry comes soon."""
        return min(self.seconds, max(self.seconds_before, _ONCE_SECONDS), _EVER_SECONDS)


def schedule(
    items: Collection[ScheduledCollector], left_seconds: float, now: Nanoseconds
) -> list[ScheduledCollector]:
    """Mark the collectors that run in this round, and return those due that have to wait.

    If time is too short for all, those with the longest wait relative to their cost run first,
    as far as they fit. One that does not fit may exceed the budget once it has waited ten times
    its cost: slow collectors run less often, but never starve.
    """
    due = []
    for item in items:
        item.ignores_budget = False
        item.is_scheduled = now >= item.due
        if item.is_scheduled:
            due.append(item)
    # Fast path: costs never exceed the last durations, whose sum is cheaper.
    if sum([item.seconds for item in due]) <= left_seconds:
        return []
    if sum(item.cost_seconds for item in due) <= left_seconds:
        return []
    return _postponed(due, left_seconds, now)


def _postponed(
    due: Collection[ScheduledCollector], left_seconds: float, now: Nanoseconds
) -> list[ScheduledCollector]:
    large: list[ScheduledCollector] = []
    for item in sorted(due, key=lambda item: _patience(item, now), reverse=True):
        if item.cost_seconds <= max(left_seconds, _NOTHING_SECONDS):
            left_seconds -= item.cost_seconds
        else:
            large.append(item)
    # Of all, since those that fit do not run either where essential ones take all the time.
    patient = [item for item in due if _patience(item, now) >= _OVERTIME]
    overtime = max(patient, key=lambda item: _waited(item, now), default=None)
    for item in large:
        item.is_scheduled = item is overtime
    if overtime is not None:
        overtime.ignores_budget = True
    return [item for item in large if item is not overtime]


def _patience(item: ScheduledCollector, now: Nanoseconds) -> float:
    cost_seconds = item.cost_seconds
    return _waited(item, now) / cost_seconds if cost_seconds else math.inf


def _waited(item: ScheduledCollector, now: Nanoseconds) -> float:
    return math.inf if item.run_at is None else seconds(now - item.run_at)


@dataclass(slots=True)
class DeviceCollectors:
    """A device and the collectors that apply to it."""

    handle: DeviceHandle
    essential: tuple[ScheduledCollector, ...]
    optional: tuple[ScheduledCollector, ...]
    """Run every round, while the driver is quick."""
    slow: tuple[ScheduledCollector, ...]
    of_fields: tuple[ScheduledCollector, ...]
    """Those that use numbered fields."""
    absent: Mapping[Signal, NvmlFailure]
    last: ReadingBuilder | None = None
    """Result of the last round; kept for collectors that a round skips."""
    slow_builder: ReadingBuilder | None = None
    """Last result of the slow collectors; kept until they run again."""

    @classmethod
    def of(cls, handle: DeviceHandle) -> Self:
        """Create the enabled collectors that apply to a device."""
        device = handle.target.device
        kind = "not of a MIG instance" if device.mig else "not of a GPU with MIG instances"
        disabled = handle.settings.disabled_collectors
        enabled = [collector for collector in COLLECTORS if collector.name not in disabled]
        absent = {
            signal: NvmlFailure(Missing.NOT_SUPPORTED, collector.name, kind)
            for collector in enabled
            if not collector.applies_to(device)
            for signal in collector.signals
        }
        items = tuple(
            ScheduledCollector(collector) for collector in enabled if collector.applies_to(device)
        )
        essential = tuple(item for item in items if item.collector.is_essential)
        slow = tuple(item for item in items if item.collector.is_slow)
        optional = tuple(item for item in items if item not in (*essential, *slow))
        of_fields = tuple(item for item in items if item.collector.fields)
        return cls(handle, essential, optional, slow, of_fields, absent)

    def due_fields(self) -> list[FieldKey]:
        """Field ids that this round fetches.

        Fields whose signals another collector gave in the last round are left out: on H100 and H200
        each counter of a link costs a quarter of a millisecond of CPU time.
        """
        return [
            key
            for item in self.of_fields
            if item.is_scheduled and not self._is_superseded(item.collector)
            for key in item.collector.fields
        ]

    def _is_superseded(self, collector: NvmlCollector) -> bool:
        name = collector.name
        origins = {} if self.last is None else self.last.origins
        return name not in [origins.get(signal, name) for signal in collector.signals]
