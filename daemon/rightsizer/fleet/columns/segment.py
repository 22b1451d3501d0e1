"""Segments: consecutive days of many subjects in equal steps, by subject, column and interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from rightsizer.fleet.cache.day_codec import lifted
from rightsizer.fleet.cache.day_frame import (
    IDLE_EMPTY_STATE,
    IDLE_HELD_STATE,
    UNKNOWN_STATE,
    ColumnKind,
    Floats,
    FrameLayout,
    kind_of,
    zero_where_unknown,
)
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY, FINE_STEP, Grid
from rightsizer.model.values import BLOCK_UNITS, NANOSECONDS_PER_SECOND, Measure, Resource

_MORE_THAN_ALL: Final = 1.0 + 1e-3
"""Tolerance for rounding; larger values are impossible."""
_FINE_OF_HOUR: Final = COARSE_STEP // FINE_STEP
_LARGEST: Final = 1e12
"""Seconds or joules of an interval that no store can mean: sums would lose all others."""
_LEAST: Final = 1e-300
"""Smallest divisor, to avoid division by zero."""
_LARGEST_HALF: Final = 65504.0
"""The largest half float."""


class Halves(NamedTuple):
    """Means and peaks of a measure as half floats; `nan` where either is unknown."""

    means: Floats
    peaks: Floats


class GpuUse(NamedTuple):
    """GPUs of each subject by interval."""

    present: Floats
    """1 where any series tells of it."""
    used: Floats
    """Share of the known time in which something was on it."""
    active: Floats
    """Neither idle nor unknown."""


class Segment:
    """Consecutive days of many subjects.

    Args:
        grid: Its days, in one step.
        layout: Order of the columns.
        values: By subject, column and interval; `nan` if unknown.
        devices: Number of devices by subject and interval.
        exported: Distributions by subject, day and percent, in nanoseconds; 0 where none is known.
    """

    def __init__(
        self,
        grid: Grid,
        layout: FrameLayout,
        values: Floats,
        devices: Floats,
        exported: Mapping[Resource, Floats],
    ) -> None:
        self.grid = grid
        self.layout = layout
        self.devices = devices
        self.exported = exported
        self.values = values
        self.additive = self._plausible()
        """The additive columns by subject, column and interval; 0 if unknown."""
        self.known = self.additive[:, [*layout.states]].sum(axis=1)
        """Known seconds by subject and interval, over all its devices."""
        self._cap()
        self._halves: dict[Measure, Halves] = {}

    def _plausible(self) -> Floats:
        """Drop amounts that no store can mean; return the others, 0 if unknown."""
        additive = self.values[:, : self.layout.additive]
        known_amounts = np.fmax(additive, 0.0, dtype=float)
        if known_amounts.size and known_amounts.max() >= _LARGEST:
            additive[known_amounts >= _LARGEST] = np.nan
            known_amounts[known_amounts >= _LARGEST] = 0.0
        return known_amounts

    def _cap(self) -> None:
        """Limit states to the interval's length, which `increase` may exceed by extrapolation."""
        limits = self._longest
        is_long = self.known > limits * _MORE_THAN_ALL
        if is_long.any():
            ratios = np.where(is_long, limits / np.where(is_long, self.known, 1.0), 1.0)
            for columns in (self.values, self.additive):
                columns[:, [*self.layout.states]] *= ratios[:, None]
            self.known[is_long] = limits[is_long]

    def only(self, row: int) -> Segment:
        """Return the segment of one subject."""
        rows = slice(row, row + 1)
        exported = {resource: weights[rows] for resource, weights in self.exported.items()}
        return Segment(self.grid, self.layout, self.values[rows], self.devices[rows], exported)

    def column(self, name: str) -> Floats | None:
        """Return a column by subject and interval; `None` if unknown of all."""
        place = self.layout.places.get(name)
        return None if place is None else self.values[:, place]

    def sums_over(self, first: int, last: int) -> Floats:
        """Return the sums by subject and additive column between intervals, the last exclusive."""
        # Of doubles, in the same order for one subject as for many.
        return self.additive[:, :, first:last].sum(axis=2)

    def sums_between(
        self, bounds: Iterable[tuple[int, int, int]], groups: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Return known seconds and the sums of groups of additive columns, for each of some bounds.

        These are a subject's row, its first interval and the one after the last.
        """
        columns = np.zeros((1 + len(groups), self.known.size + 1))
        columns[0, :-1] = self.known.ravel()
        for place, group in enumerate(groups, start=1):
            places = self.layout.places_of(*group)
            columns[place, :-1] = self.additive[:, places].sum(axis=1).ravel()
        count = self.grid.count
        ends = [row * count + place for row, *inside in bounds for place in inside]
        sums: list[list[float]] = np.add.reduceat(columns, ends, axis=1)[:, ::2].T.tolist()
        return sums

    @cached_property
    def present(self) -> Floats:
        """Seconds by subject and interval that series tell of, with known state or not."""
        unknown = self.column(UNKNOWN_STATE)
        return self.known if unknown is None else self.known + zero_where_unknown(unknown)

    @cached_property
    def use(self) -> GpuUse:
        """Use of the subjects, which are single devices."""
        empty, idle = (
            0.0 if column is None else zero_where_unknown(column)
            for column in map(self.column, (IDLE_EMPTY_STATE, IDLE_HELD_STATE))
        )
        is_known = self.known > 0
        step = self.grid.step / NANOSECONDS_PER_SECOND
        used = np.where(is_known, 1.0 - empty / np.where(is_known, self.known, np.inf), 0.0)
        active = np.maximum(0.0, self.known - empty - idle) / step
        return GpuUse(np.asarray(self.present > 0, float), used, active)

    @cached_property
    def known_parts(self) -> Floats:
        """Known share of each interval, 0 to 1."""
        longest = self._longest
        return np.minimum(1.0, self.known / np.where(longest > 0, longest, np.inf))

    @property
    def _longest(self) -> Floats:
        """Length of each interval in seconds, over all devices of a subject."""
        return self.grid.step / NANOSECONDS_PER_SECOND * self.devices.astype(float)

    def hours(self, column: str) -> Floats | None:
        """Return a column by subject and hour; `None` if unknown of all."""
        values = self.column(column)
        if values is None or self.grid.step == COARSE_STEP:
            return values
        return hourly(kind_of(column), values, self.known)

    def halves(self, measure: Measure) -> Halves:
        """Return a measure by subject and interval."""
        if measure not in self._halves:
            means, peaks = (
                self.column(kind.column(measure)) for kind in (ColumnKind.MEAN, ColumnKind.PEAK)
            )
            if means is None or peaks is None:  # A mean has no information on the peak.
                unknown = np.full(self.known.shape, np.nan, np.float16)
                self._halves[measure] = Halves(unknown, unknown)
            else:
                self._halves[measure] = _halves(means, peaks, BLOCK_UNITS.get(measure, 1.0))
        return self._halves[measure]

    @property
    def intervals_a_day(self) -> int:
        """Number of intervals of each day."""
        return DAY // self.grid.step


def _halves(means: Floats, peaks: Floats, unit: float) -> Halves:
    is_known = ~(np.isnan(means) | np.isnan(peaks))
    limited = (np.minimum(column / unit, _LARGEST_HALF) for column in (means, lifted(peaks)))
    return Halves(*(np.where(is_known, part, np.nan).astype(np.float16) for part in limited))


def hourly(kind: ColumnKind, values: Floats, known_seconds: Floats) -> Floats:
    """Reduce five-minute values to hours along the last axis, weighted by known time."""
    parts, time = (
        column.reshape(*column.shape[:-1], -1, _FINE_OF_HOUR) for column in (values, known_seconds)
    )
    is_known = ~np.isnan(parts)
    if kind is ColumnKind.PEAK:
        return np.fmax.reduce(parts, axis=-1)
    parts = np.where(is_known, parts, 0.0)
    if kind is ColumnKind.MEAN:
        weights = time * is_known
        # Without known time, use equal weights.
        weights = np.where(weights.sum(axis=-1, keepdims=True) > 0, weights, is_known)
        reduced = (parts * weights).sum(axis=-1) / np.maximum(weights.sum(axis=-1), _LEAST)
    else:
        reduced = parts.sum(axis=-1)
    return np.where(is_known.any(axis=-1), reduced, np.nan)
