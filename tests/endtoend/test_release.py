"""An agent that releases its GPUs on request: by its socket, under load, and after a kill."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import OK
from pathlib import Path
from typing import Any, Final

import pytest

from agent_process import AgentProcess, agent_process, eventually, run_rightsizer
from rightsizer.io.local import LocalClient

CONFIG: Final = """\
sampling: {interval: 200ms}
history: {path: ''}
web: {listen_addresses: ['127.0.0.1:0']}
sources: {simulated: {scenario: single-h100}}
path: {api_socket: SOCKET}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The path of the socket."""
    return tmp_path / "api.sock"


def agent_at(place: Path) -> Any:
    """An agent on a simulated node with one H100, with its socket at the path."""
    folder = place.parent if place.parent.exists() else place.parent.parent
    return agent_process(folder, config=CONFIG.replace("SOCKET", str(place)))


def rightsizer(place: Path, *arguments: str) -> Any:
    """The JSON of a successful command against this agent."""
    done = run_rightsizer(*arguments, "--json", "--path.api-socket", place)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@contextmanager
def watched(agent: AgentProcess) -> Iterator[list[int]]:
    """The status of each scrape and health check during an operation."""
    seen: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.extend(agent.get(path)[0] for path in ("/metrics", "/-/healthy"))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()
        seen.extend(agent.get(path)[0] for path in ("/metrics", "/-/healthy"))


def is_ready(agent: AgentProcess) -> bool:
    """Whether it has a fresh sample."""
    return agent.get("/-/ready")[0] == OK


def test_the_gpus_are_let_go_and_taken_back(place: Path) -> None:
    """All outputs show it, all requests are answered, and sampling resumes normally."""
    with agent_at(place) as agent:
        eventually(lambda: is_ready(agent))
        with watched(agent) as seen:
            result = rightsizer(place, "release", "gpus", "--wait", "15s")
            eventually(lambda: agent.metric("rightsizer_device_up") == 0)
            reason = eventually(lambda: not is_ready(agent) and agent.get("/-/ready")[1])
            released = eventually(lambda: agent.events("released"))
            resumed = rightsizer(place, "resume")
            eventually(lambda: agent.metric("rightsizer_device_up") == 1)
            eventually(lambda: is_ready(agent))
            eventually(lambda: agent.events("resumed"))
        asked = agent.events("release_requested")
        status = agent.end()

    assert (result["held"], result["is_done"], result["until"]) == ("gpus", True, None)
    assert "released" in str(reason)
    assert "gpus" in released[0]["what"].lower()
    assert resumed == {"resumed": ["gpus"]}
    assert set(seen) == {OK}
    assert [event["held"] for event in asked] == ["gpus"]
    assert {"uid", "pid"} <= asked[0].keys()
    assert status == 0


def test_gpus_that_are_let_go_for_a_time_come_back_by_themselves(place: Path) -> None:
    """No one has to remember."""
    with agent_at(place) as agent:
        eventually(lambda: is_ready(agent))
        result = rightsizer(place, "release", "gpus", "--for", "4s", "--wait", "15s")
        eventually(lambda: agent.metric("rightsizer_device_up") == 0)
        eventually(lambda: agent.metric("rightsizer_device_up") == 1)
        left = LocalClient(place).get("/api/v1/releases")

    assert result["until"] == pytest.approx(result["since"] + 4.0)
    assert left == {"releases": []}


def test_counters_are_let_go_while_all_else_is_read_on(place: Path) -> None:
    """A profiler gets the counters, and the node stays monitored."""
    sm_active = "rightsizer_sm_active_ratio"
    with agent_at(place) as agent:
        eventually(lambda: names(agent, sm_active))
        with watched(agent) as seen:
            result = rightsizer(place, "release", "counters", "--wait", "15s")
            eventually(lambda: not names(agent, sm_active))
            up = agent.metric("rightsizer_device_up")
            samples = "rightsizer_samples_total"
            before = agent.metric(samples)
            eventually(lambda: agent.metric(samples) > before and is_ready(agent))
            rightsizer(place, "resume", "counters")
            eventually(lambda: names(agent, sm_active))

    assert (result["held"], result["is_done"]) == ("counters", True)
    assert up == 1
    assert set(seen) == {OK}


def names(agent: AgentProcess, name: str) -> bool:
    """Whether a scrape has samples of a metric."""
    return any(found == name for found, _ in agent.metrics())


def test_over_tcp_nothing_is_let_go(place: Path) -> None:
    """For any request, whether or not a local user could."""
    with agent_at(place) as agent:
        looked = agent.get("/api/v1/releases")
        client = LocalClient(place)
        found = client.get("/api/v1/releases")
        report = eventually(lambda: client.get("/api/v1/report"))

    assert looked[0] == 403
    assert "refused over TCP" in looked[1]
    assert found == {"releases": []}
    assert report["agent"]["source"] == "simulated (single-h100)"


def test_the_socket_of_a_killed_agent_is_the_next_ones(place: Path) -> None:
    """Meanwhile a command reports the error; after an orderly end no socket is left."""
    with agent_at(place) as agent:
        agent.end(signal.SIGKILL)
    between = run_rightsizer("release", "--path.api-socket", place)
    assert place.is_socket()
    with agent_at(place) as agent:
        found = LocalClient(place).get("/api/v1/releases")
        assert agent.events("local_socket_unavailable") == []
        status = agent.end()

    assert between.returncode == 1
    assert between.stderr.startswith("rightsizer: no agent runs here: nothing answers at ")
    assert found == {"releases": []}
    assert (status, place.exists()) == (0, False)


def test_without_a_folder_for_its_socket_it_samples_all_the_same(tmp_path: Path) -> None:
    """One line has the missing folder and the remedy."""
    with agent_at(tmp_path / "nowhere" / "api.sock") as agent:
        eventually(lambda: is_ready(agent))
        (entry,) = agent.events("local_socket_unavailable")

    assert entry["level"] == "warning"
    assert f"there is no folder {tmp_path}/nowhere; create it" in entry["error"]
