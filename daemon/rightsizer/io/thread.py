"""Threads that begin or say that they cannot, and loops that outlive a shortage of memory."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

from rightsizer.model.errors import RightsizerError

_BEGIN_SECONDS: Final = 5.0
"""Source: six times the longest start measured beside 16 busy threads on two cores (0.8 s)."""
_SHORTAGE_SECONDS: Final = 0.2
"""Source: a fifth of the default interval, so that one reading at most is late."""


class _Beginning(threading.Event):
    """Event that `Thread.start` waits for, and that a thread without memory never sets."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for some seconds.

        Raises:
            RuntimeError: the thread has not begun.
        """
        del timeout
        if not super().wait(_BEGIN_SECONDS):
            raise RuntimeError("the thread does not begin, as where memory is short")
        return True


class NoThreadError(RightsizerError, RuntimeError):
    """The process may have no more threads, or no memory for one."""

    def __init__(self, name: str, reason: object) -> None:
        super().__init__(
            f"no thread for '{name}': {reason}; raise TasksMax= of the unit, the limit of "
            "processes of the container, or `ulimit -u`"
        )


class DaemonThread(threading.Thread):
    """Thread that keeps no process alive, and whose start fails rather than hangs.

    `Thread.start` waits for ever for a thread that lacks the memory to begin.
    """

    def __init__(self, name: str, target: Callable[..., object], *arguments: object) -> None:
        super().__init__(target=target, args=arguments, name=name, daemon=True)
        self._started = _Beginning()
        self._is_given_up = False

    def start(self) -> None:
        """Start it.

        Raises:
            NoThreadError: the process may have no more threads, or the thread does not begin.
        """
        try:
            super().start()
        except RuntimeError as error:
            self._is_given_up = True
            raise NoThreadError(self.name, error) from None

    def run(self) -> None:
        """Run the target, unless the thread begins too late."""
        if not self._is_given_up:
            super().run()


def outlive_shortages(loop: Callable[[], None]) -> None:
    """Run the loop of a thread; begin it again after a shortage of memory, until it returns.

    To wait and to log take memory, too: without it, a lock is a `RuntimeError`.
    """
    while True:
        try:
            return loop()
        except (MemoryError, RuntimeError):
            with contextlib.suppress(MemoryError, RuntimeError):
                _log_failure()
            time.sleep(_SHORTAGE_SECONDS)


def _log_failure() -> None:
    # Imported on use: settings of owners load this module, and no log.
    from rightsizer.io.log import logger  # noqa: PLC0415

    logger("thread").exception("thread_failed", thread=threading.current_thread().name)
