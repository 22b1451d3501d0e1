"""Settings of the log: format, level, repetition."""

from enum import StrEnum

from rightsizer.model.frozen import dataclass
from rightsizer.model.settings import setting


class LogFormat(StrEnum):
    """Format of the log, for its reader."""

    AUTO = "auto"
    """Journal if connected to it, else console on a terminal, else JSON."""
    JOURNAL = "journal"
    """`key=value` with the priority prefix of sd-daemon(3); the journal adds the time."""
    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """Minimum severity of messages."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, and how.

    Attributes:
        format: The form of a line; auto fits the reader.
        level: The least severe messages that are logged.
        repeat_interval: How often a persistent fault is logged; others are counted in `suppressed`.
            Source: the shortest interval at which a person would react
    """

    format: LogFormat = setting(LogFormat.AUTO)
    level: LogLevel = setting(LogLevel.INFO, is_live=True)
    repeat_interval: float = setting(300.0, unit="seconds", within=(0, 86400), is_live=True)
