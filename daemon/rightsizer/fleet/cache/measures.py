"""Blocks and distributions of day frames, worked out when they are asked for.

Of blocks of five minutes, an hour stands for its twelve. What was used of each resource is as it is
exported, or made up of means and peaks.
"""

from __future__ import annotations

import math
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import accumulate, chain, compress, pairwise
from math import isnan
from operator import add, mul, sub, truediv
from typing import Final, NamedTuple

from rightsizer.fleet.cache.day_codec import lifted
from rightsizer.fleet.cache.day_frame import DayFrame
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure, Series
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.histogram import BINS, Histogram, bin_of, bins_of
from rightsizer.model.state import IDLE_STATES, Resource, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_TENTHS: Final = 10
_SPAN_TENTHS: Final = BLOCK_SPAN / NANOSECONDS_PER_SECOND * _TENTHS
_MOST: Final = 65504.0
"""The largest half float."""
_UNITS: Final = {Measure.MEMORY_BYTES: 2.0**30}
_Day = tuple[DayFrame, Sequence[float]]
"""A frame with the part of each interval that is known, 0 to 1."""


def blocks_of(days: Iterable[_Day]) -> Blocks:
    """The blocks of some days, oldest first."""
    records: list[bytes] = []
    for frame, parts in days:
        each, first = frame.grid.step // BLOCK_SPAN, frame.grid.start // BLOCK_SPAN
        halves = [half for measure in Measure for half in _halves(frame, measure)]
        for place, part in enumerate(parts):
            if part:
                values = b"".join(half[2 * place : 2 * place + 2] for half in halves)
                rest = struct.pack(">H", int(part * _SPAN_TENTHS + 0.5)) + values
                number = first + place * each
                records += [at.to_bytes(4, "big") + rest for at in range(number, number + each)]
    return Blocks(b"".join(records))


def series_of(days: Iterable[_Day], measure: Measure) -> Series:
    """What `blocks_of(days).series(measure)` is, without the bytes of the other measures."""
    runs: list[range] = []
    columns: tuple[list[float], ...] = ([], [], [])
    unit = _UNITS.get(measure)
    means: Sequence[float]
    peaks: Sequence[float]
    for frame, parts in days:
        each, first = frame.grid.step // BLOCK_SPAN, frame.grid.start // BLOCK_SPAN
        means, peaks = (
            struct.unpack(f">{len(half) // 2}e", half) for half in _halves(frame, measure)
        )
        if unit is not None:
            means, peaks = ([value * unit for value in values] for values in (means, peaks))
        seconds: Sequence[float] = [_SPAN_TENTHS / _TENTHS] * len(parts)
        if min(parts) < 1.0:
            seconds = [int(part * _SPAN_TENTHS + 0.5) / _TENTHS for part in parts]
        if all(parts) and not math.isnan(sum(means)):
            runs.append(range(first, first + len(parts) * each))
        else:
            known = [bool(part) and mean == mean for part, mean in zip(parts, means, strict=True)]  # noqa: PLR0124 - The quickest way to find a nan.
            starts = compress(range(first, first + len(parts) * each, each), known)
            runs += [range(start, start + each) for start in starts]
            seconds, means, peaks = (list(compress(one, known)) for one in (seconds, means, peaks))
        for column, values in zip(columns, (seconds, means, peaks), strict=True):
            # An hour stands for all of its blocks.
            more = values if each == 1 else chain.from_iterable(zip(*[values] * each, strict=True))
            column.extend(more)
    if runs and all(one.stop == other.start for one, other in pairwise(runs)):
        # Nothing is missing: a range takes no memory.
        return Series(range(runs[0].start, runs[-1].stop), *columns)
    return Series(list(chain.from_iterable(runs)), *columns)


def _halves(frame: DayFrame, measure: Measure) -> tuple[bytes, bytes]:
    """Means and peaks as half floats, `nan` where either is unknown."""
    means, peaks = frame.column(f"mean:{measure}"), frame.column(f"peak:{measure}")
    if means is None or peaks is None:  # A mean says nothing of what is needed at most.
        unknown = struct.pack(">e", math.nan) * frame.grid.count
        return unknown, unknown
    if math.isnan(sum(means)) or math.isnan(sum(peaks)):
        # What is unknown less itself is no 0.
        pairs = ((means, peaks), (peaks, means))
        means, peaks = (array("f", map(add, a, map(sub, b, b))) for a, b in pairs)
    unit = _UNITS.get(measure)
    return _half(means, unit), _half(lifted(peaks), unit)


def _half(values: Sequence[float], unit: float | None) -> bytes:
    if unit is not None:
        values = [value / unit for value in values]
    try:
        return struct.pack(f">{len(values)}e", *values)
    except OverflowError:
        return struct.pack(f">{len(values)}e", *[min(_MOST, value) for value in values])


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


_RESOURCES: Final = {
    Resource.COMPUTE: Measure.COMPUTE,
    Resource.MEMORY: Measure.MEMORY,
    Resource.MEMORY_BANDWIDTH: Measure.MEMORY_BANDWIDTH,
    Resource.PCIE: Measure.PCIE,
    Resource.NVLINK: Measure.NVLINK,
}
_bin = lru_cache(maxsize=16384)(bin_of)
"""Of peaks as they are kept there are not many."""
_EMPTY: Final = (f"state:{State.IDLE_EMPTY}",)
_IDLE: Final = tuple(f"state:{state}" for state in sorted(IDLE_STATES))


