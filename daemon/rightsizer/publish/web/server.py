"""The agent's HTTP server: any number of addresses and a local socket, one set of routes."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from rightsizer.domain.errors import RightsizerError
from rightsizer.domain.report import Report
from rightsizer.domain.span import PastOf
from rightsizer.domain.units import Nanoseconds
from rightsizer.publish.freshness import FreshnessSettings
from rightsizer.publish.metrics import Exposition
from rightsizer.publish.web.access import Access
from rightsizer.publish.web.address import parse_address
from rightsizer.publish.web.connections import Connections
from rightsizer.publish.web.listener import Listener, listen
from rightsizer.publish.web.local_socket import LocalSocket
from rightsizer.publish.web.page import Page
from rightsizer.publish.web.prefix import below
from rightsizer.publish.web.routes import Route, Site, routes_at
from rightsizer.publish.web.settings import WebSettings

__all__ = ["WebServer"]

_POLL_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 2.0
_LOCAL_CONNECTIONS: Final = 12
"""A thread each where they are at work; with those over TCP within the unit's TasksMax=64."""
_OPEN: Final = Access()

_log: Final = structlog.get_logger("rightsizer.web")


class WebServer:
    """Serves the latest report until it is stopped; answers never wait for the driver."""

    def __init__(  # noqa: PLR0913 - each is a part of the outside world.
        self,
        addresses: Sequence[str],
        *,
        latest: Callable[[], Report | None],
        exposition: Exposition,
        settings: WebSettings | None = None,
        freshness: FreshnessSettings | None = None,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
        local_socket: str = "",
        local_routes: Sequence[Route] = (),
        access: Access = _OPEN,
        past: PastOf | None = None,
    ) -> None:
        """A server that does not listen yet.

        Args:
            addresses: Where to listen: `host:port`, `:port`, `[::1]:port`.
            latest: Gives the report to show, `None` before the first.
            exposition: Renders the metrics.
            settings: How many clients it takes on, and how patiently.
            freshness: When a sample is too old to count as ready.
            wall_time: The clock that the report's own times are of.
            local_socket: A path to listen at too; empty for none.
            local_routes: What is answered beside the usual, or in its place.
            access: How it is reached over TCP; by everybody, to look, unless told otherwise.
            past: What the devices did over a span; the last day alone unless given.

        Raises:
            UsageError: an address is not one.
        """
        self._settings = settings or WebSettings()
        self._guard, self._sockets = access.guard, access.sockets
        self._addresses = [] if self._sockets else list(map(parse_address, addresses))
        self._connections = Connections(self._settings.connections_maximum)
        # Of their own, so that whoever crowds the addresses never keeps the operator out.
        self._local_connections = Connections(_LOCAL_CONNECTIONS)
        self._local = LocalSocket(Path(local_socket)) if local_socket else None
        freshness = freshness or FreshnessSettings()
        page = Page(
            freshness,
            self._settings.fit,
            self._settings.page_refresh_seconds,
            past,
            self._settings.page_poll_seconds,
        )
        routes = (*local_routes, *routes_at(access.telemetry_path))
        self._site = Site(
            latest,
            exposition,
            page,
            freshness,
            wall_time,
            routes,
            allows_changes=access.allows_changes,
            past=past,
        )
        self._answer = below(access.route_prefix, self._site.answer)
        self._listeners: list[Listener] = []
        self._threads: list[threading.Thread] = []

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it listens, with real ports; empty until it is started."""
        return tuple(
            listener.place
            for listener in self._listeners
            if listener.socket.family != socket.AF_UNIX
        )

    @property
    def scheme(self) -> str:
        """How addresses are written for a browser: `http`, or `https` where TLS is on."""
        is_secured = self._guard is not None and self._guard.context is not None
        return "https" if is_secured else "http"

    def start(self) -> None:
        """Listen at all addresses, or at none; and at the local socket, if that can be.

        Raises:
            RightsizerError: an address cannot be bound.
        """
        listeners = []
        with contextlib.ExitStack() as undo:
            for address in self._addresses:
                listener = listen(
                    address, self._answer, self._connections, self._settings, self._guard
                )
                undo.callback(listener.server_close)
                listeners.append(listener)
            undo.pop_all()
        listeners += [
            Listener(handed, self._answer, self._connections, self._settings, self._guard)
            for handed in self._sockets
        ]
        self._listeners = listeners + self._local_listeners()
        for listener in self._listeners:
            thread = threading.Thread(
                target=listener.serve_forever,
                args=(_POLL_SECONDS,),
                name=f"web {listener.place}",
                daemon=True,
            )
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Stop listening and close every connection."""
        if self._local is not None:
            self._local.remove()
        for listener in self._listeners:
            listener.shutdown()
            listener.server_close()
        self._connections.close_all(_STOP_SECONDS)
        self._local_connections.close_all(_STOP_SECONDS)
        for thread in self._threads:
            thread.join(_STOP_SECONDS)
        self._listeners.clear()
        self._threads.clear()

    def _local_listeners(self) -> list[Listener]:
        """A listener at the local socket; none where it is not wanted, or cannot be."""
        if self._local is None:
            return []
        try:
            listening = self._local.listen()
        except RightsizerError as error:
            # Sampling and scrapes do without it.
            _log.warning("local_socket_unavailable", error=str(error))
            return []
        return [Listener(listening, self._site.answer, self._local_connections, self._settings)]
