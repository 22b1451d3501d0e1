"""`rightsizer version`."""

import argparse
import json
import platform

from rightsizer import __version__
from rightsizer.console.command import Command, say


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def _run(arguments: argparse.Namespace) -> int:
    python = platform.python_version()
    document = {"version": __version__, "python": python}
    say(json.dumps(document) if arguments.json else f"rightsizer {__version__} (Python {python})")
    return 0


COMMAND = Command("version", _configure, _run)
