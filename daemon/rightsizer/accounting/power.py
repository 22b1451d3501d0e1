"""What a device draws when it does nothing, and what it may draw at most: learned from itself.

Absolute watts differ by model, context and machine, so that every ratio of power rests on the
device's own idle draw.
"""

from dataclasses import dataclass

from rightsizer.domain.settings import setting
from rightsizer.domain.state import State
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds

__all__ = ["Draws", "PowerRange", "PowerSettings"]


@dataclass(frozen=True, slots=True)
class PowerSettings:
    """How the idle draw is learned."""

    idle_quantile_ratio: float = setting(
        0.05,
        help="Quantile of the draw over empty seconds that counts as the idle draw.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, signals",
    )
    idle_minimum_seconds: float = setting(
        60.0,
        help="Empty seconds that must be seen before their quantile is trusted.",
        unit="seconds",
        minimum=1,
        source="docs/definitions.md, signals",
    )
    idle_limit_ratio: float = setting(
        0.15,
        help="Part of the power limit that the idle draw is taken for until it is learned.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, signals; idle H100 70 of 700 W, H200 78 of 700 W",
    )


@dataclass(frozen=True, slots=True)
class Draws:
    """The range of a device's draw as far as it is known."""

    idle_watts: float | None = None
    highest_watts: float | None = None
    """Stands in for a limit that nobody states."""


class PowerRange:
    """The range of one device's draw. Draws are counted by whole watts, so memory is bounded."""

    def __init__(self, settings: PowerSettings) -> None:
        self._settings = settings
        self._lowest: float | None = None
        self._highest: float | None = None
        self._empty: dict[int, Nanoseconds] = {}
        self._empty_total: Nanoseconds = 0

    def see(self, watts: float) -> None:
        """Take note of a draw, whatever the device did."""
        self._lowest = watts if self._lowest is None else min(self._lowest, watts)
        self._highest = watts if self._highest is None else max(self._highest, watts)

    def account(self, watts: float, state: State, duration: Nanoseconds) -> None:
        """Learn from a stretch whose state is known."""
        if state is State.IDLE_EMPTY:
            key = round(watts)
            self._empty[key] = self._empty.get(key, 0) + duration
            self._empty_total += duration

    def draws(self, default_limit_watts: float | None) -> Draws:
        """The range as far as it is known."""
        return Draws(self._idle_watts(default_limit_watts), self._highest)

    def _idle_watts(self, default_limit_watts: float | None) -> float | None:
        settings = self._settings
        if self._empty_total >= settings.idle_minimum_seconds * NANOSECONDS_PER_SECOND:
            return self._empty_quantile(settings.idle_quantile_ratio)
        if self._lowest is None or default_limit_watts is None:
            return self._lowest
        return min(self._lowest, settings.idle_limit_ratio * default_limit_watts)

    def _empty_quantile(self, share: float) -> float:
        target, reached = share * self._empty_total, 0
        for watts in sorted(self._empty):
            reached += self._empty[watts]
            if reached >= target:
                return float(watts)
        return float(max(self._empty))
