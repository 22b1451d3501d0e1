"""Flags shared by commands, and parsers of their values."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from rightsizer.console.command import add_flags
from rightsizer.model.errors import HistoryError, RightsizerError, UsageError
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, parse_duration

if TYPE_CHECKING:
    from rightsizer.accounting.settings import HistorySettings
    from rightsizer.host.settings import PathSettings

CONFIGURATION: Final = Path("/etc/rightsizer/rightsizer.yaml")
"""The agent's configuration, as packages and images have it."""
FLEET_FILE: Final = "fleet.yaml"
"""The fleet's, in the same folder."""
FLUSH_PATH: Final = "/api/v1/history/flush"
REPORT_PATH: Final = "/api/v1/report/document"

_Settings = TypeVar("_Settings")
_CONFIG: Final = """
--config.file FILE: configuration file (default: rightsizer.yaml in /etc/rightsizer if readable;
  fleet.yaml for the fleet). Environment variables like RIGHTSIZER_LOG__LEVEL override it
--constants FILE: override constants of models for experiments, in the format of the configuration
"""
_SOURCES: Final = (
    "history.path",
    "url",
    "user",
    "password-file",
    "ca-file",
    "config.file",
    "constants",
)
_MICROSECOND: Final = 1000
_LAST_SECOND: Final = 2**33
"""In the year 2242, shortly before 64-bit nanoseconds overflow."""


def add_config_flag(parser: argparse.ArgumentParser, usual: Path = CONFIGURATION) -> None:
    """Add the flag of the configuration file."""
    add_flags(parser.add_argument, _CONFIG, config_file=Path, constants=Path)
    parser.set_defaults(usual_config_file=usual)


def config_file_of(arguments: argparse.Namespace) -> Path | None:
    """Return the named file, else the usual one; `None` if it or a part of it is closed."""
    if arguments.config_file is not None:
        named: Path = arguments.config_file
        return named
    return readable(arguments.usual_config_file)


def readable(usual: Path) -> Path | None:
    """Return a usual configuration file; `None` if it or a part of it is closed."""
    parts = (usual, *usual.parent.glob("*.d"), *usual.parent.glob("*.d/*.yaml"))
    return usual if all(os.access(part, os.R_OK) for part in parts) else None


def settings_of(arguments: argparse.Namespace, root: type[_Settings]) -> _Settings:
    """Load the sections of the configuration file, overridden by the environment.

    Fields of the class `root` are the sections; others are ignored.

    Raises:
        ConfigurationError: file or environment have faults.
    """
    # Imported on use: not needed if the socket is given.
    from rightsizer.config.loader import load_sections  # noqa: PLC0415

    return load_sections(root, config_file_of(arguments), os.environ, arguments.constants)


def with_values(settings: _Settings, values: Mapping[str, object]) -> _Settings:
    """Replace values by dotted key; `None` keeps a value."""
    for path, value in values.items():
        if value is not None:
            settings = _with_value(settings, path, value)
    return settings


def _with_value(settings: Any, path: str, value: object) -> Any:
    name, _, rest = path.partition(".")
    return replace(
        settings,
        **{name: _with_value(getattr(settings, name), rest, value)} if rest else {name: value},
    )


def add_history_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--history.path`."""
    from rightsizer.accounting.settings import HistorySettings  # noqa: PLC0415 - 30 ms.

    flags = f"""
--history.path FILE: the history; setting: history.path
  (default: {HistorySettings().path})
"""
    add_flags(parser.add_argument, flags, history_path=Path)


def source_flags(arguments: argparse.Namespace) -> str:
    """Return the given flags that chose what was asked, for the end of a command to copy."""
    values = {name: getattr(arguments, re.sub("[.-]", "_", name), None) for name in _SOURCES}
    return "".join(f" --{name} {quote(str(value))}" for name, value in values.items() if value)


def history_path(arguments: argparse.Namespace, settings: HistorySettings) -> Path:
    """Return the history's path from flag or configuration; raises `HistoryError` without one."""
    path = arguments.history_path or settings.path
    if not path:
        raise HistoryError("no history is kept; set history.path or give --history.path")
    return Path(path)


def write_up_to_now(settings: PathSettings) -> None:
    """Ask a running agent to flush its history; without one do nothing."""
    if not settings.api_socket:
        return
    from rightsizer.io.local import LocalClient  # noqa: PLC0415 - few commands need it.

    try:
        LocalClient(Path(settings.api_socket)).post(FLUSH_PATH, {})
    except RightsizerError:
        return  # No agent, or no access: its last flush is at most a minute old.


def checked_address(text: str) -> str:
    """Validate an address from the command line; raises `UsageError`."""
    # Imported on use: only by commands that serve.
    from rightsizer.web.settings import parse_address  # noqa: PLC0415

    try:
        parse_address(text)
    except UsageError as error:
        raise UsageError(f"--web.listen-address: {error}") from None
    return text


def duration(text: str) -> float:
    """Parse a positive duration in seconds."""
    try:
        value = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if value <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no time at all")
    return value


def whole_number(text: str) -> int:
    """Parse a positive integer."""
    with contextlib.suppress(ValueError):
        if (value := int(text)) > 0:
            return value
    raise argparse.ArgumentTypeError(f"'{text}' is not a whole number; give 1 or more")


def duration_text(text: str) -> str:
    """Validate a duration and return it as written: the agent parses it, too."""
    duration(text)
    return text


def moment(text: str, timezone: tzinfo = UTC) -> Nanoseconds:
    """Parse a time as nanoseconds since the epoch.

    The text is ISO 8601, by default in the time zone, or seconds since the epoch.
    """
    from decimal import Decimal, InvalidOperation  # noqa: PLC0415 - few commands take a time.

    with contextlib.suppress(InvalidOperation):
        number = Decimal(text)
        # NaN and values beyond the history's range are rejected below.
        if number.is_finite() and -_LAST_SECOND < number < _LAST_SECOND:
            return int(number * NANOSECONDS_PER_SECOND)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        remedy = "write it like 2026-01-31T12:00:00Z, or in seconds since the epoch"
        raise argparse.ArgumentTypeError(f"'{text}' is not a time; {remedy}") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone)
    whole = int(time.replace(microsecond=0).timestamp())
    # Clamped to the history's range.
    whole = max(-_LAST_SECOND, min(whole, _LAST_SECOND))
    return whole * NANOSECONDS_PER_SECOND + time.microsecond * _MICROSECOND
