"""The connections that are open: how many there may be, and which gives way to a new one.

Whoever connects and says nothing holds a thread. So that silent clients never keep a scraper
out, a full house closes an idle connection rather than refuse a new one: first one that was
never answered, of the address that holds the most of them, so that a flood washes away itself.
"""

import contextlib
import socket
import threading
from collections import Counter
from dataclasses import dataclass

__all__ = ["Connections"]


@dataclass(slots=True)
class _Place:
    address: str
    is_working: bool = False
    is_proven: bool = False


class Connections:
    """Keeps count of open connections; safe to use from several threads."""

    def __init__(self, maximum: int, patience_seconds: float = 0.5) -> None:
        """A house of `maximum` places; a newcomer waits a little where all are at work."""
        self._maximum = maximum
        self._patience_seconds = patience_seconds
        self._changed = threading.Condition()
        # Longest idle first.
        self._open: dict[socket.socket, _Place] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: socket.socket, address: str = "") -> bool:
        """Take in a new connection; `False` where all others keep being answered."""
        with self._changed:
            if not self._changed.wait_for(self._has_place, self._patience_seconds):
                return False
            if len(self._open) >= self._maximum:
                idle = self._to_give_way()
                # Its thread wakes up to a closed connection and leaves.
                del self._open[idle]
                _shut(idle)
            self._open[connection] = _Place(address)
            return True

    def replace(self, connection: socket.socket, by: socket.socket) -> None:
        """Let another object stand for a connection, as securing it makes a new one.

        Raises:
            ConnectionAbortedError: it had to give way meanwhile.
        """
        with self._changed:
            place = self._open.pop(connection, None)
            if place is None:
                raise ConnectionAbortedError
            self._open[by] = place

    def mark(self, connection: socket.socket, *, is_working: bool) -> None:
        """Note that a connection's turn has changed; it now idles the shortest."""
        with self._changed:
            place = self._open.pop(connection, None)
            if place is not None:
                place.is_working = is_working
                self._open[connection] = place
                self._changed.notify_all()

    def prove(self, connection: socket.socket) -> None:
        """Note that whoever is at the other end was given what he asked for."""
        with self._changed:
            if connection in self._open:
                self._open[connection].is_proven = True

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

    def _has_place(self) -> bool:
        return len(self._open) < self._maximum or any(
            not place.is_working for place in self._open.values()
        )

    def _to_give_way(self) -> socket.socket:
        held = Counter(place.address for place in self._open.values())
        idle = [connection for connection, place in self._open.items() if not place.is_working]
        # The first of equals has idled longest.
        return min(
            idle,
            key=lambda each: (self._open[each].is_proven, -held[self._open[each].address]),
        )


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Not the method of a secured one, which would forget its keys under another thread.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
