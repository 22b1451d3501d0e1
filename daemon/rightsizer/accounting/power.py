"""What a device draws when it does nothing, and what it may draw at most: learned from itself.

Absolute watts differ by model, context and machine, so that every ratio of power rests on the
device's own idle draw.
"""

from dataclasses import dataclass

from rightsizer.domain.settings import setting
from rightsizer.domain.state import State
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds

__all__ = ["Draws", "LearnedPower", "PowerRange", "PowerSettings"]


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
    idle_memory_seconds: float = setting(
        14400.0,
        help="Empty seconds after which older ones count by half, and again with each so many.",
        unit="seconds",
        minimum=60,
        source="dcgm-exporter#464: profiling takes an idle A100 from 50 to 100 W; a night of rest "
        "teaches that",
    )


@dataclass(frozen=True, slots=True)
class Draws:
    """The range of a device's draw as far as it is known."""

    idle_watts: float | None = None
    highest_watts: float | None = None
    """Stands in for a limit that nobody states."""


@dataclass(frozen=True, slots=True)
class LearnedPower:
    """What a history keeps of a device's range, so that a restart forgets nothing."""

    lowest_watts: float
    highest_watts: float
    idle_watts: float | None = None
    """The idle draw by empty seconds; `None` before there were enough of them."""
    empty_seconds: float = 0.0
    """How many of them there were, of late."""


class PowerRange:
    """The range of one device's draw. Draws are counted by whole watts, so memory is bounded."""

    def __init__(self, settings: PowerSettings) -> None:
        self._settings = settings
        self._lowest: float | None = None
        self._highest: float | None = None
        self._empty: dict[int, Nanoseconds] = {}
        self._empty_total: Nanoseconds = 0
        self._idle: float | None = None
        """The quantile of `_empty`, `None` until somebody asks for it anew."""

    def see(self, watts: float) -> None:
        """Take note of a draw, whatever the device did; a board that draws nothing is off."""
        if watts <= 0.0:
            return
        self._lowest = watts if self._lowest is None else min(self._lowest, watts)
        self._highest = watts if self._highest is None else max(self._highest, watts)

    def account(self, watts: float, state: State, duration: Nanoseconds) -> None:
        """Learn from a stretch whose state is known."""
        if state is State.IDLE_EMPTY:
            self._remember(watts, duration)

    def learned(self) -> LearnedPower | None:
        """What was learned so far, `None` before the first draw."""
        if self._lowest is None or self._highest is None:
            return None
        seconds_seen = self._empty_total / NANOSECONDS_PER_SECOND
        idle = self._learned_idle_watts() if self._is_learned() else None
        return LearnedPower(self._lowest, self._highest, idle, round(seconds_seen))

    def restore(self, learned: LearnedPower) -> None:
        """Go on from what was learned in a former life."""
        self.see(learned.lowest_watts)
        self.see(learned.highest_watts)
        if learned.idle_watts is not None:
            self._remember(learned.idle_watts, nanoseconds(learned.empty_seconds))

    def draws(self, default_limit_watts: float | None) -> Draws:
        """The range as far as it is known."""
        return Draws(self._idle_watts(default_limit_watts), self._highest)

    def _idle_watts(self, default_limit_watts: float | None) -> float | None:
        if self._is_learned():
            return self._learned_idle_watts()
        if self._lowest is None or default_limit_watts is None:
            return self._lowest
        return min(self._lowest, self._settings.idle_limit_ratio * default_limit_watts)

    def _remember(self, watts: float, duration: Nanoseconds) -> None:
        key = round(watts)
        self._empty[key] = self._empty.get(key, 0) + duration
        self._empty_total += duration
        self._idle = None
        if self._empty_total >= 2 * nanoseconds(self._settings.idle_memory_seconds):
            halves = ((each, time // 2) for each, time in self._empty.items())
            self._empty = {each: time for each, time in halves if time}
            self._empty_total = sum(self._empty.values())

    def _is_learned(self) -> bool:
        return self._empty_total >= nanoseconds(self._settings.idle_minimum_seconds)

    def _learned_idle_watts(self) -> float:
        if self._idle is None:
            self._idle = self._empty_quantile(self._settings.idle_quantile_ratio)
        return self._idle

    def _empty_quantile(self, share: float) -> float:
        target, reached = share * self._empty_total, 0
        for watts in sorted(self._empty):
            reached += self._empty[watts]
            if reached >= target:
                return float(watts)
        return float(max(self._empty))
