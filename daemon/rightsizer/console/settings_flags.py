"""Flags that name the configuration file and the history."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from rightsizer.console.command import add_flags
from rightsizer.model.errors import HistoryError, RightsizerError

if TYPE_CHECKING:
    from rightsizer.accounting.settings import HistorySettings
    from rightsizer.host.settings import PathSettings


_Settings = TypeVar("_Settings")


_CONFIG: Final = """
--config.file FILE: configuration file; without one every setting has its default. Environment
  variables like RIGHTSIZER_LOG__LEVEL go before it
"""


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


def add_history_flag(parser: argparse.ArgumentParser) -> None:
    """`--history.path`."""
    from rightsizer.accounting.settings import HistorySettings  # noqa: PLC0415 - 30 ms.

    flags = f"""
--history.path FILE: the history; without it history.path of the configuration
  (default: {HistorySettings().path})
"""
    add_flags(parser.add_argument, flags, history_path=Path)


def history_path(arguments: argparse.Namespace, settings: HistorySettings) -> Path:
    """The history that the flag or the configuration names.

    Raises:
        HistoryError: none is kept.
    """
    path = arguments.history_path or settings.path
    if not path:
        raise HistoryError("no history is kept; set history.path or give --history.path")
    return Path(path)


def write_up_to_now(settings: PathSettings) -> None:
    """Ask a running agent to write what it knows; without one the history is as it is."""
    if not settings.api_socket:
        return
    from rightsizer.io.local import FLUSH_PATH, LocalClient  # noqa: PLC0415 - few commands ask.

    try:
        LocalClient(Path(settings.api_socket)).post(FLUSH_PATH, {})
    except RightsizerError:
        return  # No agent runs, or not for us: what it wrote last is a minute old at most.
