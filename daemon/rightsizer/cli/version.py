"""`rightsizer version`."""

import argparse
import json
import platform

from rightsizer import __version__
from rightsizer.console.command import Command, say


def configure(parser: argparse.ArgumentParser) -> None:
    """One flag."""
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the version and what it runs on."""
    python = platform.python_version()
    if arguments.json:
        say(json.dumps({"version": __version__, "python": python}))
    else:
        say(f"rightsizer {__version__} (Python {python})")
    return 0


COMMAND = Command("version", configure, run)
