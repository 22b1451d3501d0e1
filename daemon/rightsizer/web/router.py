"""Router: one table of method, path and answer."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.io.log import logger
from rightsizer.model.errors import AbsentError, RefusedError, UsageError
from rightsizer.web.message import Answer, SocketPeer, WebRequest, WebResponse

METRICS_PATH: Final = "/metrics"

_log: Final = logger("web")
_REFUSED_OVER_TCP: Final = (
    "refused over TCP, where the caller is unknown; ask on the node itself, by the command "
    "`rightsizer` or over the agent's local socket, the setting path.api_socket; or start the "
    "agent with --web.enable-lifecycle and with users or client certificates in --web.config.file"
)
_REFUSED_ACROSS_SITES: Final = "refused for a page of another site"
_REFUSED_TO_USERS: Final = (
    "refused: users of the broker may lease GPUs and wait for them, nothing else; ask an operator, "
    "who can name others by broker.operators or broker.operator_groups of the agent's configuration"
)
_STATUSES: Final[dict[type, HTTPStatus]] = {
    AbsentError: HTTPStatus.NOT_FOUND,
    RefusedError: HTTPStatus.CONFLICT,
}


class Router(Struct, frozen=True):
    """Finds the route of a request."""

    routes: "tuple[Route, ...]"
    """The first that matches answers."""
    may_change: Callable[[WebRequest], bool] = lambda _: False
    """Whether a request over TCP may change things."""
    may_operate: Callable[[SocketPeer], bool] = lambda _: True
    """Whether a client of the local socket may change things beyond what is its own."""

    def answer(self, request: WebRequest) -> WebResponse:
        """Answer any request."""
        routes = [route for route in self.routes if route.matches(request.path)]
        if not routes:
            return WebResponse.of_text(f"there is nothing at {request.path}", HTTPStatus.NOT_FOUND)
        method = "GET" if request.method == "HEAD" else request.method
        for route in routes:
            if route.method == method:
                return self._handled(route, request)
        methods = {route.method for route in routes}
        allowed = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
        return WebResponse.of_text(
            f"{request.method} is not allowed here; use {allowed}",
            HTTPStatus.METHOD_NOT_ALLOWED,
            {"Allow": allowed},
        )

    def _handled(self, route: "Route", request: WebRequest) -> WebResponse:
        if route.is_local and request.peer is None:
            if not self.may_change(request):
                return WebResponse.of_text(_REFUSED_OVER_TCP, HTTPStatus.FORBIDDEN)
            if request.is_cross_site:
                # A browser sends credentials even for requests from other sites' pages.
                return WebResponse.of_text(_REFUSED_ACROSS_SITES, HTTPStatus.FORBIDDEN)
        is_change = route.method != "GET" and not route.is_for_users
        if is_change and request.peer is not None and not self.may_operate(request.peer):
            return WebResponse.of_text(_REFUSED_TO_USERS, HTTPStatus.FORBIDDEN)
        try:
            return route.handle(replace(request, named=route.named(request.path)))
        except UsageError as error:
            status = _STATUSES.get(type(error), HTTPStatus.BAD_REQUEST)
            return WebResponse.of_text(str(error), status)
        except Exception:  # noqa: BLE001 - one bad answer must not end a connection's thread.
            _log.exception("request_failed", path=route.path)
            return WebResponse.of_text(
                "the answer could not be made; the agent's log says why",
                HTTPStatus.INTERNAL_SERVER_ERROR,
            )


class Route(Struct, frozen=True):
    """A method, a path and its answer; `{name}` matches one part of a path."""

    method: str
    path: str
    handle: Answer
    is_local: bool = False
    """Whether it is for the local socket, and over TCP only for clients that may change things."""
    is_for_users: bool = False
    """Whether it changes only what is the client's own, so that no operator is needed."""

    def matches(self, path: str) -> bool:
        """Whether a path matches the route."""
        if "{" not in self.path:
            return path == self.path
        parts = self.path.split("/")
        asked = path.split("/")
        return len(parts) == len(asked) and all(
            part == given or (_is_name(part) and given)
            for part, given in zip(parts, asked, strict=True)
        )

    def named(self, path: str) -> dict[str, str]:
        """Return the named parts of a matching path, unescaped."""
        parts = zip(self.path.split("/"), path.split("/"), strict=True)
        return {part[1:-1]: unquote(given) for part, given in parts if _is_name(part)}


def _is_name(part: str) -> bool:
    return part.startswith("{")


def health_route(hang: Callable[[], str | None]) -> Route:
    """Return the route that says whether a process runs, or why it should be restarted."""

    def answer(_: WebRequest) -> WebResponse:
        if (reason := hang()) is not None:
            return WebResponse.of_text(reason, HTTPStatus.SERVICE_UNAVAILABLE)
        return WebResponse.of_text("healthy")

    return Route("GET", "/-/healthy", answer)
