"""Distributions of the use of each resource, of many subjects at once."""

from __future__ import annotations

from collections.abc import ItemsView, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct

from rightsizer.fleet.cache.day_frame import ColumnKind, Floats
from rightsizer.fleet.columns.segment import Segment
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.values import (
    BINS,
    IDLE_STATES,
    NANOSECONDS_PER_SECOND,
    PRECISION,
    Distribution,
    Histogram,
    Measure,
    Resource,
    State,
)

_ROUNDING: Final = 1e-9
_RESOURCES: Final = {
    Measure.COMPUTE: Resource.COMPUTE,
    Measure.MEMORY: Resource.MEMORY,
    Measure.MEMORY_BANDWIDTH: Resource.MEMORY_BANDWIDTH,
    Measure.PCIE: Resource.PCIE,
    Measure.NVLINK: Resource.NVLINK,
    Measure.COMPUTE_AT_LEAST: None,
}
_RESOURCES_BY_ROW: Final = (*Resource, None)
"""Resource of each distribution; the last is compute's lower bound."""
_ROWS: Final = {resource: row for row, resource in enumerate(_RESOURCES_BY_ROW)}
_IDLE: Final = tuple(
    tuple(ColumnKind.STATE.column(state) for state in states)
    for states in ((State.IDLE_EMPTY,), sorted(IDLE_STATES))
)
"""States without use, for memory and for other resources."""


def histogram_of(weights: Floats) -> Histogram:
    """Build a histogram from weights by percent."""
    used = np.flatnonzero(weights > 0)
    return Histogram(dict(zip(used.tolist(), weights[used].tolist(), strict=True)))


Distributions = tuple[Mapping[Resource, Distribution], Distribution]
"""Use of each resource, and compute's lower bound."""


class TableDistribution(Struct, frozen=True):
    """Distribution of a subject in a table."""

    table: DistributionTable
    subject: int
    place: int

    @property
    def total(self) -> float:
        """As in `Histogram`."""
        return self.table.totals[self.subject][self.place]

    def quantile(self, share: float) -> float | None:
        """As in `Histogram`."""
        return self.table.quantiles(share)[self.subject][self.place]

    def mean(self) -> float | None:
        """As in `Histogram`."""
        return self._histogram.mean()

    def maximum(self) -> float | None:
        """As in `Histogram`."""
        return self.table.maxima[self.subject][self.place]

    def items(self) -> ItemsView[int, float]:
        """As in `Histogram`."""
        return self._histogram.items()

    @property
    def _histogram(self) -> Histogram:
        return histogram_of(self.table.weights[self.subject, self.place])


class DistributionTable:
    """Distributions of many subjects, whose quantiles are computed at once.

    `weights` are by subject, row of `_ROWS` and percent.
    """

    def __init__(self, weights: Floats) -> None:
        self._rows = np.flatnonzero((weights > 0).any(axis=(0, 2))).tolist()
        self.weights = weights[:, self._rows]
        is_used = self.weights > 0
        self._is_used: list[list[bool]] = np.asarray(is_used.any(axis=2)).tolist()
        self._first = is_used.argmax(axis=2)
        last = BINS - 1 - is_used[:, :, ::-1].argmax(axis=2)
        self.maxima: list[list[float]] = (last / (BINS - 1)).tolist()
        self._reached = np.cumsum(self.weights, axis=2)
        self.totals: list[list[float]] = self._reached[:, :, -1].tolist()
        self._quantiles: dict[float, list[list[float]]] = {}

    def quantiles(self, share: float) -> list[list[float]]:
        """Return a quantile of each distribution, by subject and resource, as in `Histogram`."""
        if share not in self._quantiles:
            target = share * self._reached[:, :, -1:] * (1 - PRECISION)
            place = (self._reached >= target).argmax(axis=2)
            quantiles = np.maximum(place, self._first) / (BINS - 1)
            self._quantiles[share] = quantiles.tolist()
        return self._quantiles[share]

    def is_known(self, resource: Resource | None) -> Floats:
        """Return which subjects have a distribution of a resource."""
        return self.total_of(resource) > 0.0

    def total_of(self, resource: Resource | None) -> Floats:
        """Return the weight of a resource by subject; `None` is compute's lower bound."""
        return self._of(resource, self._reached[:, :, -1], 0.0)

    def maximum_of(self, resource: Resource | None) -> Floats:
        """Return the maximum of a resource by subject; `nan` if unknown."""
        return self._of(resource, np.array(self.maxima), np.nan)

    def quantile_of(self, resource: Resource | None, share: float) -> Floats:
        """Return a quantile of a resource by subject; `nan` if unknown."""
        return self._of(resource, np.array(self.quantiles(share)), np.nan)

    def _of(self, resource: Resource | None, values: Floats, blank: float) -> Floats:
        if (row := _ROWS[resource]) not in self._rows:
            return np.full(len(self.weights), blank)
        place = self._rows.index(row)
        is_used = self.weights[:, place].any(axis=1)
        return np.where(is_used, values[:, place], blank)

    def of(self, subject: int) -> Distributions:
        """Return the distributions of a subject that are not empty."""
        distributions: dict[Resource | None, Distribution] = {
            _RESOURCES_BY_ROW[row]: TableDistribution(self, subject, place)
            for place, row in enumerate(self._rows)
            if self._is_used[subject][place]
        }
        at_least = distributions.pop(None, None) or Histogram()
        return {
            resource: one for resource, one in distributions.items() if resource is not None
        }, at_least


