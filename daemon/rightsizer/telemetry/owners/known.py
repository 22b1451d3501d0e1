"""The owners that this program knows how to ask, as one, with a memory."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from rightsizer.domain.workload import Workload
from rightsizer.telemetry.owners.owner import Owners
from rightsizer.telemetry.owners.session import SessionOwners

__all__ = ["SOURCES", "KnownOwners"]

SOURCES: Final[tuple[Callable[[Path], Owners], ...]] = (SessionOwners,)
"""Each is made with the root of procfs; the first that knows a process names its workload."""


class KnownOwners:
    """Asks its sources in turn and remembers what they said, also that they know nothing."""

    def __init__(
        self,
        sources: Sequence[Owners],
        *,
        time_to_live_seconds: float = 30.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Answers from memory for as long as `time_to_live_seconds`."""
        self._sources = tuple(sources)
        self._time_to_live_seconds = time_to_live_seconds
        self._now = now
        self._known: dict[int, tuple[float, Workload | None]] = {}
        self._swept = now()

    @classmethod
    def on_host(cls, procfs: Path) -> Self:
        """All known sources of a host, reading its procfs."""
        return cls([make(procfs) for make in SOURCES])

    @property
    def remembered(self) -> int:
        """How many processes there are answers for."""
        return len(self._known)

    def workload_of(self, pid: int) -> Workload | None:
        """What the first source that knows the process says."""
        now = self._now()
        known = self._known.get(pid)
        if known is not None and now < known[0]:
            return known[1]
        self._sweep(now)
        answers = (source.workload_of(pid) for source in self._sources)
        workload = next((answer for answer in answers if answer is not None), None)
        self._known[pid] = (now + self._time_to_live_seconds, workload)
        return workload

    def _sweep(self, now: float) -> None:
        """Forget processes that nobody asked for lately; most of them have ended."""
        if now - self._swept >= self._time_to_live_seconds:
            self._swept = now
            self._known = {pid: known for pid, known in self._known.items() if now < known[0]}
