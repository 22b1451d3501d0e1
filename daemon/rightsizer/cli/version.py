"""`rightsizer version`."""

import argparse
import platform

from rightsizer import __version__
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    add_format_flag(parser, "texts")


def _run(arguments: argparse.Namespace) -> int:
    python = platform.python_version()
    document = {"version": __version__, "python": python}
    show(arguments, "Version", document, [f"rightsizer {__version__} (Python {python})"])
    return 0


COMMAND = Command("version", _configure, _run)
