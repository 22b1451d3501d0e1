"""Combines devices into one subject: sums at the same moments, never sums of peaks."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from itertools import repeat
from math import isnan, nan
from operator import add, mul, sub
from typing import Final

from rightsizer.fleet.cache.day_frame import (
    COARSE_STEP,
    DEVICES,
    ColumnKind,
    DayFrame,
    FrameLayout,
    Grid,
    floats,
    kind_of,
)
from rightsizer.model.frozen import dataclass
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Resource


def by_the_hour(frame: DayFrame) -> DayFrame:
    """The same days by the hour: seconds and joules summed, means by known time, largest peaks."""
    if frame.grid.step == COARSE_STEP:
        return frame
    grid = frame.grid.by(COARSE_STEP)
    each = frame.grid.count // grid.count
    known = frame.known_seconds()
    values = array("f")
    for column, found in frame.columns.items():
        values.extend(
            hourly(kind_of(column), found[place : place + each], known[place : place + each])
            for place in range(0, frame.grid.count, each)
        )
    return DayFrame(grid, frame.layout, values, frame.demands)


def hourly(kind: ColumnKind, part: array[float], known: Sequence[float]) -> float:
    """The value of an hour from those of its intervals and their known time."""
    pairs = [(value, time) for value, time in zip(part, known, strict=True) if not isnan(value)]
    if not pairs:
        return nan
    values = [value for value, _ in pairs]
    if kind is ColumnKind.PEAK:
        return max(values)
    if kind is ColumnKind.COUNT:
        return sum(values) / len(part)
    if kind is ColumnKind.MEAN:
        weight = sum(time for _, time in pairs)
        if weight <= 0:
            return sum(values) / len(values)
        return sum(value * time for value, time in pairs) / weight
    return sum(values)


Piece = Callable[[str], "array[float]"]
"""A device's part of a column: 0 where it does not count, `nan` where a measure is unknown."""


class SummedFrame(DayFrame):
    """The sums of some devices at the same moments, with how many there were.

    A column is added up when it is asked for, for most never are.
    """

    __slots__ = ("_columns", "_devices", "_pieces", "_values")
    _pieces: Sequence[Piece]
    _devices: array[float]
    _columns: dict[int, array[float]]
    _values: list[array[float]]

    def __init__(
        self,
        grid: Grid,
        layout: FrameLayout,
        pieces: Sequence[Piece],
        devices: array[float],
        demands: Mapping[Resource, Histogram],
    ) -> None:
        """Sum the pieces of devices.

        `layout` lacks the number of devices, which `devices` has by interval; where there is
        none, no measure is known.
        """
        layout = FrameLayout.of((*layout.columns, DEVICES))
        values: tuple[object, ...] = (
            grid,
            layout,
            demands,
            pieces,
            devices,
            {layout.places[DEVICES]: devices},
            [],
        )
        for name, value in zip(_SLOTS, values, strict=True):
            object.__setattr__(self, name, value)  # As a frozen dataclass does it.

    @property
    def values(self) -> array[float]:
        """Column after column, as in any frame."""
        if not self._values:
            self._values.append(reduce(add, map(self.at, range(len(self.layout.columns)))))
        return self._values[0]

    def at(self, place: int) -> array[float]:
        """The column at a place of the layout."""
        if place not in self._columns:
            self._columns[place] = self._added(self.layout.columns[place])
        return self._columns[place]

    def _added(self, column: str) -> array[float]:
        kind = kind_of(column)
        if kind is ColumnKind.PEAK:
            return self._peak(column)
        first, *others = (piece(column) for piece in self._pieces)
        if kind is ColumnKind.MEAN:
            return self._known(reduce(_sum, others, first))
        # Most columns are 0 throughout.
        return reduce(_sum, filter(any, others), first)

    def _peak(self, column: str) -> array[float]:
        mean = _mean_of(column)
        excesses = [map(sub, piece(column), piece(mean)) for piece in self._pieces]
        # What is unknown of one is unknown of the sum of the means already.
        largest = map(max, *excesses) if len(excesses) > 1 else excesses[0]
        return self._known(floats(map(add, self.at(self.layout.places[mean]), largest)))

    def _known(self, values: array[float]) -> array[float]:
        """The values, unknown while there are no devices."""
        if not all(self._devices):
            for place, number in enumerate(self._devices):
                if not number:
                    values[place] = nan
        return values


_SLOTS: Final = ("grid", "layout", "demands", "_pieces", "_devices", "_columns", "_values")


def _mean_of(peak: str) -> str:
    """The name of the mean of a peak's measure."""
    return ColumnKind.MEAN.column(peak.partition(":")[2])


