"""One at a time, in the order of arrival, and only so many waiting."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Turns"]


class Turns:
    """Hands out turns; whoever would wait too long, or in too long a queue, gets none."""

    def __init__(self, waiting_maximum: int, waiting_per_client: int, wait_seconds: float) -> None:
        """A queue of `waiting_maximum`, `waiting_per_client` of them from one address."""
        self._maximum, self._per_client = waiting_maximum, waiting_per_client
        self._wait_seconds = wait_seconds
        self._changed = threading.Condition()
        # The first has the turn.
        self._queue: deque[tuple[str, object]] = deque()

    @contextmanager
    def turn(self, client: str) -> Iterator[bool]:
        """Wait for a turn and have it for the block; `False` where there is none to be had."""
        ticket = (client, object())
        with self._changed:
            is_queued = self._has_room(client)
            if is_queued:
                self._queue.append(ticket)
            has_turn = is_queued and self._changed.wait_for(
                lambda: self._queue[0] is ticket, self._wait_seconds
            )
        try:
            yield has_turn
        finally:
            if is_queued:
                with self._changed:
                    self._queue.remove(ticket)
                    self._changed.notify_all()

    def _has_room(self, client: str) -> bool:
        own = sum(waiting == client for waiting, _ in self._queue)
        # The one that has its turn waits no more.
        is_first = bool(self._queue) and self._queue[0][0] == client
        return own - is_first < self._per_client and len(self._queue) <= self._maximum
