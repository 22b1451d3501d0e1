"""Several devices as one subject: sums at the same moments, never sums of peaks.

The peak of a sum is at most the sum of the peaks; but devices do not peak in the same second.
It is taken as the sum of the means and the largest single excess of a peak over its mean, which
is what is seen where one device at a time leaves its mean.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from operator import add, mul
from typing import Final

from rightsizer.domain.histogram import Histogram
from rightsizer.domain.state import Resource
from rightsizer.fleet.kept.coarse import by_the_hour
from rightsizer.fleet.kept.column import Column, Kind
from rightsizer.fleet.kept.floats import floats
from rightsizer.fleet.kept.grid import COARSE_STEP, Grid
from rightsizer.fleet.kept.sheet import DEVICES, DEVICES_TEXT, Layout, Sheet
from rightsizer.fleet.kept.summed_sheet import SummedSheet

__all__ = ["Part", "combined"]

_MEASURES: Final = frozenset({Kind.MEAN, Kind.PEAK})


@dataclass(frozen=True, slots=True)
class Part:
    """What belongs to a subject of one device's day."""

    sheet: Sheet | None
    """`None` where nothing is known of the device."""
    grid: Grid
    first: int
    last: int
    """Itself included."""
    share_ratio: float = 1.0

    @property
    def is_whole(self) -> bool:
        """Whether all of the day belongs to it."""
        return self.first == 0 and self.last == self.grid.count - 1 and self.share_ratio >= 1.0

    def by_the_hour(self) -> Part:
        """The same by the hour; an hour that is begun belongs to it by the part of it."""
        if self.grid.step == COARSE_STEP:
            return self
        each = COARSE_STEP // self.grid.step
        first, last = self.first // each, self.last // each
        # What is left of the day by five minutes is cut off before it is summed up.
        sheet = None if self.sheet is None else by_the_hour(_cut(self.sheet, self.first, self.last))
        return Part(sheet, self.grid.by(COARSE_STEP), first, last, self.share_ratio)


def combined(parts: Sequence[Part]) -> Sheet:
    """The day of a subject from its parts, with the number of its devices.

    What adds up does so over the devices that are known; a measure is known only where it is
    known of all of them.
    """
    if len(parts) == 1 and parts[0].is_whole and parts[0].sheet is not None:
        return parts[0].sheet
    if len({part.grid.step for part in parts}) > 1:
        parts = [part.by_the_hour() for part in parts]
    grid = parts[0].grid
    layout = _shared([part.sheet for part in parts if part.sheet is not None])
    pieces = [partial(_piece, part, grid.count) for part in parts]
    return SummedSheet(grid, layout, pieces, _devices(parts, grid), _demands(parts))


def _shared(sheets: Sequence[Sheet]) -> Layout:
    """All that adds up of any; the measures whose mean and peak are known of all."""
    layouts = {sheet.layout for sheet in sheets}
    if len(layouts) == 1:
        (layout,) = layouts
        if layout.peaks_pair_up and DEVICES_TEXT not in layout.places:
            return layout
    everywhere = set.intersection(*(set(each.columns) for each in layouts)) if layouts else set()
    additive = {
        column
        for each in layouts
        for column in each.columns
        if column.kind not in _MEASURES and column != DEVICES
    }
    paired = {
        column
        for column in everywhere
        if column.kind in _MEASURES
        and {Column(kind, column.name) for kind in _MEASURES} <= everywhere
    }
    return Layout.of(additive | paired)


def _piece(part: Part, count: int, column: Column) -> array[float]:
    """A part of a column: 0 where it does not count, `nan` for a measure that is not known."""
    values = None if part.sheet is None else part.sheet.column(column)
    is_measure = column.kind in _MEASURES
    if values is None:
        values = array("f", [math.nan if is_measure else 0.0]) * count
    if not part.is_whole:
        values = _inside(part, values)
    if not is_measure and math.isnan(sum(values)):
        return array("f", [0.0 if math.isnan(each) else each for each in values])
    return values


def _inside(part: Part, values: array[float]) -> array[float]:
    """What belongs to the part, by its share; 0 before it and after it."""
    inside = values[part.first : part.last + 1]
    if part.share_ratio < 1.0:
        inside = floats(map(mul, inside, repeat(part.share_ratio)))
    none = array("f", [0.0])
    return none * part.first + inside + none * (len(values) - 1 - part.last)


def _cut(sheet: Sheet, first: int, last: int) -> Sheet:
    """A sheet of which nothing is known outside of some stretches."""
    if first == 0 and last == sheet.grid.count - 1:
        return sheet
    values = array("f")
    for column in sheet.layout.columns:
        found = sheet.column(column)
        if found is not None:
            values.extend(repeat(math.nan, first))
            values += found[first : last + 1]
            values.extend(repeat(math.nan, sheet.grid.count - 1 - last))
    return Sheet(sheet.grid, sheet.layout, values, sheet.demands)


def _devices(parts: Iterable[Part], grid: Grid) -> array[float]:
    found = array("f", [0.0]) * grid.count
    for part in parts:
        inside = slice(part.first, part.last + 1)
        found[inside] = floats(map(add, found[inside], repeat(part.share_ratio)))
    return found


def _demands(parts: Iterable[Part]) -> dict[Resource, Histogram]:
    found: dict[Resource, Histogram] = {}
    for part in parts:
        if part.sheet is None:
            continue
        weight = part.share_ratio * (part.last + 1 - part.first) / part.grid.count
        for resource, histogram in part.sheet.demands.items():
            mine = histogram
            if weight < 1.0:
                mine = histogram.copy()
                mine.decay(weight)
            found.setdefault(resource, Histogram()).merge(mine)
    return found
