"""A real agent whose standard error is a file of the test's, or closed."""

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from agent_process import RIGHTSIZER, AgentProcess, eventually

__all__ = ["SIMULATED", "agent_on_standard_error", "free_address"]

SIMULATED: Final = ("--simulated.scenario", "t4-pair")
_CLOSING: Final = ("sh", "-c", 'exec "$@" 2>&-', "sh")
"""A command prefix that closes standard error."""


def free_address() -> str:
    """An address of loopback that nothing listens on."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


@contextmanager
def agent_on_standard_error(
    folder: Path,
    standard_error: int | None,
    config: str = "",
    *,
    prefix: Sequence[str] = (),
    source: Sequence[str] = SIMULATED,
) -> Iterator[AgentProcess]:
    """An agent that answers; its descriptor of standard error is given, or closed for `None`."""
    address = free_address()
    (folder / "rightsizer.yaml").write_text("path: {api_socket: agent.sock}\n" + config)
    process = subprocess.Popen(
        [
            *prefix,
            *(_CLOSING if standard_error is None else ()),
            *(*RIGHTSIZER, "agent", "--config.file", "rightsizer.yaml"),
            *("--web.listen-address", address, "--history.path", "history.db"),
            *source,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=standard_error,
        cwd=folder,
        env={**os.environ, "RIGHTSIZER_WEB__METRICS__LEVEL": "full"},
    )
    agent = AgentProcess(process, folder / "no-log", address)
    try:
        eventually(lambda: _is_sampled(agent))
        yield agent
    finally:
        process.kill()
        process.wait()


def _is_sampled(agent: AgentProcess) -> bool:
    assert agent.process.poll() is None, f"it ended with {agent.process.returncode}"
    try:
        return agent.metric("rightsizer_samples_total") > 0.0
    except OSError:
        return False
