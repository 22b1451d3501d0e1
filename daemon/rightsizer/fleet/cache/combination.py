"""Combination of devices into a subject's days, and of sources into a device's days."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Final

import numpy as np
from msgspec import Struct

from rightsizer.fleet.cache.day_cache import CachedFrame, HoldingRow, rows_by_day
from rightsizer.fleet.cache.day_frame import (
    DEVICES,
    ColumnKind,
    DayFrame,
    Floats,
    FrameLayout,
    frames_by_day,
    kind_of,
    zero_where_unknown,
)
from rightsizer.fleet.cache.grid import COARSE_STEP, FINE_STEP, Grid
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Resource


def by_the_hour(frame: DayFrame, first: int = 0, last: int | None = None) -> DayFrame:
    """Reduce days to hours: seconds and joules summed, means by known time, maximum peaks.

    Intervals outside of `first` to `last`, inclusive, are unknown.
    """
    if frame.grid.step == COARSE_STEP:
        return frame
    grid = frame.grid.by(COARSE_STEP)
    layout = frame.layout
    values = np.full(frame.values.shape, np.nan)
    known = np.zeros(frame.grid.count)
    inside = slice(first, frame.grid.count if last is None else last + 1)
    values[:, inside] = frame.values[:, inside]
    known[inside] = frame.known_seconds()[inside]
    found = np.empty((len(layout.columns), grid.count))
    for places, kind in layout.kinds:
        found[places] = hourly(kind, values[places], known)
    return DayFrame(grid, layout, found.astype(np.float32), frame.demands)


def hourly(kind: ColumnKind, values: Floats, known: Floats) -> Floats:
    """Reduce five-minute values to hours along the last axis, weighted by known time."""
    parts, time = (each.reshape(*each.shape[:-1], -1, _FINE_OF_HOUR) for each in (values, known))
    is_known = ~np.isnan(parts)
    if kind is ColumnKind.PEAK:
        return np.fmax.reduce(parts, axis=-1)
    parts = np.where(is_known, parts, 0.0)
    if kind is ColumnKind.COUNT:
        found = parts.sum(axis=-1) / parts.shape[-1]
    elif kind is ColumnKind.MEAN:
        weights = time * is_known
        # Without known time, use equal weights.
        weights = np.where(weights.sum(axis=-1, keepdims=True) > 0, weights, is_known)
        found = (parts * weights).sum(axis=-1) / np.maximum(weights.sum(axis=-1), _LEAST)
    else:
        found = parts.sum(axis=-1)
    return np.where(is_known.any(axis=-1), found, np.nan)


_LEAST: Final = 1e-300
"""Smallest divisor, to avoid division by zero."""
_FINE_OF_HOUR: Final = COARSE_STEP // FINE_STEP
_MEASURES: Final = frozenset({ColumnKind.MEAN, ColumnKind.PEAK})


class DevicePart(Struct, frozen=True):
    """Part of one device's day that belongs to a subject."""

    frame: DayFrame | None
    """`None` if nothing is known of the device."""
    grid: Grid
    first: int
    last: int
    """Inclusive."""
    share_ratio: float = 1.0

    @property
    def is_whole(self) -> bool:
        """Whether the whole day belongs to it."""
        return self.first == 0 and self.last == self.grid.count - 1 and self.share_ratio >= 1.0

    @property
    def inside(self) -> slice:
        """Its intervals."""
        return slice(self.first, self.last + 1)

    def by_the_hour(self) -> DevicePart:
        """Return the part by hours; a partial hour belongs to it proportionally."""
        if self.grid.step == COARSE_STEP:
            return self
        each = COARSE_STEP // self.grid.step
        first = self.first // each
        last = self.last // each
        # Cut off the other five-minute intervals before summing.
        frame = None if self.frame is None else by_the_hour(self.frame, self.first, self.last)
        return DevicePart(frame, self.grid.by(COARSE_STEP), first, last, self.share_ratio)

    def values(self, layout: FrameLayout) -> Floats:
        """Return its share of columns: 0 outside of it, `nan` for unknown measures."""
        found = np.zeros((len(layout.columns), self.grid.count), np.float32)
        found[layout.additive :, self.inside] = np.nan
        if self.frame is not None:
            mine, theirs = _common(layout, self.frame.layout)
            found[mine, self.inside] = self.frame.values[theirs, self.inside] * np.float32(
                min(1.0, self.share_ratio)
            )
        found[: layout.additive] = zero_where_unknown(found[: layout.additive])
        return found


@lru_cache(maxsize=256)
def _common(one: FrameLayout, other: FrameLayout) -> tuple[Floats, Floats]:
    """Return the row indices of the common columns in each layout."""
    columns = [column for column in one.columns if column in other.places]
    mine, theirs = ([layout.places[column] for column in columns] for layout in (one, other))
    return np.array(mine, int), np.array(theirs, int)


