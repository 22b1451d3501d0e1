"""All commands of `rightsizer`, in the order of its help; each is loaded when it is asked for."""

import importlib
from dataclasses import dataclass
from typing import Final

from rightsizer.console.command import Command


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
        command: Command = getattr(importlib.import_module(module), attribute)
        return command


COMMANDS: Final = (
    Entry("agent", "rightsizer.cli.agent:COMMAND"),
    Entry("demo", "rightsizer.cli.demo:COMMAND"),
    Entry("record", "rightsizer.cli.record:COMMAND"),
    Entry("replay", "rightsizer.cli.replay:COMMAND"),
    Entry("advise", "rightsizer.cli.advise:COMMAND"),
    Entry("explain", "rightsizer.cli.explain:COMMAND"),
    Entry("claim", "rightsizer.cli.claim:CLAIM"),
    Entry("dismiss", "rightsizer.cli.claim:DISMISS"),
    Entry("snooze", "rightsizer.cli.claim:SNOOZE"),
    Entry("actions", "rightsizer.actions.command:COMMAND"),
    Entry("export", "rightsizer.cli.export:COMMAND"),
    Entry("report", "rightsizer.cli.report:COMMAND"),
    Entry("fleet", "rightsizer.fleet.command:COMMAND"),
    Entry("job-report", "rightsizer.cli.job_report:COMMAND"),
    Entry("release", "rightsizer.cli.release:RELEASE"),
    Entry("resume", "rightsizer.cli.release:RESUME"),
    Entry("topology", "rightsizer.cli.topology:COMMAND"),
    Entry("place", "rightsizer.broker.place_command:COMMAND"),
    Entry("labels", "rightsizer.cli.labels:COMMAND"),
    Entry("run", "rightsizer.broker.run_command:COMMAND"),
    Entry("queue", "rightsizer.broker.queue_command:COMMAND"),
    Entry("reserve", "rightsizer.broker.reserve_command:RESERVE"),
    Entry("cancel", "rightsizer.broker.reserve_command:CANCEL"),
    Entry("profile", "rightsizer.profiler.command:COMMAND"),
    Entry("project", "rightsizer.cli.project:COMMAND"),
    Entry("catalogue", "rightsizer.planner.catalogue:COMMAND"),
    Entry("compare", "rightsizer.planner.compare:COMMAND"),
    Entry("plan", "rightsizer.cli.plan:COMMAND"),
    Entry("check-config", "rightsizer.cli.check_config:COMMAND"),
    Entry("doctor", "rightsizer.cli.doctor:COMMAND"),
    Entry("version", "rightsizer.cli.version:COMMAND"),
)


def all_commands() -> tuple[Command, ...]:
    """Each of them, loaded."""
    return tuple(entry.load() for entry in COMMANDS)
