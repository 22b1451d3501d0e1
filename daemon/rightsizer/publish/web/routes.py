"""What is served where: one table of method, path and handler."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import structlog

from rightsizer.domain.errors import UsageError
from rightsizer.domain.report import Report
from rightsizer.domain.units import Nanoseconds
from rightsizer.publish.freshness import FreshnessSettings
from rightsizer.publish.json_form import advice_form, report_form
from rightsizer.publish.metrics import Exposition
from rightsizer.publish.web.health import why_not_ready
from rightsizer.publish.web.message import Request, Response
from rightsizer.publish.web.page import Page

__all__ = ["ROUTES", "Handle", "Route", "Site"]

_log: Final = structlog.get_logger("rightsizer.web")
_REFUSED_OVER_TCP: Final = (
    "refused over TCP, where nobody can tell who asks; ask on the node itself, by the command "
    "`rightsizer` or over the agent's local socket, the setting path.api_socket"
)


@dataclass(frozen=True, slots=True)
class Site:
    """All that handlers draw from; none of it ever calls the driver."""

    latest: Callable[[], Report | None]
    exposition: Exposition
    page: Page
    freshness: FreshnessSettings
    wall_time: Callable[[], Nanoseconds]
    routes: "tuple[Route, ...]"

    def answer(self, request: Request) -> Response:
        """The answer to a request, whatever it asks."""
        routes = [route for route in self.routes if route.path == request.path]
        if not routes:
            return Response.of_text(f"there is nothing at {request.path}", HTTPStatus.NOT_FOUND)
        method = "GET" if request.method == "HEAD" else request.method
        for route in routes:
            if route.method == method:
                return self._handled(route, request)
        methods = {route.method for route in routes}
        allowed = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
        return Response.of_text(
            f"{request.method} is not allowed here; use {allowed}",
            HTTPStatus.METHOD_NOT_ALLOWED,
            {"Allow": allowed},
        )

    def _handled(self, route: "Route", request: Request) -> Response:
        if route.is_local and request.peer is None:
            return Response.of_text(_REFUSED_OVER_TCP, HTTPStatus.FORBIDDEN)
        try:
            return route.handler(self, request)
        except UsageError as error:
            return Response.of_text(str(error), HTTPStatus.BAD_REQUEST)
        except Exception:  # noqa: BLE001 - one bad answer must not end a connection's thread.
            _log.exception("request_failed", path=route.path)
            return Response.of_text(
                "the answer could not be made; the agent's log says why",
                HTTPStatus.INTERNAL_SERVER_ERROR,
            )


Handle = Callable[[Site, Request], Response]


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path, and who answers."""

    method: str
    path: str
    handler: Handle
    is_local: bool = False
    """Whether it is for the local socket alone: whatever changes something is."""


def _metrics(site: Site, request: Request) -> Response:
    rendering = site.exposition.render(
        request.accept, request.accept_encoding, request.query.get("name[]", ())
    )
    encoded = {"Content-Encoding": rendering.encoding} if rendering.encoding else {}
    return Response(rendering.body, rendering.content_type, headers=encoded)


def _healthy(site: Site, request: Request) -> Response:
    del site, request
    return Response.of_text("healthy")


def _ready(site: Site, request: Request) -> Response:
    del request
    reason = why_not_ready(site.latest(), site.wall_time(), site.freshness)
    if reason is None:
        return Response.of_text("ready")
    return Response.of_text(reason, HTTPStatus.SERVICE_UNAVAILABLE)


def _page(site: Site, request: Request) -> Response:
    is_paused = request.query.get("refresh") == ["off"]
    body = site.page.render(site.latest(), site.wall_time(), is_paused=is_paused)
    return Response(body, "text/html; charset=utf-8")


def _report(site: Site, request: Request) -> Response:
    del request
    report = site.latest()
    return Response.of_json(report_form(report) if report is not None else None)


def _advice(site: Site, request: Request) -> Response:
    del request
    report = site.latest()
    advice = report.advice if report is not None else ()
    return Response.of_json({"advice": [advice_form(piece) for piece in advice]})


ROUTES: Final = (
    Route("GET", "/", _page),
    Route("GET", "/metrics", _metrics),
    Route("GET", "/-/healthy", _healthy),
    Route("GET", "/-/ready", _ready),
    Route("GET", "/api/v1/report", _report),
    Route("GET", "/api/v1/advice", _advice),
)
"""HEAD is answered wherever GET is."""
