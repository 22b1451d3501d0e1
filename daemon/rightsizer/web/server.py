"""HTTP server of the agent: addresses, local socket, one set of routes below a prefix."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.values import BlocksOf, Nanoseconds, PastOf, Report, WholeAccounts
from rightsizer.report.facts import RateOf, no_rate
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.answer_threads import AnswerThreads
from rightsizer.web.api import NodeApi
from rightsizer.web.connections import Connections
from rightsizer.web.listener import WebListener, activated_sockets, listening_socket
from rightsizer.web.local_socket import LocalSocket
from rightsizer.web.message import Answer, SocketPeer, WebRequest, WebResponse
from rightsizer.web.page import WebPage
from rightsizer.web.router import METRICS_PATH, Route, Router, health_route
from rightsizer.web.settings import WebSettings, WebTree, parse_address

if TYPE_CHECKING:
    from rightsizer.web.authenticator import Authenticator


class Reloadable(Protocol):
    """A part configured by a file that can be read again."""

    @property
    def trouble(self) -> str | None:
        """Why the file's present content is not in force, or `None`."""

    @property
    def loaded(self) -> Nanoseconds:
        """Wall time of the last successful read."""

    def prepare(self) -> Callable[[], None]:
        """Read the file; return the function that applies it.

        Raises:
            ConfigurationError: it has faults; nothing has changed.
        """


class WebAccess(Struct, frozen=True):
    """Access to the server over TCP."""

    authenticator: Authenticator | None = None
    """Admits requests; without it all clients may read everything."""
    allows_changes: bool = False
    """Whether clients authenticated by it may change things."""
    is_open: bool = False
    """Whether all clients may change things."""
    telemetry_path: str = METRICS_PATH
    route_prefix: str = ""
    """Prefix of all paths, such as `/gpu`."""
    sockets: tuple[socket.socket, ...] = ()
    """Listening sockets bound before, as by systemd, instead of the addresses."""
    files: tuple[Reloadable, ...] = ()
    """Configuration files that it depends on."""

    def may_change(self, request: WebRequest) -> bool:
        """Whether a request over TCP may change things: allowed by settings, and authenticated."""
        return self.is_open or (self.allows_changes and request.identity is not None)


def _with_prefix(prefix: str, answer: Answer) -> Answer:
    """Serve an application below a prefix that it does not know."""
    prefix = prefix.rstrip("/")
    if not prefix:
        return answer

    def answer_below(request: WebRequest) -> WebResponse:
        if request.path in {"/", prefix}:
            return WebResponse.of_text(
                f"see {prefix}/", HTTPStatus.FOUND, {"Location": f"{prefix}/"}
            )
        if not request.path.startswith(f"{prefix}/"):
            return WebResponse.of_text(
                f"there is nothing at {request.path}; everything is below {prefix}/",
                HTTPStatus.NOT_FOUND,
            )
        return answer(replace(request, path=request.path.removeprefix(prefix)))

    return answer_below


_LOCAL_CONNECTIONS: Final = 12
"""One thread each while busy; together with TCP within the unit's TasksMax=64."""
_RESERVED: Final = 2
"""Threads for answers over TCP from the start: a scrape beside one that takes long."""
_OPEN: Final = WebAccess()


