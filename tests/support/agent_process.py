"""A real agent in a process of its own, on a free loopback port, always stopped afterwards."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

import forked_command as forked
from forked_command import ForkedCommand, forked_command

__all__ = ["RIGHTSIZER", "AgentProcess", "agent_process", "eventually", "run_rightsizer"]

RIGHTSIZER: Final = (sys.executable, *forked.RIGHTSIZER)
_START_SECONDS: Final = 180.0
_STARTED: Final = ("agent_started", "fleet_started")
_STOP_SECONDS: Final = 20.0
_LATE_RATIO: Final = 0.05
_LATE_SECONDS: Final = 0.5
"""A true result may be seen late by this part of the wait, and by this much: each look at an agent
costs both of them a page."""
_PAGE: Final = re.compile(r"page +http://([^/\s]+)/")
_Answer = TypeVar("_Answer")


class AgentProcess(Struct, frozen=True):
    """A listening agent."""

    process: "subprocess.Popen[bytes] | ForkedCommand"
    log_file: Path
    address: str

    @property
    def url(self) -> str:
        """The address of its pages."""
        return f"http://{self.address}"

    def get(self, path: str) -> tuple[int, str]:
        """The status and text of a response."""
        try:
            with urlopen(f"{self.url}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()

    def json(self, path: str) -> Any:
        """A JSON response."""
        return json.loads(self.get(path)[1])

    def metrics(self, prefix: str = "") -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """One scrape: values by name and labels, of names with the prefix."""
        # Parsing unused samples takes most of a scrape.
        wanted = [line for line in self.get("/metrics")[1].splitlines() if line.startswith(prefix)]
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families("\n".join(wanted) + "\n")
            for sample in family.samples
        }

    def metric(self, name: str, /, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        return sum(
            value
            for (found, of), value in self.metrics(name).items()
            if found == name and labels.items() <= dict(of).items()
        )

    def events(self, name: str) -> list[dict[str, Any]]:
        """Its log entries of a name."""
        return [event for event in _events(self.log_file) if event["event"] == name]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the exit status."""
        self.process.send_signal(number)
        return self.process.wait(_STOP_SECONDS)


@contextmanager
def agent_process(
    folder: Path,
    *flags: str,
    command: Sequence[str] = (*RIGHTSIZER, "agent"),
    config: str = "",
    answers: Callable[[str], bool] | None = None,
    is_measured: bool = False,
) -> Iterator[AgentProcess]:
    """An agent after its first response; its log is a file in the folder.

    Args:
        folder: The place of its configuration and log.
        flags: Flags of the command.
        command: The command to run; it logs `agent_started` or `fleet_started`, or prints its page.
        config: The text of its configuration file.
        answers: Whether it listens on an address; checked in plain HTTP by default.
        is_measured: Whether its cost is measured: then it loads its modules itself, as a program
            that is not Python does.
    """
    log_file = folder / f"log-{time.monotonic_ns()}"
    if config:
        (folder / "rightsizer.yaml").write_text(config)
        flags = ("--config.file", str(folder / "rightsizer.yaml"), *flags)
    # Tests read metrics of every level; a level in the file takes no effect.
    environment = {**os.environ, "RIGHTSIZER_WEB__METRICS__LEVEL": "full"}
    process: subprocess.Popen[bytes] | ForkedCommand
    with log_file.open("wb") as log, Path(os.devnull).open("rb") as nothing:
        if command[0] == sys.executable and not is_measured:
            process = forked_command(
                [*command[1:], *flags],
                (nothing, log, log),
                folder=folder,
                environment=environment,
            )
        else:
            process = subprocess.Popen(
                [*_dying_with_its_parent(), *command, *flags],
                stdout=log,
                stderr=log,
                cwd=folder,
                env=environment,
            )
    try:
        yield AgentProcess(process, log_file, _address(process, log_file, answers or _is_healthy))
    finally:
        process.kill()
        process.wait()


def run_rightsizer(
    *arguments: str | Path,
    input_text: str | None = None,
    output: BinaryIO | None = None,
    folder: Path | None = None,
    timeout_seconds: float = 60.0,
) -> "subprocess.CompletedProcess[str]":
    """A command run to its end, in a process of its own.

    Args:
        arguments: Of the command.
        input_text: Its standard input.
        output: Its standard output in place of what is returned.
        folder: Its working folder, if not this process's.
        timeout_seconds: How long it may take.
    """
    argv = [*forked.RIGHTSIZER, *map(str, arguments)]
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write((input_text or "").encode())
        given.seek(0)
        command = forked_command(
            argv,
            (given, output or out, err),
            folder=folder or Path.cwd(),
            environment=dict(os.environ),
        )
        try:
            status = command.wait(timeout_seconds)
        finally:
            command.kill()
            command.wait()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(argv, status, *texts)


def eventually(
    ask: Callable[[], _Answer], timeout_seconds: float = 60.0, every_seconds: float = 0.1
) -> _Answer:
    """The first true result; what takes long, or is expensive to check, is checked less often.

    Raises:
        AssertionError: there was none in time.
    """
    began = time.monotonic()
    while not (answer := ask()):
        waited = time.monotonic() - began
        assert waited < timeout_seconds, f"still {answer!r} after {timeout_seconds:g} s"
        time.sleep(max(every_seconds, min(_LATE_SECONDS, _LATE_RATIO * waited)))
    return answer


def _address(
    process: "subprocess.Popen[bytes] | ForkedCommand",
    log_file: Path,
    answers: Callable[[str], bool],
) -> str:
    def started() -> list[str]:
        text = log_file.read_text()
        assert process.poll() is None, f"it ended:\n{text}"
        logged = [e["addresses"] for e in _events(log_file) if e["event"] in _STARTED]
        return logged or _PAGE.findall(text)

    address = eventually(started, _START_SECONDS)[0].split(",")[0]
    eventually(lambda: answers(address))
    return address


def _is_healthy(address: str) -> bool:
    return _answers(f"http://{address}/-/healthy")


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except URLError:
        return False


def _events(log_file: Path) -> Iterator[dict[str, Any]]:
    for line in log_file.read_text().splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                continue  # The last line may be incomplete.


def _dying_with_its_parent() -> tuple[str, ...]:
    """A command prefix under which the agent ends even if the test run is killed."""
    has_prefix = os.name == "posix" and shutil.which("setpriv")
    return ("setpriv", "--pdeathsig", "KILL") if has_prefix else ()
