"""The command `rightsizer`: the registry of commands, and errors as exit codes."""

import argparse
import importlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.console.command import Command, discard_output, harmless
from rightsizer.io.near import near_words
from rightsizer.model.errors import RightsizerError


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command's name, and where it stands.

    To load all of them takes most of a second, and 5 MiB that an agent would keep for months.
    """

    name: str
    place: str

    def load(self) -> Command:
        """The command itself."""
        module, _, attribute = self.place.partition(":")
        # A name of this list: a test loads each.
        command: Command = getattr(importlib.import_module(module), attribute)
        return command


COMMANDS: Final = (
    CommandEntry("agent", "rightsizer.cli.agent:COMMAND"),
    CommandEntry("demo", "rightsizer.cli.demo:COMMAND"),
    CommandEntry("record", "rightsizer.cli.record:COMMAND"),
    CommandEntry("replay", "rightsizer.cli.replay:COMMAND"),
    CommandEntry("advise", "rightsizer.cli.advise:COMMAND"),
    CommandEntry("explain", "rightsizer.cli.explain:COMMAND"),
    CommandEntry("claim", "rightsizer.cli.claim:CLAIM"),
    CommandEntry("dismiss", "rightsizer.cli.claim:DISMISS"),
    CommandEntry("snooze", "rightsizer.cli.claim:SNOOZE"),
    CommandEntry("actions", "rightsizer.actions.command:COMMAND"),
    CommandEntry("export", "rightsizer.cli.export:COMMAND"),
    CommandEntry("report", "rightsizer.cli.report:COMMAND"),
    CommandEntry("fleet", "rightsizer.fleet.command:COMMAND"),
    CommandEntry("job-report", "rightsizer.cli.job_report:COMMAND"),
    CommandEntry("release", "rightsizer.cli.release:RELEASE"),
    CommandEntry("resume", "rightsizer.cli.release:RESUME"),
    CommandEntry("topology", "rightsizer.cli.topology:COMMAND"),
    CommandEntry("place", "rightsizer.cli.place:COMMAND"),
    CommandEntry("labels", "rightsizer.cli.labels:COMMAND"),
    CommandEntry("run", "rightsizer.broker.run_command:COMMAND"),
    CommandEntry("queue", "rightsizer.broker.queue_command:COMMAND"),
    CommandEntry("reserve", "rightsizer.broker.reserve_command:RESERVE"),
    CommandEntry("cancel", "rightsizer.broker.reserve_command:CANCEL"),
    CommandEntry("profile", "rightsizer.profiler.command:COMMAND"),
    CommandEntry("project", "rightsizer.cli.project:COMMAND"),
    CommandEntry("catalogue", "rightsizer.planner.catalogue:COMMAND"),
    CommandEntry("compare", "rightsizer.planner.compare:COMMAND"),
    CommandEntry("plan", "rightsizer.cli.plan:COMMAND"),
    CommandEntry("check-config", "rightsizer.cli.check_config:COMMAND"),
    CommandEntry("doctor", "rightsizer.cli.doctor:COMMAND"),
    CommandEntry("version", "rightsizer.cli.version:COMMAND"),
)


def all_commands() -> tuple[Command, ...]:
    """Each of them, loaded."""
    return tuple(entry.load() for entry in COMMANDS)


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
