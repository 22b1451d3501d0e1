"""All commands of `rightsizer`, in the order of its help; each is loaded when it is asked for."""

import importlib
from dataclasses import dataclass
from typing import Final

from rightsizer.cli.command import Command

__all__ = ["COMMANDS", "Entry", "all_commands"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A command's name, and where it stands.

    To load all of them takes most of a second, and 5 MiB that an agent would keep for months.
    """

    name: str
    place: str

    def load(self) -> Command:
        """The command itself."""
        module, _, attribute = self.place.partition(":")
        # A name of this list: a test loads each.
        command: Command = getattr(importlib.import_module(f"rightsizer.cli.{module}"), attribute)
        return command


COMMANDS: Final = (
    Entry("agent", "agent:COMMAND"),
    Entry("demo", "demo:COMMAND"),
    Entry("record", "record:COMMAND"),
    Entry("replay", "replay:COMMAND"),
    Entry("advise", "advise:COMMAND"),
    Entry("explain", "explain:COMMAND"),
    Entry("claim", "claim:CLAIM"),
    Entry("dismiss", "claim:DISMISS"),
    Entry("snooze", "claim:SNOOZE"),
    Entry("actions", "actions:COMMAND"),
    Entry("export", "export:COMMAND"),
    Entry("report", "report:COMMAND"),
    Entry("fleet", "fleet:COMMAND"),
    Entry("job-report", "job_report:COMMAND"),
    Entry("release", "release:RELEASE"),
    Entry("resume", "release:RESUME"),
    Entry("topology", "topology:COMMAND"),
    Entry("place", "place:COMMAND"),
    Entry("labels", "labels:COMMAND"),
    Entry("run", "run:COMMAND"),
    Entry("queue", "queue:COMMAND"),
    Entry("reserve", "reserve:RESERVE"),
    Entry("cancel", "reserve:CANCEL"),
    Entry("profile", "profile:COMMAND"),
    Entry("project", "project:COMMAND"),
    Entry("catalogue", "catalogue:COMMAND"),
    Entry("compare", "compare:COMMAND"),
    Entry("plan", "plan:COMMAND"),
    Entry("check-config", "check_config:COMMAND"),
    Entry("doctor", "doctor:COMMAND"),
    Entry("version", "version:COMMAND"),
)


def all_commands() -> tuple[Command, ...]:
    """Each of them, loaded."""
    return tuple(entry.load() for entry in COMMANDS)
