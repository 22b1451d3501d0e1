"""How many messages were logged, by level."""

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from structlog.types import EventDict

_LEVELS: Final = ("debug", "info", "warning", "error", "critical")


class LogCounter:
    """A processor that counts what passes, repetitions that are suppressed later included."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_LEVELS, 0)
        self._lock = threading.Lock()

    def __call__(self, _wrapped: Any, _name: str, event: EventDict) -> EventDict:
        """Count one message and pass it on."""
        with self._lock:
            self._counts[event["level"]] += 1
        return event

    def by_level(self) -> Mapping[str, int]:
        """Messages since the start; every level is there from the first."""
        with self._lock:
            return MappingProxyType(self._counts.copy())