class Demands(Struct, frozen=True):
    """Distributions of many subjects, by subject, row of `_ROWS` and percent."""

    exported: Floats
    """Over all known time, idle time included."""
    estimated: Floats
    """Over active time; for memory over held time."""

    @classmethod
    def summed(cls, parts: Sequence[Demands], size: int) -> Demands:
        """Sum those of several parts of a span, of as many subjects."""
        exported = sum((part.exported for part in parts), np.zeros((size, 1, 1)))
        estimated = sum((part.estimated for part in parts), np.zeros((size, len(_ROWS), BINS)))
        return cls(np.asarray(exported), np.asarray(estimated))

    def without_idle(self, known_time: Floats, idle: Floats, empty: Floats) -> DistributionTable:
        """Return the distributions over active (memory: held) time, given times by subject.

        An idle device uses nothing, so idle time is the lowest part.
        """
        if not self.exported.any():
            return DistributionTable(self.estimated)
        exported = np.where(known_time[:, None, None] > 0, self.exported, 0.0)
        unused = np.repeat(idle[:, None], len(_ROWS), axis=1)
        unused[:, _ROWS[Resource.MEMORY]] = empty
        away = exported.sum(axis=2) * unused / np.maximum(1.0, known_time)[:, None]
        below = np.cumsum(exported, axis=2) - away[:, :, None]
        return DistributionTable(np.clip(below, 0.0, exported) + self.estimated)


class SegmentDemands:
    """Use of each resource over intervals of a segment, by known seconds."""

    def __init__(self, segment: Segment, settings: DemandSettings) -> None:
        self._segment = segment
        self._settings = settings

    def over(self, first: int, last: int) -> Demands:
        """Return the distributions of each subject from one interval to another, exclusive.

        Exported distributions of a day are included proportionally.
        """
        size = len(self._segment.known)
        share = self._settings.peak_share_ratio
        weights = np.zeros((size, len(_ROWS), BINS))
        for row, points in self._points.items():
            times, peaks, left = (point[:, first:last].ravel() for point in points)
            binned = share * np.bincount(peaks, times, size * BINS)
            binned += (1.0 - share) * np.bincount(left, times, size * BINS)
            weights[:, row] = binned.reshape(size, BINS) * NANOSECONDS_PER_SECOND
        return Demands(self._exported(first, last), weights)

    def _exported(self, first: int, last: int) -> Floats:
        segment = self._segment
        if not segment.exported:
            return np.zeros((len(segment.known), 1, 1))
        by_day = segment.known.reshape(len(segment.known), segment.grid.days, -1)
        inside = np.zeros(segment.grid.count, bool)
        inside[first:last] = True
        whole = by_day.sum(axis=2)
        parts = (by_day * inside.reshape(by_day.shape[1:])).sum(axis=2)
        parts = np.minimum(1.0, parts / np.where(whole > 0, whole, np.inf))
        exported = np.zeros((len(segment.known), len(_ROWS), BINS))
        for resource, weights in segment.exported.items():
            exported[:, _ROWS[resource]] = np.einsum("sd,sdb->sb", parts, weights)
        return exported

    @cached_property
    def _points(self) -> dict[int, tuple[Floats, Floats, Floats]]:
        """Return, by row of `_ROWS`, times by subject and interval, with bins at peak and below.

        Bins of subjects are consecutive. Exported distributions take precedence.
        """
        segment = self._segment
        begins = np.arange(len(segment.known))[:, None] * BINS
        held, active = map(self._time_without, _IDLE)
        points: dict[int, tuple[Floats, Floats, Floats]] = {}
        for measure, resource in _RESOURCES.items():
            if (column := segment.column(ColumnKind.MEAN.column(measure))) is None:
                continue
            means = column.astype(float)
            peaks = segment.column(ColumnKind.PEAK.column(measure))
            peaks = means if peaks is None else np.where(np.isnan(peaks), means, peaks)
            time = held if measure is Measure.MEMORY else active
            # Comparisons with unknown values are false.
            counts = (time > 0) & (peaks >= 0) & (means >= 0)
            if resource is not None and resource in segment.exported:
                is_exported = (segment.exported[resource] > 0).any(axis=2)
                counts &= ~np.repeat(is_exported, segment.intervals_a_day, axis=1)
            left = np.minimum(means * segment.known / np.where(counts, time, 1.0), peaks)
            peak_bins, left_bins = (
                bins_of(np.where(counts, values, 0.0)) + begins for values in (peaks, left)
            )
            points[_ROWS[resource]] = np.where(counts, time, 0.0), peak_bins, left_bins
        return points

    def _time_without(self, states: Sequence[str]) -> Floats:
        """Return known seconds of each interval outside of some states."""
        time = self._segment.known
        for column in map(self._segment.column, states):
            if column is not None:
                time = time - np.fmax(column, 0.0)
        return time


def bins_of(values: Floats) -> Floats:
    """Return the bins of ratios, as in `Histogram.add`."""
    bins = np.ceil(np.minimum(values, 1.0) * (BINS - 1) - _ROUNDING)
    return np.maximum(bins, 0.0).astype(int)
