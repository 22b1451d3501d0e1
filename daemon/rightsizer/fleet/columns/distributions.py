"""Distributions of the use of each resource, of many subjects at once."""

from __future__ import annotations

import math
from collections.abc import Callable, ItemsView, Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

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
    Histogram,
    Measure,
    Resource,
    State,
)

_ROUNDING: Final = 1e-9
_MEASURES: Final[Mapping[Resource | None, Measure]] = {
    Resource.COMPUTE: Measure.COMPUTE,
    Resource.MEMORY: Measure.MEMORY,
    Resource.MEMORY_BANDWIDTH: Measure.MEMORY_BANDWIDTH,
    Resource.PCIE: Measure.PCIE,
    Resource.NVLINK: Measure.NVLINK,
    None: Measure.COMPUTE_AT_LEAST,
}


def histogram_of(weights: Floats) -> Histogram:
    """Build a histogram from weights by percent."""
    used = np.flatnonzero(weights > 0)
    return Histogram(dict(zip(used.tolist(), weights[used].tolist(), strict=True)))


class UseDistribution(Struct, frozen=True):
    """Distribution of a subject's use of a resource, summed when first read."""

    summed: Callable[[], UseDistributions]
    subject: int

    @property
    def total(self) -> float:
        """As in `Histogram`."""
        return float(self.summed().totals[self.subject])

    def quantile(self, share: float) -> float | None:
        """As in `Histogram`."""
        return self._told(self.summed().quantiles(share))

    def mean(self) -> float | None:
        """As in `Histogram`."""
        return self._histogram.mean()

    def maximum(self) -> float | None:
        """As in `Histogram`."""
        return self._told(self.summed().maxima)

    def items(self) -> ItemsView[int, float]:
        """As in `Histogram`."""
        return self._histogram.items()

    def _told(self, values: Floats) -> float | None:
        value = float(values[self.subject])
        return None if math.isnan(value) else value

    @property
    def _histogram(self) -> Histogram:
        return histogram_of(self.summed().weights[self.subject])

    def __reduce__(self) -> tuple[type[Histogram], tuple[dict[int, float]]]:
        """Pickle the weights, in place of what sums them."""
        return Histogram, (dict(self.items()),)


class UseDistributions:
    """Distributions of many subjects' use of a resource, whose quantiles are computed at once.

    `weights` are by subject and percent.
    """

    def __init__(self, weights: Floats) -> None:
        self.weights = weights
        is_used = weights > 0
        self.is_known: Floats = np.asarray(is_used.any(axis=1))
        """Which subjects have one."""
        self._first = is_used.argmax(axis=1)
        self._reached = np.cumsum(weights, axis=1)
        self.totals = self._reached[:, -1]
        """Weight by subject."""
        last = BINS - 1 - is_used[:, ::-1].argmax(axis=1)
        self.maxima = self._by_subject(last)
        """Maximum by subject; `nan` if unknown."""
        self._quantiles: dict[float, Floats] = {}

    def quantiles(self, share: float) -> Floats:
        """Return a quantile by subject, as in `Histogram`; `nan` if unknown."""
        if share not in self._quantiles:
            target = share * self._reached[:, -1:] * (1 - PRECISION)
            place = (self._reached >= target).argmax(axis=1)
            self._quantiles[share] = self._by_subject(np.maximum(place, self._first))
        return self._quantiles[share]

    def _by_subject(self, bins: Floats) -> Floats:
        return np.where(self.is_known, bins / (BINS - 1), np.nan)


class Demands(NamedTuple):
    """Use of a resource by many subjects, by subject and percent."""

    exported: Floats | float
    """Over all known time, idle time included."""
    estimated: Floats
    """Over active time; for memory over held time."""


