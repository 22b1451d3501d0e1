"""What a command is: a name, its flags, and a function."""

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rightsizer.config.loader import load, load_file
from rightsizer.domain.errors import UsageError
from rightsizer.domain.units import parse_duration
from rightsizer.publish.web.address import parse_address
from rightsizer.runtime.settings import OTHERS, Settings

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
        help="configuration file; without one every setting has its default. Environment variables "
        "like RIGHTSIZER_LOG__LEVEL go before it",
    )


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings of the file that the flag names, and of the environment over it.

    Raises:
        ConfigurationError: either has faults.
    """
    file = arguments.config_file
    if file is None:
        return load(Settings, "", "", os.environ, OTHERS)
    return load_file(Settings, file, os.environ, OTHERS)


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
