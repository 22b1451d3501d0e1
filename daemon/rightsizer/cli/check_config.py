"""`rightsizer check-config`: will the agent start with this configuration?"""

import argparse
import os
from pathlib import Path
from typing import Final

from rightsizer.agent.configuration_check import faults_of
from rightsizer.agent.whole_settings import WholeSettings
from rightsizer.config.loader import load_file
from rightsizer.console.command import Command, say
from rightsizer.model.errors import ConfigurationError

_DESCRIPTION = """\
Every fault of a configuration file and of the environment over it, with its place; then of what
they name: the web configuration and its certificates, boards, prices, a scenario, tokens and other
files of credentials, the broker's file. Run it as the agent's own user. Exits with 78 where
anything is wrong.
"""


_REMEDY: Final = "name the file to check, as in 'rightsizer check-config FILE'"


def configure(parser: argparse.ArgumentParser) -> None:
    """The file."""
    usual = Path("/etc/rightsizer/rightsizer.yaml")
    parser.add_argument("file", type=Path, nargs="?", default=usual, help="configuration file")
    only = "leave alone what the file names, which may lie on another machine"
    parser.add_argument("--syntax-only", action="store_true", help=only)


def run(arguments: argparse.Namespace) -> int:
    """Say that all is well; every fault at once otherwise, with exit code 78."""
    settings = load_file(WholeSettings, arguments.file, os.environ, remedy=_REMEDY)
    faults = () if arguments.syntax_only else faults_of(settings)
    if faults:
        raise ConfigurationError("\n".join(f"{arguments.file}: {fault}" for fault in faults))
    say(f"{arguments.file}: ok")
    return 0


COMMAND = Command("check-config", configure, run, _DESCRIPTION)
