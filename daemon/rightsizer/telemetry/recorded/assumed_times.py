"""Times for lines that have none, or only the time of day."""

from typing import Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.recorded.row import Notes

__all__ = ["AssumedTimes", "DayTimes"]

_DAY: Final = 86_400 * NANOSECONDS_PER_SECOND


class AssumedTimes:
    """One second a poll, which is what dcgmi and nvidia-smi wait unless they are told."""

    def __init__(self, notes: Notes, remedy: str) -> None:
        """For one pass over a file; the remedy says how to record with times."""
        self._notes = notes
        self._remedy = remedy
        self._seen: set[str] = set()
        self._poll = 0

    def next(self, device: str) -> Nanoseconds:
        """The time of the next line of a device; one that comes again starts the next poll."""
        self._notes.remark(
            "has no times: one second from poll to poll is assumed, from 1970-01-01 on; "
            f"{self._remedy}"
        )
        if device in self._seen:
            self._seen.clear()
            self._poll += 1
        self._seen.add(device)
        return self._poll * NANOSECONDS_PER_SECOND


class DayTimes:
    """Days for times of day: the next one where the clock starts anew."""

    def __init__(self, notes: Notes, remedy: str) -> None:
        """For one pass over a file; the remedy says how to record with dates."""
        self._notes = notes
        self._remedy = remedy
        self._days = 0
        self._last: Nanoseconds = 0

    def of(self, time_of_day: Nanoseconds) -> Nanoseconds:
        """The time of a line."""
        self._notes.remark(f"has no dates: it is taken to start on 1970-01-01; {self._remedy}")
        if self._last - time_of_day > _DAY // 2:
            self._days += 1
        self._last = time_of_day
        return self._days * _DAY + time_of_day
