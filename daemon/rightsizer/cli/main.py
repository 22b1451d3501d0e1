"""The command `rightsizer`: the registry of commands, and errors as exit codes."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from rightsizer import __version__
from rightsizer.console.command import Command, discard_output, harmless
from rightsizer.io.near import near_words
from rightsizer.model.errors import RightsizerError
from rightsizer.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command's name, group and summary, and where it stands.

    To load all of them takes more than a second, and 5 MiB that an agent would keep for months.
    """

    group: str
    name: str
    summary: str
    place: str

    def load(self) -> Command:
        """The command itself."""
        module, _, attribute = self.place.partition(":")
        # A name of this list: a test loads each.
        command: Command = getattr(importlib.import_module(module), attribute)
        return command


_TABLE: Final = {
    "Node": (
        (
            "agent",
            "run the node agent: sample, account, export, recommend",
            "rightsizer.cli.agent:COMMAND",
        ),
        (
            "demo",
            "run a simulated node in fast motion, with its page",
            "rightsizer.cli.demo:COMMAND",
        ),
        ("record", "record samples to a file", "rightsizer.cli.record:COMMAND"),
        (
            "topology",
            "show how GPUs, NICs and disks are connected",
            "rightsizer.cli.topology:COMMAND",
        ),
        ("labels", "print this node's labels for Kubernetes", "rightsizer.cli.labels:COMMAND"),
        (
            "doctor",
            "check what this machine offers and what is missing",
            "rightsizer.cli.doctor:COMMAND",
        ),
        ("release", "make the agent release the GPUs", "rightsizer.cli.release:RELEASE"),
        ("resume", "reopen released GPUs", "rightsizer.cli.release:RESUME"),
    ),
    "Recommendations": (
        (
            "advise",
            "run the recommender once over the local history",
            "rightsizer.cli.advise:COMMAND",
        ),
        (
            "explain",
            "show the whole reasoning behind a recommendation",
            "rightsizer.cli.explain:COMMAND",
        ),
        ("claim", "mark a recommendation as being worked on", "rightsizer.cli.claim:CLAIM"),
        ("dismiss", "close a recommendation that is not wanted", "rightsizer.cli.claim:DISMISS"),
        ("snooze", "postpone a recommendation", "rightsizer.cli.claim:SNOOZE"),
        (
            "actions",
            "list actions on recommendations, and what kept others",
            "rightsizer.actions.command:COMMAND",
        ),
        (
            "fleet",
            "cluster-wide recommendations from Prometheus",
            "rightsizer.fleet.command:COMMAND",
        ),
    ),
    "Reports": (
        ("replay", "analyze a recording", "rightsizer.cli.replay:COMMAND"),
        ("report", "write a report: utilization, cost, sizing", "rightsizer.cli.report:COMMAND"),
        ("job-report", "show what a job did with its GPUs", "rightsizer.cli.job_report:COMMAND"),
        ("export", "export the local history as a table", "rightsizer.cli.export:COMMAND"),
        (
            "profile",
            "show where a program's time goes, from profiler files",
            "rightsizer.profiler.command:COMMAND",
        ),
    ),
    "Planning": (
        ("plan", "find the GPUs that fit a model and its load", "rightsizer.cli.plan:COMMAND"),
        (
            "compare",
            "compare two GPUs for a kind of workload",
            "rightsizer.planner.compare:COMMAND",
        ),
        ("project", "project a measured workload to other GPUs", "rightsizer.cli.project:COMMAND"),
        ("catalogue", "list and search known GPUs", "rightsizer.planner.catalogue:COMMAND"),
    ),
    "Sharing GPUs": (
        ("place", "recommend the best free GPUs of this node", "rightsizer.cli.place:COMMAND"),
        ("run", "wait for GPUs and run a command on them", "rightsizer.broker.run_command:COMMAND"),
        (
            "queue",
            "show leases, waiting requests and reservations",
            "rightsizer.broker.queue_command:COMMAND",
        ),
        ("reserve", "reserve GPUs for a later time", "rightsizer.broker.reserve_command:RESERVE"),
        (
            "cancel",
            "cancel a lease, a request or a reservation",
            "rightsizer.broker.reserve_command:CANCEL",
        ),
    ),
    "Configuration": (
        ("check-config", "check a configuration file", "rightsizer.cli.check_config:COMMAND"),
        ("version", "print the version", "rightsizer.cli.version:COMMAND"),
    ),
}
"""By the group that `--help` shows them in: names, summaries, and where commands stand."""

COMMANDS: Final = tuple(CommandEntry(group, *row) for group, rows in _TABLE.items() for row in rows)


def all_commands() -> tuple[Command, ...]:
    """Each of them, loaded."""
    return tuple(entry.load() for entry in COMMANDS)


def main(arguments: Sequence[str]) -> int:
    """Run a command line; the exit code (0 done, 1 failed, 2 usage, 78 configuration)."""
    entry = _entry(arguments)
    if entry is None:
        return _without_command(arguments)
    parser = _RootParser()
    choices = parser.add_subparsers(prog="rightsizer", parser_class=argparse.ArgumentParser)
    command = entry.load()
    sub = choices.add_parser(
        command.name,
        description=command.description or entry.summary,
        formatter_class=_HelpFormatter,
    )
    command.configure(sub)
    chosen = parser.parse_args(arguments)
    try:
        return int(command.run(chosen))
    except RightsizerError as error:
        for line in str(error).splitlines():
            # It may quote a file that somebody else wrote.
            print(f"rightsizer: {harmless(line)}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The reader of the output has seen enough.
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


class _RootParser(argparse.ArgumentParser):
    """The flags before a command, and the list of all commands; it loads none of them."""

    def __init__(self) -> None:
        super().__init__(prog="rightsizer", usage="rightsizer [-h] [--version] COMMAND ...")
        self.add_argument("--version", action="version", version=f"rightsizer {__version__}")

    def format_help(self) -> str:
        """Commands by their groups, each with a line."""
        width = max(len(entry.name) for entry in COMMANDS)
        lines = [
            f"usage: {self.usage}",
            "",
            "Account for every second of every GPU and say what size it should be.",
        ]
        for group, entries in groupby(COMMANDS, lambda entry: entry.group):
            lines += ["", f"{group}:"]
            lines += [f"  {entry.name.ljust(width)}  {entry.summary}" for entry in entries]
        lines += [
            "",
            "options:",
            f"  {'-h, --help'.ljust(width)}  show this help message and exit",
            f"  {'--version'.ljust(width)}  show the version and exit",
            "",
            "'rightsizer COMMAND --help' shows the flags of a command.",
        ]
        return "\n".join(lines) + "\n"


def _entry(arguments: Sequence[str]) -> CommandEntry | None:
    """The command that the first word names."""
    asked = arguments[0] if arguments else ""
    return next((entry for entry in COMMANDS if entry.name == asked), None)


def _without_command(arguments: Sequence[str]) -> int:
    """Answer `--help` and `--version`; else show the list, or the nearest command."""
    parser = _RootParser()
    if arguments and not arguments[0].startswith("-"):
        names = [entry.name for entry in COMMANDS]
        near = near_words(arguments[0], names)
        hint = f"did you mean '{near[0]}'? " if near else ""
        parser.error(f"'{arguments[0]}' is no command; {hint}Commands: {', '.join(names)}")
    parser.parse_args(arguments)
    parser.print_help(sys.stderr)
    return 2


if __name__ == "__main__":
    entry_point()
