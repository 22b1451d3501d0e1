"""A day of some devices as it was read: signals by stretch, before anything is made of them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rightsizer.domain.clock_event import ClockEvent
from rightsizer.domain.dcgm_names import DcgmField
from rightsizer.domain.signal import Signal
from rightsizer.domain.state import Condition
from rightsizer.domain.units import seconds
from rightsizer.fleet.sources.dcgm_exporter.columns import Columns, believed, by_device, joined
from rightsizer.fleet.sources.dcgm_exporter.fields import (
    ENERGY,
    MEASURED,
    PEAKED,
    POWER_VIOLATION,
    REASONS,
    THERMAL_VIOLATION,
    spellings,
)
from rightsizer.fleet.sources.dcgm_exporter.queries import DayQueries
from rightsizer.fleet.store import Sampled

__all__ = ["VIOLATIONS", "DeviceDay", "Reasons", "read_devices"]

VIOLATIONS: Final = (
    (POWER_VIOLATION, Condition.POWER_THROTTLED, ClockEvent.SW_POWER_CAP),
    (THERMAL_VIOLATION, Condition.THERMAL_THROTTLED, ClockEvent.SW_THERMAL_SLOWDOWN),
)
_Ask: TypeAlias = Callable[[Iterable[str]], Sequence[Sampled]]


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why the clocks were low, by stretch: masks of `ClockEvent`."""

    mean: array[float]
    most: array[float]
    least: array[float]

    def at(self, stretch: int) -> tuple[int, float]:
        """The mask that held at some time of a stretch, and for how much of it.

        Of a mask that changes between two values, which it does in practice, the mean tells
        the share of each exactly.
        """
        most, least, mean = self.most[stretch], self.least[stretch], self.mean[stretch]
        if math.isnan(most) or math.isnan(mean):
            return 0, 0.0
        if math.isnan(least) or most <= least:
            return int(most), 1.0
        return int(most), min(1.0, max(0.0, (mean - least) / (most - least)))


@dataclass(slots=True)
class DeviceDay:
    """What was read of one device; `nan` where it was not."""

    means: dict[Signal, array[float]] = field(default_factory=dict)
    peaks: dict[Signal, array[float]] = field(default_factory=dict)
    energy_joules: array[float] | None = None
    """By stretch."""
    reasons: Reasons | None = None
    violations: dict[Condition, array[float]] = field(default_factory=dict)
    """For how much of a stretch a limit held the clocks down."""


def read_devices(queries: DayQueries, metrics: Collection[str]) -> dict[str, DeviceDay]:
    """All that a day's queries tell, by device."""
    found: dict[str, DeviceDay] = {}

    def day_of(device: str) -> DeviceDay:
        return found.setdefault(device, DeviceDay())

    for signal, columns in _signals(queries, queries.mean, MEASURED, metrics).items():
        for device, column in columns.items():
            day_of(device).means[signal] = column
    for signal, columns in _signals(queries, queries.peak, PEAKED, metrics).items():
        for device, column in columns.items():
            day_of(device).peaks[signal] = column
    for device, column in _columns(queries, queries.gained, ENERGY, metrics).items():
        day_of(device).energy_joules = column
    length = seconds(queries.grid.step)
    for each, condition, _ in VIOLATIONS:
        for device, column in _columns(queries, queries.gained, each, metrics).items():
            day_of(device).violations[condition] = array("d", (gain / length for gain in column))
    for device, reasons in _reasons(queries, metrics).items():
        day_of(device).reasons = reasons
    return found


def _signals(
    queries: DayQueries, ask: _Ask, fields: Iterable[DcgmField], metrics: Collection[str]
) -> dict[Signal, Columns]:
    """Of several fields for one signal, the highest rank is believed."""
    found: dict[Signal, Columns] = {}
    for each in sorted(fields, key=lambda known: known.rank):
        if each.signal is not None:
            columns = _columns(queries, ask, each, metrics)
            found[each.signal] = joined(columns, found.get(each.signal, {}))
    return found


def _reasons(queries: DayQueries, metrics: Collection[str]) -> dict[str, Reasons]:
    for each in REASONS:
        if any(name in metrics for name in spellings(each)):
            mean, most, least = (
                _columns(queries, ask, each, metrics)
                for ask in (queries.mean, queries.peak, queries.lowest)
            )
            there = mean.keys() & most.keys() & least.keys()
            return {device: Reasons(mean[device], most[device], least[device]) for device in there}
    return {}


def _columns(queries: DayQueries, ask: _Ask, each: DcgmField, metrics: Collection[str]) -> Columns:
    names = tuple(name for name in spellings(each) if name in metrics)
    if not names or each.signal is None:
        return {}
    columns = by_device(ask(names), queries.grid, is_of_card=each.is_of_card)
    return believed(columns, each, each.signal)
