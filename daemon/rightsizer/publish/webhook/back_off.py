"""How long a receiver that fails is left alone."""

from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.edge.clock import Clock

__all__ = ["BackOff"]

_FIRST_SECONDS = 60.0


class BackOff:
    """A pause that doubles with each failure in a row, on the steady clock."""

    def __init__(self, clock: Clock, longest_seconds: float) -> None:
        self._clock = clock
        self._longest_seconds = longest_seconds
        self._failures = 0
        self._until: Nanoseconds | None = None

    @property
    def is_over(self) -> bool:
        """Whether the receiver may be tried."""
        return self._until is None or self._clock.time() >= self._until

    def failed(self, asked_seconds: float | None) -> None:
        """Begin a pause, at least as long as the receiver asked for.

        The first failure costs none: the next run is a minute away by itself.
        """
        doubled = _FIRST_SECONDS * 2 ** min(self._failures - 1, 20) if self._failures else 0.0
        self._failures += 1
        pause = max(min(doubled, self._longest_seconds), asked_seconds or 0.0)
        self._until = self._clock.time() + nanoseconds(pause)

    def succeeded(self) -> None:
        """Forget the failures."""
        self._failures, self._until = 0, None
