"""The two clocks that the program lives by, and a fast one for demonstrations and tests."""

import threading
import time
from typing import Protocol

from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds


class Clock(Protocol):
    """A steady clock for durations and a wall clock for people."""

    @property
    def speed(self) -> float:
        """Seconds of this clock in one second of the world."""

    def time(self) -> Nanoseconds:
        """The steady clock, which never steps."""

    def wall_time(self) -> Nanoseconds:
        """The wall clock, since the epoch."""

    def wait_until(self, deadline: Nanoseconds, stop: threading.Event) -> bool:
        """Wait for a point on the steady clock; whether `stop` was set before."""


class SystemClock:
    """The machine's own clocks."""

    speed = 1.0

    def time(self) -> Nanoseconds:
        """The monotonic clock, suspended time included where the system counts it."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def wall_time(self) -> Nanoseconds:
        """The real-time clock."""
        return time.time_ns()

    def wait_until(self, deadline: Nanoseconds, stop: threading.Event) -> bool:
        """Sleep until the deadline unless `stop` is set."""
        return stop.wait(max(0, deadline - self.time()) / NANOSECONDS_PER_SECOND)


class FastClock:
    """A clock that stands still while work is done and jumps when it is waited on.

    It passes `speed` seconds for each second of the world, or fewer where the work takes
    longer: no tick is ever skipped, and two runs see the same times.
    """

    def __init__(self, start: Nanoseconds, speed: float = float("inf")) -> None:
        self.speed = speed
        self._now = start
        self._woken = time.monotonic()

    def time(self) -> Nanoseconds:
        """The simulated time."""
        return self._now

    def wall_time(self) -> Nanoseconds:
        """The simulated time too."""
        return self._now

    def wait_until(self, deadline: Nanoseconds, stop: threading.Event) -> bool:
        """Jump to the deadline, after the part of its wait that work has not used up."""
        step = max(0, deadline - self._now) / NANOSECONDS_PER_SECOND
        due = self._woken + step / self.speed
        stopped = stop.wait(max(0.0, due - time.monotonic()))
        self._woken = max(due, time.monotonic())
        self._now = max(self._now, deadline)
        return stopped
