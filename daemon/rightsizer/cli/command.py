"""What a command is: a name, its flags, and a function."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rightsizer.config.loader import load_file
from rightsizer.domain.errors import UsageError
from rightsizer.domain.units import parse_duration
from rightsizer.publish.web.address import parse_address
from rightsizer.runtime.settings import Settings

__all__ = ["Command", "add_config_flag", "checked_address", "duration", "settings_of"]


@dataclass(frozen=True, slots=True)
class Command:
    """One word after `rightsizer`."""

    name: str
    summary: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    description: str = ""


def add_config_flag(parser: argparse.ArgumentParser) -> None:
    """The flag that every command with settings has."""
    parser.add_argument(
        "--config.file",
        dest="config_file",
        type=Path,
        metavar="FILE",
        help="configuration file; without one every setting has its default",
    )


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings that the flag names.

    Raises:
        ConfigurationError: the file has faults.
    """
    file = arguments.config_file
    return Settings() if file is None else load_file(Settings, file)


def checked_address(text: str) -> str:
    """An address of the command line, as it was written.

    Raises:
        UsageError: it is none.
    """
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
