"""Starts `rightsizer run` by the dozen: forked from one process with all modules imported.

As a program it takes orders on its standard input, a line of JSON each, and ends what it has
started when that ends. `run_nursery` is the other end of it.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from rightsizer.cli.main import main as rightsizer

__all__ = ["Nursery", "Run", "run_nursery"]


class Run(Struct, frozen=True):
    """One command that was started, in a session of its own."""

    pid: int
    log: Path
    """What it and all below it have said."""
    nursery: "Nursery"

    @property
    def said(self) -> str:
        """Its whole output."""
        return self.log.read_text() if self.log.exists() else ""

    def signal(self, number: signal.Signals) -> None:
        """Send only this process a signal."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """The exit status; minus the signal if one has ended it."""
        return int(self.nursery.order({"wait": self.pid}))


class Nursery:
    """Starts commands and waits for them."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._count = 0

    def order(self, order: Any) -> Any:
        """The answer to an order."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, *arguments: str | Path) -> Run:
        """A command that keeps running."""
        self._count += 1
        log = self._folder / f"run-{self._count}"
        command: Sequence[str] = [str(argument) for argument in arguments]
        return Run(self.order({"start": command, "log": str(log)}), log, self)


@contextmanager
def run_nursery(folder: Path) -> Iterator[Nursery]:
    """A nursery whose commands log into a folder, and end with it."""
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        try:
            yield Nursery(process, folder)
        finally:
            process.stdin.close()


def main() -> None:
    """Take orders."""
    pids: list[int] = []
    for line in sys.stdin:
        order = json.loads(line)
        if "start" in order:
            pids.append(_fork(order["start"], order["log"]))
            answer = pids[-1]
        else:
            answer = os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
        print(json.dumps(answer), flush=True)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _fork(arguments: Sequence[str], log: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setsid()
        for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
            name = os.devnull if number == 0 else log
            handle = os.open(name, flags | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(handle, number)
            os.close(handle)
        status = rightsizer(arguments)
    finally:
        sys.stdout.flush()
        # Not the parent's way out, which is for the parent alone.
        os._exit(status)


if __name__ == "__main__":
    main()
