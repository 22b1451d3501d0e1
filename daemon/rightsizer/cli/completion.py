"""`rightsizer completion`, and answers to a completing shell."""

import argparse
import os
from typing import Final

from rightsizer.console.command import Command, help_of, say
from rightsizer.model.errors import RightsizerError

_HELP: Final = help_of(__file__)
_SHELLS: Final = ("bash", "zsh", "fish")


def asked_command() -> str:
    """Return the command on the line being completed; empty while it is incomplete."""
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    words = line.split()[1:]
    return words[0] if len(words) > 1 or (words and line[-1:].isspace()) else ""


def complete(parser: argparse.ArgumentParser) -> None:
    """Tell the shell the possible completions, and exit."""
    import argcomplete  # noqa: PLC0415 - an extra.

    argcomplete.autocomplete(parser, always_complete_options=False)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=", ".join(_SHELLS))


def _run(arguments: argparse.Namespace) -> int:
    try:
        from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - an extra.
    except ImportError:
        fault = "completion needs argcomplete, which is not installed"
        remedy = "install it with pip install 'gpu-rightsizer[cli]'"
        raise RightsizerError(f"{fault}; {remedy}") from None
    say(shellcode(["rightsizer"], shell=arguments.shell))
    return 0


COMMAND: Final = Command("completion", _configure, _run, _HELP["description"])
