"""A server on loopback, or on a Unix socket, that answers in its own way."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

Talk: TypeAlias = Callable[[socket.socket], None]
GARBAGE: Final = b"\x00\xff\x13\x37" * 4096
_PATIENCE_SECONDS: Final = 20.0


def listen(
    talk: Talk, path: Path | None = None, met: Callable[[], None] | None = None
) -> socket.socket:
    """Listen on a free port, or on a path; each request is answered by `talk`, after `met`."""
    if path is None:
        server = socket.create_server(("127.0.0.1", 0))
    else:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(str(path))
        server.listen(128)

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.settimeout(_PATIENCE_SECONDS)
            connection.recv(65536)
            if met is not None:
                met()
            talk(connection)

    threading.Thread(target=serve, daemon=True).start()
    return server


def say_nothing(connection: socket.socket) -> None:
    """Wait for the client to give up."""
    connection.recv(65536)
    time.sleep(_PATIENCE_SECONDS)


def hang_up(connection: socket.socket) -> None:
    """Close at once."""
    connection.close()


def reset(connection: socket.socket) -> None:
    """Begin an answer, and reset the connection in its middle."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nabc")
    # Closing without lingering sends RST.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00" + b"\x00" * 4)
    connection.close()


def status(code: int, body: bytes = b"", more: bytes = b"", after_seconds: float = 0.0) -> Talk:
    """An answer of HTTP; `more` are further lines of its head."""
    head = f"HTTP/1.1 {code} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"

    def answer(connection: socket.socket) -> None:
        time.sleep(after_seconds)
        connection.sendall(head.encode() + more + b"\r\n" + body)

    return answer


def talk_without_end(connection: socket.socket) -> None:
    """Answer until the client hangs up."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"10000\r\n" + b"a" * 65536 + b"\r\n")


def drip(start: bytes) -> Talk:
    """A byte each fifth of a second after a start."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + start)
        for _ in range(400):
            connection.sendall(b"#")
            time.sleep(0.2)

    return answer


def speak(data: bytes) -> Talk:
    """Raw bytes."""
    return lambda connection: connection.sendall(data)