class _Points(NamedTuple):
    """By interval that counts, its peak and what is left of its mean."""

    highs: Sequence[int] = ()
    """Bins."""
    lows: Sequence[int] = ()
    high_seconds: Sequence[float] = ()
    """At the peak."""
    low_seconds: Sequence[float] = ()
    ends: Sequence[int] | None = None
    """By interval, how many that count come before it, and in the end how many there are; `None`
    where all count."""

    def over(self, first: int, last: int) -> Histogram:
        """Those of some intervals."""
        if not self.highs:
            return Histogram()
        if self.ends is not None:
            first, last = self.ends[first], self.ends[last]
        highs, lows = self.highs[first:last], self.lows[first:last]
        times = self.high_seconds[first:last], self.low_seconds[first:last]
        found = [0.0] * BINS
        for high, low, high_seconds, low_seconds in zip(highs, lows, *times, strict=True):
            found[high] += high_seconds
            found[low] += low_seconds
        bins = dict.fromkeys(chain.from_iterable(zip(highs, lows, strict=True)))
        return Histogram({at: found[at] * NANOSECONDS_PER_SECOND for at in bins})


@dataclass(slots=True)
class Demands:
    """Distributions that are still being added up."""

    exported: dict[Resource, Histogram] = field(default_factory=dict)
    """Over all known time, idle time included."""
    estimated: dict[Resource, Histogram] = field(default_factory=dict)
    """Over the active time, for memory over the held time."""
    compute_at_least: Histogram = field(default_factory=Histogram)

    def add(self, other: Demands) -> None:
        """Add those of other intervals."""
        for mine, others in ((self.exported, other.exported), (self.estimated, other.estimated)):
            for resource, histogram in others.items():
                mine.setdefault(resource, Histogram()).merge(histogram)
        self.compute_at_least.merge(other.compute_at_least)

    def by_resource(self, states: Mapping[State, Nanoseconds]) -> dict[Resource, Histogram]:
        """The distributions over the active time, for memory over the held time, by time by state.

        While a device idles it uses nothing, so idle time is what lies lowest.
        """
        known = sum(states.values()) - states.get(State.UNKNOWN, 0)
        found = dict(self.estimated)
        for resource, histogram in self.exported.items():
            idle = (State.IDLE_EMPTY,) if resource is Resource.MEMORY else IDLE_STATES
            time = sum(states.get(state, 0) for state in idle)
            active = _without_lowest(histogram, time / known if known else 0.0)
            if resource in found:
                active.merge(found[resource])
            found[resource] = active
        return {resource: each for resource, each in found.items() if each.total > 0}


class DayDemands:
    """What was used of each resource over any intervals of a frame, from its known seconds."""

    def __init__(self, frame: DayFrame, known: Sequence[float], settings: DemandSettings) -> None:
        self._frame, self._known, self._settings = frame, known, settings
        self._total = sum(known)
        self._points = cache(self._points_of)
        self._times = cache(self._times_without)

    def over(self, first: int, last: int) -> Demands:
        """Those from an interval to another, `last` not included.

        Of a distribution that is exported they have their part.
        """
        found = Demands()
        part = sum(self._known[first:last]) / self._total if self._total > 0 else 0.0
        for resource, histogram in self._frame.demands.items():
            found.exported[resource] = histogram if part >= 1.0 else histogram.scaled(part)
        for resource, measure in _RESOURCES.items():
            if resource not in self._frame.demands:
                found.estimated[resource] = self._points(measure).over(first, last)
        found.compute_at_least = self._points(Measure.COMPUTE_AT_LEAST).over(first, last)
        return found

    def _points_of(self, measure: Measure) -> _Points:
        """Each interval's mean and its peak, each for a part of the time that counts."""
        means: Sequence[float] | None = self._frame.column(f"mean:{measure}")
        if means is None:
            return _Points()
        peaks: Sequence[float] = self._frame.column(f"peak:{measure}") or means
        known: Sequence[float] = self._known
        times, at_peak, below = self._times(_EMPTY if measure is Measure.MEMORY else _IDLE)
        ends = None
        least = min(map(min, (means, peaks)))
        if isnan(sum(means)) or isnan(sum(peaks)) or least < 0 or min(times) <= 0:
            columns = zip(means, peaks, times, strict=True)
            # Nothing that is unknown is more than 0.
            counts = [time > 0 and peak >= 0 and mean >= 0 for mean, peak, time in columns]
            means, peaks, known, times, at_peak, below = (
                list(compress(each, counts))
                for each in (means, peaks, known, times, at_peak, below)
            )
            ends = [0, *accumulate(counts)]
        actives = map(truediv, map(mul, means, known), times)
        left = [
            active if active < peak else peak  # noqa: FURB136 # A call of `min` takes twice the time.
            for active, peak in zip(actives, peaks, strict=True)
        ]
        return _Points(list(map(_bin, peaks)), bins_of(left), at_peak, below, ends)

    def _times_without(self, states: Sequence[str]) -> tuple[list[float], list[float], list[float]]:
        """Known seconds of each interval without those of some states; at its peak, and below."""
        found = list(self._known)
        for column in filter(None, map(self._frame.column, states)):
            found = list(map(sub, found, column))
        share = self._settings.peak_share_ratio
        return found, [time * share for time in found], [time * (1.0 - share) for time in found]


def _without_lowest(histogram: Histogram, part: float) -> Histogram:
    if part <= 0:
        return histogram.copy()
    away = part * histogram.total
    bins = sorted(histogram.items())
    for place, (percent, weight) in enumerate(bins):
        if weight > away:
            rest = {at: more for at, more in bins[place + 1 :] if more > 0}
            return Histogram({percent: weight - away} | rest)
        away -= weight
    return Histogram()
