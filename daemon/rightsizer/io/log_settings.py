"""Settings of the log: format, level, repetition."""

from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from rightsizer.model.settings import CONSTANT, Spec


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


class LogSettings(Struct, frozen=True):
    """Format and level of the log.

    Attributes:
        format: Format of a log line; auto selects one by where the log goes.
        level: Minimum level of logged messages.
        repeat_interval: Time between log lines of a persistent fault; `suppressed` counts the
            others.
            Source: the shortest interval at which a person would react
    """

    format: LogFormat = LogFormat.AUTO
    level: Annotated[LogLevel, Spec(is_live=True)] = LogLevel.INFO
    repeat_interval: Annotated[
        float, Spec(unit="seconds", within=(0, 86400), is_live=True), CONSTANT
    ] = 300.0
