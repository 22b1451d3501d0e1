"""`rightsizer top`: the GPUs of a node in a terminal, live."""

import argparse
import sys
from importlib.util import find_spec
from typing import Final

from rightsizer.console.command import Command, add_flags, help_of
from rightsizer.console.flags import source_flags
from rightsizer.console.remote_agent import DEFAULT_URL, RemoteAgent, add_url_flags
from rightsizer.model.errors import RightsizerError

_HELP: Final = help_of(__file__)
_LEAST_SECONDS: Final = 0.2


def _configure(parser: argparse.ArgumentParser) -> None:
    add_url_flags(parser, DEFAULT_URL)
    flags = """
--interval SECONDS: time between two updates
--once: print one table and exit
"""
    add_flags(parser.add_argument, flags, interval={"type": float, "default": 2.0})


def _run(arguments: argparse.Namespace) -> int:
    if find_spec("rich") is None:
        raise RightsizerError(
            "top needs rich; install it with: pip install 'gpu-rightsizer[cli]', "
            "or use the image rightsizer-tools"
        )
    from rightsizer.console.node_screen import NodeScreen, print_node  # noqa: PLC0415 - extra.

    agent = RemoteAgent.of(arguments)
    if arguments.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        print_node(agent)
    else:
        NodeScreen(agent, max(_LEAST_SECONDS, arguments.interval), source_flags(arguments)).run()
    return 0


COMMAND: Final = Command("top", _configure, _run, _HELP["description"])
