"""Commands on advice against a running agent: over its socket, over TCP, and after a kill."""

import json
import signal
import time
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from advice_history import keep_advice
from agent_process import AgentProcess, agent_process, eventually, run_rightsizer

CONFIG: Final = """\
sampling: {interval: 200ms}
history: {path: FOLDER/history.db}
web: {listen_addresses: ['127.0.0.1:0']}
sources: {simulated: {scenario: single-h100}}
path: {api_socket: FOLDER/api.sock}
"""


@pytest.fixture
def id_(tmp_path: Path) -> str:
    """Advice opened by an earlier agent a minute ago."""
    return keep_advice(tmp_path / "history.db", now=time.time_ns() - 60 * 10**9)


def config(folder: Path) -> str:
    """The agent's configuration, which its commands read too."""
    return CONFIG.replace("FOLDER", str(folder))


def command(folder: Path, *arguments: str) -> tuple[int, str]:
    """A command's exit status and complete output."""
    done = run_rightsizer(*arguments, "--config.file", folder / "rightsizer.yaml")
    return done.returncode, done.stdout + done.stderr


def test_decision_survives_a_kill(tmp_path: Path, id_: str) -> None:
    """A snooze over the socket is visible over TCP and in the metrics, also after `kill -9`."""
    with agent_process(tmp_path, config=config(tmp_path)) as agent:
        status, said = command(tmp_path, "snooze", id_, "--for", "7d", "--actor", "ana")
        shown = agent.json(f"/api/v1/advice/{id_}")
        eventually(lambda: agent.metric("rightsizer_advice_info", id=id_, state="snoozed") == 1.0)
        (entry,) = agent.events("snooze_requested")
        agent.end(signal.SIGKILL)
    with agent_process(tmp_path, config=config(tmp_path)) as agent:
        after = eventually(lambda: agent.json("/api/v1/advice?state=snoozed")["advice"])
        explained = command(tmp_path, "explain", id_)
    offline = command(tmp_path, "dismiss", id_, "--why", "not ours", "--actor", "ana", "--json")

    assert (status, "Snoozed by ana" in said) == (0, True)
    assert shown["lifecycle"]["state"] == "snoozed"
    assert entry["actor"] == "ana"
    assert [(each["id"], each["actor"]) for each in after] == [(id_, "ana")]
    assert explained[0] == 0
    assert "snoozed by ana" in explained[1]
    assert offline[0] == 0
    assert json.loads(offline[1])["advice"]["state"] == "dismissed"


def test_over_tcp_it_is_refused_with_the_remedy(tmp_path: Path, id_: str) -> None:
    """For any client; an unknown id has another error."""
    with agent_process(tmp_path, config=config(tmp_path)) as agent:
        refused = post(agent, f"/api/v1/advice/{id_}/dismiss")
        unknown = command(tmp_path, "claim", "x" + id_[1:])
        filtered = agent.get("/api/v1/advice?colour=red")
        nothing = agent.get("/api/v1/advice/none")
        still = agent.json(f"/api/v1/advice/{id_}")["lifecycle"]["state"]

    assert refused[0] == 403
    assert "path.api_socket" in refused[1]
    assert unknown[0] == 2
    assert f"did you mean {id_}?" in unknown[1]
    assert (filtered[0], nothing[0]) == (400, 404)
    assert still == "active"


def post(agent: AgentProcess, path: str) -> tuple[int, str]:
    """The response to a POST over TCP."""
    try:
        with urlopen(Request(f"{agent.url}{path}", data=b"{}", method="POST"), timeout=10) as done:
            return done.status, done.read().decode()
    except HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()
