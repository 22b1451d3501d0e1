"""A fault that goes on is logged once an interval; the rest is counted."""

import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, cast

import structlog
from structlog.types import EventDict

from rightsizer.model.units import Nanoseconds, nanoseconds

_FAULTS: Final = ("warning", "error", "critical")
_REMEMBERED: Final = 256
"""Different faults at a time; beyond, the one that was quiet for longest is forgotten."""


@dataclass(slots=True)
class _Repetition:
    logged: Nanoseconds
    suppressed: int = 0


class Repeater:
    """A processor that drops a fault which says exactly what was said within the interval.

    The next one after the interval carries `suppressed=N`, how many were dropped since.
    """

    def __init__(
        self, interval_seconds: float, clock: Callable[[], Nanoseconds] = time.monotonic_ns
    ) -> None:
        self._interval = nanoseconds(interval_seconds)
        self._clock = clock
        self._seen: OrderedDict[Hashable, _Repetition] = OrderedDict()
        self._lock = threading.Lock()

    def pace(self, interval_seconds: float) -> None:
        """Log a fault that goes on once in another interval."""
        self._interval = nanoseconds(interval_seconds)

    def __call__(self, _wrapped: Any, _name: str, event: EventDict) -> EventDict:
        """Pass a message on, or drop it.

        Raises:
            structlog.DropEvent: it was logged a moment ago.
        """
        if event["level"] not in _FAULTS:
            return event
        with self._lock:
            suppressed = self._admit(_identity(event))
        if suppressed is None:
            raise structlog.DropEvent
        return {**event, "suppressed": suppressed} if suppressed else event

    def _admit(self, identity: Hashable) -> int | None:
        """How many were dropped since the last one; `None` where this one is to be dropped."""
        now = self._clock()
        known = self._seen.get(identity)
        if known is not None and now - known.logged < self._interval:
            known.suppressed += 1
            return None
        self._seen[identity] = _Repetition(now)
        self._seen.move_to_end(identity)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return known.suppressed if known else 0


def _identity(event: EventDict) -> Hashable:
    described = {key: repr(value) for key, value in event.items()}
    if event.get("exc_info"):
        described["exc_info"] = repr(_exception(event["exc_info"]))
    return tuple(sorted(described.items()))


def _exception(exc_info: Any) -> BaseException | None:
    """The exception that a log call means: `True`, itself, or what `sys.exc_info` gives."""
    if isinstance(exc_info, BaseException):
        return exc_info
    return cast(
        BaseException | None, (exc_info if isinstance(exc_info, tuple) else sys.exc_info())[1]
    )
