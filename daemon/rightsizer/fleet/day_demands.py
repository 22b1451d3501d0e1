"""What was used of each resource: distributions where they are exported, means and peaks else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import sub
from typing import Final, NamedTuple

from rightsizer.domain.block import Measure
from rightsizer.domain.histogram import Histogram, bin_of
from rightsizer.domain.settings import setting
from rightsizer.domain.state import IDLE_STATES, Resource, State
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.fleet.sheet import Sheet

__all__ = ["DayDemands", "DemandSettings", "Demands", "FoundDemands"]

_MEASURES: Final = {
    Resource.COMPUTE: Measure.COMPUTE,
    Resource.MEMORY: Measure.MEMORY,
    Resource.MEMORY_BANDWIDTH: Measure.MEMORY_BANDWIDTH,
    Resource.PCIE: Measure.PCIE,
    Resource.NVLINK: Measure.NVLINK,
}
_bin = lru_cache(maxsize=4096)(bin_of)
_EMPTY: Final = (f"state:{State.IDLE_EMPTY}",)
_IDLE: Final = tuple(f"state:{state}" for state in sorted(IDLE_STATES))
_Point = tuple[int, float, int, float]
"""Bin and seconds of a stretch's peak, and of what is left of its mean."""


@dataclass(frozen=True, slots=True)
class DemandSettings:
    """How a distribution is made up where only means and peaks are known."""

    peak_share_ratio: float = setting(
        0.1,
        help="Part of a stretch's active time that is taken to be spent at its peak, where no "
        "distribution is exported.",
        unit="ratio",
        minimum=0.001,
        maximum=1,
        source="its P99 is then the P90 of the peaks; a single spike is no demand",
    )


class FoundDemands(NamedTuple):
    """The distributions of a window."""

    demands: dict[Resource, Histogram]
    compute_at_least: Histogram


@dataclass(slots=True)
class Demands:
    """Distributions that are still being added up."""

    exported: dict[Resource, Histogram] = field(default_factory=dict)
    """Over all known time, idle time included."""
    estimated: dict[Resource, Histogram] = field(default_factory=dict)
    """Over the active time, for memory over the held time."""
    compute_at_least: Histogram = field(default_factory=Histogram)

    def add(self, other: Demands) -> None:
        """Add those of other stretches."""
        for mine, others in (
            (self.exported, other.exported),
            (self.estimated, other.estimated),
        ):
            for resource, histogram in others.items():
                if resource in mine:
                    mine[resource].merge(histogram)
                else:
                    mine[resource] = histogram.copy()
        self.compute_at_least.merge(other.compute_at_least)

    def found(self, states: Mapping[State, Nanoseconds], known: Nanoseconds) -> FoundDemands:
        """The distributions over the active time, for memory over the held time.

        While a device idles it uses nothing, so idle time is what lies lowest.
        """
        found = dict(self.estimated)
        idle = {
            resource: sum(states.get(state, 0) for state in _idle_states(resource))
            for resource in self.exported
        }
        for resource, histogram in self.exported.items():
            part = idle[resource] / known if known else 0.0
            active = _without_lowest(histogram, part)
            if resource in found:
                active.merge(found[resource])
            found[resource] = active
        return FoundDemands(
            {resource: each for resource, each in found.items() if each.total > 0},
            self.compute_at_least,
        )


class DayDemands:
    """What was used of each resource over any stretches of a sheet; each is worked out once."""

    def __init__(self, sheet: Sheet, known: Sequence[float], settings: DemandSettings) -> None:
        """Nothing is worked out yet.

        Args:
            sheet: A day, or several.
            known: Its known seconds by stretch.
            settings: How a distribution is made up.
        """
        self._sheet, self._known, self._settings = sheet, known, settings
        self._total = sum(known)
        self._points: dict[Measure, Sequence[_Point | None]] = {}

    def over(self, first: int, last: int) -> Demands:
        """Those of some stretches; of a distribution that is exported they have their part.

        Args:
            first: The first stretch.
            last: The first one that is not among them.
        """
        found = Demands()
        part = sum(self._known[first:last]) / self._total if self._total > 0 else 0.0
        for resource, histogram in self._sheet.demands.items():
            found.exported[resource] = histogram if part >= 1.0 else histogram.scaled(part)
        for resource, measure in _MEASURES.items():
            if resource not in self._sheet.demands:
                found.estimated[resource] = self._estimated(measure, first, last)
        found.compute_at_least = self._estimated(Measure.COMPUTE_AT_LEAST, first, last)
        return found

    def _estimated(self, measure: Measure, first: int, last: int) -> Histogram:
        if measure not in self._points:
            self._points[measure] = self._points_of(measure)
        weights: dict[int, float] = {}
        for point in self._points[measure][first:last]:
            if point is not None:
                high, high_seconds, low, low_seconds = point
                weights[high] = weights.get(high, 0.0) + high_seconds
                weights[low] = weights.get(low, 0.0) + low_seconds
        return Histogram({at: weight * NANOSECONDS_PER_SECOND for at, weight in weights.items()})

    def _points_of(self, measure: Measure) -> Sequence[_Point | None]:
        """Each stretch's mean and its peak, each for a part of the time that counts."""
        means = self._sheet.named(f"mean:{measure}")
        if means is None:
            return ()
        peaks = self._sheet.named(f"peak:{measure}") or means
        counted = self._without(_EMPTY if measure is Measure.MEMORY else _IDLE)
        share = self._settings.peak_share_ratio
        rest = 1.0 - share
        found: list[_Point | None] = []
        for mean, peak, known, time in zip(means, peaks, self._known, counted, strict=True):
            # Nothing that is unknown is more than 0.
            if time > 0 and peak >= 0 and mean >= 0:
                active, high = mean * known / time, _bin(peak)
                low = _bin(active) if active < peak else high
                found.append((high, time * share, low, time * rest))
            else:
                found.append(None)
        return found

    def _without(self, states: Sequence[str]) -> list[float]:
        """Known seconds of each stretch, without those of some states."""
        found = list(self._known)
        for name in states:
            column = self._sheet.named(name)
            if column is not None:
                found = list(map(sub, found, column))
        return found


def _idle_states(resource: Resource) -> Iterable[State]:
    return (State.IDLE_EMPTY,) if resource is Resource.MEMORY else IDLE_STATES


def _without_lowest(histogram: Histogram, part: float) -> Histogram:
    """Without the lowest part of the weight."""
    if part <= 0:
        return histogram.copy()
    away = part * histogram.total
    found: dict[int, float] = {}
    for percent, weight in sorted(histogram.items()):
        left = max(0.0, weight - away)
        away = max(0.0, away - weight)
        if left > 0:
            found[percent] = left
    return Histogram(found)
