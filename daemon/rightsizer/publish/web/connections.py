"""The connections that are open: how many there may be, and which gives way to a new one.

Whoever connects and says nothing holds a thread. So that silent clients never keep a scraper
out, a full house closes the connection that has idled longest rather than refuse a new one.
"""

import contextlib
import socket
import threading

__all__ = ["Connections"]


class Connections:
    """Keeps count of open connections; safe to use from several threads."""

    def __init__(self, maximum: int, patience_seconds: float = 0.5) -> None:
        """A house of `maximum` places; a newcomer waits a little where all are at work."""
        self._maximum = maximum
        self._patience_seconds = patience_seconds
        self._changed = threading.Condition()
        # Longest idle first; the value tells whether an answer is being worked out.
        self._open: dict[socket.socket, bool] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: socket.socket) -> bool:
        """Take in a new connection; `False` where all others keep being answered."""
        with self._changed:
            if not self._changed.wait_for(self._has_place, self._patience_seconds):
                return False
            if len(self._open) >= self._maximum:
                idle = next(old for old, is_working in self._open.items() if not is_working)
                # Its thread wakes up to a closed connection and leaves.
                del self._open[idle]
                _shut(idle)
            self._open[connection] = False
            return True

    def _has_place(self) -> bool:
        return len(self._open) < self._maximum or not all(self._open.values())

    def mark(self, connection: socket.socket, *, is_working: bool) -> None:
        """Note that a connection's turn has changed; it now idles the shortest."""
        with self._changed:
            if self._open.pop(connection, None) is not None:
                self._open[connection] = is_working
                self._changed.notify_all()

    def leave(self, connection: socket.socket) -> None:
        """Forget a connection that is being closed."""
        with self._changed:
            self._open.pop(connection, None)
            self._changed.notify_all()

    def close_all(self, timeout_seconds: float) -> None:
        """Close every connection and wait for their threads to leave."""
        with self._changed:
            for connection in self._open:
                _shut(connection)
            self._changed.wait_for(lambda: not self._open, timeout_seconds)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
