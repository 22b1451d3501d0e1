"""Open connections of a server: which are closed where others need their place or thread."""

import contextlib
import select
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_PATIENCE_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 2.0


@dataclass(slots=True)
class _ConnectionSlot:
    address: str
    is_awaited: bool = False
    """Whether its thread waits for its client."""
    is_working: bool = False
    was_answered: bool = False


class Connections:
    """Registry of open connections; thread-safe."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._changed = threading.Condition()
        # Longest idle first.
        self._open: dict[socket.socket, _ConnectionSlot] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: socket.socket, address: str = "") -> bool:
        """Add a connection; return `False` if all others are being answered."""
        with self._changed:
            if not self._changed.wait_for(self._has_room, _PATIENCE_SECONDS):
                return False
            if len(self._open) >= self._maximum:
                self._close_least_needed(self._idle())
            self._open[connection] = _ConnectionSlot(address)
            return True

    def replace(self, connection: socket.socket, by: socket.socket) -> None:
        """Replace a connection's object, since TLS wraps it into a new one.

        Raises:
            ConnectionAbortedError: it was evicted meanwhile.
        """
        with self._changed:
            slot = self._open.pop(connection, None)
            if slot is None:
                raise ConnectionAbortedError
            self._open[by] = slot

    def make_room(self) -> None:
        """Close a connection whose thread only waits for it, so that the thread serves another."""
        with self._changed:
            waiting = [
                connection
                for connection in self._idle()
                if self._open[connection].is_awaited and not _is_readable(connection)
            ]
            if waiting:
                self._close_least_needed(waiting)

    def record_awaited(self, connection: socket.socket) -> None:
        """Record that a connection's thread waits for its client, until it works."""
        with self._changed:
            if connection in self._open:
                self._open[connection].is_awaited = True

    def mark(self, connection: socket.socket, *, is_working: bool) -> None:
        """Record that a connection starts or ends work; it becomes the least idle."""
        with self._changed:
            if (slot := self._open.pop(connection, None)) is not None:
                slot.is_working = is_working
                # Its answer is not sent yet when the work ends.
                slot.is_awaited = False
                self._open[connection] = slot
                self._changed.notify_all()

    def record_answered(self, connection: socket.socket) -> None:
        """Record that the client was answered."""
        with self._changed:
            if connection in self._open:
                self._open[connection].was_answered = True

    def leave(self, connection: socket.socket) -> None:
        """Remove a connection that is being closed."""
        with self._changed:
            self._open.pop(connection, None)
            self._changed.notify_all()

    def close_all(self) -> None:
        """Close all connections and wait for their threads to end."""
        with self._changed:
            for connection in self._open:
                _shut(connection)
            self._changed.wait_for(lambda: not self._open, _STOP_SECONDS)

    def _has_room(self) -> bool:
        return len(self._open) < self._maximum or any(
            not slot.is_working for slot in self._open.values()
        )

    def _idle(self) -> list[socket.socket]:
        return [connection for connection, slot in self._open.items() if not slot.is_working]

    def _close_least_needed(self, idle: Sequence[socket.socket]) -> None:
        held = Counter(slot.address for slot in self._open.values())
        # Of equals, the first has been idle longest.
        least = min(
            idle,
            key=lambda connection: (
                self._open[connection].was_answered,
                -held[self._open[connection].address],
            ),
        )
        # Its thread wakes on the closed connection and ends.
        del self._open[least]
        _shut(least)


def _is_readable(connection: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(0))


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Not the TLS object's method, which would drop its state under another thread.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
