"""Blocks and distributions of day frames, worked out when they are asked for.

Of blocks of five minutes, an hour stands for its twelve. What was used of each resource is as it is
exported, or made up of means and peaks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Final

import numpy as np

from rightsizer.fleet.cache.day_codec import lifted
from rightsizer.fleet.cache.day_frame import DayFrame, Floats
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure, Series
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.histogram import BINS, Histogram
from rightsizer.model.state import IDLE_STATES, Resource, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_TENTHS: Final = 10
_SPAN_TENTHS: Final = BLOCK_SPAN / NANOSECONDS_PER_SECOND * _TENTHS
_MOST: Final = 65504.0
"""The largest half float."""
_UNITS: Final = {Measure.MEMORY_BYTES: 2.0**30}
_RECORD: Final = np.dtype(
    [("number", ">u4"), ("tenths", ">u2"), ("halves", ">f2", 2 * len(Measure))]
)
"""Of one block, as `Blocks` keep it."""
_Day = tuple[DayFrame, Floats]
"""A frame with the part of each interval that is known, 0 to 1."""


def blocks_of(days: Iterable[_Day]) -> Blocks:
    """The blocks of some days, oldest first."""
    found = [b""]
    for frame, parts in days:
        each, known = frame.grid.step // BLOCK_SPAN, parts > 0
        halves = [half for measure in Measure for half in _halves(frame, measure)]
        records = np.zeros(int(known.sum()) * each, _RECORD)
        records["number"] = _numbers(frame, known)
        records["tenths"] = np.repeat((parts[known] * _SPAN_TENTHS + 0.5).astype(int), each)
        records["halves"] = np.repeat(np.stack(halves, axis=1)[known], each, axis=0)
        found.append(records.tobytes())
    return Blocks(b"".join(found))


def series_of(days: Iterable[_Day], measure: Measure) -> Series:
    """What `blocks_of(days).series(measure)` is, without the bytes of the other measures."""
    unit = _UNITS.get(measure, 1.0)
    found: list[tuple[Floats, ...]] = [_NO_BLOCKS]
    for frame, parts in days:
        means, peaks = (half.astype(float) * unit for half in _halves(frame, measure))
        known = (parts > 0) & ~np.isnan(means)
        seconds = np.floor(parts * _SPAN_TENTHS + 0.5) / _TENTHS
        # An hour stands for all of its blocks.
        each = frame.grid.step // BLOCK_SPAN
        repeated = (np.repeat(column[known], each) for column in (seconds, means, peaks))
        found.append((_numbers(frame, known), *repeated))
    numbers, *columns = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if len(numbers) and numbers[-1] - numbers[0] + 1 == len(numbers):
        # Nothing is missing: a range takes no memory.
        whole = range(int(numbers[0]), int(numbers[-1]) + 1)
        return Series(whole, *(column.tolist() for column in columns))
    return Series(*(column.tolist() for column in (numbers, *columns)))


_NO_BLOCKS: Final = (np.zeros(0, int), np.zeros(0), np.zeros(0), np.zeros(0))


def _numbers(frame: DayFrame, known: Floats) -> Floats:
    """Of the blocks of some intervals."""
    each, first = frame.grid.step // BLOCK_SPAN, frame.grid.start // BLOCK_SPAN
    return (first + each * np.flatnonzero(known)[:, None] + np.arange(each)).ravel()


def _halves(frame: DayFrame, measure: Measure) -> tuple[Floats, Floats]:
    """Means and peaks as half floats, `nan` where either is unknown."""
    means, peaks = frame.column(f"mean:{measure}"), frame.column(f"peak:{measure}")
    if means is None or peaks is None:  # A mean says nothing of what is needed at most.
        unknown = np.full(frame.grid.count, np.nan, np.float16)
        return unknown, unknown
    unit, is_known = _UNITS.get(measure, 1.0), ~(np.isnan(means) | np.isnan(peaks))
    both = (np.minimum(each / unit, _MOST) for each in (means, lifted(peaks)))
    found, most = (np.where(is_known, each, np.nan).astype(np.float16) for each in both)
    return found, most


class BlockColumns:
    """All blocks of frames with the known part of each interval; a measure is computed once."""

    def __init__(self, days: Sequence[_Day]) -> None:
        self.days = days
        self.series = cache(partial(series_of, days))
        """All of a measure."""


class CachedBlocks(Blocks):
    """The blocks that begin in a span of time; those of the same columns and span are equal."""

    __slots__ = ("_identity",)
    _identity: tuple[BlockColumns, int, int]

    def __init__(self, columns: BlockColumns, start: Nanoseconds, end: Nanoseconds) -> None:
        identity = columns, -(-start // BLOCK_SPAN), -(-end // BLOCK_SPAN)
        object.__setattr__(self, "_identity", identity)  # As a frozen dataclass does it.

    @property
    def data(self) -> bytes:
        """As `Blocks` keep them."""
        columns, first, last = self._identity
        return blocks_of(columns.days).between(first * BLOCK_SPAN, last * BLOCK_SPAN).data

    def series(self, measure: Measure) -> Series:
        """One measure by columns."""
        columns, first, last = self._identity
        found = columns.series(measure)
        low, high = (bisect_left(found.numbers, each) for each in (first, last))
        if low == 0 and high == len(found.numbers):
            return found
        inside = slice(low, high)
        known, means, peaks = (column[inside] for column in found[1:])
        return Series(found.numbers[inside], known, means, peaks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CachedBlocks) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


_ROUNDING: Final = 1e-9
_RESOURCES: Final = {
    Resource.COMPUTE: Measure.COMPUTE,
    Resource.MEMORY: Measure.MEMORY,
    Resource.MEMORY_BANDWIDTH: Measure.MEMORY_BANDWIDTH,
    Resource.PCIE: Measure.PCIE,
    Resource.NVLINK: Measure.NVLINK,
}
_EMPTY: Final = (f"state:{State.IDLE_EMPTY}",)
_IDLE: Final = tuple(f"state:{state}" for state in sorted(IDLE_STATES))
_NO_POINTS: Final = np.zeros((0, 2)), np.zeros((0, 2), int)


def histogram_of(weights: Floats) -> Histogram:
    """The histogram of some weights by percent."""
    used = np.flatnonzero(weights > 0)
    return Histogram(dict(zip(used.tolist(), weights[used].tolist(), strict=True)))


@dataclass(slots=True)
class Demands:
    """Distributions that are still being added up, as weights by percent."""

    exported: dict[Resource, Floats] = field(default_factory=dict)
    """Over all known time, idle time included."""
    estimated: dict[Resource, Floats] = field(default_factory=dict)
    """Over the active time, for memory over the held time."""
    compute_at_least: Floats = field(default_factory=lambda: np.zeros(BINS))

    def add(self, other: Demands) -> None:
        """Add those of other intervals."""
        for mine, others in ((self.exported, other.exported), (self.estimated, other.estimated)):
            for resource, weights in others.items():
                mine[resource] = mine.get(resource, 0.0) + weights
        self.compute_at_least = self.compute_at_least + other.compute_at_least

    def by_resource(self, states: Mapping[State, Nanoseconds]) -> dict[Resource, Histogram]:
        """The distributions over the active time, for memory over the held time, by time by state.

        While a device idles it uses nothing, so idle time is what lies lowest.
        """
        known = sum(states.values()) - states.get(State.UNKNOWN, 0)
        found = dict(self.estimated)
        for resource, weights in self.exported.items():
            idle = (State.IDLE_EMPTY,) if resource is Resource.MEMORY else IDLE_STATES
            time = sum(states.get(state, 0) for state in idle)
            away = weights.sum() * time / known if known else 0.0
            active = np.clip(np.cumsum(weights) - away, 0.0, weights)
            found[resource] = active + found.get(resource, 0.0)
        return {resource: histogram_of(each) for resource, each in found.items() if each.any()}


class DayDemands:
    """What was used of each resource over any intervals of a frame, from its known seconds."""

    def __init__(self, frame: DayFrame, known: Floats, settings: DemandSettings) -> None:
        self._frame, self._known, self._settings = frame, known, settings
        self._total = float(known.sum())
        self._points = cache(self._points_of)
        self._exported = cache(self._exported_weights)

    def over(self, first: int, last: int) -> Demands:
        """Those from an interval to another, `last` not included.

        Of a distribution that is exported they have their part.
        """
        found = Demands()
        part = float(self._known[first:last].sum()) / self._total if self._total > 0 else 0.0
        for resource, weights in self._exported().items():
            found.exported[resource] = weights * min(1.0, part)
        for resource, measure in _RESOURCES.items():
            if resource not in self._frame.demands:
                found.estimated[resource] = self._weights(measure, first, last)
        found.compute_at_least = self._weights(Measure.COMPUTE_AT_LEAST, first, last)
        return found

    def _exported_weights(self) -> dict[Resource, Floats]:
        found = {resource: np.zeros(BINS) for resource in self._frame.demands}
        for resource, histogram in self._frame.demands.items():
            bins = dict(histogram.items())
            found[resource][[*bins]] = [*bins.values()]
        return found

    def _weights(self, measure: Measure, first: int, last: int) -> Floats:
        times, bins = (each[first:last].ravel() for each in self._points(measure))
        return np.bincount(bins, times, BINS) * NANOSECONDS_PER_SECOND

    def _points_of(self, measure: Measure) -> tuple[Floats, Floats]:
        """Of each interval, times at its peak and below, and the bins of peak and what is left."""
        means = self._frame.column(f"mean:{measure}")
        if means is None:
            return _NO_POINTS
        peaks = self._frame.column(f"peak:{measure}")
        peaks = means if peaks is None else peaks
        time = self._time_without(_EMPTY if measure is Measure.MEMORY else _IDLE)
        # Nothing that is unknown is more than 0.
        counts = (time > 0) & (peaks >= 0) & (means >= 0)
        time, known, means, peaks = (
            np.where(counts, each, 0.0) for each in (time, self._known, means, peaks)
        )
        left = np.minimum(means * known / np.where(counts, time, 1.0), peaks)
        share = self._settings.peak_share_ratio
        bins = (bins_of(peaks), bins_of(left))
        return np.stack((time * share, time * (1.0 - share)), 1), np.stack(bins, 1)

    def _time_without(self, states: Sequence[str]) -> Floats:
        """Known seconds of each interval without those of some states."""
        columns = (self._frame.column(state) for state in states)
        return self._known - sum(column for column in columns if column is not None)


def bins_of(values: Floats) -> Floats:
    """The bin of each of some ratios, as `Histogram.add` tells it."""
    scaled = np.minimum(values * (BINS - 1) - _ROUNDING, BINS - 2)
    return np.where(scaled <= 0, 0, scaled.astype(int) + 1)
