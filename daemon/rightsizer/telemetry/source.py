"""Sources of snapshots, and the devices that they have released."""

import math
import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Final, Protocol

from rightsizer.io.clock import Clock
from rightsizer.model.frozen import dataclass
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import Nanoseconds, nanoseconds

OPERATOR: Final = "operator"
"""Who asks over the local socket."""


class SnapshotSource(Protocol):
    """A driver, a recording or a simulation; its reader cannot tell which."""

    @property
    def name(self) -> str:
        """What it is, for people: `nvml`, `simulated (eight-gpu-node)`, `log.csv`."""

    def read(self) -> Snapshot | None:
        """The next snapshot; `None` when there will be no more.

        A live source answers with the present and always within its deadline; a recorded one
        with the next tick of the recording.
        """

    def close(self) -> None:
        """Give back whatever is held: handles, threads, files."""


class SecondarySource(Protocol):
    """Adds what it knows to a snapshot."""

    def enrich(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what stands of its words; waits for nothing."""

    def close(self) -> None:
        """End its threads; what hangs is left behind."""


class ReleasableResource(StrEnum):
    """What the agent holds and can let go."""

    GPUS = "gpus"
    """Every handle: for a driver update, VFIO, a reset."""
    COUNTERS = "counters"
    """The profiling counters: for a profiler that needs them."""


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """Something was let go."""

    held: ReleasableResource
    since: Nanoseconds
    """On the steady clock."""
    until: Nanoseconds | None
    """On the steady clock; `None` until it is taken back by hand."""


class ReleaseController:
    """Requests from any thread, read by the one that ticks; each asker's stands by itself."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._releases: dict[tuple[ReleasableResource, str], ReleaseRequest] = {}

    def release(
        self, held: ReleasableResource, for_seconds: float | None = None, *, asker: str = OPERATOR
    ) -> ReleaseRequest:
        """Ask for something to be let go, for a time or until `resume`."""
        now = self._clock.time()
        until = None if for_seconds is None else now + nanoseconds(for_seconds)
        release = ReleaseRequest(held, now, until)
        with self._lock:
            self._releases[held, asker] = release
        return release

    def resume(self, held: ReleasableResource, *, asker: str = OPERATOR) -> bool:
        """Take something back; whether it was released.

        An operator takes back every release, others their own alone.
        """
        with self._lock:
            mine = [key for key in self._releases if key[0] is held and asker in (OPERATOR, key[1])]
            for key in mine:
                del self._releases[key]
            return bool(mine)

    def released(self, held: ReleasableResource) -> ReleaseRequest | None:
        """The release in force that lasts longest; those whose time is up are taken back."""
        if not self._releases:  # As nearly always, and every thread asks in every round.
            return None
        now = self._clock.time()
        with self._lock:
            self._releases = {
                key: each
                for key, each in self._releases.items()
                if each.until is None or now < each.until
            }
            found = [each for key, each in self._releases.items() if key[0] is held]
        return max(
            found, key=lambda each: math.inf if each.until is None else each.until, default=None
        )


StillHeld = Callable[[ReleaseRequest], str | None]
"""Why a release is not carried out yet, for a person; `None` once everything is let go."""
