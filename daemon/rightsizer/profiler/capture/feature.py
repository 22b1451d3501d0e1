"""Capture feature of an agent.

Jobs, routes, metrics; loads its machinery only where a folder is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.profiler.capture.request import CaptureContext
from rightsizer.profiler.settings import ProfileSettings
from rightsizer.telemetry.source import ReleaseController, StillHeld
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route, Router

if TYPE_CHECKING:
    from rightsizer.model.profile import Profile
    from rightsizer.profiler.capture.encoder import CaptureState
    from rightsizer.profiler.capture.service import CaptureService
    from rightsizer.telemetry.profiles.limits import ReadLimits


CAPTURES_PATH: Final = "/api/v1/captures"


class CapturesApi:
    """Answers from what is remembered; names files and no folders of this machine."""

    def __init__(self, state: Callable[[], CaptureState]) -> None:
        """A route.

        Args:
            state: Gives how things stand; called from any thread.
        """
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
    """Makes something of profiles."""

    def take(self, profiles: Sequence[Profile]) -> object:
        """Judge profiles and keep what they say."""


def capture_service(  # noqa: PLR0913 - what it brings together.
    settings: ProfileSettings,
    context: CaptureContext,
    database: Database,
    consumer: ProfileConsumer,
    *,
    limits: Callable[[], ReadLimits],
    controls: ReleaseController,
    still_held: StillHeld,
    clock: Clock,
) -> CaptureService | None:
    """The service of an agent, which does nothing yet; `None` where no drop folder is named.

    Args:
        settings: Of profiles, as they are when the agent starts.
        context: What captures go by.
        database: Keeps captures, and which files were read.
        consumer: Gets what was read.
        limits: What a file may ask of its reader, as it is configured now.
        controls: Where the profiling counters are let go.
        still_held: Why they are not yet, `None` once they are.
        clock: The agent's.
    """
    if not settings.drop_folder.path:
        return None
    # As said above.
    from rightsizer.profiler.capture.repository import CaptureRepository  # noqa: PLC0415
    from rightsizer.profiler.capture.service import CaptureService  # noqa: PLC0415

    return CaptureService(
        settings.drop_folder,
        settings.capture,
        context,
        CaptureRepository(database),
        consumer,
        limits=limits,
        controls=controls,
        still_held=still_held,
        clock=clock,
    )


def capture_state(service: CaptureService | None) -> CaptureState:
    """How captures stand."""
    from rightsizer.profiler.capture.encoder import CaptureState  # noqa: PLC0415 - as said above.

    return service.state() if service else CaptureState()
