"""Threads that serve connections: some from the start, others for as long as there is work."""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from rightsizer.io.thread import DaemonThread, NoThreadError, outlive_shortages
from rightsizer.web.connections import Connections


class AnswerThreads:
    """Runs each task at once if a thread is free or can be started, else as soon as one is."""

    def __init__(self, name: str, reserved: int, connections: Connections) -> None:
        """Start no thread yet; `connections` are what the tasks serve."""
        self._name = name
        self._reserved = reserved
        self.connections: Final = connections
        self._free = 0
        self._handed: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._waiting: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the reserved threads.

        Raises:
            NoThreadError: the process may have no more.
        """
        for _ in range(self._reserved):
            DaemonThread(self._name, outlive_shortages, self._serve).start()
            self._free += 1

    def stop(self) -> None:
        """End the reserved threads, each after its task."""
        for _ in range(self._reserved):
            self._handed.put(None)

    def submit(self, task: Callable[[], None]) -> None:
        """Run a task on another thread."""
        if self._hand(task):
            return
        try:
            DaemonThread(self._name, self._work_off, task).start()
        except NoThreadError:
            if not self._hand(task, may_wait=True):
                self.make_room()

    def make_room(self) -> None:
        """Close a connection whose thread waits for its client, if a task waits for a thread.

        Called whenever either begins to wait: whichever comes second must find the other.
        """
        if self._waiting:
            self.connections.make_room()

    def _hand(self, task: Callable[[], None], *, may_wait: bool = False) -> bool:
        """Give a task to a free thread; return whether there is one."""
        with self._lock:
            if is_free := self._free > 0:
                self._free -= 1
                self._handed.put(task)
            elif may_wait:
                self._waiting.append(task)
            return is_free

    def _serve(self) -> None:
        while (task := self._handed.get()) is not None:
            self._work_off(task, is_reserved=True)

    def _work_off(self, task: Callable[[], None] | None, *, is_reserved: bool = False) -> None:
        """Run a task and those that wait."""
        while task is not None:
            with suppress(MemoryError, RuntimeError):
                task()
            task = self._next(is_reserved=is_reserved)

    def _next(self, *, is_reserved: bool) -> Callable[[], None] | None:
        """The task that waits longest; without one, a reserved thread is free."""
        with self._lock:
            task = self._waiting.popleft() if self._waiting else None
            self._free += is_reserved and task is None
            return task
