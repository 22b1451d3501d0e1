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
from functools import reduce
from itertools import repeat
from operator import add, mul, sub
from typing import Final

from rightsizer.domain.histogram import Histogram
from rightsizer.domain.state import Resource
from rightsizer.fleet.coarse import by_the_hour
from rightsizer.fleet.column import Column, Kind
from rightsizer.fleet.grid import COARSE_STEP, Grid
from rightsizer.fleet.sheet import DEVICES, DEVICES_TEXT, Layout, Sheet

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
    devices = _devices(parts, grid)
    pieces = [_piece(part, layout) for part in parts]
    cut = layout.additive * grid.count, (layout.additive + layout.means) * grid.count
    values = _added([piece[: cut[0]] for piece in pieces], grid.count)
    means = reduce(_sum, (piece[cut[0] : cut[1]] for piece in pieces))
    excesses = [map(sub, piece[cut[1] :], piece[cut[0] : cut[1]]) for piece in pieces]
    # What is unknown of one is unknown of the sum of the means already.
    largest = map(max, *excesses) if len(excesses) > 1 else excesses[0]
    peaks = array("f", map(add, means, largest))
    _forget_absent(devices, means, peaks)
    found = Sheet(grid, layout, values + means + peaks, _demands(parts))
    return _with_devices(found, devices)


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


def _piece(part: Part, layout: Layout) -> array[float]:
    """A part's numbers in a layout: 0 where it does not count, `nan` for what is not known."""
    sheet, count = part.sheet, part.grid.count
    if sheet is not None and sheet.layout is layout and part.is_whole:
        return _without_unknown(sheet.values, layout.additive * count)
    found = array("f")
    for place, column in enumerate(layout.columns):
        values = None if sheet is None else sheet.column(column)
        if values is None:
            values = array("f", [0.0 if place < layout.additive else math.nan]) * count
        inside = values[part.first : part.last + 1]
        if part.share_ratio < 1.0:
            inside = array("f", map(mul, inside, repeat(part.share_ratio)))
        found.extend(repeat(0.0, part.first))
        found += inside
        found.extend(repeat(0.0, count - 1 - part.last))
    return _without_unknown(found, layout.additive * count)


def _without_unknown(values: array[float], additive: int) -> array[float]:
    """With 0 for what is unknown of what adds up."""
    if not math.isnan(sum(values[:additive])):
        return values
    clean = array("f", [0.0 if math.isnan(each) else each for each in values[:additive]])
    return clean + values[additive:]


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
        for place in range(part.first, part.last + 1):
            found[place] += part.share_ratio
    return found


def _added(pieces: Sequence[array[float]], count: int) -> array[float]:
    """The sums of what adds up; most columns are 0 throughout, and left out."""
    found = array("f")
    for place in range(0, len(pieces[0]), count):
        columns = [piece[place : place + count] for piece in pieces]
        found += reduce(_sum, filter(any, columns[1:]), columns[0])
    return found


def _sum(one: array[float], other: array[float]) -> array[float]:
    return array("f", map(add, one, other))


def _forget_absent(devices: array[float], *measures: array[float]) -> None:
    """Nothing is known of measures while there are no devices."""
    count = len(devices)
    for place, number in enumerate(devices):
        if not number:
            for values in measures:
                for at in range(place, len(values), count):
                    values[at] = math.nan


def _with_devices(sheet: Sheet, devices: array[float]) -> Sheet:
    layout = Layout.of((*sheet.layout.columns, DEVICES))
    place = layout.places[DEVICES_TEXT] * sheet.grid.count
    values = sheet.values[:place] + devices + sheet.values[place:]
    return Sheet(sheet.grid, layout, values, sheet.demands)


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
