"""Combines devices into one subject, and what several sources have of a device into its days.

Sums are of the same moments, never sums of peaks.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, reduce
from itertools import groupby, pairwise, repeat
from math import isnan, nan
from operator import add, mul, sub
from typing import Final

from rightsizer.fleet.cache.day_cache import CachedFrame, HoldingRow
from rightsizer.fleet.cache.day_frame import (
    COARSE_STEP,
    DAY,
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


def by_the_hour(frame: DayFrame, first: int = 0, last: int | None = None) -> DayFrame:
    """The same days by the hour: seconds and joules summed, means by known time, largest peaks.

    Nothing is known outside of the intervals from `first` to `last`, itself included.
    """
    if frame.grid.step == COARSE_STEP:
        return frame
    grid, count = frame.grid.by(COARSE_STEP), frame.grid.count
    each, after = count // grid.count, count - 1 - (count - 1 if last is None else last)
    outside = array("f", [nan])

    def cut(column: Sequence[float], blank: array[float]) -> Sequence[float]:
        return [*(blank * first), *column[first : count - after], *(blank * after)]

    known = cut(frame.known_seconds(), array("f", [0.0]))
    values = array("f")
    for column, whole in frame.columns.items():
        found = cut(whole, outside)
        values.extend(
            hourly(kind_of(column), found[place : place + each], known[place : place + each])
            for place in range(0, count, each)
        )
    return DayFrame(grid, frame.layout, values, frame.demands)


def hourly(kind: ColumnKind, part: Sequence[float], known: Sequence[float]) -> float:
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


class SummedFrame(DayFrame):
    """The sums of some devices at the same moments, with how many there were.

    A column is added up when it is asked for, for most never are.
    """

    __slots__ = ("_columns", "_devices", "_parts", "_values")
    _parts: Sequence[DevicePart]
    _devices: array[float]
    """By interval; where there is none, no measure is known."""
    _columns: dict[int, array[float]]
    _values: list[array[float]]

    def __init__(self, parts: Sequence[DevicePart]) -> None:
        """Sum what belongs to a subject of some devices, all by the same step."""
        grid = parts[0].grid
        devices = array("f", [0.0]) * grid.count
        demands: dict[Resource, Histogram] = {}
        for part in parts:
            inside = slice(part.first, part.last + 1)
            devices[inside] = floats(map(add, devices[inside], repeat(part.share_ratio)))
            weight = part.share_ratio * (part.last + 1 - part.first) / part.grid.count
            for resource, histogram in part.frame.demands.items() if part.frame else ():
                mine = histogram if weight >= 1.0 else histogram.scaled(weight)
                demands.setdefault(resource, Histogram()).merge(mine)
        shared = _shared(frozenset(part.frame.layout for part in parts if part.frame is not None))
        layout = FrameLayout.of((*shared.columns, DEVICES))
        own = {"_parts": parts, "_devices": devices, "_values": list[object]()}
        columns = {layout.places[DEVICES]: devices}
        fields = {"grid": grid, "layout": layout, "demands": demands, "_columns": columns}
        for name, value in (*own.items(), *fields.items()):
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
        pieces = [part.column(column) for part in self._parts]
        if kind is ColumnKind.PEAK:
            mean = _mean_of(column)
            means = (part.column(mean) for part in self._parts)
            excesses = [map(sub, *pair) for pair in zip(pieces, means, strict=True)]
            # What is unknown of one is unknown of the sum of the means already.
            largest = map(max, *excesses) if len(excesses) > 1 else excesses[0]
            found = floats(map(add, self.at(self.layout.places[mean]), largest))
        else:
            # Most columns are 0 throughout.
            more = (each for each in pieces[1:] if kind is ColumnKind.MEAN or any(each))
            found = reduce(lambda one, other: floats(map(add, one, other)), more, pieces[0])
        if kind in _MEASURES and not all(self._devices):
            for place, number in enumerate(self._devices):
                if not number:
                    found[place] = nan
        return found


def _mean_of(peak: str) -> str:
    """The name of the mean of a peak's measure."""
    return ColumnKind.MEAN.column(peak.partition(":")[2])


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
        frame = None if self.frame is None else by_the_hour(self.frame, self.first, self.last)
        return DevicePart(frame, self.grid.by(COARSE_STEP), first, last, self.share_ratio)

    def column(self, column: str) -> array[float]:
        """Its part: 0 where it does not count, `nan` for a measure that is not known."""
        values = None if self.frame is None else self.frame.column(column)
        is_measure = kind_of(column) in _MEASURES
        if values is None:
            values = array("f", [nan if is_measure else 0.0]) * self.grid.count
        if not self.is_whole:
            inside, none = values[self.first : self.last + 1], array("f", [0.0])
            if self.share_ratio < 1.0:
                inside = floats(map(mul, inside, repeat(self.share_ratio)))
            values = none * self.first + inside + none * (len(values) - 1 - self.last)
        if not is_measure and isnan(sum(values)):
            return array("f", [0.0 if isnan(each) else each for each in values])
        return values


