"""How many steps of time are asked for at once: less where a store refused more."""

import threading
from typing import Final

from rightsizer.domain.units import Nanoseconds

__all__ = ["POINTS_MAXIMUM", "Span"]

POINTS_MAXIMUM: Final = 11_000
"""Prometheus gives no more to a series, and cannot be told to."""
_GROWS_AFTER: Final = 8
"""Successes in a row, so that a query in nine is refused where the limit stays."""


class Span:
    """What was allowed of late, by the step; for many threads."""

    def __init__(self) -> None:
        self._allowed: dict[Nanoseconds, int] = {}
        self._successes: dict[Nanoseconds, int] = {}
        self._lock = threading.Lock()

    def points(self, step: Nanoseconds) -> int:
        """How many steps to ask for."""
        return self._allowed.get(step, POINTS_MAXIMUM)

    def succeed(self, step: Nanoseconds, points: int, *, was_refused: bool) -> None:
        """So much was given, after more had been refused or not.

        What was allowed after a refusal is asked for from then on; after some successes in a row
        more is tried again, as another query may be lighter.
        """
        with self._lock:
            if was_refused:
                self._allowed[step] = points
                self._successes[step] = 0
            elif step in self._allowed and points >= self._allowed[step]:
                self._successes[step] += 1
                if self._successes[step] >= _GROWS_AFTER:
                    self._successes[step] = 0
                    self._allowed[step] = min(POINTS_MAXIMUM, 2 * points)