class WebServer:
    """Serves the latest report until stopped; answers never wait for the driver."""

    def __init__(  # noqa: PLR0913 - the outside world is injected.
        self,
        addresses: Sequence[str],
        *,
        latest: Callable[[], Report | None],
        exposition: MetricsExposition,
        settings: WebSettings | None = None,
        freshness: FreshnessSettings | None = None,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
        local_socket: str = "",
        local_routes: Sequence[Route] = (),
        access: WebAccess = _OPEN,
        past: PastOf | None = None,
        blocks: BlocksOf | None = None,
        accounts: WholeAccounts = lambda _: (),
        rate_of: RateOf = no_rate,
        hang: Callable[[], str | None] = lambda: None,
        may_operate: Callable[[SocketPeer], bool] = lambda _: True,
    ) -> None:
        """Create a server that does not listen yet.

        `local_routes` extend or replace the usual ones. Without `past` only the last day is known,
        without `blocks` no signal over time, without `rate_of` no price, and without `accounts` not
        what advice rests on. `hang` says why the process should be restarted, if it should.
        `may_operate` says which clients of the local socket may change more than what is their own.

        Raises:
            UsageError: an address is invalid.
        """
        self._settings = web = settings or WebSettings()
        self._authenticator = access.authenticator
        self._sockets = access.sockets
        self._addresses = [] if self._sockets else list(map(parse_address, addresses))
        self._connections = Connections(self._settings.connections_maximum)
        # Separate, so that crowded addresses never lock the operator out.
        self._local_connections = Connections(_LOCAL_CONNECTIONS)
        self._threads = AnswerThreads("client", _RESERVED, self._connections)
        self._local_threads = AnswerThreads("local", 1, self._local_connections)
        self._local = LocalSocket(Path(local_socket)) if local_socket else None
        page = WebPage(
            freshness or FreshnessSettings(),
            web.fit,
            web.page_refresh_seconds,
            past=past,
            poll_seconds=web.page_poll_seconds,
            blocks=blocks,
            has_plan_form=web.plan_form,
            rate_of=rate_of,
            has_socket=bool(local_socket),
        )
        api = NodeApi(
            latest, exposition, page, wall_time, may_change=access.may_change, accounts=accounts
        )
        routes = (*local_routes, health_route(hang), *api.routes(access.telemetry_path))
        self._router = Router(routes, access.may_change, may_operate)
        self._answer = _with_prefix(access.route_prefix, self._router.answer)
        self._listeners: list[WebListener] = []

    @property
    def addresses(self) -> tuple[str, ...]:
        """Listening addresses with actual ports; empty until started."""
        listeners = self._listeners
        return tuple(
            listener.place for listener in listeners if listener.socket.family != socket.AF_UNIX
        )

    @property
    def scheme(self) -> str:
        """URL scheme of the addresses: `https` if TLS is on, else `http`."""
        return "https" if self._authenticator and self._authenticator.context else "http"

    def start(self) -> None:
        """Listen at all addresses or none, and at the local socket if possible.

        Raises:
            RightsizerError: an address cannot be bound, or the process may have no more threads.
        """
        with contextlib.ExitStack() as undo:
            bound = [undo.enter_context(listening_socket(address)) for address in self._addresses]
            undo.pop_all()
        self._listeners = [
            WebListener(
                bound_socket, self._answer, self._threads, self._settings, self._authenticator
            )
            for bound_socket in (*bound, *self._sockets)
        ]
        if self._local is not None:
            # Sampling and scrapes work without it.
            listener = WebListener(
                self._local.start(), self._router.answer, self._local_threads, self._settings
            )
            listener.renew = self._local.renew
            self._listeners.append(listener)
        self._threads.start()
        self._local_threads.start()
        for listener in self._listeners:
            listener.thread.start()

    def stop(self) -> None:
        """Stop listening and close all connections."""
        for listener in self._listeners:
            listener.stop()
        # Only now, since a listener makes a deleted one again.
        if self._local is not None:
            self._local.remove()
        self._threads.stop()
        self._local_threads.stop()
        self._connections.close_all()
        self._local_connections.close_all()
        self._listeners.clear()


def configured_access(
    web: WebTree, wall_time: Callable[[], Nanoseconds] = time.time_ns
) -> WebAccess:
    """Create the access from the settings.

    Raises:
        ConfigurationError: the web configuration has faults.
        RightsizerError: systemd passed no socket.
    """
    authenticator: Authenticator | None = None
    files: tuple[Reloadable, ...] = ()
    if web.config_file:
        # Imported on use: most agents need neither TLS nor OpenSSL's hashes.
        from rightsizer.web.authenticator import Authenticator, Passwords  # noqa: PLC0415
        from rightsizer.web.web_config import WebConfigFile, WebConfigReader  # noqa: PLC0415

        file = WebConfigFile(WebConfigReader(Path(web.config_file)), wall_time)
        authenticator = Authenticator(file.current, Passwords(web.server.passwords))
        files = (file,)
    return WebAccess(
        authenticator=authenticator,
        allows_changes=web.enable_lifecycle,
        telemetry_path=web.telemetry_path,
        route_prefix=web.route_prefix,
        sockets=tuple(activated_sockets()) if web.systemd_socket else (),
        files=files,
    )
