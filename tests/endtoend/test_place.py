"""`rightsizer place` and its page of a running agent, over its real socket."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from agent_process import AgentProcess, agent_process, eventually, run_rightsizer
from api_schema import faults, json_schema_of
from placed_node import scenario_file

CONFIG: Final = """\
sampling: {{interval: 200ms}}
history: {{path: ''}}
web: {{listen_addresses: ['127.0.0.1:0']}}
sources: {{simulated: {{scenario: '{scenario}'}}}}
path: {{api_socket: '{socket}'}}
"""


@pytest.fixture(scope="module")
def socket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent's socket."""
    return tmp_path_factory.mktemp("place") / "api.sock"


@pytest.fixture(scope="module")
def agent(socket: Path) -> Iterator[AgentProcess]:
    """An agent that knows the states of its GPUs."""
    config = CONFIG.format(scenario=scenario_file(socket.parent), socket=socket)
    with agent_process(socket.parent, config=config) as process:
        eventually(lambda: process.get("/api/v1/place?gpus=4")[1].startswith('{"is_met":true'))
        yield process


def place(socket: Path, *arguments: str) -> Any:
    """Run the command through the agent; return its JSON answer."""
    done = run_rightsizer("place", "--json", "--path.api-socket", socket, *arguments)
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert done.returncode == (0 if document["is_met"] else 1)
    return document


def test_the_agent_is_asked_over_its_socket(agent: AgentProcess, socket: Path) -> None:
    """It answers from its accounts, by the rules used without an agent.

    Any two of the three free GPUs on one NUMA node: their fluctuating power decides.
    """
    document = place(socket, "--gpus", "2", "--memory", "30GiB", "--interconnect", "nvlink")
    assert document["source"] == "agent"
    labels = {slot["label"] for slot in document["seats"]}
    assert len(labels) == 2
    assert labels < {"GPU 1", "GPU 2", "GPU 3"}
    assert document["request"]["memory_bytes"] == 30 * (1 << 30)
    assert {each["label"] for each in document["occupied"]} >= {"GPU 0", "GPU 5", "GPU 6"}
    assert list(faults(document, json_schema_of("GET", "/api/v1/place"))) == []


def test_a_refusal_is_an_answer(agent: AgentProcess, socket: Path) -> None:
    """It has its reasons; the command exits with a failure."""
    document = place(socket, "--gpus", "9")
    assert not document["is_met"]
    assert document["is_hopeless"]
    assert document["reasons"][0] == "9 GPUs are asked for, 4 of 11 can be given."


def test_a_wrong_query_is_refused_by_name(agent: AgentProcess) -> None:
    """Over TCP too, where anyone may ask, since a query reserves nothing."""
    status, text = agent.get("/api/v1/place?gpu=2")
    assert status == 400
    assert "'gpu' is nothing to ask for" in text
    assert agent.json("/api/v1/place?mig=1g.10gb")["seats"][0]["label"] == "MIG 7:3 (1g.10gb)"