def combined(parts: Sequence[DevicePart]) -> DayFrame:
    """The day of a subject from its parts, with the number of its devices.

    What adds up does so over the devices that are known; a measure is known only where it is
    known of all of them.
    """
    if len(parts) == 1 and parts[0].is_whole and parts[0].frame is not None:
        return parts[0].frame
    if len({part.grid.step for part in parts}) > 1:
        parts = [part.by_the_hour() for part in parts]
    return SummedFrame(parts)


@lru_cache(maxsize=256)
def _shared(layouts: AbstractSet[FrameLayout]) -> FrameLayout:
    """All that adds up of any; the measures whose mean and peak are known of all."""
    everywhere = set.intersection(*(set(each.columns) for each in layouts)) if layouts else set()
    columns = {column for each in layouts for column in each.columns if column != DEVICES}
    shared = {column for column in columns if kind_of(column) not in _MEASURES}
    for column in everywhere:
        if kind_of(column) is ColumnKind.PEAK and _mean_of(column) in everywhere:
            shared |= {column, _mean_of(column)}
    return FrameLayout.of(sorted(shared))


def are_aligned(grids: Iterable[Grid]) -> bool:
    """Whether each day is in a grid of the same days wherever it is."""
    spans = sorted({(grid.day, grid.day + grid.days) for grid in grids})
    return all(end <= start for (_, end), (start, _) in pairwise(spans))


def frames_by_day(frames: Iterable[DayFrame]) -> Iterator[DayFrame]:
    """Each day with its part of the distributions, by the time that is known of it."""
    for frame in frames:
        if frame.grid.days == 1:
            yield frame
            continue
        count, each = frame.grid.count, DAY // frame.grid.step
        known = frame.known_seconds()
        total = sum(known)
        for place, grid in enumerate(frame.grid.parts()):
            values = array("f")
            for first in range(place * each, len(frame.values), count):
                values += frame.values[first : first + each]
            part = sum(known[place * each : (place + 1) * each]) / total if total > 0 else 0.0
            demands = {resource: found.scaled(part) for resource, found in frame.demands.items()}
            yield DayFrame(grid, frame.layout, values, demands)


def rows_by_day(rows: Iterable[HoldingRow]) -> Iterator[HoldingRow]:
    """Holdings that end with their day, and go on with the next one."""
    for row in rows:
        each = DAY // row.grid.step
        for place, grid in enumerate(row.grid.parts()):
            first, last = row.first - place * each, row.last - place * each
            if first < each and last >= 0:
                yield row._replace(grid=grid, first=max(0, first), last=min(each - 1, last))


def merged_frames(cached: Iterable[CachedFrame], sources: Sequence[str]) -> list[DayFrame]:
    """The days of a device, oldest first, one frame for each time.

    It is by the day where several sources have it, of which the preferred ones are first.
    """
    found = list(cached)
    if len({each.source for each in found}) > 1:
        found = [each._replace(frame=day) for each in found for day in frames_by_day([each.frame])]
        found.sort(key=lambda each: (each.frame.grid.day, _rank(each.source, sources)))
    by_day = groupby(found, lambda each: each.frame.grid.day)
    return [_merged([each.frame for each in same]) for _, same in by_day]


def merged_holdings(rows: Iterable[HoldingRow], sources: Sequence[str]) -> list[HoldingRow]:
    """Of each device and day, who held it by the first source that knows."""
    found: list[HoldingRow] = []
    for _, of_device in groupby(rows, lambda row: row.uuid):
        known = list(of_device)
        if len({row.source for row in known}) == 1:
            found += known
            continue
        known = sorted(
            rows_by_day(known), key=lambda row: (row.grid.day, _rank(row.source, sources))
        )
        for _, of_day in groupby(known, lambda row: row.grid.day):
            _, of_source = next(groupby(of_day, lambda row: row.source))
            found += of_source
    return found


def _rank(source: str, sources: Sequence[str]) -> tuple[int, str]:
    return (sources.index(source) if source in sources else len(sources)), source


def _merged(frames: Sequence[DayFrame]) -> DayFrame:
    """Each column and distribution of the first frame that has it."""
    if len(frames) == 1:
        return frames[0]
    if len({frame.grid.step for frame in frames}) > 1:
        frames = [by_the_hour(frame) for frame in frames]
    columns: dict[str, array[float]] = {}
    demands: dict[Resource, Histogram] = {}
    for frame in reversed(frames):
        columns |= frame.columns
        demands |= frame.demands
    return DayFrame.of(frames[0].grid, columns, demands)
