"""What a counter of the driver's grew by, per second."""

from rightsizer.domain.units import Nanoseconds, seconds

__all__ = ["Rate"]


class Rate:
    """A counter between two looks; one that went backwards was reset and says nothing."""

    __slots__ = ("_last", "_time")

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._last: float | None = None
        self._time: Nanoseconds = 0

    def per_second(self, value: float, now: Nanoseconds) -> float | None:
        """The growth since the last look; `None` at the first and after a reset."""
        last, since = self._last, self._time
        self._last, self._time = value, now
        if last is None or value < last or now <= since:
            return None
        return (value - last) / seconds(now - since)
