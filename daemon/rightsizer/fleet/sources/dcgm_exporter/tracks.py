"""Tracks of devices over a day from their accounted steps."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rightsizer.accounting.settings import EntrySettings
from rightsizer.accounting.window_builder import entry_measures
from rightsizer.fleet.cache.day_frame import ColumnKind, DayColumn, SubjectDay, empty_column
from rightsizer.fleet.cache.grid import FINE_STEP, Grid
from rightsizer.fleet.model import DeviceHolding
from rightsizer.fleet.sources.dcgm_exporter.booking import AccountedStep, DayAccounting, Peaks
from rightsizer.fleet.sources.dcgm_exporter.readings import DeviceDay
from rightsizer.model.block import Measure
from rightsizer.model.device import Device
from rightsizer.model.entry import Entry
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, Resource, State
from rightsizer.model.units import seconds

_STATES: Final = tuple(state for state in State if state is not State.UNKNOWN)
_SECONDS, _JOULES = "seconds", "joules"


class SubjectDayBuilder:
    """Takes in the stretches of one device."""

    def __init__(
        self,
        device: Device,
        grid: Grid,
        known_seconds: Sequence[float],
        tellable: Iterable[Condition],
    ) -> None:
        """Nothing is known yet.

        Args:
            device: Whose track it is.
            grid: The stretches.
            known_seconds: How much of each was watched.
            tellable: Conditions that the device's metrics can show; of others nothing is said.
        """
        self._device = device
        self._grid = grid
        self._known_seconds = known_seconds
        self._known = bytearray(grid.count)
        self._sums: dict[ColumnKind, dict[str, array[float]]] = {kind: {} for kind in ColumnKind}
        self._values: dict[ColumnKind, dict[str, array[float]]] = {kind: {} for kind in ColumnKind}
        for state in _STATES:
            self._add(ColumnKind.STATE, state, 0, 0.0)
        for condition in tellable:
            self._add(ColumnKind.CONDITION, condition, 0, 0.0)
            if condition is Condition.NEAR_OUT_OF_MEMORY:
                self._add(ColumnKind.PRESSED, Resource.MEMORY, 0, 0.0)

    def add(
        self,
        booked: AccountedStep,
        most: Mapping[Measure, float],
        throttled: Mapping[Condition, float],
    ) -> None:
        """Count one stretch.

        Args:
            booked: What it is in the books.
            most: The peak of each measure.
            throttled: For how much of it a condition held that did not hold for all of it.
        """
        entry, stretch = booked.entry, booked.stretch
        if entry.state is State.UNKNOWN:
            return
        self._known[stretch] = 1
        length = self._known_seconds[stretch]
        self._add(ColumnKind.STATE, entry.state, stretch, length)
        self._add(ColumnKind.TIER, entry.tier, stretch, length)
        tellable = self._sums[ColumnKind.CONDITION]
        for condition in entry.conditions:
            if condition in tellable:
                tellable[condition][stretch] = length * throttled.get(condition, 1.0)
        for resource in entry.shares:
            at_limit = length if resource in entry.saturated else 0.0
            self._add(ColumnKind.SATURATED, resource, stretch, at_limit)
        for resource in entry.pressed:
            self._add(ColumnKind.PRESSED, resource, stretch, length)
        self._add_waste(entry, stretch, length)
        for measure, value in entry_measures(entry).items():
            self._set(ColumnKind.MEAN, measure, stretch, value)
            self._set(ColumnKind.PEAK, measure, stretch, max(value, most.get(measure, value)))

    def track(self) -> SubjectDay:
        """The day."""
        unknown = [stretch for stretch, known in enumerate(self._known) if not known]
        for columns in self._sums.values():
            for column in columns.values():
                for stretch in unknown:
                    column[stretch] = math.nan
        named = {
            DayColumn(kind, str(name)): column
            for part in (self._sums, self._values)
            for kind, columns in part.items()
            for name, column in columns.items()
        }
        return SubjectDay(self._device.uuid, self._grid, named)

    def _add_waste(self, entry: Entry, stretch: int, length: float) -> None:
        part = length / seconds(self._grid.step)
        joules = None if entry.energy_joules is None else entry.energy_joules * part
        if joules is not None:
            self._set(ColumnKind.ENERGY, _JOULES, stretch, joules)
        if entry.used_ratio is None:
            return
        self._set(ColumnKind.USED, _SECONDS, stretch, entry.used_ratio * length)
        if joules is not None:
            self._set(ColumnKind.USED, _JOULES, stretch, entry.used_ratio * joules)
        for cause, ratio in entry.waste.items():
            self._add(ColumnKind.WASTE, cause, stretch, ratio * length)
            if joules is not None:
                self._add(ColumnKind.WASTE_JOULES, cause, stretch, ratio * joules)

    def _add(self, kind: ColumnKind, name: str, stretch: int, value: float) -> None:
        """To a column of seconds or joules, which is 0 where nothing was to tell."""
        columns = self._sums[kind]
        if name not in columns:
            columns[name] = array("f", bytes(4 * self._grid.count))
        columns[name][stretch] = value

    def _set(self, kind: ColumnKind, name: str, stretch: int, value: float) -> None:
        """In a column that is unknown where nothing was to tell."""
        columns = self._values[kind]
        if name not in columns:
            columns[name] = empty_column(self._grid)
        columns[name][stretch] = value


_THROTTLES: Final = (
    Condition.POWER_THROTTLED,
    Condition.THERMAL_THROTTLED,
    Condition.HARDWARE_SLOWDOWN,
)
_TENSOR_SIGNALS: Final = frozenset({Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.FP32_ACTIVE})


class DayBuilder:
    """Judges a day as an agent would."""

    def __init__(self, grid: Grid, settings: EntrySettings | None = None) -> None:
        """Nothing is judged yet."""
        self._grid = grid
        self._books = DayAccounting(grid, settings)

    def of(
        self,
        devices: Sequence[Device],
        read: Mapping[str, DeviceDay],
        known: Mapping[str, Sequence[float]],
        held: Mapping[str, Sequence[DeviceHolding]],
    ) -> dict[str, SubjectDay]:
        """The track of each device.

        Args:
            devices: Those that were read.
            read: What was read of each.
            known: Seconds of each stretch that were watched.
            held: Who held each.
        """
        builders = {
            device.uuid: SubjectDayBuilder(
                device,
                self._grid,
                known[device.uuid],
                _tellable(device, read[device.uuid], tells_ranks=self._tells_ranks(device, held)),
            )
            for device in devices
        }
        peaks = {device.uuid: Peaks(device, self._books) for device in devices}
        for uuid, booked in self._books.post(devices, read, known, held):
            throttled = _throttled(read[uuid], booked.stretch)
            builders[uuid].add(booked, peaks[uuid].of(booked), throttled)
        return {uuid: builder.track() for uuid, builder in builders.items()}

    def _tells_ranks(self, device: Device, held: Mapping[str, Sequence[DeviceHolding]]) -> bool:
        """Whether unequal work would show: the judgement is over ten minutes."""
        return self._grid.step == FINE_STEP and bool(held.get(device.uuid))


def _tellable(device: Device, read: DeviceDay, *, tells_ranks: bool) -> Iterable[Condition]:
    """The conditions that would show; of others nobody can say that they did not hold."""
    found = set(read.violations)
    if read.reasons is not None:
        found |= set(_THROTTLES)
    if Signal.MEMORY_USED_BYTES in read.means and device.memory_total_bytes:
        found.add(Condition.NEAR_OUT_OF_MEMORY)
    if read.means.keys() >= _TENSOR_SIGNALS:
        found.add(Condition.NO_TENSOR_CORES)
    if tells_ranks:
        found.add(Condition.RANK_IMBALANCE)
    return sorted(found)


def _throttled(read: DeviceDay, stretch: int) -> Mapping[Condition, float]:
    """For how much of a stretch the clocks were held down, where that is known."""
    found: dict[Condition, float] = {}
    if read.reasons is not None:
        found = dict.fromkeys(_THROTTLES, read.reasons.at(stretch)[1])
    for condition, column in read.violations.items():
        share = column[stretch]
        if share >= 0.0:
            found[condition] = min(1.0, share)
    return found
