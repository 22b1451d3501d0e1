"""Reload: everything that can change without a restart is read again, or nothing is."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.service import configured_rules
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import live_update
from rightsizer.io.log import logger
from rightsizer.io.systemd import Notifier
from rightsizer.model.errors import ConfigurationError, RightsizerError
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.web.server import Reloadable

_log: Final = logger("reload")
Apply = Callable[[Settings, Sequence[Rule[Any]]], None]
"""Puts settings in force, and the rules made of them; where it raises, nothing has changed."""


class Reloader:
    """Reloads its parts; safe to ask from any thread."""

    def __init__(
        self,
        parts: Sequence[Reloadable],
        *,
        started: Nanoseconds,
        notifier: Notifier | None = None,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
    ) -> None:
        """A reloader of parts that were loaded when the agent started, at the time `started`.

        Each is read before the first is changed; only the first may still refuse then.
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


class SettingsPart:
    """Reads file, environment and flags again; what needs a restart stays, and is named."""

    def __init__(
        self,
        in_force: Settings,
        read: Callable[[], Settings],
        apply: Apply,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
    ) -> None:
        """A part that was loaded when the agent started; `read` gives what the operator says now.

        `apply` gets settings that differ in nothing but what may change.
        """
        self._in_force, self._read, self._apply = in_force, read, apply
        self._wall_time = wall_time
        self.trouble: str | None = None
        """Why what the file says now is not in force; `None` where all of it is that may be."""
        self.loaded = wall_time()
        """When it was last read with success."""

    def prepare(self) -> Callable[[], None]:
        """Read everything, and make what follows from it.

        Raises:
            ConfigurationError: the file, the environment, or a file that is named there has faults.
        """
        try:
            settings, waiting = live_update(self._in_force, self._read())
            rules = configured_rules(settings)
        except ConfigurationError as error:
            self.trouble = str(error)
            raise
        return lambda: self._take(settings, rules, waiting)

    def _take(self, settings: Settings, rules: Sequence[Rule[Any]], waiting: Sequence[str]) -> None:
        try:
            self._apply(settings, rules)
        except RightsizerError as error:
            self.trouble = str(error)
            raise ConfigurationError(self.trouble) from None
        self._in_force, self.trouble = settings, None
        self.loaded = self._wall_time()
        if waiting:
            _log.warning(
                "restart_needed",
                keys=",".join(waiting),
                remedy="restart the agent to put them in force; all else is",
            )
