"""An agent that is stopped while something hangs: it ends all the same, and names what did."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_process import AgentProcess, eventually
from slow_sync import SlowSync
from unlogged_agent import agent_on_standard_error

HISTORY = "history: {flush_interval: 1s}\n"
SCENARIO = ("--simulated.scenario", "scenario.yaml")
SOON = "recommender: {interval: 10s, jitter: 0s}\n"


@contextmanager
def logged_agent(folder: Path, config: str, **options: Any) -> Iterator[AgentProcess]:
    """An agent with its log in a file."""
    log_file = folder / "log"
    with (
        log_file.open("wb") as log,
        agent_on_standard_error(folder, log.fileno(), config, **options) as agent,
    ):
        yield AgentProcess(agent.process, log_file, agent.address)


def last_event(agent: AgentProcess) -> dict[str, Any]:
    """The last line of the log."""
    line: dict[str, Any] = json.loads(agent.log_file.read_text().splitlines()[-1])
    return line


@pytest.fixture
def slow_sync(tmp_path: Path) -> SlowSync:
    """A disk that hangs at will."""
    return SlowSync.built_in(tmp_path)


def test_a_disk_that_hangs_does_not_keep_an_agent(slow_sync: SlowSync, tmp_path: Path) -> None:
    """The last flush is given up, and the log says so; it samples and answers until then."""
    with logged_agent(tmp_path, HISTORY, prefix=slow_sync.prefix) as agent:
        slow_sync.begin()
        eventually(lambda: slow_sync.is_hit)
        before = agent.metric("rightsizer_samples_total")
        eventually(lambda: agent.metric("rightsizer_samples_total") >= before + 2)
        assert agent.end() == 0
        assert (last_event(agent)["event"], last_event(agent)["part"]) == (
            "shutdown_abandoned",
            "flush",
        )


def test_a_slow_sync_is_logged_and_counted(slow_sync: SlowSync, tmp_path: Path) -> None:
    """With how long the disk took."""
    with logged_agent(tmp_path, HISTORY, prefix=slow_sync.prefix) as agent:
        slow_sync.begin()
        eventually(lambda: slow_sync.is_hit)
        time.sleep(5.5)
        assert agent.metric("rightsizer_history_slow_writes_total") == 0
        slow_sync.end()
        eventually(lambda: agent.metric("rightsizer_history_slow_writes_total") == 1)
        (event,) = eventually(lambda: agent.events("history_write_slow"))
        assert event["seconds"] > 5
        assert str(tmp_path / "history.db") in event["remedy"] or "history.db" in event["remedy"]
        assert agent.end() == 0


@pytest.fixture
def silent_server() -> Iterator[socket.socket]:
    """Accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        # Annotations are sent once a minute.
        server.settimeout(90)
        yield server


BROKEN_GPU = """\
name: broken
boards: [{board: H100-SXM5-80GB, count: 1}]
faults: [{kind: ecc, gpus: [0], after: 0s, uncorrected: 1, rows_uncorrectable: 1, pending: true}]
"""


@pytest.mark.parametrize(
    "config",
    [
        "grafana: {{url: {url}}}\n",
        "sources: {{dcgm: {{url: {url}/metrics, interval: 1s, timeout: 900ms}}}}\n",
    ],
)
def test_a_silent_server_does_not_keep_an_agent(
    config: str, silent_server: socket.socket, tmp_path: Path
) -> None:
    """It flushes and closes everything while a request is under way."""
    (tmp_path / "scenario.yaml").write_text(BROKEN_GPU)
    text = config.format(url=f"http://127.0.0.1:{silent_server.getsockname()[1]}")
    with logged_agent(tmp_path, SOON + text, source=SCENARIO) as agent:
        connection, _ = silent_server.accept()
        with connection:
            assert agent.end() == 0
        assert last_event(agent)["event"] == "agent_stopped"


def test_a_driver_that_hangs_does_not_keep_an_agent(tmp_path: Path) -> None:
    """Not even in the middle of all its calls."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        "name: hang\nboards: [{board: H100-SXM5-80GB, count: 2}]\n"
        "faults: [{kind: hang, gpus: [0, 1], after: 2s}]\n"
    )
    with logged_agent(tmp_path, "", source=SCENARIO) as agent:
        eventually(lambda: agent.metric("rightsizer_device_up") == 0)
        assert agent.end() == 0
