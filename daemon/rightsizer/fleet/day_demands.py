"""What was used of each resource: distributions where they are exported, means and peaks else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import sub
from typing import Final, NamedTuple

from rightsizer.domain.block import Measure
from rightsizer.domain.histogram import Histogram, bin_of
from rightsizer.domain.settings import setting
from rightsizer.domain.state import IDLE_STATES, Resource, State
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.fleet.sheet import Sheet

__all__ = ["DemandSettings", "Demands", "FoundDemands", "demands_of"]

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
            if active.total > 0:
                found.setdefault(resource, Histogram()).merge(active)
        return FoundDemands(
            {resource: each for resource, each in found.items() if each.total > 0},
            self.compute_at_least,
        )


def demands_of(
    sheet: Sheet, known: Sequence[float], first: int, last: int, settings: DemandSettings
) -> Demands:
    """Those of some stretches of a day; of a day's distribution they have their part.

    Args:
        sheet: The day.
        known: Its known seconds by stretch.
        first: The first stretch.
        last: The first one that is not among them.
        settings: How a distribution is made up.
    """
    found = Demands()
    total = sum(known)
    part = sum(known[first:last]) / total if total > 0 else 0.0
    for resource, histogram in sheet.demands.items():
        found.exported[resource] = _scaled(histogram, part)
    active = _Times(sheet, known, _IDLE, (first, last))
    held = _Times(sheet, known, _EMPTY, (first, last))
    for resource, measure in _MEASURES.items():
        if resource not in sheet.demands:
            times = held if resource is Resource.MEMORY else active
            found.estimated[resource] = times.estimated(measure, settings)
    found.compute_at_least = active.estimated(Measure.COMPUTE_AT_LEAST, settings)
    return found


class _Times:
    """Stretches that are looked at, and the seconds of theirs that count."""

    def __init__(
        self, sheet: Sheet, known: Sequence[float], without: Sequence[str], span: tuple[int, int]
    ) -> None:
        self._sheet, self._known = sheet, known
        self._without, self._span = without, slice(*span)

    @cached_property
    def _counted(self) -> list[float]:
        """Known seconds of each stretch, without those of some states."""
        found = list(self._known[self._span])
        for name in self._without:
            column = self._sheet.named(name)
            if column is not None:
                found = list(map(sub, found, column[self._span]))
        return found

    def estimated(self, measure: Measure, settings: DemandSettings) -> Histogram:
        """Each stretch's mean and its peak, each for a part of the time that counts."""
        means = self._sheet.named(f"mean:{measure}")
        if means is None:
            return Histogram()
        peaks = self._sheet.named(f"peak:{measure}") or means
        high, low = settings.peak_share_ratio, 1.0 - settings.peak_share_ratio
        weights: dict[int, float] = {}
        for mean, peak, known, counted in zip(
            means[self._span],
            peaks[self._span],
            self._known[self._span],
            self._counted,
            strict=True,
        ):
            # Nothing that is unknown is more than 0.
            if counted > 0 and peak >= 0 and mean >= 0:
                active = mean * known / counted
                at = _bin(peak)
                weights[at] = weights.get(at, 0.0) + counted * high
                if active < peak:
                    at = _bin(active)
                weights[at] = weights.get(at, 0.0) + counted * low
        return Histogram({at: weight * NANOSECONDS_PER_SECOND for at, weight in weights.items()})


def _idle_states(resource: Resource) -> Iterable[State]:
    return (State.IDLE_EMPTY,) if resource is Resource.MEMORY else IDLE_STATES


def _scaled(histogram: Histogram, factor: float) -> Histogram:
    if factor >= 1.0:
        return histogram
    found = histogram.copy()
    found.decay(factor)
    return found


def _without_lowest(histogram: Histogram, part: float) -> Histogram:
    """Without the lowest part of the weight."""
    away = part * histogram.total
    found: dict[int, float] = {}
    for percent, weight in sorted(histogram.items()):
        left = max(0.0, weight - away)
        away = max(0.0, away - weight)
        if left > 0:
            found[percent] = left
    return Histogram(found)
