"""Hourly figures of workloads and nodes, packed: GPUs present, held and active."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Final, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from rightsizer.fleet.cache.day_cache import HoldingRow, by_first_day
from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY, Grid
from rightsizer.fleet.cache.subject_days import SubjectDays
from rightsizer.fleet.cache.summed_day import SummedDay
from rightsizer.fleet.model import FleetDevice, HourlySeries
from rightsizer.model.units import Nanoseconds

_HOURS: Final = DAY // COARSE_STEP


class HourlyFigures(Sequence[float | None]):
    """Sequence of optional numbers, four bytes each."""

    __slots__ = ("_values",)

    def __init__(self, values: ArrayLike) -> None:
        """Create it from numbers, with `nan` for unknown ones."""
        self._values = np.asarray(values, np.float32)

    @overload
    def __getitem__(self, place: int) -> float | None: ...

    @overload
    def __getitem__(self, place: slice) -> HourlyFigures: ...

    def __getitem__(self, place: int | slice) -> float | HourlyFigures | None:
        if isinstance(place, slice):
            return HourlyFigures(self._values[place])
        found = float(self._values[place])
        return None if math.isnan(found) else found

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[float | None]:
        found = self._values.astype(object)
        found[np.isnan(self._values)] = None
        return iter(found.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def hours_of(
    days: SubjectDays, column: str, start: Nanoseconds, end: Nanoseconds, factor: float = 1.0
) -> HourlySeries:
    """Return a measure by hour, times a factor: maximum of peaks, or mean of means.

    `column` is a name like `mean:busy`.
    """
    first = start // COARSE_STEP
    last = end // COARSE_STEP
    values = np.full(max(0, last - first), np.nan)
    for day in days.days:
        grid = day.frame.grid
        of_all = day.like.hours(column)
        if of_all is None:
            continue
        found = of_all[day.row]
        hour = grid.day * _HOURS - first
        low = max(0, hour)
        high = min(len(values), hour + len(found))
        if low < high:
            values[low:high] = factor * found[low - hour : high - hour].astype(float)
    return HourlySeries(first * COARSE_STEP, HourlyFigures(values))


def latest(hours: HourlySeries, start: Nanoseconds) -> HourlySeries:
    """Return the series from a later time on."""
    first = start // COARSE_STEP
    values = hours.values[first - hours.start // COARSE_STEP :]
    return HourlySeries(first * COARSE_STEP, values)


@dataclass(slots=True)
class GpuCounts:
    """GPUs by interval of one or several days."""

    grid: Grid
    figures: Floats
    """Present, held and active, by interval."""

    @property
    def present(self) -> Floats:
        """GPUs that were present."""
        return self.figures[0]

    @property
    def held(self) -> Floats:
        """GPUs that were in use or allocated."""
        return self.figures[1]

    @property
    def active(self) -> Floats:
        """GPUs that were neither idle nor unknown."""
        return self.figures[2]

    def add(self, other: GpuCounts) -> None:
        """Add simultaneous counts; by hour if one of them is hourly."""
        mine = self
        if self.grid.step != other.grid.step:
            mine = self.by_the_hour()
            other = other.by_the_hour()
        self.grid = mine.grid
        self.figures = mine.figures + other.figures

    def by_the_hour(self) -> GpuCounts:
        """Return hourly means."""
        if self.grid.step == COARSE_STEP:
            return self
        means = self.figures.reshape(len(self.figures), -1, COARSE_STEP // self.grid.step).mean(-1)
        return GpuCounts(self.grid.by(COARSE_STEP), means)

    @property
    def each_day(self) -> Iterable[GpuCounts]:
        """Split into days."""
        parts = np.split(self.figures, self.grid.days, axis=1)
        return map(GpuCounts, self.grid.parts(), parts)

    @property
    def free(self) -> Floats:
        """GPUs that were present and not held."""
        return np.maximum(0.0, self.present - self.held)

    @property
    def held_peaks(self) -> Floats:
        """Maximum held at once, by hour; the mean if only hours are known."""
        return self.held.reshape(-1, COARSE_STEP // self.grid.step).max(axis=1)


_Key = TypeVar("_Key")


def add_counts(found: dict[_Key, GpuCounts], key: _Key, counts: GpuCounts) -> None:
    """Add counts under a key; the arguments are not changed."""
    if key in found:
        found[key].add(counts)
    else:
        found[key] = copy(counts)


@dataclass(slots=True)
class NodeSums:
    """Counts by node and time."""

    found: dict[tuple[str, str, str], dict[tuple[int, int], GpuCounts]] = field(
        default_factory=dict
    )
    """By pool, cluster and node; then by first day and number of days."""

    def add_device(
        self, device: FleetDevice, days: SubjectDays, rows: Iterable[HoldingRow]
    ) -> None:
        """Add a device."""
        by_day = by_first_day(rows)
        mine = self.found.setdefault((device.pool, device.cluster, device.node), {})
        for day in days.days:
            grid = day.frame.grid
            counts = _counts(device, day, by_day.get(grid.day, ()))
            add_counts(mine, (grid.day, grid.days), counts)

    def merge(self, other: NodeSums) -> None:
        """Add those of other devices."""
        for place, found in other.found.items():
            mine = self.found.setdefault(place, {})
            for days, counts in found.items():
                add_counts(mine, days, counts)

    def days_of(self, pool: str) -> Iterator[tuple[str, dict[int, GpuCounts]]]:
        """Yield each node of a pool with its counts by day."""
        for (own, _, node), found in sorted(self.found.items()):
            if own == pool:
                by_day: dict[int, GpuCounts] = {}
                for counts in found.values():
                    for day in counts.each_day:
                        add_counts(by_day, day.grid.day, day)
                yield node, by_day


def _counts(device: FleetDevice, day: SummedDay, rows: Sequence[HoldingRow]) -> GpuCounts:
    """Count as held what a scheduler allocated, and what is in use otherwise."""
    grid = day.frame.grid
    present, used, active = (each[day.row] for each in day.like.use)
    shares = np.zeros(grid.count)
    for row in rows:
        first, last = row.places(grid)
        inside = slice(max(0, first), max(0, last))
        shares[inside] = np.minimum(1.0, shares[inside] + row.share_ratio)
    held = np.maximum(shares, used)
    if device.is_shareable:
        held = np.where(shares > 0, shares, used)
        active = np.minimum(active, held)
    return GpuCounts(grid, device.device.capacity_ratio * np.stack((present, held, active)))
