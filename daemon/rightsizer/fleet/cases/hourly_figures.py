"""Hourly figures of workloads and nodes, packed: GPUs present, held and active."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from operator import add, sub
from typing import Final, NamedTuple, TypeVar, overload

from rightsizer.fleet.cache.combination import hourly
from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.day_frame import COARSE_STEP, DAY, Grid, floats, kind_of
from rightsizer.fleet.cache.subject_days import SubjectDays, SummedDay
from rightsizer.fleet.model import FleetDevice, HourlySeries
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_HOURS: Final = DAY // COARSE_STEP


class HourlyFigures(Sequence[float | None]):
    """Numbers of which some are unknown, in four bytes each."""

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[float]) -> None:
        """Of numbers, `nan` where one is unknown."""
        self._values = array("f", values)

    @overload
    def __getitem__(self, place: int) -> float | None: ...

    @overload
    def __getitem__(self, place: slice) -> HourlyFigures: ...

    def __getitem__(self, place: int | slice) -> float | HourlyFigures | None:
        if isinstance(place, slice):
            return HourlyFigures(self._values[place])
        found = self._values[place]
        return None if math.isnan(found) else found

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[float | None]:
        return (None if math.isnan(value) else value for value in self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def hours_of(
    days: SubjectDays, column: str, start: Nanoseconds, end: Nanoseconds, factor: float = 1.0
) -> HourlySeries:
    """A measure by the hour, times a factor: the largest of its peaks, the mean of its means.

    `column` is a name as in `mean:busy`.
    """
    first, last = start // COARSE_STEP, end // COARSE_STEP
    values = array("f", [math.nan]) * max(0, last - first)
    for day in days.days:
        hour = day.frame.grid.day * _HOURS - first
        if -_HOURS * day.frame.grid.days < hour < len(values):
            found = _by_the_hour(day, column)
            if found is not None:
                low, high = max(0, hour), min(len(values), hour + len(found))
                values[low:high] = array("f", map(factor.__mul__, found[low - hour : high - hour]))
    return HourlySeries(first * COARSE_STEP, HourlyFigures(values))


def latest(hours: HourlySeries, start: Nanoseconds) -> HourlySeries:
    """The same from a later time on."""
    first = start // COARSE_STEP
    values = hours.values[first - hours.start // COARSE_STEP :]
    return HourlySeries(first * COARSE_STEP, values)


def _by_the_hour(day: SummedDay, column: str) -> array[float] | None:
    found = day.frame.column(column)
    if found is None or day.frame.grid.step == COARSE_STEP:
        return found
    each = COARSE_STEP // day.frame.grid.step
    hours = (slice(at, at + each) for at in range(0, len(found), each))
    return array("f", [hourly(kind_of(column), found[at], day.known[at]) for at in hours])


_Days = tuple[int, int]
"""The first day since the epoch, and how many there are."""
_EMPTY: Final = "state:idle_empty"
_HELD_IDLE: Final = "state:idle_held"


class PoolNode(NamedTuple):
    """A node's part of a pool."""

    pool: str
    cluster: str
    node: str


@dataclass(slots=True)
class GpuCounts:
    """GPUs by interval of a day, or of some days."""

    grid: Grid
    present: array[float]
    held: array[float]
    active: array[float]

    @property
    def columns(self) -> tuple[array[float], array[float], array[float]]:
        """Present, held and active."""
        return self.present, self.held, self.active

    def add(self, other: GpuCounts) -> None:
        """Add those of others at the same moments; where one knows hours only, by the hour."""
        mine = self
        if self.grid.step != other.grid.step:
            mine, other = self.by_the_hour(), other.by_the_hour()
        self.grid = mine.grid
        self.present, self.held, self.active = (
            floats(map(add, one, more))
            for one, more in zip(mine.columns, other.columns, strict=True)
        )

    def by_the_hour(self) -> GpuCounts:
        """Means over the hours."""
        each = COARSE_STEP // self.grid.step
        if each == 1:
            return self
        means = (
            floats(sum(values[at : at + each]) / each for at in range(0, len(values), each))
            for values in self.columns
        )
        return GpuCounts(self.grid.by(COARSE_STEP), *means)

    @property
    def each_day(self) -> Iterable[GpuCounts]:
        """The same, day by day."""
        each = DAY // self.grid.step
        return [
            GpuCounts(grid, *(values[at * each : (at + 1) * each] for values in self.columns))
            for at, grid in enumerate(self.grid.parts())
        ]

    def held_peaks(self) -> array[float]:
        """The most that were held at once, by the hour; where only hours are known, their mean."""
        each = COARSE_STEP // self.grid.step
        peaks = [max(self.held[at : at + each]) for at in range(0, len(self.held), each)]
        return array("f", peaks)


