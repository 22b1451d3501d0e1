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
    """Format and level of the log.

    Attributes:
        format: Format of a log line; auto selects one by where the log goes.
        level: Minimum level of logged messages.
        repeat_interval: Time between log lines of a persistent fault; `suppressed` counts the
            others.
            Source: the shortest interval at which a person would react
    """

    format: LogFormat = setting(LogFormat.AUTO)
    level: LogLevel = setting(LogLevel.INFO, is_live=True)
    repeat_interval: float = setting(300.0, unit="seconds", within=(0, 86400), is_live=True)
