"""Reload: everything that can change without a restart is read again, all or nothing."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.service import configured_rules
from rightsizer.agent.settings import Settings
from rightsizer.config.live_update import live_update
from rightsizer.io.log import logger
from rightsizer.io.systemd import Notifier
from rightsizer.io.thread import DaemonThread, outlive_shortages
from rightsizer.model.values import ConfigurationError, Nanoseconds, RightsizerError, seconds
from rightsizer.web.server import Reloadable

_log: Final = logger("reload")
Apply = Callable[[Settings, Sequence[Rule[Any]]], None]
"""Applies settings and the rules built from them; if it raises, nothing has changed."""


class Reloader:
    """Reloads its parts; thread-safe."""

    def __init__(
        self,
        parts: Sequence[Reloadable],
        *,
        started: Nanoseconds,
        notifier: Notifier | None = None,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
    ) -> None:
        """Create a reloader of parts loaded when the agent started, at the time `started`.

        All parts are read before the first is changed; then only the first may still refuse.
        """
        self._parts = tuple(parts)
        self._succeeded = started
        self._notifier = notifier or Notifier({})
        self._wall_time = wall_time
        self._lock = threading.Lock()
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def reload(self) -> None:
        """Read all parts again, and apply them if none has a fault.

        Raises:
            ConfigurationError: with the faults of all parts; nothing has changed.
        """
        with self._lock:
            self._notifier.reloading()
            try:
                self._reload_all()
            finally:
                self._notifier.reloaded()

    def metrics(self) -> dict[str, float]:
        """Whether the last reload succeeded, and the time of the last success."""
        trouble = any(part.trouble is not None for part in self._parts)
        loaded = max([self._succeeded, *(part.loaded for part in self._parts)])
        return {
            "rightsizer_config_last_reload_successful": float(not trouble),
            "rightsizer_config_last_reload_success_timestamp_seconds": seconds(loaded),
        }

    def request(self) -> None:
        """Ask for a reload in another thread; safe in a signal handler."""
        # SimpleQueue is reentrant: a handler may put while a put is interrupted.
        self._requests.put(True)

    def start(self) -> None:
        """Start the thread that serves requests."""
        DaemonThread("reload", outlive_shortages, self._serve).start()

    def stop(self) -> None:
        """Stop serving requests."""
        self._requests.put(False)

    def _serve(self) -> None:
        while self._requests.get():
            try:
                self.reload()
            except ConfigurationError:
                continue  # Already logged and exported as a gauge.
            except Exception:  # noqa: BLE001 - of one reload: the next is served as well.
                _log.exception("reload_failed")

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
        changes = []
        faults = []
        for part in self._parts:
            try:
                changes.append(part.prepare())
            except ConfigurationError as error:
                faults.append(str(error))
        if faults:
            raise ConfigurationError("\n".join(faults))
        return changes


class SettingsPart:
    """Settings from file, environment and flags; logs the changed keys that need a restart."""

    def __init__(
        self,
        in_force: Settings,
        read: Callable[[], Settings],
        apply: Apply,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
    ) -> None:
        """Create the part with the settings in force; `read` returns the configured ones.

        `apply` gets settings that differ from those in force only in live keys.
        """
        self._in_force = in_force
        self._read = read
        self._apply = apply
        self._wall_time = wall_time
        self.trouble: str | None = None
        """Why the configured settings are not in force, or `None`."""
        self.loaded = wall_time()
        """Wall time of the last successful read."""

    def prepare(self) -> Callable[[], None]:
        """Read the settings and build the rules; return the function that applies them.

        Raises:
            ConfigurationError: file, environment, or a file named there has faults.
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
        self._in_force = settings
        self.trouble = None
        self.loaded = self._wall_time()
        if waiting:
            _log.warning(
                "restart_needed",
                keys=",".join(waiting),
                remedy="restart the agent to put them in force; all else is",
            )