_Key = TypeVar("_Key")


def add_counts(found: dict[_Key, GpuCounts], key: _Key, counts: GpuCounts) -> None:
    """Add counts to those of the same key; the given ones stay as they are."""
    if key in found:
        found[key].add(counts)
    else:
        found[key] = copy(counts)


@dataclass(slots=True)
class NodeSums:
    """By node and time."""

    found: dict[PoolNode, dict[_Days, GpuCounts]] = field(default_factory=dict)
    """Counts of the same days are together."""

    def add_device(
        self, device: FleetDevice, days: SubjectDays, rows: Iterable[HoldingRow]
    ) -> None:
        """Count a device in."""
        by_day: dict[int, list[HoldingRow]] = {}
        for row in rows:
            by_day.setdefault(row.grid.day, []).append(row)
        place = PoolNode(device.pool, device.cluster, device.node)
        mine = self.found.setdefault(place, {})
        for day in days.days:
            grid = day.frame.grid
            counts = _counts(day, device.device.capacity_ratio, by_day.get(grid.day, ()))
            add_counts(mine, (grid.day, grid.days), counts)

    def merge(self, other: NodeSums) -> None:
        """Add those of other devices."""
        for place, found in other.found.items():
            mine = self.found.setdefault(place, {})
            for days, counts in found.items():
                add_counts(mine, days, counts)

    def days_of(self, pool: str) -> dict[PoolNode, dict[int, GpuCounts]]:
        """By node of a pool, day by day."""
        nodes: dict[PoolNode, dict[int, GpuCounts]] = {}
        for place, found in sorted(self.found.items()):
            if place.pool == pool:
                by_day = nodes.setdefault(place, {})
                for counts in found.values():
                    for day in counts.each_day:
                        add_counts(by_day, day.grid.day, day)
        return nodes


def _counts(day: SummedDay, ratio: float, rows: Sequence[HoldingRow]) -> GpuCounts:
    """Held is what a scheduler gave away, and what is in use without its knowledge."""
    frame, step = day.frame, day.frame.grid.step / NANOSECONDS_PER_SECOND
    empty, idle = (_known(frame.column(state), frame.grid) for state in (_EMPTY, _HELD_IDLE))
    shares = _shares(rows, frame.grid)
    if min(shares) < 1.0:
        shares = [
            max(share, (known - unheld) / known) if known > 0 else share
            for share, known, unheld in zip(shares, day.known, empty, strict=True)
        ]
    seconds = map(sub, map(sub, day.known, empty), idle)
    whole = array("f", [ratio]) * frame.grid.count
    return GpuCounts(
        frame.grid,
        present=whole
        if min(day.present_seconds) > 0
        else floats(ratio * (time > 0) for time in day.present_seconds),
        held=whole if min(shares) >= 1.0 else floats(map(ratio.__mul__, shares)),
        active=floats([each * ratio / step if each > 0 else 0.0 for each in seconds]),
    )


def _known(seconds: array[float] | None, grid: Grid) -> array[float]:
    """Seconds in a state, 0 where that is not known."""
    if seconds is None:
        return array("f", [0.0]) * grid.count
    if math.isnan(sum(seconds)):
        return array("f", [0.0 if math.isnan(each) else each for each in seconds])
    return seconds


def _shares(rows: Sequence[HoldingRow], grid: Grid) -> list[float]:
    found = [0.0] * grid.count
    for row in rows:
        first = max(0, (row.start - grid.start) // grid.step)
        last = min(grid.count, -(-(row.end - grid.start) // grid.step))
        if row.share_ratio >= 1.0:
            found[first:last] = [1.0] * (last - first)
        else:
            for place in range(first, last):
                found[place] = min(1.0, found[place] + row.share_ratio)
    return found