def combined(parts: Sequence[DevicePart]) -> DayFrame:
    """Combine the parts of a subject's day, with the number of its devices.

    Additive columns are summed over known devices; a measure is known only if it is known for all
    of them.
    """
    if len(parts) == 1 and parts[0].is_whole and parts[0].frame is not None:
        return parts[0].frame
    if len({part.grid.step for part in parts}) > 1:
        parts = [part.by_the_hour() for part in parts]
    grid = parts[0].grid
    layout = _shared(frozenset(part.frame.layout for part in parts if part.frame is not None))
    devices = np.zeros(grid.count, np.float32)
    demands: dict[Resource, Histogram] = {}
    values = np.zeros((len(layout.columns), grid.count), np.float32)
    means = layout.additive
    peaks = layout.additive + layout.means
    excesses = np.full((layout.means, grid.count), np.nan)
    for part in parts:
        devices[part.inside] += np.float32(part.share_ratio)
        own = part.values(layout)
        values += own
        # Peaks of the shared means, in the same order.
        excesses = np.fmax(excesses, own[peaks:].astype(float) - own[means:peaks])
        weight = part.share_ratio * (part.last + 1 - part.first) / part.grid.count
        for resource, histogram in part.frame.demands.items() if part.frame else ():
            mine = histogram if weight >= 1.0 else histogram.scaled(weight)
            demands.setdefault(resource, Histogram()).merge(mine)
    # Unknown values of a part already make the sum of means unknown.
    values[peaks:] = values[means:peaks] + excesses
    values[means:, devices == 0] = np.nan
    values[layout.places[DEVICES]] = devices
    return DayFrame(grid, layout, values, demands)


@lru_cache(maxsize=256)
def _shared(layouts: AbstractSet[FrameLayout]) -> FrameLayout:
    """Return the layout of devices, all additive columns, and measures known for all parts."""
    everywhere = (
        set.intersection(*(set(layout.columns) for layout in layouts)) if layouts else set()
    )
    columns = {column for layout in layouts for column in layout.columns}
    shared = {column for column in columns if kind_of(column) not in _MEASURES} | {DEVICES}
    for column in everywhere:
        mean = ColumnKind.MEAN.column(column.partition(":")[2])
        if kind_of(column) is ColumnKind.PEAK and mean in everywhere:
            shared |= {column, mean}
    return FrameLayout.of(sorted(shared))


def are_aligned(grids: Iterable[Grid]) -> bool:
    """Whether overlapping grids cover the same days."""
    spans = sorted({(grid.day, grid.day + grid.days) for grid in grids})
    return all(end <= start for (_, end), (start, _) in pairwise(spans))


def merged_frames(cached: Iterable[CachedFrame], sources: Sequence[str]) -> list[DayFrame]:
    """Merge a device's days, oldest first, into one frame per time.

    Days that several sources have are split; `sources` are in order of preference.
    """
    frames = list(cached)
    if len({frame.source for frame in frames}) > 1:
        frames = [
            frame._replace(frame=day) for frame in frames for day in frames_by_day([frame.frame])
        ]
        frames.sort(key=lambda frame: (frame.frame.grid.day, _rank(frame.source, sources)))
    by_day = groupby(frames, lambda frame: frame.frame.grid.day)
    return [_merged([frame.frame for frame in same]) for _, same in by_day]


def merged_holdings(rows: Iterable[HoldingRow], sources: Sequence[str]) -> list[HoldingRow]:
    """Return the holdings of each device and day by the first source that knows."""
    found: list[HoldingRow] = []
    for _, of_device in groupby(rows, lambda row: row.uuid):
        holding_rows = list(of_device)
        if len({row.source for row in holding_rows}) == 1:
            found += holding_rows
            continue
        holding_rows = sorted(
            rows_by_day(holding_rows), key=lambda row: (row.grid.day, _rank(row.source, sources))
        )
        for _, of_day in groupby(holding_rows, lambda row: row.grid.day):
            _, of_source = next(groupby(of_day, lambda row: row.source))
            found += of_source
    return found


def _rank(source: str, sources: Sequence[str]) -> tuple[int, str]:
    return (sources.index(source) if source in sources else len(sources)), source


def _merged(frames: Sequence[DayFrame]) -> DayFrame:
    """Take each column and distribution from the first frame that has it."""
    if len(frames) == 1:
        return frames[0]
    if len({frame.grid.step for frame in frames}) > 1:
        frames = [by_the_hour(frame) for frame in frames]
    columns: dict[str, Floats] = {}
    demands: dict[Resource, Histogram] = {}
    for frame in reversed(frames):
        columns |= frame.columns
        demands |= frame.demands
    return DayFrame.of(frames[0].grid, columns, demands)
