"""Real agent on simulated GPUs under a fault: its folder, configuration, log and end."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, BinaryIO, Final

import yaml

from forked_command import RIGHTSIZER, ForkedCommand, forked_command

GPUS: Final = 4
OWNER: Final = "train"
"""Holder of GPUs 0 to 2; for it an action may be run."""
_AGENT: Final = (sys.executable, "-m", "rightsizer", "agent")
_DIES_WITH_HARNESS: Final = ("setpriv", "--pdeathsig", "KILL")
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 40.0
_ANSWER_SECONDS: Final = 10.0
_SCENARIO: Final = f"""\
name: reliability
boards: [{{board: H100-SXM5-80GB, count: {GPUS}}}]
workloads:
  - name: {OWNER}
    gpus: [0, 1, 2]
    memory_gib: 40
    allocator: growing
    phases: [{{activity: matrix_training, state: compute_bound}}]
"""
_CONFIG: Final[Mapping[str, Any]] = {
    "path": {"api_socket": "agent.sock"},
    "history": {"path": "history.db", "flush_interval": "2s"},
    "sources": {"simulated": {"scenario": "scenario.yaml"}, "nvml": {"enumeration_interval": "5s"}},
    "recommender": {"interval": "10s", "jitter": "0s"},
    "acting": {"interval": "1s", "limits": {"pause": "0s", "at_most_per_day": 1000}},
}
_ACTION: Final[Mapping[str, Any]] = {
    "name": "drain",
    "reasons": ["HardwareUnhealthy"],
    "mode": "automatic",
    "minimum_confidence_ratio": 0.0,
    "maximum_risk": "Unknown",
    "cool_down": "1m",
    "at_most_per_day": 1000,
    "at_most_share_of_gpus": 1.0,
}
_NOTE_WORKLOAD: Final = 'echo "$1" >>"$2"'


@dataclass
class Node:
    """A folder with a running agent; faults use its attributes."""

    folder: Path
    port: int
    prefix: tuple[str, ...] = ()
    """A command that starts the agent, such as one that limits it."""
    command: tuple[str, ...] = _AGENT
    environment: dict[str, str] = field(default_factory=dict)
    """Variables beside those of this process."""
    open_log: "Callable[[Node], BinaryIO] | None" = None
    """Opens what stands in place of the log file."""
    has_tls: bool = False
    is_unmet: bool = False
    """Whether the fault's server waits for a first connection still."""
    held: list[Any] = field(default_factory=list)
    """Sockets, servers and processes of the fault, closed when it is lifted."""
    _process: "subprocess.Popen[bytes] | ForkedCommand | None" = None

    @classmethod
    def in_folder(cls, folder: Path, faults: tuple[str, ...], config: Mapping[str, Any]) -> "Node":
        """Write the files of a node; no agent runs yet."""
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        scenario = _SCENARIO + ("faults:\n" if faults else "")
        scenario += "".join(f"  - {fault}\n" for fault in faults)
        (folder / "scenario.yaml").write_text(scenario, "utf-8")
        words = ["/bin/sh", "-c", _NOTE_WORKLOAD, "sh", "{workload}", str(folder / "acted")]
        whole: dict[str, Any] = {
            "web": {"listen_addresses": [f"127.0.0.1:{port}"]},
            "actions": [{**_ACTION, "command": words}],
        }
        for part in (_CONFIG, config):
            for section, keys in part.items():
                whole[section] = (
                    {**whole.get(section, {}), **keys} if isinstance(keys, dict) else keys
                )
        (folder / "rightsizer.yaml").write_text(yaml.safe_dump(whole), "utf-8")
        return cls(folder, port)

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.folder / "rightsizer.yaml"

    @property
    def history(self) -> Path:
        """The file of the history."""
        return self.folder / "history.db"

    @property
    def api_socket(self) -> Path:
        """The socket for local commands."""
        return self.folder / "agent.sock"

    @property
    def pid(self) -> int:
        """Of the agent."""
        assert self._process is not None
        return self._process.pid

    def launch(self) -> None:
        """Start the agent; it may not answer yet."""
        arguments = ["--config.file", str(self.config)]
        open_log = self.open_log or _log_file
        with open_log(self) as log, Path(os.devnull).open("rb") as nothing:
            # Metrics of every level are read; a level in the file takes no effect.
            level = {"RIGHTSIZER_WEB__METRICS__LEVEL": "full"}
            environment = {**os.environ, **level, **self.environment}
            # A forked process takes its standard files for the seekable ones of its parent.
            is_plain = self.command == _AGENT and not self.prefix and self.open_log is None
            if is_plain and "LD_PRELOAD" not in self.environment:
                self._process = forked_command(
                    [*RIGHTSIZER, "agent", *arguments],
                    (nothing, log, log),
                    folder=self.folder,
                    environment=environment,
                )
                return
            self._process = subprocess.Popen(
                [*_DIES_WITH_HARNESS, *self.prefix, *self.command, *arguments],
                stdin=nothing,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=environment,
            )

    def start(self) -> None:
        """Start the agent, and wait until it answers.

        Raises:
            TimeoutError: it ended, or gave no answer.
        """
        self.launch()
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.runs():
            if self.get("/-/healthy")[0]:
                return
            time.sleep(0.1)
        raise TimeoutError(f"no answer from the agent, whose exit status is {self.exit_status}")

    def runs(self) -> bool:
        """Whether the agent has not ended."""
        return self.exit_status is None

    @property
    def exit_status(self) -> int | None:
        """Of the agent, or minus the signal; `None` while it runs."""
        assert self._process is not None
        return self._process.poll()

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of an answer; status 0 where there was none."""
        with closing(self._connection()) as connection:
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            except (OSError, HTTPException):
                return 0, ""

    def end(self, number: signal.Signals = signal.SIGTERM) -> float | None:
        """Seconds until it has ended after a signal; `None` if it had to be killed."""
        assert self._process is not None
        started = time.monotonic()
        self._process.send_signal(number)
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return None
        return time.monotonic() - started

    def send(self, number: signal.Signals) -> None:
        """Send the agent a signal."""
        os.kill(self.pid, number)

    def log(self) -> list[dict[str, Any]]:
        """All that its agents have logged."""
        lines = [
            line
            for file in sorted(self.folder.glob("log-*"))
            for line in file.read_text("utf-8", "replace").splitlines()
        ]
        events = []
        for line in lines:
            # A fault of the log may leave half a line.
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    events.append(event)
        return events

    def last_words(self) -> str:
        """The last line for people in its log."""
        files = sorted(self.folder.glob("log-*"))
        lines = files[-1].read_text("utf-8", "replace").splitlines() if files else []
        return next((line for line in reversed(lines) if not line.startswith("{")), "")

    def acted_for(self) -> tuple[str, ...]:
        """Workloads for which an action was run."""
        with suppress(FileNotFoundError):
            return tuple(sorted(set((self.folder / "acted").read_text("utf-8").splitlines())))
        return ()

    def connect(self) -> socket.socket:
        """A connection that stays until the fault is lifted."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        self.held.append(connection)
        return connection

    def release(self) -> None:
        """Close what the fault held."""
        for resource in reversed(self.held):
            resource.close()
        self.held.clear()

    def close(self) -> None:
        """End what still runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.release()

    def _connection(self) -> HTTPConnection:
        if not self.has_tls:
            return HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_SECONDS)
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return HTTPSConnection("127.0.0.1", self.port, timeout=_ANSWER_SECONDS, context=context)


def _log_file(node: Node) -> BinaryIO:
    return (node.folder / f"log-{time.monotonic_ns()}").open("wb")
