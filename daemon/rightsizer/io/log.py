"""Logging: one line per event, in the format for its reader."""

import logging
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TextIO, TypeAlias, cast

import structlog
from structlog.processors import (
    ExceptionRenderer,
    JSONRenderer,
    LogfmtRenderer,
    TimeStamper,
    add_log_level,
    format_exc_info,
)
from structlog.tracebacks import ExceptionDictTransformer
from structlog.types import EventDict, FilteringBoundLogger, Processor

from rightsizer.io.log_queue import LogStream
from rightsizer.io.log_settings import LogFormat, LogLevel, LogSettings
from rightsizer.model.metric_family import series_key
from rightsizer.model.units import Nanoseconds, nanoseconds

Logger: TypeAlias = FilteringBoundLogger
_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_FAULT_LEVELS: Final = ("warning", "error", "critical")
_REMEMBERED: Final = 256
"""Maximum of distinct faults tracked; the least recently logged is dropped."""
_PRIORITIES: Final = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
_FAULTS: Final = (logging.WARNING, logging.ERROR, logging.CRITICAL)
_FIRST_KEYS: Final = ("ts", "level", "event", "component")


class Threshold:
    """Processor that drops messages below its level.

    Filtering bound loggers do not suffice, since callers cache them after their first message.
    """

    def __init__(self, level: int) -> None:
        self.level = level

    def __call__(self, _wrapped: Any, name: str, event: EventDict) -> EventDict:
        """Pass a message on; raises `DropEvent` if below the level."""
        if logging.getLevelNamesMapping()[name.upper()] < self.level:
            raise structlog.DropEvent
        return event


class LogCounter:
    """Processor that counts messages, including repetitions suppressed later."""

    def __init__(self, dropped: Callable[[], int] = lambda: 0) -> None:
        """Start at zero; `dropped` is the number of lines that the stream did not take."""
        self._dropped = dropped
        self._counts = dict.fromkeys(_LEVELS, 0)
        self._lock = threading.Lock()

    def __call__(self, _wrapped: Any, _name: str, event: EventDict) -> EventDict:
        """Count a message and pass it on."""
        with self._lock:
            self._counts[event["level"]] += 1
        return event

    def metrics(self) -> dict[str, float]:
        """Messages since the start by level, all levels present, and lines dropped."""
        with self._lock:
            counts = self._counts.copy()
        name = "rightsizer_log_messages_total"
        return {
            "rightsizer_log_dropped_total": float(self._dropped()),
            **{series_key(name, level=level): float(count) for level, count in counts.items()},
        }


@dataclass(slots=True)
class _Repetition:
    logged: Nanoseconds
    suppressed: int = 0


class Repeater:
    """Processor that drops a fault identical to one logged within the interval.

    The next one after the interval has `suppressed=N`, the number dropped in between.
    """

    def __init__(
        self, interval_seconds: float, clock: Callable[[], Nanoseconds] = time.monotonic_ns
    ) -> None:
        self._interval = nanoseconds(interval_seconds)
        self._clock = clock
        self._seen: OrderedDict[Hashable, _Repetition] = OrderedDict()
        self._lock = threading.Lock()

    def pace(self, interval_seconds: float) -> None:
        """Change the interval at which a persistent fault is logged."""
        self._interval = nanoseconds(interval_seconds)

    def __call__(self, _wrapped: Any, _name: str, event: EventDict) -> EventDict:
        """Pass a message on; raises `DropEvent` for a recent repetition."""
        if event["level"] not in _FAULT_LEVELS:
            return event
        with self._lock:
            suppressed = self._admit(_identity(event))
        if suppressed is None:
            raise structlog.DropEvent
        return {**event, "suppressed": suppressed} if suppressed else event

    def _admit(self, identity: Hashable) -> int | None:
        """Number dropped since the last one; `None` to drop this one."""
        now = self._clock()
        repetition = self._seen.get(identity)
        if repetition is not None and now - repetition.logged < self._interval:
            repetition.suppressed += 1
            return None
        self._seen[identity] = _Repetition(now)
        self._seen.move_to_end(identity)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return repetition.suppressed if repetition else 0


def _identity(event: EventDict) -> Hashable:
    described = dict(event)
    if given := event.get("exc_info"):
        # `True`, the exception itself, or the result of `sys.exc_info`.
        is_exception = isinstance(given, BaseException)
        exception_info = given if isinstance(given, tuple) else sys.exc_info()
        described["exc_info"] = given if is_exception else exception_info[1]
    return tuple(sorted((key, repr(value)) for key, value in described.items()))


