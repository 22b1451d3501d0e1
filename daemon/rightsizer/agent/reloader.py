"""Reads again, at the operator's word, whatever can change without a restart: all of it or none."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import structlog

from rightsizer.agent.notify import Notifier
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.units import Nanoseconds, seconds

_log: Final = structlog.get_logger(component="reload")


class ReloadPart(Protocol):
    """Something that was configured from a file and can be so again."""

    @property
    def trouble(self) -> str | None:
        """Why what its file says now is not in force; `None` where it is."""

    @property
    def loaded(self) -> Nanoseconds:
        """When its file was last read with success, by the wall clock."""

    def prepare(self) -> Callable[[], None]:
        """Read the file; what it says is in force once the result is called.

        Raises:
            ConfigurationError: it cannot be used; what was in force stays.
        """


class Reloader:
    """Reloads its parts; safe to ask from any thread."""

    def __init__(
        self,
        parts: Sequence[ReloadPart],
        *,
        started: Nanoseconds,
        notifier: Notifier | None = None,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
    ) -> None:
        """A reloader of parts that were loaded when the agent started.

        Args:
            parts: Each is read before the first is changed; only the first may still refuse then.
            started: When that was.
            notifier: Is told of the beginning and of the end.
            wall_time: The clock of the loads.
        """
        self._parts, self._succeeded = tuple(parts), started
        self._notifier, self._wall_time = notifier or Notifier({}), wall_time
        self._lock = threading.Lock()
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def reload(self) -> None:
        """Read everything again.

        Raises:
            ConfigurationError: with the faults of all parts; nothing has changed then.
        """
        with self._lock:
            self._notifier.reloading()
            try:
                self._reload_all()
            finally:
                self._notifier.reloaded()

    @property
    def gauges(self) -> dict[str, float]:
        """What it exports: whether what the files say is in force, and since when."""
        trouble = any(part.trouble is not None for part in self._parts)
        loaded = max([self._succeeded, *(part.loaded for part in self._parts)])
        return {
            "rightsizer_config_last_reload_successful": float(not trouble),
            "rightsizer_config_last_reload_success_timestamp_seconds": seconds(loaded),
        }

    def request(self) -> None:
        """Ask for a reload in another thread; may be called by a signal handler."""
        # The one kind of queue that a handler may put into while it is put into.
        self._requests.put(True)

    def start(self) -> None:
        """Begin to obey `request`."""
        threading.Thread(target=self._obey, name="reload", daemon=True).start()

    def stop(self) -> None:
        """Obey no more."""
        self._requests.put(False)

    def _obey(self) -> None:
        while self._requests.get():
            try:
                self.reload()
            except ConfigurationError:
                continue  # It was logged, and the metric tells.

    def _reload_all(self) -> None:
        try:
            for change in self._prepared():
                change()
        except ConfigurationError as error:
            _log.error("reload_failed", error=str(error), in_force="the one before")
            raise
        self._succeeded = self._wall_time()
        _log.info("reloaded")

    def _prepared(self) -> list[Callable[[], None]]:
        changes, faults = [], []
        for part in self._parts:
            try:
                changes.append(part.prepare())
            except ConfigurationError as error:
                faults.append(str(error))
        if faults:
            raise ConfigurationError("\n".join(faults))
        return changes
