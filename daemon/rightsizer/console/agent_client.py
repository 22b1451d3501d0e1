"""Client of the running agent for commands: flags and socket."""

import argparse
import getpass
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from rightsizer.console.command import add_flags
from rightsizer.console.flags import add_config_flag, settings_of
from rightsizer.host.settings import PathSettings
from rightsizer.io.local import LocalClient
from rightsizer.model.errors import AgentAbsentError, RightsizerError


class AgentClientSettings(Struct, frozen=True):
    """Settings sections of commands that ask an agent."""

    path: PathSettings = PathSettings()


def add_agent_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that locate the agent."""
    flags = f"""
--path.api-socket FILE: the agent's socket; setting: path.api_socket
  (default: {PathSettings().api_socket})
"""
    add_flags(parser.add_argument, flags, path_api_socket=Path)
    add_config_flag(parser)


def socket_of(arguments: argparse.Namespace) -> str:
    """Return the agent's socket from flags or configuration; empty if neither has one."""
    named = arguments.path_api_socket
    return str(named or settings_of(arguments, AgentClientSettings).path.api_socket)


def asked_at(path: str | Path, ask: Callable[[LocalClient], Any]) -> Any | None:
    """Return the answer of the process at a socket, or `None` if there is none."""
    try:
        return ask(LocalClient(Path(path))) if path else None
    except AgentAbsentError:
        return None


def user_name() -> str:
    """Return the user's name, from before `sudo`."""
    if sudo_user := os.environ.get("SUDO_USER"):
        return sudo_user
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # A user without a passwd entry, as in a container.
        return f"uid:{os.getuid()}"


def client_of(arguments: argparse.Namespace) -> LocalClient:
    """Return a client of the running agent; raises `RightsizerError` without a socket."""
    path = socket_of(arguments)
    if not path:
        raise RightsizerError(
            "path.api_socket is empty, so the agent takes no requests; set it and restart the agent"
        )
    return LocalClient(Path(path))
