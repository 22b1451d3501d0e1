"""Devices' sheets added up, a column at a time: of a workload's day, few are ever asked for."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add, sub

from rightsizer.domain.histogram import Histogram
from rightsizer.domain.state import Resource
from rightsizer.fleet.kept.column import Column, Kind
from rightsizer.fleet.kept.floats import floats
from rightsizer.fleet.kept.grid import Grid
from rightsizer.fleet.kept.sheet import DEVICES, DEVICES_TEXT, Layout, Sheet

__all__ = ["Piece", "SummedSheet"]

Piece = Callable[[Column], "array[float]"]
"""A device's part of a column: 0 where it does not count, `nan` where a measure is unknown."""


class SummedSheet(Sheet):
    """The sums of some devices at the same moments, with how many there were."""

    __slots__ = ("_columns", "_devices", "_pieces", "_values")
    _pieces: Sequence[Piece]
    _devices: array[float]
    _columns: dict[int, array[float]]
    _values: list[array[float]]

    def __init__(
        self,
        grid: Grid,
        layout: Layout,
        pieces: Sequence[Piece],
        devices: array[float],
        demands: Mapping[Resource, Histogram],
    ) -> None:
        """Nothing is added up yet.

        Args:
            grid: Of all of them.
            layout: What there will be, the number of devices apart.
            pieces: Of each device.
            devices: How many there were, by stretch; where there is none, no measure is known.
            demands: Their distributions together.
        """
        layout = Layout.of((*layout.columns, DEVICES))
        # As a frozen dataclass does it.
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "demands", demands)
        object.__setattr__(self, "_pieces", pieces)
        object.__setattr__(self, "_devices", devices)
        object.__setattr__(self, "_columns", {layout.places[DEVICES_TEXT]: devices})
        object.__setattr__(self, "_values", [])

    @property
    def values(self) -> array[float]:
        """Column after column, as those of any sheet."""
        if not self._values:
            self._values.append(reduce(add, map(self.at, range(len(self.layout.columns)))))
        return self._values[0]

    def at(self, place: int) -> array[float]:
        """The column that stands at a place."""
        if place not in self._columns:
            self._columns[place] = self._added(self.layout.columns[place])
        return self._columns[place]

    def _added(self, column: Column) -> array[float]:
        if column.kind is Kind.PEAK:
            return self._peak(column)
        first, *others = (piece(column) for piece in self._pieces)
        if column.kind is Kind.MEAN:
            return self._known(reduce(_sum, others, first))
        # Most columns are 0 throughout.
        return reduce(_sum, filter(any, others), first)

    def _peak(self, column: Column) -> array[float]:
        mean = Column(Kind.MEAN, column.name)
        excesses = [map(sub, piece(column), piece(mean)) for piece in self._pieces]
        # What is unknown of one is unknown of the sum of the means already.
        largest = map(max, *excesses) if len(excesses) > 1 else excesses[0]
        return self._known(floats(map(add, self.at(self.layout.places[str(mean)]), largest)))

    def _known(self, values: array[float]) -> array[float]:
        """Nothing is known of a measure while there are no devices."""
        if not all(self._devices):
            for place, number in enumerate(self._devices):
                if not number:
                    values[place] = math.nan
        return values


def _sum(one: array[float], other: array[float]) -> array[float]:
    return floats(map(add, one, other))
