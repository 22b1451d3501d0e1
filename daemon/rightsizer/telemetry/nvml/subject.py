"""A device as a session reads it: its handle, its collectors, and what they gave last."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from rightsizer.domain.device import Device
from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.agenda import Item
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.collectors import COLLECTORS
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["Outcomes", "Subject"]


@dataclass(slots=True)
class Outcomes:
    """How the collectors of some devices fared."""

    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    def add(self, item: Item) -> None:
        """Add what a collector took and whether it failed, where there is something to tell."""
        if not item.is_told:
            return
        name = item.collector.part_of or item.collector.name
        self.seconds[name] = self.seconds.get(name, 0.0) + item.seconds
        if item.has_failed:
            self.failed.add(name)


@dataclass(slots=True)
class Subject:
    """A device, and the collectors that make sense for it."""

    handle: Handle
    essential: tuple[Item, ...]
    optional: tuple[Item, ...]
    """Those of every round, while the driver is quick."""
    slow: tuple[Item, ...]
    absent: Mapping[Signal, Failure]
    """Signals that a device of this kind does not have."""
    last: Draft | None = None
    """What the last round found; what it had no time for holds on."""
    slow_draft: Draft | None = None
    """What the slow collectors found last; it holds until they read again."""

    @classmethod
    def of(cls, handle: Handle) -> Self:
        """A device with the collectors that are enabled and apply to it."""
        device = handle.target.device
        disabled = handle.settings.disabled_collectors
        enabled = [found for found in COLLECTORS if found.name not in disabled]
        absent = {
            signal: Failure(Missing.NOT_SUPPORTED, collector.name, _kind(device))
            for collector in enabled
            if not collector.applies_to(device)
            for signal in collector.signals
        }
        fitting = [found for found in enabled if found.applies_to(device)]
        return cls(
            handle,
            tuple(Item(found) for found in fitting if found.is_essential),
            tuple(Item(found) for found in fitting if not (found.is_essential or found.is_slow)),
            tuple(Item(found) for found in fitting if found.is_slow),
            absent,
        )

    @property
    def waiting(self) -> Iterator[Item]:
        """All that may have to wait, where the driver is slow."""
        yield from self.optional
        yield from self.slow

    def due(self) -> list[Collector]:
        """What this round is to ask."""
        waiting = (item.collector for item in self.waiting if item.is_chosen)
        return [*(item.collector for item in self.essential), *waiting]


def _kind(device: Device) -> str:
    return "not of a MIG instance" if device.mig else "not of a GPU with MIG instances"
