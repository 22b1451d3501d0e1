"""Hourly figures of workloads and nodes, packed: GPUs present, held and active."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence, Sized
from copy import copy
from operator import add, sub
from typing import Final, TypeVar, overload

from rightsizer.fleet.cache.combination import hourly
from rightsizer.fleet.cache.day_cache import HoldingRow, by_first_day
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
        grid, found = day.frame.grid, day.frame.column(column)
        hour = grid.day * _HOURS - first
        if found is None or not -_HOURS * grid.days < hour < len(values):
            continue
        if grid.step != COARSE_STEP:
            hours = _hour_slices(found, grid)
            kind = kind_of(column)
            found = array("f", [hourly(kind, found[at], day.known[at]) for at in hours])
        low, high = max(0, hour), min(len(values), hour + len(found))
        values[low:high] = array("f", map(factor.__mul__, found[low - hour : high - hour]))
    return HourlySeries(first * COARSE_STEP, HourlyFigures(values))


def _hour_slices(values: Sized, grid: Grid) -> Iterator[slice]:
    each = COARSE_STEP // grid.step
    return (slice(at, at + each) for at in range(0, len(values), each))


def latest(hours: HourlySeries, start: Nanoseconds) -> HourlySeries:
    """The same from a later time on."""
    first = start // COARSE_STEP
    values = hours.values[first - hours.start // COARSE_STEP :]
    return HourlySeries(first * COARSE_STEP, values)


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
            floats(sum(values[at]) / each for at in _hour_slices(values, self.grid))
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

    @property
    def free(self) -> list[float]:
        """Those that are present and not held."""
        pairs = zip(self.present, self.held, strict=True)
        return [max(0.0, present - held) for present, held in pairs]

    @property
    def held_peaks(self) -> array[float]:
        """The most that were held at once, by the hour; where only hours are known, their mean."""
        return array("f", [max(self.held[at]) for at in _hour_slices(self.held, self.grid)])


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

    found: dict[tuple[str, str, str], dict[tuple[int, int], GpuCounts]] = field(
        default_factory=dict
    )
    """By pool, cluster and node; those of the same first day and number of days are together."""

    def add_device(
        self, device: FleetDevice, days: SubjectDays, rows: Iterable[HoldingRow]
    ) -> None:
        """Count a device in."""
        by_day = by_first_day(rows)
        mine = self.found.setdefault((device.pool, device.cluster, device.node), {})
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

    def days_of(self, pool: str) -> Iterator[tuple[str, dict[int, GpuCounts]]]:
        """Each node of a pool, day by day."""
        for (own, _, node), found in sorted(self.found.items()):
            if own == pool:
                by_day: dict[int, GpuCounts] = {}
                for counts in found.values():
                    for day in counts.each_day:
                        add_counts(by_day, day.grid.day, day)
                yield node, by_day


def _counts(day: SummedDay, ratio: float, rows: Sequence[HoldingRow]) -> GpuCounts:
    """Held is what a scheduler gave away, and what is in use without its knowledge."""
    grid, step = day.frame.grid, day.frame.grid.step / NANOSECONDS_PER_SECOND

    def known(state: str) -> Sequence[float]:
        found = day.frame.column(state)
        if found is None:
            return [0.0] * grid.count
        if math.isnan(sum(found)):
            return [0.0 if math.isnan(each) else each for each in found]
        return found

    empty, idle = known("state:idle_empty"), known("state:idle_held")
    shares = [0.0] * grid.count
    for row in rows:
        first, last = row.places(grid)
        first, last = max(0, first), min(grid.count, last)
        inside = shares[first:last]
        is_whole = row.share_ratio >= 1.0
        shares[first:last] = (
            [1.0] * len(inside) if is_whole else [min(1.0, s + row.share_ratio) for s in inside]
        )
    if min(shares) < 1.0:
        shares = [
            max(share, (known - unheld) / known) if known > 0 else share
            for share, known, unheld in zip(shares, day.known, empty, strict=True)
        ]
    seconds = map(sub, map(sub, day.known, empty), idle)
    whole = array("f", [ratio]) * grid.count
    return GpuCounts(
        grid,
        present=whole
        if min(day.present_seconds) > 0
        else floats(ratio * (time > 0) for time in day.present_seconds),
        held=whole if min(shares) >= 1.0 else floats(map(ratio.__mul__, shares)),
        active=floats([each * ratio / step if each > 0 else 0.0 for each in seconds]),
    )
