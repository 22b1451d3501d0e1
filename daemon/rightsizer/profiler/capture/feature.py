"""Capture feature of an agent: its state and its route; loads its machinery only where needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route, Router

if TYPE_CHECKING:
    from rightsizer.profiler.capture.encoder import CaptureState
    from rightsizer.profiler.capture.service import CaptureService


def captures_route(state: Callable[[], CaptureState]) -> Route:
    """The route that tells how captures stand, from any thread; it names no folders."""

    def answer(site: Router, request: WebRequest) -> WebResponse:
        from rightsizer.profiler.capture.encoder import state_form  # noqa: PLC0415 - as said above.

        del site, request
        return WebResponse.of_json(state_form(state()))

    return Route("GET", "/api/v1/captures", answer)


def capture_state(service: CaptureService | None) -> CaptureState:
    """How captures stand; without a service, there are none."""
    from rightsizer.profiler.capture.encoder import CaptureState  # noqa: PLC0415 - as said above.

    return service.state() if service else CaptureState()
