"""`rightsizer mcp`: the commands' answers for an AI assistant."""

import argparse
import sys
from typing import Final

from rightsizer.console.command import Command, add_flags, help_of
from rightsizer.console.flags import add_config_flag, add_history_flag
from rightsizer.console.remote_agent import RemoteAgent, add_url_flags
from rightsizer.model.values import RightsizerError

_HELP: Final = help_of(__file__)
_LOGIN: Final = {"user": "user", "password-file": "password_file", "ca-file": "ca_file"}
_COMMON: Final = {"config.file": "config_file", "constants": "constants"}
"""Destinations by flag."""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_url_flags(parser)
    add_flags(parser.add_argument, _HELP["flags"])
    add_history_flag(parser)
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    """Serve until the assistant closes standard input.

    Raises:
        RightsizerError: the extra is not installed, or an address is invalid.
    """
    try:
        from rightsizer.assistant.server import serve_assistant  # noqa: PLC0415 - the extra.
        from rightsizer.assistant.tools import ToolSources  # noqa: PLC0415 - all commands.
    except ImportError as error:
        raise RightsizerError(
            f"mcp needs the SDK of the Model Context Protocol ({error.name} is missing); install "
            "it with: pip install 'gpu-rightsizer[mcp]'"
        ) from None
    for url in filter(None, (arguments.url, arguments.fleet_url)):
        RemoteAgent.of(argparse.Namespace(**vars(arguments) | {"url": url}))
    history = arguments.history_path
    sources = ToolSources(
        url=arguments.url,
        fleet_url=arguments.fleet_url,
        login=_given(arguments, _LOGIN),
        history_path=None if history is None else str(history),
        common=_given(arguments, _COMMON),
    )
    serve_assistant(_program(), sources, allows_changes=arguments.allow_changes)
    return 0


def _given(arguments: argparse.Namespace, flags: dict[str, str]) -> dict[str, str]:
    values = {flag: getattr(arguments, destination) for flag, destination in flags.items()}
    return {flag: str(value) for flag, value in values.items() if value is not None}


def _program() -> list[str]:
    """Return how this process was started, without the command and its flags."""
    return [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]]


COMMAND: Final = Command("mcp", _configure, _run, _HELP["description"])
