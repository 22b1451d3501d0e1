"""A web configuration file that is read again when it, or a file it names, changes."""

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from rightsizer.domain.errors import ConfigurationError
from rightsizer.domain.units import Nanoseconds
from rightsizer.publish.web.toolkit.web_config import WebConfig, WebConfigReader

__all__ = ["WebConfigFile"]

_log: Final = structlog.get_logger("rightsizer.web")


class WebConfigFile:
    """Always has a configuration that is right: the last one; safe to ask from any thread."""

    def __init__(
        self,
        reader: WebConfigReader,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
        settle_seconds: float = 0.1,
    ) -> None:
        """Read the file for the first time.

        Args:
            reader: Reads it.
            wall_time: The clock of what is loaded.
            settle_seconds: How long a file must not have been written to before a change of it
                is read: half of a file may well ask for less than all of it.

        Raises:
            ConfigurationError: it has faults.
        """
        self._reader, self._wall_time = reader, wall_time
        self._settle_seconds = settle_seconds
        self._lock = threading.Lock()
        self._trouble: str | None = None
        self._config = WebConfig()
        self._take(reader.read())

    @property
    def trouble(self) -> str | None:
        """What is wrong with the file as it is now; `None` where what it says is in force."""
        return self._trouble

    @property
    def loaded(self) -> Nanoseconds:
        """When it was last read with success."""
        return self._loaded

    def current(self) -> WebConfig:
        """What the file says, or said before it was broken."""
        # Whoever comes while it is read gets what was in force so far, at once.
        if self._reader.has_changed(self._settle_seconds) and self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._config

    def prepare(self) -> Callable[[], None]:
        """Read the file, changed or not; what it says is in force once the result is called.

        Raises:
            ConfigurationError: it has faults; what was in force stays.
        """
        with self._lock:
            config = self._read()
        return lambda: self._take(config)

    def _refresh(self) -> None:
        before = self._trouble
        try:
            self._take(self._read())
        except ConfigurationError as error:
            if str(error) != before:
                _log.error("web_config_refused", error=str(error), in_force="the one before")
        else:
            _log.info("web_config_loaded", file=str(self._reader.path))

    def _read(self) -> WebConfig:
        try:
            return self._reader.read()
        except ConfigurationError as error:
            self._trouble = str(error)
            raise

    def _take(self, config: WebConfig) -> None:
        if config.offers_http2 and not self._config.offers_http2:
            _log.info("http2_not_spoken", remedy="clients use HTTP/1.1 in its place")
        self._config, self._trouble = config, None
        self._loaded = self._wall_time()
