"""The flag that names the history, for commands that look into it."""

import argparse
from pathlib import Path

from rightsizer.agent.flush_route import FLUSH_PATH
from rightsizer.agent.settings import Settings
from rightsizer.io.local import LocalClient
from rightsizer.model.errors import HistoryError, RightsizerError


def add_history_flag(parser: argparse.ArgumentParser) -> None:
    """`--history.path`."""
    parser.add_argument(
        "--history.path",
        dest="history_path",
        type=Path,
        metavar="FILE",
        help="the history; without it history.path of the configuration "
        f"(default: {Settings().history.path})",
    )


def history_path(arguments: argparse.Namespace, settings: Settings) -> Path:
    """The history that the flag or the configuration names.

    Raises:
        HistoryError: none is kept.
    """
    path = arguments.history_path or settings.history.path
    if not path:
        raise HistoryError("no history is kept; set history.path or give --history.path")
    return Path(path)


def write_up_to_now(settings: Settings) -> None:
    """Ask a running agent to write what it knows; without one the history is as it is."""
    if not settings.path.api_socket:
        return
    try:
        LocalClient(Path(settings.path.api_socket)).post(FLUSH_PATH, {})
    except RightsizerError:
        return  # No agent runs, or not for us: what it wrote last is a minute old at most.
