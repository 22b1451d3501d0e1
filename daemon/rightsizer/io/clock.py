"""Clock protocol, the system's clocks, and a fast clock for demonstrations and tests."""

import threading
import time
from typing import Protocol

from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds


class Clock(Protocol):
    """Monotonic clock for durations and wall clock for display."""

    @property
    def speed(self) -> float:
        """Seconds of this clock per real second."""

    def time(self) -> Nanoseconds:
        """Monotonic time, which never steps."""

    def wall_time(self) -> Nanoseconds:
        """Wall time since the epoch."""

    def wait_until(self, deadline: Nanoseconds, stop: threading.Event) -> bool:
        """Wait for a monotonic time; return whether `stop` was set before."""


def wall_offset(clock: Clock) -> Nanoseconds:
    """Wall time minus monotonic time; changes when the wall clock is set."""
    return clock.wall_time() - clock.time()


class SystemClock:
    """Clocks of the machine."""

    speed = 1.0

    def time(self) -> Nanoseconds:
        """Monotonic time, including suspended time."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def wall_time(self) -> Nanoseconds:
        """Real-time clock."""
        return time.time_ns()

    def wait_until(self, deadline: Nanoseconds, stop: threading.Event) -> bool:
        """Sleep until the deadline unless `stop` is set."""
        return stop.wait(max(0, deadline - self.time()) / NANOSECONDS_PER_SECOND)


class FastClock:
    """Clock that stands still during work and jumps on waits.

    Advances at most `speed` seconds per real second, less if the work takes longer: no tick is
    skipped, and two runs see the same times.
    """

    def __init__(self, start: Nanoseconds, speed: float = float("inf")) -> None:
        self.speed = speed
        self._now = start
        self._woken = time.monotonic()

    def time(self) -> Nanoseconds:
        """Simulated time."""
        return self._now

    def wall_time(self) -> Nanoseconds:
        """Simulated time too."""
        return self._now

    def wait_until(self, deadline: Nanoseconds, stop: threading.Event) -> bool:
        """Jump to the deadline, after sleeping for the part of the wait not used by work."""
        step = max(0, deadline - self._now) / NANOSECONDS_PER_SECOND
        due = self._woken + step / self.speed
        stopped = stop.wait(max(0.0, due - time.monotonic()))
        self._woken = max(due, time.monotonic())
        self._now = max(self._now, deadline)
        return stopped
