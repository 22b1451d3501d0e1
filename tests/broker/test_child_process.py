"""A command run for a user as if started directly."""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from agent_process import eventually
from rightsizer.broker.child_process import CANNOT_RUN, NOT_FOUND, status_of

PROGRAM: Final = Path(__file__).parents[1] / "support" / "launched_child.py"
COUNTING: Final = """
import os, signal, time
count = 0
def interrupted(*_):
    global count
    count += 1
    os.write(1, b"got %d;" % count)
def ended(*_):
    os.write(1, b"and ended after %d;" % count)
    os._exit(4)
signal.signal(signal.SIGINT, interrupted)
signal.signal(signal.SIGTERM, ended)
os.write(1, b"ready;")
while True:
    time.sleep(0.02)
"""
"""It starts nothing: a process stopped while it forks can block its parent forever."""
COUNTER: Final = (sys.executable, "-SEc", COUNTING)


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, pid: int, handle: int) -> None:
        self.pid = pid
        self._handle = handle
        self._shown = ""

    def type(self, text: str) -> None:
        """Type the text."""
        os.write(self._handle, text.encode())

    def shows(self, pattern: str) -> str:
        """The screen once it matches."""
        while not (found := re.search(pattern, self._shown)):
            self._shown += os.read(self._handle, 4096).decode(errors="replace")
        return found[0]


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    """A program that is certainly gone afterwards."""
    pid, handle = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, str(PROGRAM), *arguments])
    attributes = termios.tcgetattr(handle)
    # Else ^C discards the written text and its response.
    attributes[3] |= termios.NOFLSH
    termios.tcsetattr(handle, termios.TCSANOW, attributes)
    try:
        yield Terminal(pid, handle)
    finally:
        os.close(handle)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def launched(*command: str) -> "subprocess.CompletedProcess[str]":
    """A command run to its end."""
    return subprocess.run(
        [sys.executable, PROGRAM, *command], capture_output=True, text=True, check=False, timeout=60
    )


def state_of(pid: int) -> str:
    """A process's state from procfs; empty without a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def is_waited_for(pid: int, number: signal.Signals) -> bool:
    """Whether a signal is still pending."""
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if ":\t" in line
    )
    return bool(int(status["ShdPnd"], 16) & 1 << number - 1)


def children_of(pid: int) -> Sequence[int]:
    """From the kernel's own list."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 255", 255), ("kill -9 $$", 137), ("kill $$", 143)]
)
def test_the_status_is_the_commands(script: str, status: int) -> None:
    """Or 128 plus the signal that ended it."""
    assert launched("sh", "-c", script).returncode == status


def test_command_that_cannot_run_raises_its_own_error(tmp_path: Path) -> None:
    """Reported by the child before any waiting."""
    assert "FileNotFoundError" in launched("no-such-program").stderr
    assert "PermissionError" in launched(str(tmp_path)).stderr
    assert (CANNOT_RUN, NOT_FOUND, status_of(9)) == (126, 127, 137)


def test_an_interrupt_of_the_terminal_reaches_the_command_once() -> None:
    """An interrupt sent to this process alone is forwarded."""
    with terminal(*COUNTER) as shown:
        shown.shows("ready")
        shown.type("\x03")
        shown.shows("got 1")
        # Two pending ones merge into one.
        eventually(lambda: not is_waited_for(shown.pid, signal.SIGINT))
        os.kill(shown.pid, signal.SIGINT)
        shown.shows("got 2")
        os.kill(shown.pid, signal.SIGTERM)
        assert shown.shows(r"and ended after \d+") == "and ended after 2"
        assert shown.shows(r"ended with \d+") == "ended with 4"


def test_a_job_stops_and_goes_on_with_its_command() -> None:
    """The shell sees it stop, and resumes both."""
    with terminal("shell", *COUNTER) as shown:
        shown.shows("ready")
        shown.type("\x1a")
        shown.shows("the job has stopped")
        (job,) = children_of(shown.pid)
        (command,) = children_of(job)
        eventually(lambda: state_of(command) not in {"T", ""} and state_of(job) not in {"T", ""})
        os.kill(job, signal.SIGTERM)
        assert shown.shows("and ended after 0")
        assert shown.shows(r"ended with \d+") == "ended with 4"


def test_processes_left_behind_can_be_ignored(tmp_path: Path) -> None:
    """An interrupted client gets the command's status; its descendants continue."""
    note = tmp_path / "pid"
    script = f"(setsid sh -c 'echo $$ > {note}; exec sleep 60' &) ; exit 3"
    with subprocess.Popen(
        [sys.executable, PROGRAM, "sh", "-c", script], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "left behind by 3\n"
        daemon = int(eventually(lambda: note.exists() and note.read_text().strip()))
        assert list(children_of(process.pid)) == [daemon]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 3
        assert process.stdout.readline() == "ended with 3, not all of it\n"
    assert state_of(daemon) not in {"", "Z"}
    os.kill(daemon, signal.SIGKILL)


def test_a_command_begins_with_the_signals_that_it_would_have() -> None:
    """None blocked, and those ignored by Python itself back at their defaults."""
    script = "grep -E 'SigBlk|SigIgn' /proc/self/status"
    # By its path, as the program is: Python 3.13 then uses posix_spawn, by which the C library
    # ignores its own signals.
    shell = shutil.which("sh") or "/bin/sh"
    usual = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True).stdout
    assert launched("sh", "-c", script).stdout.startswith(usual)
