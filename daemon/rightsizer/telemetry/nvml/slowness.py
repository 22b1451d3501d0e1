"""Whether a GPU's driver calls are slow, told calmly: not anew with each round."""

from collections.abc import Iterable
from typing import Final

from rightsizer.domain.snapshot import Slow
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds

__all__ = ["Slowness"]

_ROUNDS: Final = 3
"""A single hiccup is none; the round after it may still be short of time."""
_CALM: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND
"""After so long without a slow round the driver is quick again."""


class Slowness:
    """What the rounds of one GPU have shown lately."""

    def __init__(self, deadline_seconds: float) -> None:
        """Quick, until rounds come later than the deadline or leave something out."""
        self._deadline_seconds = deadline_seconds
        self._until: Nanoseconds = 0
        self._rounds = 0
        self._longest_seconds = 0.0
        self._postponed: dict[str, Nanoseconds] = {}

    def see(self, duration_seconds: float, postponed: Iterable[str], now: Nanoseconds) -> None:
        """Note a round: how long it took, and the collectors that it had no time for."""
        names = tuple(postponed)
        if not names and duration_seconds <= self._deadline_seconds:
            return
        if now >= self._until:
            self._rounds, self._longest_seconds = 0, 0.0
        self._rounds += 1
        self._longest_seconds = max(self._longest_seconds, duration_seconds)
        self._until = now + _CALM
        self._postponed.update(dict.fromkeys(names, self._until))

    def told(self, now: Nanoseconds) -> Slow | None:
        """What there is to tell of it, `None` while it is quick."""
        if now >= self._until or self._rounds < _ROUNDS:
            return None
        names = sorted(name for name, until in self._postponed.items() if now < until)
        return Slow(self._longest_seconds, tuple(names))
