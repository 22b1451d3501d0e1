"""`rightsizer check-config`: is a configuration file right?"""

import argparse
from pathlib import Path

from rightsizer.cli.command import Command
from rightsizer.cli.output import say
from rightsizer.config.loader import load_file
from rightsizer.runtime.settings import Settings

__all__ = ["COMMAND"]


def configure(parser: argparse.ArgumentParser) -> None:
    """The file."""
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        default=Path("/etc/rightsizer/rightsizer.yaml"),
        help="configuration file",
    )


def run(arguments: argparse.Namespace) -> int:
    """Say that all is well; every fault at once otherwise, with exit code 78."""
    load_file(Settings, arguments.file)
    say(f"{arguments.file}: ok")
    return 0


COMMAND = Command("check-config", "check a configuration file", configure, run)
