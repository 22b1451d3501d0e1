"""Real agent on simulated GPUs under a fault: scraped throughout, restarted on demand."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

from agent_process import RIGHTSIZER, AgentProcess, agent_process

GPUS: Final = 4
_SCRAPE_SECONDS: Final = 0.2
_TIMEOUT_SECONDS: Final = 10.0
_SCENARIO: Final = f"""\
name: reliability
boards: [{{board: H100-SXM5-80GB, count: {GPUS}}}]
workloads:
  - name: train
    gpus: [0, 1, 2]
    memory_gib: 40
    allocator: growing
    phases: [{{activity: matrix_training, state: compute_bound}}]
"""
_CONFIG: Final[Mapping[str, Any]] = {
    "path": {"api_socket": "agent.sock"},
    "history": {"path": "history.db", "flush_interval": "2s"},
    "sources": {"simulated": {"scenario": "scenario.yaml"}, "nvml": {"enumeration_interval": "5s"}},
}


@dataclass(frozen=True, slots=True)
class Scrape:
    """Result of one scrape."""

    time_seconds: float
    took_seconds: float
    status: int
    """0 where there was no answer."""
    text: str

    @property
    def samples(self) -> dict[str, list[tuple[Mapping[str, str], float]]]:
        """Labels and values by name."""
        found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for family in text_string_to_metric_families(self.text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found


class Scraper(threading.Thread):
    """Scrapes without a pause, each time over a connection of its own, as Prometheus may."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._ended = threading.Event()
        self.scrapes: list[Scrape] = []

    def run(self) -> None:
        """Scrape until stopped."""
        while not self._ended.wait(_SCRAPE_SECONDS):
            self.scrapes.append(self.scrape())

    def stop(self) -> None:
        """Let the scrape under way be the last."""
        self._ended.set()
        self.join()

    def scrape(self) -> Scrape:
        """One scrape, now."""
        started = time.monotonic()
        status = 0
        text = ""
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT_SECONDS)) as asked:
            try:
                asked.request("GET", "/metrics")
                answer = asked.getresponse()
                status = answer.status
                text = answer.read().decode()
            except (OSError, HTTPException):
                status = 0
        return Scrape(started, time.monotonic() - started, status, text)


@dataclass
class Node:
    """A folder with a running agent; faults use its attributes."""

    folder: Path
    port: int
    flags: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    """A command that starts the agent, such as one that limits it."""
    held: list[Any] = field(default_factory=list)
    """Sockets and servers of the fault, closed when it is mended."""
    _stack: ExitStack = field(default_factory=ExitStack)
    _agent: AgentProcess | None = None

    @classmethod
    def in_folder(cls, folder: Path, faults: tuple[str, ...], config: Mapping[str, Any]) -> "Node":
        """Write the files of a node; no agent runs yet."""
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        scenario = _SCENARIO + ("faults:\n" if faults else "")
        scenario += "".join(f"  - {each}\n" for each in faults)
        (folder / "scenario.yaml").write_text(scenario, "utf-8")
        whole: dict[str, Any] = {"web": {"listen_addresses": [f"127.0.0.1:{port}"]}}
        for part in (_CONFIG, config):
            for section, keys in part.items():
                whole[section] = (
                    {**whole.get(section, {}), **keys} if isinstance(keys, dict) else keys
                )
        (folder / "rightsizer.yaml").write_text(yaml.safe_dump(whole), "utf-8")
        return cls(folder, port)

    @property
    def history(self) -> Path:
        """The file of the history."""
        return self.folder / "history.db"

    @property
    def pid(self) -> int:
        """Of the agent."""
        assert self._agent is not None
        return self._agent.process.pid

    def start(self) -> None:
        """Start the agent, and wait until it answers."""
        self._agent = self._stack.enter_context(
            agent_process(
                self.folder,
                "--config.file",
                str(self.folder / "rightsizer.yaml"),
                *self.flags,
                command=(*self.prefix, *RIGHTSIZER, "agent"),
            )
        )

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit status after a signal."""
        assert self._agent is not None
        return self._agent.end(number)

    def send(self, number: signal.Signals) -> None:
        """Send the agent a signal."""
        os.kill(self.pid, number)

    def log(self) -> list[dict[str, Any]]:
        """All that its agents have logged."""
        lines = [
            line
            for file in sorted(self.folder.glob("log-*"))
            for line in file.read_text("utf-8").splitlines()
        ]
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def connect(self) -> socket.socket:
        """A connection that stays until the fault is mended."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        self.held.append(made)
        return made

    def release(self) -> None:
        """Close what the fault held."""
        for each in self.held:
            each.close()
        self.held.clear()

    def close(self) -> None:
        """End what still runs."""
        self.release()
        self._stack.close()