class SegmentDemands:
    """Use of each resource over intervals of a segment, by known seconds."""

    def __init__(self, segment: Segment, settings: DemandSettings) -> None:
        self._segment = segment
        self._settings = settings
        self._parts: dict[tuple[int, int], Floats] = {}
        self._points: dict[Resource | None, tuple[Floats, Floats, Floats] | None] = {}

    def over(self, resource: Resource | None, first: int, last: int) -> Demands:
        """Return the use of a resource from one interval to another, exclusive.

        `None` is compute's lower bound. Exported distributions of a day are included
        proportionally.
        """
        size = len(self._segment.known)
        weights: Floats = np.zeros((size, BINS))
        if resource not in self._points:
            self._points[resource] = self._points_of(resource)
        if (points := self._points[resource]) is not None:
            share = self._settings.peak_share_ratio
            times, peaks, left = (point[:, first:last].ravel() for point in points)
            binned = share * np.bincount(peaks, times, size * BINS)
            binned += (1.0 - share) * np.bincount(left, times, size * BINS)
            weights = binned.reshape(size, BINS) * NANOSECONDS_PER_SECOND
        return Demands(self._exported(resource, first, last), weights)

    def _exported(self, resource: Resource | None, first: int, last: int) -> Floats | float:
        exported = self._segment.exported
        if resource is None or resource not in exported:
            return 0.0
        if (first, last) not in self._parts:
            self._parts[first, last] = self._parts_of_days(first, last)
        return np.asarray(np.einsum("sd,sdb->sb", self._parts[first, last], exported[resource]))

    def _parts_of_days(self, first: int, last: int) -> Floats:
        """Return the part of the known time of each day between intervals, by subject."""
        known = self._segment.known
        inside = np.zeros_like(known)
        inside[:, first:last] = known[:, first:last]
        shape = len(known), self._segment.grid.days, -1
        whole, parts = (seconds.reshape(shape).sum(axis=2) for seconds in (known, inside))
        return np.asarray(np.minimum(1.0, parts / np.where(whole > 0, whole, np.inf)))

    def _points_of(self, resource: Resource | None) -> tuple[Floats, Floats, Floats] | None:
        """Return times by subject and interval, with bins at peak and below; `None` if unknown.

        Bins of subjects are consecutive. Exported distributions take precedence.
        """
        segment = self._segment
        measure = _MEASURES.get(resource)
        column = None if measure is None else segment.column(ColumnKind.MEAN.column(measure))
        if measure is None or column is None:
            return None
        means = column.astype(float)
        peaks = segment.column(ColumnKind.PEAK.column(measure))
        peaks = means if peaks is None else np.where(np.isnan(peaks), means, peaks)
        time = self._held if measure is Measure.MEMORY else self._active
        # Comparisons with unknown values are false.
        counts = (time > 0) & (peaks >= 0) & (means >= 0)
        if resource is not None and resource in segment.exported:
            is_exported = (segment.exported[resource] > 0).any(axis=2)
            counts &= ~np.repeat(is_exported, segment.intervals_a_day, axis=1)
        left = np.minimum(means * segment.known / np.where(counts, time, 1.0), peaks)
        begins = np.arange(len(segment.known))[:, None] * BINS
        peak_bins, left_bins = (
            bins_of(np.where(counts, values, 0.0)) + begins for values in (peaks, left)
        )
        return np.where(counts, time, 0.0), peak_bins, left_bins

    @cached_property
    def _held(self) -> Floats:
        return self._time_without([State.IDLE_EMPTY])

    @cached_property
    def _active(self) -> Floats:
        return self._time_without(sorted(IDLE_STATES))

    def _time_without(self, states: Iterable[State]) -> Floats:
        """Return known seconds of each interval outside of some states."""
        time = self._segment.known
        for column in map(self._segment.column, map(ColumnKind.STATE.column, states)):
            if column is not None:
                time = time - np.fmax(column, 0.0)
        return time


def bins_of(values: Floats) -> Floats:
    """Return the bins of ratios, as in `Histogram.add`."""
    bins = np.ceil(np.minimum(values, 1.0) * (BINS - 1) - _ROUNDING)
    return np.maximum(bins, 0.0).astype(int)
