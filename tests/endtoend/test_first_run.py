"""What `make run` starts on a machine without a GPU: the demonstration and its addresses."""

import ctypes
import os
import socket
import subprocess
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


@pytest.mark.parametrize("target", ["run", "demo"])
def test_second_one_says_who_has_the_port_and_what_make_takes(target: str) -> None:
    """Before a day is simulated; `make` takes variables, not flags."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-m", "rightsizer.cli.first_run", target, address],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "Simulating" not in done.stdout
    (line,) = done.stderr.splitlines()
    taken_by = f"the port is in use by process {os.getpid()} ("
    assert line.startswith(f"rightsizer: cannot listen on {address}: {taken_by}")
    assert line.endswith(f"or choose another with `make {target} LISTEN=127.0.0.1:19401`")
    assert f"first_run {target} $(LISTEN)" in (Path(__file__).parents[2] / "Makefile").read_text()


def test_port_is_held_while_the_days_before_are_simulated() -> None:
    """A second demonstration is refused at once, not half a minute later when both would listen."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "rightsizer", "demo", f"--web.listen-address={address}"]
    long = [*command, "--days-before=30"]
    with subprocess.Popen(long, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        assert first.stdout is not None
        begun = first.stdout.readline()
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        first.kill()
    assert begun.startswith(b"Simulating eight-gpu-node; remembering 30 days")
    assert (second.returncode, second.stdout) == (1, "")
    assert f"the port is in use by process {first.pid} (" in second.stderr


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