def configure(
    format: LogFormat = LogFormat.AUTO,  # noqa: A002 - what the setting and the flag are called.
    level: LogLevel = LogLevel.INFO,
    stream: TextIO | None = None,
    *,
    repeat_interval_seconds: float = LogSettings().repeat_interval,
    environ: Mapping[str, str] = os.environ,
) -> LogCounter:
    """Configure logging for the whole process; return the counter for metrics."""
    # Present standard error, which may differ from that at import.
    stream = sys.stderr if stream is None else stream
    counter = LogCounter()
    if isinstance(stream, LogStream):
        queue = stream.queue
        queue.report = _log_dropped
        counter = LogCounter(lambda: queue.dropped)
    _configure_structlog(
        Threshold(_severity(level)),
        add_log_level,
        counter,
        Repeater(repeat_interval_seconds),
        *_renderers(_detect(format, stream, environ), stream, environ),
        stream=stream,
    )
    root = logging.getLogger()
    others = [handler for handler in root.handlers if not isinstance(handler, _Bridge)]
    root.handlers = [*others, _Bridge(logging.WARNING)]
    root.setLevel(logging.WARNING)
    return counter


def configure_for_importers(environ: Mapping[str, str] = os.environ) -> None:
    """Write warnings to standard error, if the importing program has not configured structlog.

    Its own logging stays as it is.
    """
    if structlog.is_configured():
        return
    stream = sys.stderr
    renderers = _renderers(_detect(LogFormat.AUTO, stream, environ), stream, environ)
    _configure_structlog(Threshold(logging.WARNING), add_log_level, *renderers, stream=stream)


def _configure_structlog(*processors: Processor, stream: TextIO) -> None:
    structlog.configure(
        processors=processors,
        # Pass everything to the threshold, which may change at run time.
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )


def tune(level: LogLevel, repeat_interval_seconds: float) -> None:
    """Change level and repeat interval of the configured chain."""
    for processor in structlog.get_config()["processors"]:
        if isinstance(processor, Threshold):
            processor.level = _severity(level)
        elif isinstance(processor, Repeater):
            processor.pace(repeat_interval_seconds)


def logger(component: str) -> Logger:
    """Logger for a component of the program."""
    return cast(Logger, structlog.get_logger(component=component))


def _log_dropped(lines: int) -> None:
    remedy = "check what reads standard error, and the disk that it is on"
    logger("log").warning("log_lines_dropped", lines=lines, remedy=remedy)


def _severity(level: LogLevel) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


class _Bridge(logging.Handler):
    """Handler that forwards messages of libraries to our chain."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record under the name of its logger."""
        severity = max(fault for fault in _FAULTS if fault <= record.levelno)
        logger(record.name).log(severity, record.getMessage(), exc_info=record.exc_info)


def _detect(chosen: LogFormat, stream: TextIO, environ: Mapping[str, str]) -> LogFormat:
    if chosen is not LogFormat.AUTO:
        return chosen
    if _is_journal(stream, environ.get("JOURNAL_STREAM", "")):
        return LogFormat.JOURNAL
    return LogFormat.CONSOLE if stream.isatty() else LogFormat.JSON


def _is_journal(stream: TextIO, journal: str) -> bool:
    """Whether this is systemd's journal stream; a child may inherit only the variable."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:
        return False
    return journal == f"{status.st_dev}:{status.st_ino}"


def _renderers(chosen: LogFormat, stream: TextIO, environ: Mapping[str, str]) -> list[Processor]:
    if chosen is LogFormat.JOURNAL:
        return [format_exc_info, _in_order, _JournalRenderer(bool_as_flag=False)]
    if chosen is LogFormat.CONSOLE:
        colors = stream.isatty() and "NO_COLOR" not in environ
        formatter = structlog.dev.plain_traceback
        console = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=formatter)
        return [TimeStamper("%H:%M:%S", utc=False), console]
    # Local variables may contain secrets.
    exceptions = ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
    return [exceptions, TimeStamper("iso", utc=True, key="ts"), _in_order, JSONRenderer()]


class _JournalRenderer(LogfmtRenderer):
    """Renderer for the journal, which takes the priority from the start of the line."""

    def __call__(self, wrapped: Any, name: str, event: EventDict) -> str:
        return f"<{_PRIORITIES[event['level']]}>{super().__call__(wrapped, name, event)}"


def _in_order(_wrapped: Any, _name: str, event: EventDict) -> EventDict:
    return {key: event[key] for key in _FIRST_KEYS if key in event} | dict(event)
