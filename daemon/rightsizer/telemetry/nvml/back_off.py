"""How long to leave something alone that does not work."""

from rightsizer.domain.units import Nanoseconds, nanoseconds

__all__ = ["BackOff"]


class BackOff:
    """Waits that double up to a longest one."""

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        """Starts with the first."""
        self._first = first_seconds
        self._longest = longest_seconds
        self._next = first_seconds

    def next(self) -> Nanoseconds:
        """The next wait."""
        wait = min(self._next, self._longest)
        self._next = wait * 2
        return nanoseconds(wait)

    def reset(self) -> None:
        """Start over with the first."""
        self._next = self._first
