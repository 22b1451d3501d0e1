"""What somebody asks of the telemetry while it runs: to let the GPUs or their counters go."""

import threading
from dataclasses import dataclass
from enum import StrEnum

from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.edge.clock import Clock

__all__ = ["Controls", "Held", "Release"]


class Held(StrEnum):
    """What the agent holds and can let go."""

    GPUS = "gpus"
    """Every handle: for a driver update, VFIO, a reset."""
    COUNTERS = "counters"
    """The profiling counters: for a profiler that needs them."""


@dataclass(frozen=True, slots=True)
class Release:
    """Something was let go."""

    held: Held
    since: Nanoseconds
    """On the steady clock."""
    until: Nanoseconds | None
    """On the steady clock; `None` until it is taken back by hand."""


class Controls:
    """Requests from any thread, read by the one that ticks."""

    def __init__(self, clock: Clock) -> None:
        """Nothing is released."""
        self._clock = clock
        self._lock = threading.Lock()
        self._releases: dict[Held, Release] = {}

    def release(self, held: Held, for_seconds: float | None = None) -> Release:
        """Ask for something to be let go, for a time or until `resume`."""
        now = self._clock.time()
        until = None if for_seconds is None else now + nanoseconds(for_seconds)
        release = Release(held, now, until)
        with self._lock:
            self._releases[held] = release
        return release

    def resume(self, held: Held) -> bool:
        """Take something back; whether it was released."""
        with self._lock:
            return self._releases.pop(held, None) is not None

    def released(self, held: Held) -> Release | None:
        """The release in force; one whose time is up is taken back."""
        with self._lock:
            release = self._releases.get(held)
            if release is None or release.until is None or self._clock.time() < release.until:
                return release
            del self._releases[held]
            return None
