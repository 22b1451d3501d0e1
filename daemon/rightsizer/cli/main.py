"""The command `rightsizer`: finds the command, runs it, turns errors into exit codes."""

import argparse
import sys
from collections.abc import Iterable, Sequence

from rightsizer.cli.commands import COMMANDS, all_commands
from rightsizer.console.command import Command
from rightsizer.console.output import discard_output, harmless
from rightsizer.io.near import near_words
from rightsizer.model.errors import RightsizerError


def main(arguments: Sequence[str]) -> int:
    """Run a command line; the exit code (0 done, 1 failed, 2 usage, 78 configuration)."""
    commands = _commands(arguments)
    parser = _parser(commands)
    _refuse_unknown(parser, arguments, commands)
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        return int(chosen.run(chosen))
    except RightsizerError as error:
        for line in str(error).splitlines():
            # It may quote a file that somebody else wrote.
            print(f"rightsizer: {harmless(line)}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        discard_output()
        return 0
    except KeyboardInterrupt:
        return 130


def entry_point() -> None:
    """What the console script runs."""
    sys.exit(main(sys.argv[1:]))


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Tells the default of each flag that has one to tell; leaves indented lines as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled = []
        for part in text.strip("\n").split("\n\n"):
            is_code = part.startswith(" ")
            filled.append(part if is_code else super()._fill_text(part, width, indent))
        return "\n\n".join(filled)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if isinstance(action.default, bool) or action.default in (None, "", ()):
            return action.help
        return super()._get_help_string(action)


def _commands(arguments: Sequence[str]) -> tuple[Command, ...]:
    """Those that may be asked for: one alone where its name comes first."""
    asked = arguments[0] if arguments else ""
    for entry in COMMANDS:
        if entry.name == asked:
            return (entry.load(),)
    return all_commands()


def _parser(commands: Iterable[Command]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rightsizer",
        description="Account for every second of every GPU and say what size it should be.",
    )
    parser.set_defaults(command=None)
    choices = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in commands:
        sub = choices.add_parser(
            command.name,
            help=command.summary,
            description=command.description or command.summary,
            formatter_class=_HelpFormatter,
        )
        command.configure(sub)
        sub.set_defaults(command=command.name, run=command.run)
    return parser


def _refuse_unknown(
    parser: argparse.ArgumentParser, arguments: Sequence[str], commands: Iterable[Command]
) -> None:
    """End with the nearest command where the first word is none, and the list after it."""
    names = [command.name for command in commands]
    if not arguments or arguments[0].startswith("-") or arguments[0] in names:
        return
    near = near_words(arguments[0], names)
    hint = f"did you mean '{near[0]}'? " if near else ""
    parser.error(f"'{arguments[0]}' is no command; {hint}Commands: {', '.join(names)}")


if __name__ == "__main__":
    entry_point()
