"""A device's day as a track, out of its booked stretches."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rightsizer.accounting.block_builder import measured
from rightsizer.domain.block import Measure
from rightsizer.domain.device import Device
from rightsizer.domain.entry import Entry
from rightsizer.domain.state import Condition, Resource, State
from rightsizer.domain.units import seconds
from rightsizer.fleet.kept.column import Column, Kind
from rightsizer.fleet.kept.grid import Grid
from rightsizer.fleet.kept.track import Track, empty_column
from rightsizer.fleet.sources.dcgm_exporter.booking import Booked

__all__ = ["TrackBuilder"]

_STATES: Final = tuple(state for state in State if state is not State.UNKNOWN)
_SECONDS, _JOULES = "seconds", "joules"


class TrackBuilder:
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
        self._sums: dict[Kind, dict[str, array[float]]] = {kind: {} for kind in Kind}
        self._values: dict[Kind, dict[str, array[float]]] = {kind: {} for kind in Kind}
        for state in _STATES:
            self._add(Kind.STATE, state, 0, 0.0)
        for condition in tellable:
            self._add(Kind.CONDITION, condition, 0, 0.0)
            if condition is Condition.NEAR_OUT_OF_MEMORY:
                self._add(Kind.PRESSED, Resource.MEMORY, 0, 0.0)

    def add(
        self,
        booked: Booked,
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
        self._add(Kind.STATE, entry.state, stretch, length)
        self._add(Kind.TIER, entry.tier, stretch, length)
        tellable = self._sums[Kind.CONDITION]
        for condition in entry.conditions:
            if condition in tellable:
                tellable[condition][stretch] = length * throttled.get(condition, 1.0)
        for resource in entry.shares:
            at_limit = length if resource in entry.saturated else 0.0
            self._add(Kind.SATURATED, resource, stretch, at_limit)
        for resource in entry.pressed:
            self._add(Kind.PRESSED, resource, stretch, length)
        self._add_waste(entry, stretch, length)
        for measure, value in measured(entry).items():
            self._set(Kind.MEAN, measure, stretch, value)
            self._set(Kind.PEAK, measure, stretch, max(value, most.get(measure, value)))

    def track(self) -> Track:
        """The day."""
        unknown = [stretch for stretch, known in enumerate(self._known) if not known]
        for columns in self._sums.values():
            for column in columns.values():
                for stretch in unknown:
                    column[stretch] = math.nan
        named = {
            Column(kind, str(name)): column
            for part in (self._sums, self._values)
            for kind, columns in part.items()
            for name, column in columns.items()
        }
        return Track(self._device.uuid, self._grid, named)

    def _add_waste(self, entry: Entry, stretch: int, length: float) -> None:
        part = length / seconds(self._grid.step)
        joules = None if entry.energy_joules is None else entry.energy_joules * part
        if joules is not None:
            self._set(Kind.ENERGY, _JOULES, stretch, joules)
        if entry.used_ratio is None:
            return
        self._set(Kind.USED, _SECONDS, stretch, entry.used_ratio * length)
        if joules is not None:
            self._set(Kind.USED, _JOULES, stretch, entry.used_ratio * joules)
        for cause, ratio in entry.waste.items():
            self._add(Kind.WASTE, cause, stretch, ratio * length)
            if joules is not None:
                self._add(Kind.WASTE_JOULES, cause, stretch, ratio * joules)

    def _add(self, kind: Kind, name: str, stretch: int, value: float) -> None:
        """To a column of seconds or joules, which is 0 where nothing was to tell."""
        columns = self._sums[kind]
        if name not in columns:
            columns[name] = array("f", bytes(4 * self._grid.count))
        columns[name][stretch] = value

    def _set(self, kind: Kind, name: str, stretch: int, value: float) -> None:
        """In a column that is unknown where nothing was to tell."""
        columns = self._values[kind]
        if name not in columns:
            columns[name] = empty_column(self._grid)
        columns[name][stretch] = value
