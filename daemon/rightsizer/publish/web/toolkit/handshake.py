"""Secures a connection, in the thread that serves it."""

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Final

import structlog

from rightsizer.publish.web.toolkit.client_certificate import alternative_names, is_allowed
from rightsizer.publish.web.toolkit.tls import ServerContext

__all__ = ["secured", "shake_hands"]

_log: Final = structlog.get_logger("rightsizer.web")
_SPEAK_TLS: Final = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Connection: close\r\n\r\nthis port speaks HTTPS; ask with https://\n"
)


def secured(
    connection: socket.socket,
    context: ServerContext,
    replace: Callable[[socket.socket, socket.socket], None],
) -> ssl.SSLSocket:
    """The connection as one that has yet to shake hands; nothing is sent or waited for.

    Args:
        connection: A connection that was accepted; it must not be used any more.
        context: How to secure it.
        replace: Is told of the new object before anything happens on it.

    Raises:
        OSError: the client has gone.
    """
    wrapped = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
    try:
        replace(connection, wrapped)
    except OSError:
        wrapped.close()
        raise
    return wrapped


def shake_hands(connection: ssl.SSLSocket, timeout_seconds: float) -> None:
    """Agree on keys with the client, and look at his certificate.

    Raises:
        OSError: he does not, or not in time, or is none of those who may.
    """
    connection.settimeout(timeout_seconds)
    try:
        connection.do_handshake()
    except ssl.SSLError as error:
        if error.reason == "HTTP_REQUEST":
            with contextlib.suppress(OSError):
                # In plain words, since those are what he understands.
                socket.socket.send(connection, _SPEAK_TLS)
        raise
    context = connection.context
    if isinstance(context, ServerContext):
        allowed = context.policy.client_allowed_sans
        if not is_allowed(connection, allowed):
            names = ",".join(alternative_names(connection))
            _log.warning("client_certificate_refused", names=names, allowed=",".join(allowed))
            raise ConnectionAbortedError
