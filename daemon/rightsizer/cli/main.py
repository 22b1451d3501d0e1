"""Command `rightsizer`: registry of commands, and errors as exit codes."""

import argparse
import importlib
import os
import re
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from itertools import groupby, pairwise
from typing import Final, NoReturn

from msgspec import Struct

from rightsizer import __version__
from rightsizer.console.command import Command, discard_output, printable, program
from rightsizer.io.near import near_words
from rightsizer.model.errors import RightsizerError
from rightsizer.model.table import table_rows


class CommandEntry(Struct, frozen=True):
    """Name, group, summary and location of a command.

    Loading all commands takes more than a second, and 5 MiB that an agent would keep for months.
    """

    group: str
    name: str
    place: str
    summary: str
    also: str = ""
    """What other tools call it."""

    def load(self) -> Command:
        """Import the command."""
        module, _, attribute = self.place.partition(":")
        # Only from this table; a test loads each.
        command: Command = getattr(importlib.import_module(module), attribute)
        return command


_USAGE: Final = 2
_GLOBAL_FLAGS: Final = ("-h", "--help", "--version")
_FLAG: Final = re.compile(r"--[\w.-]+")
COMMANDS: Final = tuple(CommandEntry(**row) for row in table_rows(__file__, "commands.csv"))
"""Ordered by group, as in `--help`."""


