"""A bound socket whose connections are served by a thread each, up to a number."""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any, Final

from rightsizer.domain.errors import RightsizerError
from rightsizer.publish.web.address import Address, format_address
from rightsizer.publish.web.connections import Connections
from rightsizer.publish.web.handler import Answer, Handler
from rightsizer.publish.web.settings import WebSettings
from rightsizer.publish.web.toolkit.guard import Guard
from rightsizer.publish.web.toolkit.handshake import secured

__all__ = ["Listener", "listen"]

_BUSY: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_BACKLOG: Final = 64


class Listener(ThreadingHTTPServer):
    """Accepts connections of one socket; never waits for a client itself."""

    daemon_threads = True

    def __init__(
        self,
        listening: socket.socket,
        answer: Answer,
        connections: Connections,
        settings: WebSettings,
        guard: Guard | None = None,
    ) -> None:
        self.answer = answer
        self.guard = guard
        self.connections = connections
        self.settings = settings
        super().__init__(listening.getsockname(), Handler, bind_and_activate=False)
        # The base class can only make one of its own, which is of no use.
        self.socket.close()
        self.socket = listening

    @property
    def place(self) -> str:
        """Where it listens, with the port that the system chose if it was asked to."""
        name = self.socket.getsockname()
        return name if isinstance(name, str) else format_address(*name[:2])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a new connection to a thread, unless every other is being answered."""
        # Over the local socket there is no address, nor anything to tell clients by.
        host = client_address[0] if isinstance(client_address, tuple) else ""
        if self.connections.admit(request, host):
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.send(_BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, secured if it is to be; what is waited for keeps nobody waiting."""
        context = self.guard.context if self.guard is not None else None
        if context is not None:
            try:
                request = secured(request, context, self.connections.replace)
            except (OSError, ValueError):
                self.shutdown_request(request)
                return
        super().process_request_thread(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self.connections.leave(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that break off; failures to answer are logged by the site."""


def listen(
    address: Address,
    answer: Answer,
    connections: Connections,
    settings: WebSettings,
    guard: Guard | None = None,
) -> Listener:
    """A listener bound to an address.

    Raises:
        RightsizerError: it cannot be bound; the message names the address and the remedy.
    """
    failure: OSError | None = None
    for family, place in _places(address):
        try:
            return Listener(_bound(family, place), answer, connections, settings, guard)
        except OSError as error:
            failure = error
            if error.errno not in {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}:
                break
    raise RightsizerError(f"cannot listen on {address}: {_remedy(failure, address)}")


def _bound(family: socket.AddressFamily, place: tuple[Any, ...]) -> socket.socket:
    """A listening socket; every interface of IPv6 means every one of IPv4 too."""
    is_any = family == socket.AF_INET6 and place[0] == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(place[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=is_any)


def _places(address: Address) -> Iterator[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    if not address.host:
        if socket.has_dualstack_ipv6():
            yield socket.AF_INET6, ("::", address.port)
        yield socket.AF_INET, ("0.0.0.0", address.port)  # noqa: S104 - what ':port' means.
        return
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise RightsizerError(
            f"cannot listen on {address}: '{address.host}' is not a host of this machine "
            f"({error.strerror}); write an address of one of its interfaces"
        ) from None
    for family, _, _, _, place in found:
        yield family, place


def _remedy(error: OSError | None, address: Address) -> str:
    code = error.errno if error is not None else None
    if code == errno.EADDRINUSE:
        return (
            "the port is in use; stop what listens there "
            f"(`ss -ltnp 'sport = :{address.port}'` names it) or choose another with "
            "--web.listen-address"
        )
    if code == errno.EACCES:
        return "not permitted; choose a port above 1023 with --web.listen-address"
    if code == errno.EADDRNOTAVAIL:
        return "no interface of this machine has the address; see `ip address`"
    return os.strerror(code) if code is not None else "the host has no address"
