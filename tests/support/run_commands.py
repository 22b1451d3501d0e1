"""Starts `rightsizer run` by the dozen, each in a session of its own."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from forked_command import RIGHTSIZER, ForkedCommand, forked_command

__all__ = ["Run", "RunCommands", "run_commands"]


class Run(Struct, frozen=True):
    """One command that was started."""

    command: ForkedCommand
    log: Path
    """What it and all below it have said."""

    @property
    def pid(self) -> int:
        """Of the command, and of its session."""
        return self.command.pid

    @property
    def said(self) -> str:
        """Its whole output."""
        return self.log.read_text()

    def signal(self, number: signal.Signals) -> None:
        """Send only this process a signal."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """The exit status; minus the signal if one has ended it."""
        return self.command.wait()


class RunCommands:
    """Starts commands, and ends them with all that they have started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: list[Run] = []

    def start(self, *arguments: str | Path) -> Run:
        """A command that keeps running."""
        log = self._folder / f"run-{len(self._runs)}"
        with log.open("ab") as said, Path(os.devnull).open("rb") as nothing:
            command = forked_command(
                [*RIGHTSIZER, *map(str, arguments)],
                (nothing, said, said),
                folder=Path.cwd(),
                environment=dict(os.environ),
                has_session=True,
            )
        self._runs.append(Run(command, log))
        return self._runs[-1]

    def end(self) -> None:
        """Kill them all."""
        for run in self._runs:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)


@contextmanager
def run_commands(folder: Path) -> Iterator[RunCommands]:
    """Commands that log into a folder, and end with it."""
    commands = RunCommands(folder)
    try:
        yield commands
    finally:
        commands.end()
