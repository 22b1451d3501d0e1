"""Capture feature of an agent.

Jobs, routes, metrics; loads its machinery only where a folder is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from rightsizer.io.clock import Clock
from rightsizer.io.jobs import Job
from rightsizer.profiler.capture.request import CaptureContext
from rightsizer.profiler.settings import ProfileSettings
from rightsizer.telemetry.source import ReleaseController, StillHeld
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route, Router

if TYPE_CHECKING:
    from rightsizer.model.profile import Profile
    from rightsizer.profiler.capture.encoder import CaptureState
    from rightsizer.profiler.capture.repository import CaptureRepository
    from rightsizer.profiler.capture.service import CaptureService
    from rightsizer.telemetry.profiles.limits import ReadLimits


CAPTURES_PATH: Final = "/api/v1/captures"


class CapturesApi:
    """Answers from what is remembered; names files and no folders of this machine."""

    def __init__(self, state: Callable[[], CaptureState]) -> None:
        """A route over whoever knows; asked from any thread."""
        self._state = state

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where it is served."""
        return (Route("GET", CAPTURES_PATH, self._answer),)

    def _answer(self, site: Router, request: WebRequest) -> WebResponse:
        from rightsizer.profiler.capture.encoder import state_form  # noqa: PLC0415 - as said above.

        del site, request
        return WebResponse.of_json(state_form(self._state()))


class ProfileConsumer(Protocol):
    """Whoever makes something of profiles."""

    def take(self, profiles: Sequence[Profile]) -> object:
        """Judge profiles and keep what they say."""


class CaptureFeature:
    """What an agent does with profiles as they land: nothing, unless its settings name a folder."""

    def __init__(  # noqa: PLR0913 - what it brings together.
        self,
        settings: ProfileSettings,
        witness: CaptureContext,
        book: Callable[[], CaptureRepository],
        taker: ProfileConsumer,
        *,
        limits: Callable[[], ReadLimits],
        controls: ReleaseController,
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
        self._station: CaptureService | None = None
        if settings.drop_folder.path:
            from rightsizer.profiler.capture import service as station  # noqa: PLC0415 - as said above.

            self._station = station.CaptureService(
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
        return CapturesApi(self._state).routes

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
        from rightsizer.profiler.capture.encoder import CaptureState  # noqa: PLC0415 - as said above.

        return self._station.state() if self._station else CaptureState()
