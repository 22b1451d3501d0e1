"""HTTP connections of the standard library: answers in time, and Unix sockets."""

import http.client
import socket
import time
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any


class _BoundedReader(RawIOBase):
    """Bytes of a socket until a deadline; the socket's own timeout starts again with each."""

    def __init__(self, source: Any, sock: socket.socket, deadline: float) -> None:
        super().__init__()
        self._source = source
        self._socket = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        if (left := self._deadline - time.monotonic()) <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        count: int | None = self._source.readinto(buffer)
        return count

    def close(self) -> None:
        self._source.close()
        super().close()


class BoundedResponse(http.client.HTTPResponse):
    """Answer whose head and body together must arrive within the socket's timeout."""

    def __init__(self, sock: socket.socket, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        if (timeout_seconds := sock.gettimeout()) is not None:
            deadline = time.monotonic() + timeout_seconds
            self.fp = BufferedReader(_BoundedReader(self.fp.detach(), sock, deadline))


class UnixConnection(http.client.HTTPConnection):
    """HTTP connection over a Unix socket."""

    response_class = BoundedResponse

    def __init__(self, path: Path, timeout_seconds: float) -> None:
        super().__init__("localhost", timeout=timeout_seconds)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
