"""Bound or systemd-activated sockets; each connection is served by a thread, within a limit."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from socketserver import ThreadingTCPServer
from typing import TYPE_CHECKING, Any, Final

from rightsizer.host.listeners import listening_process
from rightsizer.io.log import logger
from rightsizer.io.thread import DaemonThread, outlive_shortages
from rightsizer.model.values import ListenError, RightsizerError
from rightsizer.web.answer_threads import AnswerThreads
from rightsizer.web.handler import Handler
from rightsizer.web.message import Answer
from rightsizer.web.settings import Address, WebSettings, format_address

if TYPE_CHECKING:
    from rightsizer.web.authenticator import Authenticator

_STOP_SECONDS: Final = 2.0
_RENEW_MILLISECONDS: Final = 5000
"""Source: an operator who has deleted the file tries again about then; 0.2 wakes a second."""

_log: Final = logger("web")
_BUSY: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_BACKLOG: Final = 64
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_EXHAUSTED_SECONDS: Final = 0.2


class WebListener(ThreadingTCPServer):
    """Accepts connections of one socket; never waits for a client."""

    daemon_threads = True
    timeout = 0  # A client that has left before it is accepted is not waited for.

    def __init__(
        self,
        listening: socket.socket,
        answer: Answer,
        threads: AnswerThreads,
        settings: WebSettings,
        authenticator: Authenticator | None = None,
    ) -> None:
        self.renew: Callable[[], socket.socket | None] | None = None
        """Set before the start: returns another socket where this one is out of reach."""
        self.answer = answer
        self.authenticator = authenticator
        self.threads = threads
        self.connections = threads.connections
        self.settings = settings
        self.queue = None if authenticator is None else authenticator.connections
        self._answered = threading.local()
        self._is_exhausted = False
        self._stop, self._stopped = socket.socketpair()
        super().__init__(listening.getsockname(), Handler, bind_and_activate=False)
        # The base class always creates a socket, which is not used.
        self.socket.close()
        self.socket = listening
        self.thread = DaemonThread(f"web {self.place}", outlive_shortages, self._accept)

    @property
    def place(self) -> str:
        """Listening address with the actual port, or the path of a local socket."""
        name = self.socket.getsockname()
        return name if isinstance(name, str) else format_address(*name[:2])

    def stop(self) -> None:
        """End the thread that accepts, and close the socket."""
        self._stop.close()
        self.thread.join(_STOP_SECONDS)
        self.server_close()
        self._stopped.close()

    def _accept(self) -> None:
        # Woken by `stop`: a poll every now and then would cost more than scrapes.
        pause_milliseconds = None if self.renew is None else _RENEW_MILLISECONDS
        waiting = self._poll()
        while self._stopped.fileno() not in (ready := dict(waiting.poll(pause_milliseconds))):
            if ready:
                self.handle_request()
            elif self.renew is not None and (renewed := self.renew()) is not None:
                self.socket.close()
                self.socket = renewed
                waiting = self._poll()

    def _poll(self) -> select.poll:
        waiting = select.poll()
        # One that does not listen yet would wake it at once.
        if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            waiting.register(self.socket, select.POLLIN)
        waiting.register(self._stopped, select.POLLIN)
        return waiting

    def get_request(self) -> Any:
        """Accept a connection; pause first if the process is out of descriptors.

        The connection stays queued in the kernel, so the next attempt would follow at once.
        """
        try:
            accepted = super().get_request()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                if not self._is_exhausted:
                    _log.warning("connections_wait", place=self.place, error=error.strerror)
                self._is_exhausted = True
                time.sleep(_EXHAUSTED_SECONDS)
            raise
        self._is_exhausted = False
        return accepted

    def process_request(self, request: Any, client_address: Any) -> None:
        """Pass a new connection to a thread, unless all others are being answered."""
        # Over the local socket clients have no address to tell them apart.
        host = client_address[0] if isinstance(client_address, tuple) else ""
        is_crowded = self.queue is not None and not self.queue.has_room(host)
        if not is_crowded and self.connections.admit(request, host):
            self.threads.submit(partial(self.process_request_thread, request, client_address))
            return
        with contextlib.suppress(OSError):
            request.send(_BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection on its own thread, in its turn."""
        self.await_client(request)
        queue = self.queue
        address = client_address[0] if client_address else ""
        if queue is None:
            self._serve(request, client_address)
        elif not queue.enter(address):
            self.shutdown_request(request)
        else:
            started = time.thread_time()
            self._answered.value = False
            self._serve(request, client_address)
            taken = time.thread_time() - started
            queue.leave(address, taken, was_answered=self._answered.value)

    def await_client(self, connection: socket.socket) -> None:
        """Record that this thread waits for a client; it may be needed for another."""
        self.connections.record_awaited(connection)
        self.threads.make_room()

    def record_answered(self, connection: socket.socket) -> None:
        """Record that the client of this thread's connection was answered."""
        self._answered.value = True
        self.connections.record_answered(connection)

    def _serve(self, request: Any, client_address: Any) -> None:
        if self.authenticator is not None:
            try:
                request = self.authenticator.wrap(request, self.connections.replace)
            except (OSError, ValueError):
                self.shutdown_request(request)
                return
        super().process_request_thread(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self.connections.leave(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log our own faults; clients that disconnect are not logged."""
        del request, client_address
        error = sys.exception()
        if not isinstance(error, OSError):
            _log.error("connection_failed", error=repr(error), exc_info=error)


def listening_socket(address: Address) -> socket.socket:
    """Bind a socket; an IPv6 wildcard address includes IPv4.

    Raises:
        ListenError: another port would do; the message names the address and the remedy.
        RightsizerError: it cannot be bound for another reason.
    """
    failure: OSError | None = None
    for family, place in _places(address):
        is_any = family == socket.AF_INET6 and place[0] == "::" and socket.has_dualstack_ipv6()
        try:
            return socket.create_server(
                place[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=is_any
            )
        except OSError as error:
            failure = error
            if error.errno not in {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}:
                break
    raise _refusal(failure, address)


def _places(address: Address) -> Iterator[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    if not address.host:
        if socket.has_dualstack_ipv6():
            yield socket.AF_INET6, ("::", address.port)
        yield socket.AF_INET, ("0.0.0.0", address.port)  # noqa: S104 - what ':port' means.
        return
    try:
        entries = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise RightsizerError(
            f"cannot listen on {address}: '{address.host}' is not a host of this machine "
            f"({error.strerror}); write an address of one of its interfaces"
        ) from None
    for family, _, _, _, place in entries:
        yield family, place


def _refusal(error: OSError | None, address: Address) -> RightsizerError:
    code = error.errno if error is not None else None
    what = f"cannot listen on {address}:"
    if code == errno.EADDRINUSE:
        by = ""
        stop = f"what listens there (`ss -ltnp 'sport = :{address.port}'` names it)"
        if (process := listening_process(address.host, address.port)) is not None:
            by = " by process {} ({})".format(*process)
            stop = "it"
            if process[1] == "systemd":
                stop = "its socket unit (`systemctl list-sockets` names it)"
        return ListenError(f"{what} the port is in use{by}; stop {stop} or choose another")
    if code == errno.EACCES:
        return ListenError(f"{what} not permitted; choose a port above 1023")
    if code == errno.EADDRNOTAVAIL:
        why = "no interface of this machine has the address; see `ip address`"
    else:
        why = os.strerror(code) if code is not None else "the host has no address"
    return RightsizerError(f"{what} {why}")


_FIRST_DESCRIPTOR: Final = 3


def activated_sockets(
    environ: Mapping[str, str] = os.environ, first: int = _FIRST_DESCRIPTOR
) -> list[socket.socket]:
    """Return the listening sockets passed by systemd.

    Raises:
        RightsizerError: there is none, or one is no listening TCP socket.
    """
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != str(os.getpid()) or not count.isdecimal() or count == "0":
        raise RightsizerError(
            "--web.systemd-socket: no socket was handed over; start the agent by a .socket unit, "
            "or leave the flag out and use --web.listen-address"
        )
    return [_listening(first + number) for number in range(int(count))]


def _listening(descriptor: int) -> socket.socket:
    try:
        # Programs that the agent starts must not inherit it.
        os.set_inheritable(descriptor, False)
        handed = socket.socket(fileno=descriptor)
        is_listening = handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise RightsizerError(
            f"--web.systemd-socket: descriptor {descriptor} is no socket ({error.strerror})"
        ) from None
    if handed.family not in {socket.AF_INET, socket.AF_INET6} or not is_listening:
        handed.close()
        raise RightsizerError(
            f"--web.systemd-socket: descriptor {descriptor} does not listen for TCP; write "
            "ListenStream=PORT into the .socket unit (commands have path.api_socket of their own)"
        )
    return handed
