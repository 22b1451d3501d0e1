"""What `make run` starts on a machine without a GPU: the demonstration and its addresses."""

import ctypes
import socket
import sys
from pathlib import Path
from typing import Final

import pytest

from agent_process import agent_process

ADDRESS: Final = ("127.0.0.1", 19400)


def why_not_here() -> str | None:
    """Why this machine cannot run it."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        pass
    else:
        return "this machine has the NVIDIA driver's library"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(ADDRESS)
        except OSError:
            return "the default port is taken"
    return None


def test_it_serves_and_says_where(tmp_path: Path) -> None:
    """On loopback alone, at the default port, with a past to show."""
    reason = why_not_here()
    if reason is not None:
        pytest.skip(reason)
    command = (sys.executable, "-m", "rightsizer.cli.first_run")
    with agent_process(tmp_path, command=command) as agent:
        said = agent.log_file.read_text()
        metrics = agent.get("/metrics")
        status = agent.end()

    assert agent.address == "127.0.0.1:19400"
    assert said.startswith("No GPU to read here: ")
    assert "http://127.0.0.1:19400/metrics" in said
    assert "Ctrl-C" in said
    assert metrics[0] == 200
    assert status == 0
