"""An agent whose standard error takes no lines: it samples, answers, and counts what is lost."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fcntl import F_SETPIPE_SZ, fcntl
from pathlib import Path

import pytest

from agent_process import RIGHTSIZER, AgentProcess, eventually
from unlogged_agent import SIMULATED, agent_on_standard_error

Fault = Callable[[ExitStack], int | None]


def full_disk(stack: ExitStack) -> int:
    """A file that no write fits into."""
    return stack.enter_context(Path("/dev/full").open("wb")).fileno()


def unread_pipe(stack: ExitStack) -> int:
    """A pipe that is full already and has a reader that never reads."""
    reading, writing = pipe(stack)
    del reading
    fill(writing)
    return writing


def abandoned_pipe(stack: ExitStack) -> int:
    """A pipe whose reader has gone."""
    reading, writing = os.pipe()
    os.close(reading)
    stack.callback(os.close, writing)
    return writing


def unread_nonblocking_pipe(stack: ExitStack) -> int:
    """A full pipe that another process has made non-blocking, as terminals' owners do."""
    writing = unread_pipe(stack)
    os.set_blocking(writing, False)
    return writing


def stopped_journal(stack: ExitStack) -> int:
    """The stream of a journal that no longer takes anything, as a stopped journald."""
    journal, stream = socket.socketpair()
    stack.enter_context(journal)
    stack.enter_context(stream)
    fill(stream.fileno())
    return stream.fileno()


def closed_descriptor(stack: ExitStack) -> None:
    """No standard error at all."""
    del stack


def pipe(stack: ExitStack) -> tuple[int, int]:
    """Both ends of a small pipe."""
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    fcntl(ends[1], F_SETPIPE_SZ, 4096)
    return ends


def fill(descriptor: int) -> None:
    """Write until there is no more room."""
    os.set_blocking(descriptor, False)
    try:
        while os.write(descriptor, b"." * 1024):
            pass
    except BlockingIOError:
        os.set_blocking(descriptor, True)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a fault holds."""
    with ExitStack() as held:
        yield held


def goes_on(agent: AgentProcess) -> bool:
    """Whether it takes further samples."""
    before = agent.metric("rightsizer_samples_total")
    return bool(eventually(lambda: agent.metric("rightsizer_samples_total") >= before + 2))


@pytest.mark.parametrize(
    "fault",
    [
        full_disk,
        unread_pipe,
        unread_nonblocking_pipe,
        abandoned_pipe,
        stopped_journal,
        closed_descriptor,
    ],
)
def test_a_log_that_takes_nothing_neither_ends_nor_delays_the_agent(
    fault: Fault, stack: ExitStack, tmp_path: Path
) -> None:
    """It starts, samples, reloads and ends on a signal with status 0."""
    with agent_on_standard_error(tmp_path, fault(stack)) as agent:
        agent.process.send_signal(signal.SIGHUP)  # Logs a line.
        assert goes_on(agent)
        if "unread" not in fault.__name__ and "journal" not in fault.__name__:
            eventually(lambda: agent.metric("rightsizer_log_dropped_total") >= 2)
        assert agent.end() == 0


def test_lines_that_wait_at_the_end_are_written(stack: ExitStack, tmp_path: Path) -> None:
    """A reader that was only late gets the last line, too."""
    reading, writing = pipe(stack)
    with agent_on_standard_error(tmp_path, writing) as agent:
        assert agent.end() == 0
    os.set_blocking(reading, False)
    assert b"agent_stopped" in os.read(reading, 1 << 16)


@pytest.mark.parametrize("fault", [full_disk, unread_pipe, abandoned_pipe, closed_descriptor])
def test_a_start_that_fails_has_its_own_status_whatever_the_log_takes(
    fault: Fault, stack: ExitStack, tmp_path: Path
) -> None:
    """A faulty configuration ends with 78, which a service manager does not retry."""
    (tmp_path / "rightsizer.yaml").write_text("sampling: {interval: soon}\n")
    standard_error = fault(stack)
    closing = ("sh", "-c", 'exec "$@" 2>&-', "sh") if standard_error is None else ()
    done = subprocess.run(
        [*closing, *RIGHTSIZER, "agent", "--config.file", "rightsizer.yaml", *SIMULATED],
        stderr=standard_error,
        cwd=tmp_path,
        check=False,
        timeout=60,
    )
    assert done.returncode == 78
