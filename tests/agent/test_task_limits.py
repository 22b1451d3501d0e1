"""An agent that may have few tasks: every scrape is answered, whoever else is connected."""

import os
import socket
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest

from agent_process import AgentProcess, eventually
from task_limit import task_limit
from unlogged_agent import agent_on_standard_error

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"


def scrape(agent: AgentProcess) -> int:
    """The status of one scrape over a connection of its own; 0 without an answer."""
    host, _, port = agent.address.rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=20)
    try:
        connection.request("GET", "/metrics")
        with connection.getresponse() as answer:
            answer.read()
            return answer.status
    except OSError:
        return 0
    finally:
        connection.close()


@pytest.mark.parametrize(("spare", "silent"), [(0, 0), (0, 40), (10, 40)])
def test_scrapes_are_answered_at_the_limit_of_tasks(
    spare: int, silent: int, tmp_path: Path
) -> None:
    """Beside silent clients, too, whose connections are closed for it; sampling goes on."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    with ExitStack() as stack:
        stack.callback(os.close, nothing)
        limit = stack.enter_context(task_limit(64))
        agent = stack.enter_context(agent_on_standard_error(tmp_path, nothing, prefix=limit.prefix))
        limit.change(limit.tasks + spare)
        host, _, port = agent.address.rpartition(":")
        before = agent.metric("rightsizer_samples_total")
        for _ in range(silent):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
        assert [scrape(agent) for _ in range(30)] == [200] * 30
        assert agent.metric("rightsizer_device_up") == 2
        eventually(lambda: agent.metric("rightsizer_samples_total") >= before + 2)


def test_an_agent_starts_within_twenty_tasks(tmp_path: Path) -> None:
    """With a scrape and a client of the local socket beside it."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    with ExitStack() as stack:
        stack.callback(os.close, nothing)
        limit = stack.enter_context(task_limit(20))
        agent = stack.enter_context(agent_on_standard_error(tmp_path, nothing, prefix=limit.prefix))
        assert [scrape(agent) for _ in range(10)] == [200] * 10
        assert limit.tasks <= 20
