"""The head of a request, bounded in size and in the time that a client may take over it."""

import time
from collections.abc import Callable
from http.client import LineTooLong
from io import BufferedIOBase

__all__ = ["RequestHead"]


class RequestHead:
    """Reads lines of a head for `http.client`, and no more than is reasonable."""

    def __init__(
        self,
        source: BufferedIOBase,
        limit_bytes: int,
        timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._left_bytes = source, limit_bytes
        self._clock, self._deadline = clock, clock() + timeout_seconds

    def readline(self, limit: int) -> bytes:
        """The next line.

        Raises:
            LineTooLong: the head is longer than what is taken.
            TimeoutError: the client takes too long over all of it.
        """
        if self._clock() > self._deadline:
            raise TimeoutError
        line = self._source.readline(min(limit, self._left_bytes + 1))
        self._left_bytes -= len(line)
        if self._left_bytes < 0:
            raise LineTooLong("head")
        return line
