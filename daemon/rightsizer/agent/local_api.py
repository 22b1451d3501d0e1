"""Routes of the local socket: release and reopen GPUs, flush the history."""

import json
from collections.abc import Callable
from typing import Final

import structlog

from rightsizer.console.flags import FLUSH_PATH
from rightsizer.io.clock import Clock
from rightsizer.model.errors import UsageError
from rightsizer.model.units import seconds
from rightsizer.report.json_encoder import Form
from rightsizer.telemetry.source import (
    ReleasableResource,
    ReleaseController,
    ReleaseRequest,
    StillHeld,
)
from rightsizer.web.message import WebRequest, WebResponse, duration_of, fields_of
from rightsizer.web.router import Route, Router

_REMEDY: Final = "; leave it out to release until it is taken back"


class ControlRoutes:
    """Answers requests that change what the agent holds; asks no driver itself."""

    def __init__(self, controls: ReleaseController, clock: Clock, still_held: StillHeld) -> None:
        """Routes over the requests that a source obeys; `still_held` is called from any thread."""
        self._controls, self._clock, self._still_held = controls, clock, still_held
        self._log = structlog.get_logger(component="control")

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where they are served."""
        return (
            Route("POST", "/api/v1/release", self._release, is_local=True),
            Route("POST", "/api/v1/resume", self._resume, is_local=True),
            Route("GET", "/api/v1/releases", self._releases, is_local=True),
        )

    def _release(self, _: Router, request: WebRequest) -> WebResponse:
        fields = fields_of(request.body, ("held", "for"), ReleasableResource.GPUS)
        held = _held(fields.get("held"))
        for_seconds = duration_of(fields.get("for"), "30m", _REMEDY)
        release = self._controls.release(held, for_seconds)
        self._tell("release_requested", request, held=str(held), for_seconds=for_seconds)
        return WebResponse.of_json(self._form(release))

    def _resume(self, _: Router, request: WebRequest) -> WebResponse:
        named = fields_of(request.body, ("held",), ReleasableResource.GPUS).get("held")
        asked = tuple(ReleasableResource) if named is None else (_held(named),)
        resumed = [str(held) for held in asked if self._controls.resume(held)]
        self._tell("resume_requested", request, resumed=",".join(resumed))
        return WebResponse.of_json({"resumed": resumed})

    def _releases(self, *_: object) -> WebResponse:
        found = filter(None, map(self._controls.released, ReleasableResource))
        return WebResponse.of_json({"releases": [self._form(release) for release in found]})

    def _form(self, release: ReleaseRequest) -> Form:
        # The wall clock's time at a point on the steady one, by the pair of clocks as it is now.
        offset = self._clock.wall_time() - self._clock.time()
        still_held = self._still_held(release)
        return {
            "held": str(release.held),
            "since": seconds(release.since + offset),
            "until": None if release.until is None else seconds(release.until + offset),
            "is_done": still_held is None,
            "still_held": still_held,
        }

    def _tell(self, event: str, request: WebRequest, **details: object) -> None:
        peer = request.peer
        actor = {} if peer is None else {"uid": peer.uid, "pid": peer.pid}
        self._log.info(event, **details, **actor)


def _held(value: object) -> ReleasableResource:
    try:
        return ReleasableResource(value)  # type: ignore[arg-type] # What is no text is no member either.
    except ValueError:
        raise UsageError(
            f"held: {json.dumps(value)} is nothing that the agent holds; choose from "
            f"{', '.join(ReleasableResource)}"
        ) from None


def flush_route(flush: Callable[[], None]) -> Route:
    """The local route that answers once what was accounted for is on disk; from any thread."""

    def answer(*_: object) -> WebResponse:
        flush()
        return WebResponse.of_json({"flushed": True})

    return Route("POST", FLUSH_PATH, answer, is_local=True)
