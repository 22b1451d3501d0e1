"""What is needed now: demand with the past fading, at two speeds.

The larger of P99 with a half-life of 6 hours and P97 with one of 72 hours sits on the knee of
slack against violations on a production trace (docs/definitions.md, sources).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rightsizer.domain.histogram import Histogram
from rightsizer.domain.settings import setting
from rightsizer.domain.state import Resource
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.domain.window import Window

__all__ = ["DecaySettings", "DecayedDemands"]


@dataclass(frozen=True, slots=True)
class DecaySettings:
    """How fast the past fades, and which quantile of it counts."""

    fast_half_life_seconds: float = setting(
        21600.0,
        help="Half-life of the quick memory.",
        unit="seconds",
        minimum=60,
        source="docs/definitions.md, sources",
    )
    fast_quantile_ratio: float = setting(
        0.99,
        help="Quantile of the quick memory.",
        unit="ratio",
        minimum=0.5,
        maximum=1,
        source="docs/definitions.md, sources",
    )
    slow_half_life_seconds: float = setting(
        259200.0,
        help="Half-life of the slow memory.",
        unit="seconds",
        minimum=60,
        source="docs/definitions.md, sources",
    )
    slow_quantile_ratio: float = setting(
        0.97,
        help="Quantile of the slow memory.",
        unit="ratio",
        minimum=0.5,
        maximum=1,
        source="docs/definitions.md, sources",
    )


class _Fading:
    """Distributions by resource whose weights halve in a half-life."""

    def __init__(self, half_life_seconds: float) -> None:
        self._half_life = half_life_seconds
        self.histograms: dict[Resource, Histogram] = {}

    def fade(self, elapsed: Nanoseconds) -> None:
        factor = 0.5 ** (seconds(elapsed) / self._half_life)
        for histogram in self.histograms.values():
            histogram.decay(factor)

    def add(self, window: Window) -> None:
        for resource, histogram in window.demands.items():
            self.histograms.setdefault(resource, Histogram()).merge(histogram)


class DecayedDemands:
    """The demand of one device with both memories; windows are added oldest first."""

    def __init__(self, settings: DecaySettings | None = None) -> None:
        self._settings = settings or DecaySettings()
        self._fast = _Fading(self._settings.fast_half_life_seconds)
        self._slow = _Fading(self._settings.slow_half_life_seconds)
        self._until: Nanoseconds | None = None

    def add(self, window: Window) -> None:
        """Let time pass to the window's end, then add it."""
        elapsed = 0 if self._until is None else max(0, window.end - self._until)
        self._until = window.end
        for memory in (self._fast, self._slow):
            if elapsed:
                memory.fade(elapsed)
            memory.add(window)

    def demand(self) -> Mapping[Resource, float]:
        """The demand by resource; a resource that was never used is absent."""
        found: dict[Resource, float] = {}
        for resource in self._fast.histograms:
            quantiles = (
                self._fast.histograms[resource].quantile(self._settings.fast_quantile_ratio),
                self._slow.histograms[resource].quantile(self._settings.slow_quantile_ratio),
            )
            known = [quantile for quantile in quantiles if quantile is not None]
            if known:
                found[resource] = max(known)
        return found
