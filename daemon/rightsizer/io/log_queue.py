"""Standard error of a service: lines wait in a queue, and one thread of its own writes them."""

import atexit
import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from io import RawIOBase, TextIOWrapper
from queue import SimpleQueue
from typing import Any, Final

from rightsizer.io.thread import DaemonThread, outlive_shortages

_MAXIMUM_BYTES: Final = 256 * 1024
"""Source: some thousand lines, and less than a hundredth of the unit's MemoryHigh=96M."""
_DRAIN_SECONDS: Final = 0.5
"""Source: a tenth of what a stop may take."""
_STANDARD_ERROR: Final = 2


class LogQueue(RawIOBase):
    """Bounded queue before a descriptor; a write never waits and never fails, whatever that does.

    What has no room, and what the descriptor does not take, is dropped and counted.
    """

    name = "<stderr>"

    def __init__(self, descriptor: int, maximum_bytes: int = _MAXIMUM_BYTES) -> None:
        """Create a queue whose thread starts at once, or with a later write where it cannot."""
        super().__init__()
        # Its own: another file may get the number where the descriptor is closed.
        self._descriptor = os.dup(descriptor)
        self._maximum_bytes = maximum_bytes
        self._parts: SimpleQueue[bytes] = SimpleQueue()
        self._changed = threading.Condition()
        self._pending_bytes = 0
        self._reported = 0
        self._is_torn = False
        self._thread: DaemonThread | None = None
        self.dropped = 0
        """Writes dropped since the start; the log's are a line each."""
        self.report: Callable[[int], None] = lambda _: None
        """Called with the number of writes dropped when writes succeed again."""
        self._begin()

    def write(self, data: Any, /) -> int:
        """Queue a write, or drop it."""
        part = bytes(data)
        with self._changed:
            has_room = self._pending_bytes + len(part) <= self._maximum_bytes
            if has_room:
                self._pending_bytes += len(part)
            else:
                self.dropped += 1
        if has_room:
            self._parts.put(part)
            self._begin()
        return len(part)

    def drain(self, seconds: float = _DRAIN_SECONDS) -> None:
        """Wait until everything is written, for some time."""
        if self._thread is None:
            while self._pending_bytes:
                self._write_next()
        with self._changed:
            self._changed.wait_for(lambda: not self._pending_bytes, seconds)

    def writable(self) -> bool:
        """Whether it takes writes: always."""
        return True

    def fileno(self) -> int:
        """The descriptor that is written to."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether the descriptor is a terminal."""
        return os.isatty(self._descriptor)

    def _begin(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        thread = DaemonThread("log", outlive_shortages, self._write_all)
        # Else the next write tries again.
        with suppress(MemoryError, RuntimeError):
            thread.start()
            self._thread = thread

    def _write_all(self) -> None:
        while True:
            self._write_next()

    def _write_next(self) -> None:
        part = self._parts.get()
        is_written = False
        try:
            is_written = self._write_out(part)
        finally:  # Even where there was no memory for it.
            with self._changed:
                self._pending_bytes -= len(part)
                self.dropped += not is_written
                is_drained = not self._pending_bytes
                if is_drained:
                    self._changed.notify_all()
        if is_written and is_drained and self.dropped > self._reported:
            dropped = self.dropped - self._reported
            self._reported += dropped
            self.report(dropped)

    def _write_out(self, part: bytes) -> bool:
        """Whether the descriptor took all of it."""
        # What follows a line of which a full disk took a part begins a new one.
        rest = memoryview(b"\n" + part if self._is_torn else part)
        while rest:
            try:
                written = os.write(self._descriptor, rest)
            except BlockingIOError:
                self._wait()
                continue
            except OSError:
                return False
            self._is_torn = bytes(rest[written - 1 : written]) != b"\n"
            rest = rest[written:]
        self._is_torn = False
        return True

    def _wait(self) -> None:
        """Wait for a descriptor that another process has made non-blocking."""
        room = select.poll()
        room.register(self._descriptor, select.POLLOUT)
        room.poll()


class LogStream(TextIOWrapper):
    """Text stream over a queue, a write for each line."""

    def __init__(self, queue: LogQueue, encoding: str) -> None:
        super().__init__(queue, encoding=encoding, errors="replace", line_buffering=True)
        self.queue: Final = queue


def queue_standard_error() -> None:
    """Replace standard error for the life of the process; what is queued at its end is written."""
    if sys.stderr is not sys.__stderr__:
        return  # Replaced already, here or by a program that runs this one in its process.
    _occupy_closed_descriptors()
    encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
    queue = LogQueue(_STANDARD_ERROR)
    sys.stderr = LogStream(queue, encoding)
    atexit.register(drain_standard_error)


def drain_standard_error() -> None:
    """Wait for what is queued, for some time; before an exit that skips the interpreter's end."""
    if isinstance(sys.stderr, LogStream):
        sys.stderr.queue.drain()


def _occupy_closed_descriptors() -> None:
    """Open what refuses writes in place of closed streams, whose numbers other files would get."""
    for descriptor in range(_STANDARD_ERROR + 1):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)