def _sum(one: array[float], other: array[float]) -> array[float]:
    return floats(map(add, one, other))


_MEASURES: Final = frozenset({ColumnKind.MEAN, ColumnKind.PEAK})


@dataclass(frozen=True, slots=True)
class DevicePart:
    """What belongs to a subject of one device's day."""

    frame: DayFrame | None
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

    def by_the_hour(self) -> DevicePart:
        """The same by the hour; an hour that is begun belongs to it by the part of it."""
        if self.grid.step == COARSE_STEP:
            return self
        each = COARSE_STEP // self.grid.step
        first, last = self.first // each, self.last // each
        # What is left of the day by five minutes is cut off before it is summed up.
        frame = None if self.frame is None else by_the_hour(_cut(self.frame, self.first, self.last))
        return DevicePart(frame, self.grid.by(COARSE_STEP), first, last, self.share_ratio)


def combined(parts: Sequence[DevicePart]) -> DayFrame:
    """The day of a subject from its parts, with the number of its devices.

    What adds up does so over the devices that are known; a measure is known only where it is
    known of all of them.
    """
    if len(parts) == 1 and parts[0].is_whole and parts[0].frame is not None:
        return parts[0].frame
    if len({part.grid.step for part in parts}) > 1:
        parts = [part.by_the_hour() for part in parts]
    grid = parts[0].grid
    layout = _shared([part.frame for part in parts if part.frame is not None])
    pieces = [partial(_piece, part, grid.count) for part in parts]
    return SummedFrame(grid, layout, pieces, _devices(parts, grid), _demands(parts))


def _shared(frames: Sequence[DayFrame]) -> FrameLayout:
    """All that adds up of any; the measures whose mean and peak are known of all."""
    layouts = {frame.layout for frame in frames}
    if len(layouts) == 1:
        (layout,) = layouts
        if layout.peaks_pair_up and DEVICES not in layout.places:
            return layout
    everywhere = set.intersection(*(set(each.columns) for each in layouts)) if layouts else set()
    columns = {column for each in layouts for column in each.columns if column != DEVICES}
    shared = {column for column in columns if kind_of(column) not in _MEASURES}
    for column in everywhere:
        if kind_of(column) is ColumnKind.PEAK and _mean_of(column) in everywhere:
            shared |= {column, _mean_of(column)}
    return FrameLayout.of(shared)


def _piece(part: DevicePart, count: int, column: str) -> array[float]:
    """A part of a column: 0 where it does not count, `nan` for a measure that is not known."""
    values = None if part.frame is None else part.frame.column(column)
    is_measure = kind_of(column) in _MEASURES
    if values is None:
        values = array("f", [nan if is_measure else 0.0]) * count
    if not part.is_whole:
        values = _inside(part, values)
    if not is_measure and isnan(sum(values)):
        return array("f", [0.0 if isnan(each) else each for each in values])
    return values


def _inside(part: DevicePart, values: array[float]) -> array[float]:
    """What belongs to the part, by its share; 0 before it and after it."""
    inside = values[part.first : part.last + 1]
    if part.share_ratio < 1.0:
        inside = floats(map(mul, inside, repeat(part.share_ratio)))
    none = array("f", [0.0])
    return none * part.first + inside + none * (len(values) - 1 - part.last)


def _cut(frame: DayFrame, first: int, last: int) -> DayFrame:
    """A frame of which nothing is known outside of some intervals."""
    if first == 0 and last == frame.grid.count - 1:
        return frame
    before = array("f", [nan]) * first
    after = array("f", [nan]) * (frame.grid.count - 1 - last)
    values = array("f")
    for found in frame.columns.values():
        values += before + found[first : last + 1] + after
    return DayFrame(frame.grid, frame.layout, values, frame.demands)


def _devices(parts: Iterable[DevicePart], grid: Grid) -> array[float]:
    found = array("f", [0.0]) * grid.count
    for part in parts:
        inside = slice(part.first, part.last + 1)
        found[inside] = floats(map(add, found[inside], repeat(part.share_ratio)))
    return found


def _demands(parts: Iterable[DevicePart]) -> dict[Resource, Histogram]:
    found: dict[Resource, Histogram] = {}
    for part in parts:
        if part.frame is None:
            continue
        weight = part.share_ratio * (part.last + 1 - part.first) / part.grid.count
        for resource, histogram in part.frame.demands.items():
            mine = histogram if weight >= 1.0 else histogram.scaled(weight)
            found.setdefault(resource, Histogram()).merge(mine)
    return found
