"""Columns of many subjects over all their days: devices from frames, workloads from devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

import numpy as np

from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.day_frame import (
    ColumnKind,
    DayFrame,
    Floats,
    FrameLayout,
    kind_of,
    zero_where_unknown,
)
from rightsizer.fleet.cache.grid import COARSE_STEP, Grid
from rightsizer.fleet.columns.distributions import SegmentDemands
from rightsizer.fleet.columns.segment import Segment, hourly
from rightsizer.fleet.columns.span_sums import SpanPart, SpanSums, is_of_this_version
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.values import BINS, Nanoseconds, Resource

_MEASURES: Final = (ColumnKind.MEAN, ColumnKind.PEAK)
_OF_TIME: Final = (
    ColumnKind.STATE,
    ColumnKind.SECOND_CAUSE,
    ColumnKind.TIER,
    ColumnKind.USED,
    ColumnKind.WASTE,
    ColumnKind.WASTE_JOULES,
)
"""Kinds whose columns divide an interval."""

HeldRow: TypeAlias = tuple[int, HoldingRow]
"""A device's row, with a part of it that a workload held."""


class SubjectColumns:
    """Columns of some subjects, each a row in all segments, which are in time order."""

    def __init__(
        self,
        layout: FrameLayout,
        segments: Sequence[Segment],
        size: int,
        settings: DemandSettings,
    ) -> None:
        self.layout = layout
        self.segments = tuple(segments)
        self.size = size
        self._settings = settings
        self._demands = [SegmentDemands(segment, settings) for segment in segments]
        self._hours: dict[tuple[str, int, int], Floats] = {}
        self._spans: dict[tuple[Nanoseconds, Nanoseconds, bool], SpanSums] = {}

    def only(self, row: int) -> SubjectColumns:
        """Return the columns of one subject."""
        segments = [segment.only(row) for segment in self.segments]
        return SubjectColumns(self.layout, segments, 1, self._settings)

    def over(self, start: Nanoseconds, end: Nanoseconds, *, of_devices: bool) -> SpanSums:
        """Return the sums of all intervals that begin in a span, each span summed once."""
        key = start, end, of_devices
        if key not in self._spans:
            parts = []
            for segment, demands in zip(self.segments, self._demands, strict=True):
                first, last = segment.grid.inside(start, end)
                if first < last:
                    parts.append(SpanPart(segment, demands, first, last))
            self._spans[key] = SpanSums(parts, self.layout, self.size, end, of_devices=of_devices)
        return self._spans[key]

    def hours(self, column: str, first: int, last: int) -> Floats:
        """Return a measure by subject, from one hour since the epoch to another, exclusive."""
        if (column, first, last) not in self._hours:
            values = np.full((self.size, max(0, last - first)), np.nan)
            for segment in self.segments:
                hours = segment.hours(column)
                begin = segment.grid.start // COARSE_STEP - first
                low = max(0, begin)
                high = min(values.shape[1], segment.grid.end // COARSE_STEP - first)
                if hours is not None and low < high:
                    values[:, low:high] = hours[:, low - begin : high - begin]
            self._hours[column, first, last] = values
        return self._hours[column, first, last]

    @cached_property
    def present(self) -> list[Floats]:
        """Where each segment tells of a subject, by subject and interval."""
        return [segment.present > 0 for segment in self.segments]

    def held(self, holders: Sequence[Sequence[HeldRow]]) -> SubjectColumns:
        """Return the columns of workloads, by their parts of the devices.

        Additive columns are summed over known devices; a measure is known only if it is known for
        all of them.
        """
        segments = [_held_segment(segment, holders) for segment in self.segments]
        return SubjectColumns(self.layout, segments, len(holders), self._settings)

    def is_held_throughout(self, row: int, holdings: Iterable[HoldingRow]) -> bool:
        """Whether holdings are all of a device whenever anything tells of it, which is known."""
        if not any(present[row].any() for present in self.present):
            return False
        for segment, present in zip(self.segments, self.present, strict=True):
            held = np.zeros(segment.grid.count)
            for holding in holdings:
                held[_inside(segment, row, holding)] += holding.share_ratio
            if (held[present[row]] < 1.0).any():
                return False
        return True


def columns_of(
    devices: Sequence[Sequence[DayFrame]], settings: DemandSettings, *, by_the_hour: bool = False
) -> list[tuple[SubjectColumns, int]]:
    """Arrange devices in columns; return those and the row of each.

    Frames of one time complete each other, the last first. Devices that are not read in the same
    steps are in different columns.
    """
    steps = [_steps_of(frames, by_the_hour=by_the_hour) for frames in devices]
    steps_by_day = defaultdict[int, set[Nanoseconds]](set)
    for step_by_day in steps:
        for day, step in step_by_day.items():
            steps_by_day[day].add(step)
    groups = defaultdict[tuple[tuple[int, Nanoseconds], ...], list[int]](list)
    for place, step_by_day in enumerate(steps):
        odd = sorted(day for day in step_by_day if len(steps_by_day[day]) > 1)
        groups[tuple((day, step_by_day[day]) for day in odd)].append(place)
    placed: dict[int, tuple[SubjectColumns, int]] = {}
    for places in groups.values():
        step_of = {day: step for place in places for day, step in steps[place].items()}
        columns = _arranged([devices[place] for place in places], step_of, settings)
        placed |= {place: (columns, row) for row, place in enumerate(places)}
    return [placed[place] for place in range(len(devices))]


def _steps_of(frames: Iterable[DayFrame], *, by_the_hour: bool) -> dict[int, Nanoseconds]:
    """Return the step of each day: the longest, if sources differ."""
    steps: dict[int, Nanoseconds] = {}
    for frame in frames:
        step = COARSE_STEP if by_the_hour else frame.grid.step
        for day in range(frame.grid.day, frame.grid.day + frame.grid.days):
            steps[day] = max(step, steps.get(day, 0))
    return steps


def _grids_of(steps: Mapping[int, Nanoseconds]) -> list[Grid]:
    """Return the grids of consecutive days in equal steps."""
    grids: list[Grid] = []
    for day, step in sorted(steps.items()):
        last = grids[-1] if grids else None
        if last is not None and last.step == step and last.day + last.days == day:
            grids[-1] = Grid(last.day, step, last.days + 1)
        else:
            grids.append(Grid(day, step))
    return grids


def _arranged(
    devices: Sequence[Sequence[DayFrame]],
    steps: Mapping[int, Nanoseconds],
    settings: DemandSettings,
) -> SubjectColumns:
    layouts = {frame.layout: None for frames in devices for frame in frames}
    columns = {column for layout in layouts for column in layout.columns}
    for column in frozenset(columns):
        if kind_of(column) in _MEASURES:  # Combined together.
            columns |= {kind.column(column.partition(":")[2]) for kind in _MEASURES}
    layout = FrameLayout.of(sorted(filter(is_of_this_version, columns)))
    arrays = [_SegmentArrays(grid, layout, len(devices)) for grid in _grids_of(steps)]
    array_of_day = {
        array.grid.day + day: array for array in arrays for day in range(array.grid.days)
    }
    for row, frames in enumerate(devices):
        for frame in frames:
            array_of_day[frame.grid.day].add(row, frame)
    segments = [array.segment() for array in arrays]
    return SubjectColumns(layout, segments, len(devices), settings)


class _SegmentArrays:
    """Arrays of a segment, filled frame by frame."""

    def __init__(self, grid: Grid, layout: FrameLayout, size: int) -> None:
        self.grid = grid
        self._layout = layout
        self._size = size
        self._values = np.full((size, len(layout.columns), grid.count), np.nan, np.float32)
        self._devices = np.zeros((size, grid.count), np.float32)
        self._exported: dict[Resource, Floats] = {}
        self._parts = [
            place
            for kind in _OF_TIME
            for place in range(len(layout.columns))[layout.slice_of(kind)]
        ]

    def add(self, row: int, frame: DayFrame) -> None:
        """Add what a source tells of a device; it takes precedence over the sources before."""
        if frame.grid.step != self.grid.step:
            frame = by_the_hour(frame)
        first = (frame.grid.start - self.grid.start) // self.grid.step
        inside = slice(first, first + frame.grid.count)
        ours, theirs = _common(self._layout, frame.layout)
        if len(ours) and self._devices[row, inside].any():
            values = np.full((len(self._layout.columns), frame.grid.count), np.nan, np.float32)
            values[ours] = frame.values[theirs]
            self._complete(row, inside, values)
        else:
            self._values[row, ours, inside] = frame.values[theirs]
        self._devices[row, inside] = 1.0
        if frame.demands:
            self._add_demands(row, frame)

    def _complete(self, row: int, inside: slice, values: Floats) -> None:
        """Write what a source tells over what others told."""
        is_told = ~np.isnan(values)
        # Parts of an interval are those of one source, and so are a mean and its peak.
        is_told[self._parts] |= is_told[[*self._layout.states]].any(axis=0)
        means, peaks = (self._layout.slice_of(kind) for kind in _MEASURES)
        is_told[peaks] |= is_told[means]
        self._values[row, :, inside] = np.where(is_told, values, self._values[row, :, inside])

    def _add_demands(self, row: int, frame: DayFrame) -> None:
        """Divide the distributions of several days by their known time."""
        known_by_day = frame.known_seconds().reshape(frame.grid.days, -1).sum(axis=1)
        if not known_by_day.any():
            return
        parts = known_by_day / known_by_day.sum()
        first = frame.grid.day - self.grid.day
        for resource, histogram in frame.demands.items():
            if resource not in self._exported:
                self._exported[resource] = np.zeros((self._size, self.grid.days, BINS))
            weights = np.zeros(BINS)
            bins = dict(histogram.items())
            weights[[*bins]] = [*bins.values()]
            days = slice(first, first + frame.grid.days)
            self._exported[resource][row, days] = parts[:, None] * weights

    def segment(self) -> Segment:
        """Return the segment."""
        return Segment(self.grid, self._layout, self._values, self._devices, self._exported)


@lru_cache(maxsize=256)
def _common(one: FrameLayout, other: FrameLayout) -> tuple[Floats, Floats]:
    """Return the places of the common columns in each layout."""
    columns = [column for column in other.columns if column in one.places]
    ours = [one.places[column] for column in columns]
    theirs = [other.places[column] for column in columns]
    return np.array(ours, int), np.array(theirs, int)


def by_the_hour(frame: DayFrame) -> DayFrame:
    """Reduce days to hours: seconds and joules summed, means by known time, maximum peaks."""
    known_seconds = frame.known_seconds()
    grid = frame.grid.by(COARSE_STEP)
    values = np.empty((len(frame.layout.columns), grid.count), np.float32)
    for kind, places in frame.layout.kinds.items():
        values[places] = hourly(kind, frame.values[places], known_seconds)
    return DayFrame(grid, frame.layout, values, frame.demands)


def _inside(segment: Segment, row: int, holding: HoldingRow) -> slice:
    """Return the intervals of a holding, up to the end of its days if nothing later is known."""
    count = segment.grid.count
    first, after = (max(0, min(count, place)) for place in holding.places(segment.grid))
    end = max(0, min(count, (holding.grid.end - segment.grid.start) // segment.grid.step))
    if after < end and not segment.known[row, after:end].any():
        after = end
    return slice(first, after)


def _held_segment(segment: Segment, holders: Sequence[Sequence[HeldRow]]) -> Segment:
    layout = segment.layout
    peaks = layout.additive + layout.means
    shape = len(holders), len(layout.columns), segment.grid.count
    values = np.zeros(shape, np.float32)
    devices = np.zeros((len(holders), segment.grid.count), np.float32)
    excesses = np.full((len(holders), layout.means, segment.grid.count), np.nan)
    exported = {
        resource: np.zeros((len(holders), segment.grid.days, BINS)) for resource in segment.exported
    }
    for subject, held_rows in enumerate(holders):
        for row, holding in held_rows:
            inside = _inside(segment, row, holding)
            if inside.start >= inside.stop:
                continue
            share = min(1.0, holding.share_ratio)
            devices[subject, inside] += holding.share_ratio
            part = segment.values[row, :, inside] * np.float32(share)
            part[: layout.additive] = zero_where_unknown(part[: layout.additive])
            values[subject, :, inside] += part
            excess = part[peaks:].astype(float) - part[layout.additive : peaks]
            excesses[subject, :, inside] = np.fmax(excesses[subject, :, inside], excess)
            _add_exported(exported, segment, (subject, row), inside, share)
    values[:, peaks:] = values[:, layout.additive : peaks] + excesses
    values[:, layout.additive :] = np.where(
        devices[:, None] == 0, np.nan, values[:, layout.additive :]
    )
    return Segment(segment.grid, layout, values, devices, exported)


def _add_exported(
    exported: Mapping[Resource, Floats],
    segment: Segment,
    rows: tuple[int, int],
    inside: slice,
    share: float,
) -> None:
    """Add a device's distributions by the part of each day that was held."""
    subject, row = rows
    for resource, weights in segment.exported.items():
        held = np.zeros(segment.grid.count)
        held[inside] = share
        parts = held.reshape(segment.grid.days, -1).mean(axis=1)
        exported[resource][subject] += parts[:, None] * weights[row]
