"""Sources of snapshots, and control of what they release."""

import math
import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct

from rightsizer.io.clock import Clock
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import Nanoseconds, nanoseconds

OPERATOR: Final = "operator"
"""Asker of requests over the local socket."""


class SnapshotSource(Protocol):
    """A driver, a recording or a simulation; readers cannot tell which."""

    def read(self) -> Snapshot | None:
        """Return the next snapshot, or `None` at the end.

        A live source returns the present within its deadline; a recording returns its next tick.
        """

    def close(self) -> None:
        """Free handles, threads and files."""


class SecondarySource(Protocol):
    """Adds what it knows to a snapshot."""

    def enrich(self, snapshot: Snapshot) -> Snapshot:
        """Merge what is known by now into the snapshot; never waits."""

    def forget(self, uuid: str) -> None:
        """Forget a device that is gone; thread-safe."""

    def close(self) -> None:
        """End its threads; hung ones are left behind."""


class ReleasableResource(StrEnum):
    """What the agent holds and can release."""

    GPUS = "gpus"
    """Every handle: for a driver update, VFIO, a reset."""
    COUNTERS = "counters"
    """Profiling counters: for a profiler that needs them."""


class ReleaseRequest(Struct, frozen=True):
    """A release in force."""

    held: ReleasableResource
    since: Nanoseconds
    """On the steady clock."""
    until: Nanoseconds | None
    """On the steady clock; `None` until resumed by hand."""


class ReleaseController:
    """Release requests from any thread, one per resource and asker, obeyed by the source."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._releases: dict[tuple[ReleasableResource, str], ReleaseRequest] = {}

    def release(
        self, held: ReleasableResource, for_seconds: float | None = None, *, asker: str = OPERATOR
    ) -> ReleaseRequest:
        """Request a release, for a time or until `resume`."""
        now = self._clock.time()
        until = None if for_seconds is None else now + nanoseconds(for_seconds)
        release = ReleaseRequest(held, now, until)
        with self._lock:
            self._releases[held, asker] = release
        return release

    def resume(self, held: ReleasableResource, *, asker: str = OPERATOR) -> bool:
        """End a release; return whether there was one.

        An operator ends all releases, other askers only their own.
        """
        with self._lock:
            mine = [key for key in self._releases if key[0] is held and asker in (OPERATOR, key[1])]
            for key in mine:
                del self._releases[key]
            return bool(mine)

    def released(self, held: ReleasableResource) -> ReleaseRequest | None:
        """Return the release in force that lasts longest; expired ones are removed."""
        if not self._releases:  # Fast path: the usual case, checked by every thread in every round.
            return None
        now = self._clock.time()
        with self._lock:
            self._releases = {
                key: request
                for key, request in self._releases.items()
                if request.until is None or now < request.until
            }
            requests = [request for key, request in self._releases.items() if key[0] is held]
        return max(
            requests,
            key=lambda request: math.inf if request.until is None else request.until,
            default=None,
        )


StillHeld = Callable[[ReleaseRequest], str | None]
"""Returns why a release is not complete yet, for people; `None` once it is."""
