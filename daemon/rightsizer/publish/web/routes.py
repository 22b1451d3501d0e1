"""What is served where: one table of method, path and handler."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import structlog

from rightsizer.domain.errors import UsageError
from rightsizer.domain.report import Report
from rightsizer.domain.span import DEFAULT_SPAN, DeviceSpan, PastOf, Span
from rightsizer.domain.units import Nanoseconds
from rightsizer.publish.freshness import FreshnessSettings
from rightsizer.publish.json_form import advice_form, report_form
from rightsizer.publish.metrics import Exposition, Rendering
from rightsizer.publish.metrics.negotiation import accepts_gzip
from rightsizer.publish.web.advice_filter import chosen
from rightsizer.publish.web.health import why_not_ready
from rightsizer.publish.web.load import load_response
from rightsizer.publish.web.message import Request, Response
from rightsizer.publish.web.openapi import openapi_document
from rightsizer.publish.web.page import Look, Page, content_security_policy
from rightsizer.publish.web.span_filter import span_asked
from rightsizer.publish.web.summary import strip_form, summary_form

__all__ = ["METRICS_PATH", "ROUTES", "Handle", "Route", "Site", "routes_at"]

METRICS_PATH: Final = "/metrics"

_log: Final = structlog.get_logger("rightsizer.web")
_REFUSED_OVER_TCP: Final = (
    "refused over TCP, where nobody can tell who asks; ask on the node itself, by the command "
    "`rightsizer` or over the agent's local socket, the setting path.api_socket; or start the "
    "agent with --web.enable-lifecycle and with users or client certificates in --web.config.file"
)
_REFUSED_ACROSS_SITES: Final = "refused for a page of another site"


@dataclass(frozen=True, slots=True)
class Site:
    """All that handlers draw from; none of it ever calls the driver."""

    latest: Callable[[], Report | None]
    exposition: Exposition
    page: Page
    freshness: FreshnessSettings
    wall_time: Callable[[], Nanoseconds]
    routes: "tuple[Route, ...]"
    allows_changes: bool = False
    """Whether somebody who has proved who he is may change things over TCP."""
    past: PastOf | None = None
    """What the devices did over a span; what the report itself knows, unless given."""

    def past_of(self, span: Span) -> Mapping[str, DeviceSpan] | None:
        """What the devices did over a span, `None` where only the report knows."""
        return self.past(span) if self.past is not None else None

    def answer(self, request: Request) -> Response:
        """The answer to a request, whatever it asks."""
        routes = [route for route in self.routes if route.matches(request.path)]
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
            if not self.allows_changes or request.identity is None:
                return Response.of_text(_REFUSED_OVER_TCP, HTTPStatus.FORBIDDEN)
            if request.is_cross_site:
                # A browser sends a user's password along, whoever made it ask.
                return Response.of_text(_REFUSED_ACROSS_SITES, HTTPStatus.FORBIDDEN)
        try:
            return route.handler(self, replace(request, named=route.named(request.path)))
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
    """A method and a path, and who answers; `{name}` stands for any one part of a path."""

    method: str
    path: str
    handler: Handle
    is_local: bool = False
    """Whether it is for the local socket, and over TCP for those alone who may change things."""

    def matches(self, path: str) -> bool:
        """Whether a request's path is of this route."""
        own, asked = self.path.split("/"), path.split("/")
        return len(own) == len(asked) and all(
            part == given or (_is_name(part) and given)
            for part, given in zip(own, asked, strict=True)
        )

    def named(self, path: str) -> dict[str, str]:
        """What a path of this route has in place of the names, without its escapes."""
        parts = zip(self.path.split("/"), path.split("/"), strict=True)
        return {part[1:-1]: unquote(given) for part, given in parts if _is_name(part)}


def _is_name(part: str) -> bool:
    return part.startswith("{")


def _metrics(site: Site, request: Request) -> Response:
    asked = (request.query.get(key, ()) for key in ("name[]", "collect[]", "exclude[]"))
    return _rendered(site.exposition.render(request.accept, request.accept_encoding, *asked))


def _dcgm_metrics(site: Site, request: Request) -> Response:
    dcgm = site.exposition.dcgm
    if dcgm.refusal is not None:
        return Response.of_text(dcgm.refusal, HTTPStatus.NOT_FOUND)
    return _rendered(dcgm.render(is_gzip=accepts_gzip(request.accept_encoding)))


def _rendered(rendering: Rendering) -> Response:
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
    look = Look(
        # Whatever else a link has in it is of no concern to the page.
        span_asked({"span": request.query.get("span", [DEFAULT_SPAN.name])}, ("span",)),
        is_paused=request.query.get("refresh") == ["off"],
        gpu=request.query.get("gpu", [""])[0],
    )
    body = site.page.render(site.latest(), site.wall_time(), look)
    headers = {"Content-Security-Policy": content_security_policy()}
    return Response(body, "text/html; charset=utf-8", headers=headers)


def _openapi(site: Site, request: Request) -> Response:
    del site, request
    return Response.of_json(openapi_document())


def _summary(site: Site, request: Request) -> Response:
    span, report = span_asked(request.query, ("span",)), site.latest()
    if report is None:
        return Response.of_json(None)
    now, past = site.wall_time(), site.past_of(span)
    return Response.of_json(summary_form(report, now, site.freshness, span, past))


def _strip(site: Site, request: Request) -> Response:
    span, report = span_asked(request.query, ("span", "gpu")), site.latest()
    if report is None:
        return Response.of_json(None)
    patterns = request.query.get("gpu", ["*"])
    uuids = [
        device.device.uuid
        for device in report.devices
        if not device.device.has_mig_instances
        and any(fnmatchcase(device.device.uuid, pattern) for pattern in patterns)
    ]
    return Response.of_json(strip_form(report, span, site.past_of(span), uuids))


def _load(site: Site, request: Request) -> Response:
    named = {key: request.query.get(key, [""])[0] for key in ("namespace", "workload")}
    return load_response(site.latest(), site.wall_time(), site.freshness, **named)


def _report(site: Site, request: Request) -> Response:
    del request
    report = site.latest()
    return Response.of_json(report_form(report) if report is not None else None)


def _advice(site: Site, request: Request) -> Response:
    report = site.latest()
    advice = chosen(report.advice if report is not None else (), request.query)
    return Response.of_json({"advice": [advice_form(piece) for piece in advice]})


ROUTES: Final = (
    Route("GET", "/", _page),
    Route("GET", METRICS_PATH, _metrics),
    Route("GET", "/metrics/dcgm", _dcgm_metrics),
    Route("GET", "/-/healthy", _healthy),
    Route("GET", "/-/ready", _ready),
    Route("GET", "/api/v1/openapi.json", _openapi),
    Route("GET", "/api/v1/summary", _summary),
    Route("GET", "/api/v1/strip", _strip),
    Route("GET", "/api/v1/report", _report),
    Route("GET", "/api/v1/load", _load),
    Route("GET", "/api/v1/advice", _advice),
)
"""HEAD is answered wherever GET is."""


def routes_at(telemetry_path: str) -> tuple[Route, ...]:
    """The routes with the metrics where an operator wants them."""
    return tuple(
        replace(route, path=telemetry_path) if route.path == METRICS_PATH else route
        for route in ROUTES
    )
