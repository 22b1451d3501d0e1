"""What was used of each resource: distributions where they are exported, means and peaks else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain, compress
from math import isnan
from operator import mul, sub, truediv
from typing import Final, NamedTuple

from rightsizer.fleet.cache.day_frame import DayFrame
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.block import Measure
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.histogram import BINS, Histogram, bin_of, bins_of
from rightsizer.model.state import IDLE_STATES, Resource, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_MEASURES: Final = {
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
        for resource, measure in _MEASURES.items():
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
