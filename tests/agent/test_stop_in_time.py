"""An agent that is stopped while something hangs: it ends all the same, and names what did."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_process import AgentProcess, eventually
from slow_sync import SlowSync
from unlogged_agent import agent_on_standard_error

HISTORY = "history: {flush_interval: 1s}\n"
SOON = "recommender: {interval: 10s, jitter: 0s}\n"


@contextmanager
def logged_agent(folder: Path, config: str, **options: Any) -> Iterator[AgentProcess]:
    """An agent with its log in a file."""
    log_file = folder / "log"
    with log_file.open("wb") as log:
        with agent_on_standard_error(folder, log.fileno(), config, **options) as agent:
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
def silent_server() -> Iterator[str]:
    """URL of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    "config",
    [
        "grafana: {{url: {url}}}\n",
        "webhooks: [{{url: {url}}}]\n",
        "sources: {{dcgm: {{url: {url}/metrics, interval: 1s, timeout: 900ms}}}}\n",
    ],
)
def test_a_silent_server_does_not_keep_an_agent(
    config: str, silent_server: str, tmp_path: Path
) -> None:
    """It flushes and closes everything."""
    with logged_agent(tmp_path, SOON + config.format(url=silent_server)) as agent:
        eventually(lambda: agent.metric("rightsizer_job_runs_total", name="recommend") > 0)
        assert agent.end() == 0
        assert last_event(agent)["event"] == "agent_stopped"


def test_a_silent_kubelet_does_not_keep_an_agent(tmp_path: Path) -> None:
    """Its socket takes connections and answers nothing."""
    with ExitStack() as stack:
        kubelet = stack.enter_context(socket.socket(socket.AF_UNIX))
        kubelet.bind(str(tmp_path / "kubelet.sock"))
        kubelet.listen()
        config = f"owners: {{kubernetes: {{kubelet_socket: {tmp_path}/kubelet.sock}}}}\n"
        with logged_agent(tmp_path, config) as agent:
            assert agent.end() == 0
            assert last_event(agent)["event"] == "agent_stopped"


def test_a_driver_that_hangs_does_not_keep_an_agent(tmp_path: Path) -> None:
    """Not even in the middle of all its calls."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        "name: hang\nboards: [{board: H100-SXM5-80GB, count: 2}]\n"
        "faults: [{kind: hang, gpus: [0, 1], after: 2s}]\n"
    )
    config = "sources: {nvml: {deadline: 60s}, simulated: {scenario: scenario.yaml}}\n"
    with logged_agent(tmp_path, config, source=()) as agent:
        eventually(lambda: agent.metric("rightsizer_device_up") == 0)
        assert agent.end() == 0
