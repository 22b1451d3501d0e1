"""An event set: the GPUs that it listens to, and what it has still to hear."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.simulated.course import Course
from rightsizer.telemetry.simulated.library.faults import Faults, Xid

__all__ = ["Listener"]

_LOOK_SECONDS: Final = 0.05
"""How often it looks what the scenario has brought meanwhile."""


class Listener:
    """Hears the Xids of GPUs from when they were registered."""

    def __init__(self, faults: Faults, now: Callable[[], Nanoseconds]) -> None:
        """A set that listens to nothing yet."""
        self._faults = faults
        self._now = now
        self._since: dict[str, Nanoseconds] = {}
        self._heard: dict[str, Course] = {}
        self._waiting: deque[Xid] = deque()
        self._lock = threading.Lock()

    def register(self, uuid: str, course: Course) -> None:
        """Listen to a GPU from now on."""
        with self._lock:
            self._heard[uuid] = course
            self._since.setdefault(uuid, self._now())

    def wait(self, timeout_seconds: float, monotonic: Callable[[], float]) -> Xid | None:
        """The next Xid; `None` where none comes in time."""
        deadline = monotonic() + timeout_seconds
        while True:
            self._look()
            if self._waiting:
                return self._waiting.popleft()
            left = max(0.0, deadline - monotonic())
            found = self._faults.wait_for_xid(self._heard.keys(), min(left, _LOOK_SECONDS))
            if found is not None or left <= 0.0:
                return found

    def _look(self) -> None:
        with self._lock:
            now = self._now()
            found: list[tuple[Nanoseconds, str, int]] = []
            for uuid, course in self._heard.items():
                found.extend((at, uuid, code) for at, code in course.xids(self._since[uuid], now))
                self._since[uuid] = now
            self._waiting.extend(Xid(uuid, code) for _, uuid, code in sorted(found))
