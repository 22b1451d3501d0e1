"""Hourly figures of workloads and nodes, packed: GPUs present, held and active."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import COARSE_STEP, Grid
from rightsizer.fleet.columns.segment import Segment
from rightsizer.fleet.columns.subject import Subject
from rightsizer.fleet.columns.subject_columns import SubjectColumns
from rightsizer.fleet.model import HourlySeries
from rightsizer.fleet.usage import HeldDevice
from rightsizer.model.values import Nanoseconds


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
    values = subject.columns.hours(column, first, end // COARSE_STEP)[subject.row]
    return HourlySeries(first * COARSE_STEP, HourlyFigures(factor * values))


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
    def of(cls, devices: Iterable[HeldDevice]) -> NodeSums:
        """Sum devices."""
        sums = cls()
        by_columns = defaultdict[SubjectColumns, list[HeldDevice]](list)
        for held_device in devices:
            by_columns[held_device.subject.columns].append(held_device)
        for columns, of_columns in by_columns.items():
            of_nodes = defaultdict[tuple[str, str, str], list[int]](list)
            for place, (device, _, _) in enumerate(of_columns):
                of_nodes[device.pool, device.cluster, device.node].append(place)
            for segment in columns.segments:
                figures = _figures(segment, of_columns)
                for node, places in of_nodes.items():
                    days = sums.by_node.setdefault(node, {})
                    for day in GpuCounts(segment.grid, figures[:, places].sum(axis=1)).days:
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


def _figures(segment: Segment, devices: Sequence[HeldDevice]) -> Floats:
    """Return GPUs present, held and active by device and interval.

    Held is what a scheduler allocated, and what is in use otherwise.
    """
    rows = [subject.row for _, subject, _ in devices]
    present, used, active = (figures[rows] for figures in segment.use)
    shares = np.zeros(present.shape)
    for share, (_, _, holdings) in zip(shares, devices, strict=True):
        for holding in holdings:
            first, last = holding.places(segment.grid)
            share[max(0, first) : max(0, last)] += holding.share_ratio
    np.minimum(shares, 1.0, out=shares)
    ratios, shareable = (
        np.array(facts)[:, None]
        for facts in zip(
            *((device.device.capacity_ratio, device.is_shareable) for device, _, _ in devices),
            strict=True,
        )
    )
    held = np.where(shareable & (shares > 0), shares, np.maximum(shares, used))
    active = np.where(shareable, np.minimum(active, held), active)
    return np.stack((present, held, active)) * ratios
