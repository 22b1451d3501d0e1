"""Hourly figures of workloads and nodes, packed: GPUs present, held and active."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import COARSE_STEP, Grid
from rightsizer.fleet.columns.segment import Segment
from rightsizer.fleet.columns.subject import Subject
from rightsizer.fleet.model import FleetDevice, HourlySeries
from rightsizer.model.units import Nanoseconds


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
        figure = float(self._values[place])
        return None if math.isnan(figure) else figure

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[float | None]:
        figures = self._values.astype(object)
        figures[np.isnan(self._values)] = None
        return iter(figures.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def hours_of(
    subject: Subject, column: str, start: Nanoseconds, end: Nanoseconds, factor: float = 1.0
) -> HourlySeries:
    """Return a measure by hour, times a factor: maximum of peaks, or mean of means.

    `column` is a name like `mean:busy`.
    """
    first = start // COARSE_STEP
    last = end // COARSE_STEP
    values = np.full(max(0, last - first), np.nan)
    for segment in subject.segments:
        hours = segment.hours(column)
        if hours is None:
            continue
        of_subject = hours[subject.row]
        begin = segment.grid.start // COARSE_STEP - first
        low = max(0, begin)
        high = min(len(values), begin + len(of_subject))
        if low < high:
            values[low:high] = factor * of_subject[low - begin : high - begin].astype(float)
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
    def days(self) -> Iterable[GpuCounts]:
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


def add_counts(sums: dict[_Key, GpuCounts], key: _Key, counts: GpuCounts) -> None:
    """Add counts under a key; the arguments are not changed."""
    if key in sums:
        sums[key].add(counts)
    else:
        sums[key] = copy(counts)


@dataclass(slots=True)
class NodeSums:
    """Counts by node and day."""

    by_node: dict[tuple[str, str, str], dict[int, GpuCounts]] = field(default_factory=dict)
    """By pool, cluster and node; then by day."""

    @classmethod
    def of(cls, devices: Iterable[tuple[FleetDevice, Subject, Sequence[HoldingRow]]]) -> NodeSums:
        """Sum devices, given what held them."""
        of_grids: dict[tuple[tuple[str, str, str], Grid], GpuCounts] = {}
        for device, subject, rows in devices:
            node = device.pool, device.cluster, device.node
            for segment in subject.segments:
                counts = _counts(device, segment, subject.row, rows)
                add_counts(of_grids, (node, segment.grid), counts)
        sums = cls()
        for (node, _), counts in of_grids.items():
            days = sums.by_node.setdefault(node, {})
            for day in counts.days:
                add_counts(days, day.grid.day, day)
        return sums

    def merge(self, other: NodeSums) -> None:
        """Add those of other devices."""
        for node, days in other.by_node.items():
            mine = self.by_node.setdefault(node, {})
            for day, counts in days.items():
                add_counts(mine, day, counts)

    def days_of(self, pool: str) -> Iterator[tuple[str, dict[int, GpuCounts]]]:
        """Yield each node of a pool with its counts by day."""
        for (node_pool, _, node), days in sorted(self.by_node.items()):
            if node_pool == pool:
                yield node, days


def _counts(
    device: FleetDevice, segment: Segment, row: int, holdings: Iterable[HoldingRow]
) -> GpuCounts:
    """Count as held what a scheduler allocated, and what is in use otherwise."""
    grid = segment.grid
    present, used, active = (figures[row] for figures in segment.use)
    shares = np.zeros(grid.count)
    for holding in holdings:
        first, last = holding.places(grid)
        inside = slice(max(0, first), max(0, last))
        shares[inside] = np.minimum(1.0, shares[inside] + holding.share_ratio)
    held = np.maximum(shares, used)
    if device.is_shareable:
        held = np.where(shares > 0, shares, used)
        active = np.minimum(active, held)
    return GpuCounts(grid, device.device.capacity_ratio * np.stack((present, held, active)))
