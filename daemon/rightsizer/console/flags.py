"""Flags that commands share, of configuration and history; values of flags."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rightsizer.console.command import add_flags
from rightsizer.model.errors import HistoryError, RightsizerError, UsageError
from rightsizer.model.frozen import replace
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, parse_duration

if TYPE_CHECKING:
    from rightsizer.accounting.settings import HistorySettings
    from rightsizer.host.settings import PathSettings

FLUSH_PATH: Final = "/api/v1/history/flush"
REPORT_PATH: Final = "/api/v1/report/document"

_Settings = TypeVar("_Settings")
_CONFIG: Final = """
--config.file FILE: configuration file (without it: defaults). Environment variables like
  RIGHTSIZER_LOG__LEVEL override it
"""
_MICROSECOND: Final = 1000
_LAST_SECOND: Final = 2**33
"""In the year 2242: the history counts nanoseconds in 64 bits, which end soon after."""


def add_config_flag(parser: argparse.ArgumentParser) -> None:
    """The flag that every command with settings has."""
    add_flags(parser.add_argument, _CONFIG, config_file=Path)


def settings_of(arguments: argparse.Namespace, root: type[_Settings]) -> _Settings:
    """The sections of the file that the flag names, and of the environment over it.

    The fields of the frozen dataclass `root` are the sections; others are passed over.

    Raises:
        ConfigurationError: file or environment have faults.
    """
    # What has its socket named asks for no setting.
    from rightsizer.config.loader import load_sections  # noqa: PLC0415

    return load_sections(root, arguments.config_file, os.environ)


def with_values(settings: _Settings, values: Mapping[str, object]) -> _Settings:
    """Settings with other values by the paths of their keys; `None` leaves one as it is."""
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
    """`--history.path`."""
    from rightsizer.accounting.settings import HistorySettings  # noqa: PLC0415 - 30 ms.

    flags = f"""
--history.path FILE: the history; setting: history.path
  (default: {HistorySettings().path})
"""
    add_flags(parser.add_argument, flags, history_path=Path)


def history_path(arguments: argparse.Namespace, settings: HistorySettings) -> Path:
    """The history that the flag or the configuration names; raises `HistoryError` without one."""
    path = arguments.history_path or settings.path
    if not path:
        raise HistoryError("no history is kept; set history.path or give --history.path")
    return Path(path)


def write_up_to_now(settings: PathSettings) -> None:
    """Ask a running agent to write what it knows; without one the history is as it is."""
    if not settings.api_socket:
        return
    from rightsizer.io.local import LocalClient  # noqa: PLC0415 - few commands ask.

    try:
        LocalClient(Path(settings.api_socket)).post(FLUSH_PATH, {})
    except RightsizerError:
        return  # No agent runs, or not for us: what it wrote last is a minute old at most.


def checked_address(text: str) -> str:
    """An address of the command line, as it was written; raises `UsageError` where it is none."""
    # Only commands that serve load what that takes.
    from rightsizer.web.settings import parse_address  # noqa: PLC0415

    try:
        parse_address(text)
    except UsageError as error:
        raise UsageError(f"--web.listen-address: {error}") from None
    return text


def duration(text: str) -> float:
    """Seconds of a duration on the command line, longer than none."""
    try:
        value = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if value <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no time at all")
    return value


def whole_number(text: str) -> int:
    """A number of things on the command line, one at least."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is none at all")
    return value


def duration_text(text: str) -> str:
    """A duration that was checked, as it was written: the agent reads it too."""
    duration(text)
    return text


def moment(text: str, timezone: tzinfo = UTC) -> Nanoseconds:
    """A time of the command line in nanoseconds since the epoch.

    The text is ISO 8601, in the time zone unless it says otherwise, or seconds since the epoch.
    """
    from decimal import Decimal, InvalidOperation  # noqa: PLC0415 - few commands take a time.

    with contextlib.suppress(InvalidOperation):
        number = Decimal(text)
        # What is no number, or beyond what the history can hold, is refused below.
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
    # Whatever the history holds begins after one end and before the other.
    whole = max(-_LAST_SECOND, min(whole, _LAST_SECOND))
    return whole * NANOSECONDS_PER_SECOND + time.microsecond * _MICROSECOND