def main(arguments: Sequence[str]) -> int:
    """Run a command line; return the exit code (0 done, 1 failed, 2 usage, 78 configuration)."""
    asked = arguments[0] if arguments else ""
    entry = next((command for command in COMMANDS if command.name == asked), None)
    if entry is None:
        return _without_command(arguments)
    try:
        return _run(entry, arguments)
    except RightsizerError as error:
        for line in str(error).splitlines():
            # May quote an untrusted file.
            print(f"rightsizer: {printable(line)}", file=sys.stderr)
        return error.exit_code
    except PermissionError as error:
        if error.filename is None:
            raise
        fault = f"{printable(str(error.filename))}: permission denied"
        remedy = "check the path, or run this as a user who may use it"
        print(f"rightsizer: {fault}; {remedy}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of the output has closed it.
        discard_output()
        return 0
    except KeyboardInterrupt:
        return 130


def _run(entry: CommandEntry, arguments: Sequence[str]) -> int:
    parser = _RootParser()
    choices = parser.add_subparsers(prog="rightsizer", parser_class=_CommandParser)
    command = entry.load()
    text = command.description or entry.summary
    sub = choices.add_parser(
        command.name, description=text, formatter_class=_HelpFormatter, allow_abbrev=False
    )
    command.configure(sub)
    chosen, unknown = parser.parse_known_args(arguments)
    if unknown:
        print(printable(_unknown(unknown[0], sub, command)), file=sys.stderr)
        return _USAGE
    return _serve(command, chosen) if command.is_service(chosen) else int(command.run(chosen))


def _serve(command: Command, chosen: argparse.Namespace) -> int:
    # Imported on use: other commands write to standard error themselves.
    from rightsizer.io.log_queue import queue_standard_error  # noqa: PLC0415

    queue_standard_error()
    try:
        return int(command.run(chosen))
    except BrokenPipeError as error:
        # Of a socket: nothing may end a service with success but a signal.
        raise RuntimeError(str(error)) from error


def _unknown(word: str, parser: argparse.ArgumentParser, command: Command) -> str:
    """Suggest a replacement for an unknown argument."""
    asked, _, value = word.partition("=")
    flags = _FLAG.findall(parser.format_usage())
    meant = command.meant.get(asked.lstrip("-").replace("-", "_").lower())
    words = [flag.lstrip("-") for flag in flags]
    near = near_words(asked.lstrip("-"), words) if asked.startswith("-") else []
    spelled = f"--{near[0]}" + (f"={value}" if value else "") if near else ""
    remedy = meant or (f"did you mean {spelled}?" if near else "")
    hint = f"'{program()} {command.name} --help' lists what it takes"
    what = "flag" if asked.startswith("-") else "argument"
    return f"rightsizer: {command.name} has no {what} {asked}; {remedy or hint}"


def entry_point() -> None:
    """Entry point of the console script."""
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    if sys.argv[1:2] == ["agent"]:
        # A reload before the agent can do it must not end the process, and loading takes a while.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Characters that the locale lacks become question marks.
            stream.reconfigure(errors="replace")
    sys.exit(main(sys.argv[1:]))


def _complete() -> None:
    """Answer a completing shell; only the command on the line is loaded."""
    from rightsizer.cli.completion import asked_command, complete  # noqa: PLC0415

    parser = _RootParser()
    choices = parser.add_subparsers(parser_class=argparse.ArgumentParser)
    asked = asked_command()
    for entry in COMMANDS:
        sub = choices.add_parser(entry.name)
        if entry.name == asked:
            entry.load().configure(sub)
    complete(parser)


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows meaningful defaults of flags, and keeps indented lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.strip("\n").split("\n\n")
        fill = super()._fill_text
        return "\n\n".join(e if e.startswith(" ") else fill(e, width, indent) for e in parts)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if isinstance(action.default, bool) or action.default in (None, "", ()):
            return action.help
        return super()._get_help_string(action)


class _CommandParser(argparse.ArgumentParser):
    """Parser of a command; reports a fault in one line."""

    def error(self, message: str) -> NoReturn:
        """Print the fault without the usage, which would be longer."""
        text = message.replace("argument ", "", 1) if message.startswith("argument ") else message
        called = self.prog.replace("rightsizer", program(), 1)
        remedy = "" if ";" in text else f"; '{called} --help' lists what it takes"
        self.exit(_USAGE, f"{self.prog}: {text}{remedy}\n")


class _RootParser(argparse.ArgumentParser):
    """Parser of global flags and the list of commands; loads none of them."""

    def __init__(self) -> None:
        super().__init__(prog="rightsizer", usage="rightsizer [-h] [--version] COMMAND ...")
        self.add_argument("--version", action="version", version=f"rightsizer {__version__}")

    def format_help(self) -> str:
        """Return the commands by group, a line each."""
        width = max(len(entry.name) for entry in COMMANDS)
        purpose = "Account for every second of every GPU and say what size it should be."
        lines = [f"usage: {self.usage}", "", purpose]
        for group, entries in groupby(COMMANDS, lambda entry: entry.group):
            lines += ["", f"{group}:"]
            lines += [f"  {entry.name.ljust(width)}  {entry.summary}" for entry in entries]
        lines += ["", "options:"]
        lines.append(f"  {'-h, --help'.ljust(width)}  show this help message and exit")
        lines.append(f"  {'--version'.ljust(width)}  show the version and exit")
        lines += ["", f"'{program()} COMMAND --help' shows the flags of a command.", ""]
        return "\n".join(lines)


def _without_command(arguments: Sequence[str]) -> int:
    """Handle `--help` and `--version`; else show the list, or suggest a command."""
    parser = _RootParser()
    names = [entry.name for entry in COMMANDS]
    if arguments and not arguments[0].startswith("-"):
        meant = [entry.name for entry in COMMANDS if arguments[0].lower() in entry.also.split()]
        meant = meant or near_words(arguments[0], names)
        hint = f"did you mean {' or '.join(map(repr, meant))}? " if meant else ""
        parser.error(f"unknown command '{arguments[0]}'; {hint}Commands: {', '.join(names)}")
    if arguments and arguments[0] not in _GLOBAL_FLAGS and (later := _later(arguments, names)):
        line = f"'{program()} {later} {arguments[0]} ...'"
        parser.error(f"{arguments[0]} stands before the command; write {line}")
    parser.parse_args(arguments)
    parser.print_help(sys.stderr)
    return _USAGE


def _later(arguments: Sequence[str], names: Sequence[str]) -> str:
    """Return the command behind flags, one of which may have a command's name as its value."""
    matches = [(before, word) for before, word in pairwise(arguments) if word in names]
    certain = (word for before, word in matches if not before.startswith("-") or "=" in before)
    return next(certain, matches[-1][1] if matches else "")


if __name__ == "__main__":
    entry_point()
