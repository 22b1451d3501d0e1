"""Whether an agent has to do with profiles as they land; most have not, and load nothing for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from rightsizer.edge.clock import Clock
from rightsizer.publish.web.routes import Route
from rightsizer.runtime.capture.routes import CaptureRoutes
from rightsizer.runtime.capture.witness import Witness
from rightsizer.runtime.control import StillHeld
from rightsizer.runtime.jobs import Job
from rightsizer.runtime.profile_settings import ProfileSettings
from rightsizer.telemetry.controls import Controls

if TYPE_CHECKING:
    from rightsizer.domain.profile import Profile
    from rightsizer.profiles.reader import ReadLimits
    from rightsizer.runtime.capture.book import CaptureBook
    from rightsizer.runtime.capture.state import CaptureState
    from rightsizer.runtime.capture.station import Station

__all__ = ["Capturing", "Taker"]


class Taker(Protocol):
    """Whoever makes something of profiles."""

    def take(self, profiles: Sequence[Profile]) -> object:
        """Judge profiles and keep what they say."""


class Capturing:
    """What an agent does with profiles as they land: nothing, unless its settings name a folder."""

    def __init__(  # noqa: PLR0913 - what it brings together.
        self,
        settings: ProfileSettings,
        witness: Witness,
        book: Callable[[], CaptureBook],
        taker: Taker,
        *,
        limits: Callable[[], ReadLimits],
        controls: Controls,
        still_held: StillHeld,
        clock: Clock,
    ) -> None:
        """Nothing runs yet.

        Args:
            settings: Of profiles, as they are when the agent starts.
            witness: What captures go by.
            book: Gives what remembers captures and files.
            taker: Gets what was read.
            limits: What a file may ask of its reader, as it is configured now.
            controls: Where the profiling counters are let go.
            still_held: Why they are not yet, `None` once they are.
            clock: The agent's.
        """
        self._station: Station | None = None
        if settings.drop_folder.path:
            from rightsizer.runtime.capture import station  # noqa: PLC0415 - as said above.

            self._station = station.Station(
                settings.drop_folder,
                settings.capture,
                witness,
                book(),
                taker,
                limits=limits,
                controls=controls,
                still_held=still_held,
                clock=clock,
            )

    @property
    def jobs(self) -> tuple[Job, ...]:
        """What runs at intervals."""
        return self._station.jobs if self._station else ()

    @property
    def routes(self) -> tuple[Route, ...]:
        """What the API tells."""
        return CaptureRoutes(self._state).routes

    def start(self) -> None:
        """See to what the last agent left."""
        if self._station:
            self._station.start()

    def stop(self) -> None:
        """End what is under way, before the history closes."""
        if self._station:
            self._station.stop()

    def counters(self) -> dict[str, float]:
        """How captures ended, by the names of metrics."""
        return self._station.counters() if self._station else {}

    def _state(self) -> CaptureState:
        from rightsizer.runtime.capture.state import CaptureState  # noqa: PLC0415 - as said above.

        return self._station.state() if self._station else CaptureState()
