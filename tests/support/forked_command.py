"""Python programs in processes forked from one that has loaded the product's modules already.

Loading takes most of an agent's start, and there are hundreds of starts. Environment, folder and
files are the caller's, and the exit is the interpreter's own. As a program this is the process that
forks; it takes orders from a socket until that is closed.
"""

import atexit
import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

from rightsizer.cli.main import COMMANDS, entry_point

__all__ = ["RIGHTSIZER", "ForkedCommand", "forked_command"]

RIGHTSIZER: Final = ("-m", "rightsizer")
_ORDER_BYTES = 2**18
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


class ForkedCommand:
    """The part of `Popen` used by the tests."""

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """The exit status, or minus the fatal signal; `None` while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status.

        Raises:
            TimeoutExpired: it still runs.
        """
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                received = self._status.recv(_ORDER_BYTES)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("rightsizer", timeout or 0.0) from None
            self._status.close()
            self.returncode = int(received) if received else -signal.SIGKILL
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


def forked_command(
    arguments: Sequence[str],
    files: tuple[BinaryIO, BinaryIO, BinaryIO],
    *,
    folder: Path,
    environment: dict[str, str],
    has_session: bool = False,
) -> ForkedCommand:
    """Start a program.

    Args:
        arguments: Arguments of Python: `RIGHTSIZER` with its own, `-c` and code, or a file.
        files: Its standard input, output and error.
        folder: Its working folder.
        environment: All of its variables.
        has_session: Whether it has a session, and so a group of processes, of its own.
    """
    order = {
        "arguments": [*map(str, arguments)],
        "folder": str(folder),
        "environment": environment,
        "has_session": has_session,
    }
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        handles = [theirs.fileno(), *(file.fileno() for file in files)]
        socket.send_fds(
            _orders(is_agent=_name(arguments) in _AGENTS), [json.dumps(order).encode()], handles
        )
    return ForkedCommand(int(ours.recv(_ORDER_BYTES)), ours)


_AGENTS: Final = frozenset({"agent", "demo"})


def _name(arguments: Sequence[str]) -> str:
    """The command whose modules are loaded; that of programs is the one they are built from."""
    return arguments[2] if tuple(arguments[:2]) == RIGHTSIZER else "demo"


@cache
def _orders(*, is_agent: bool) -> socket.socket:
    """The socket for orders: agents omit libraries that other commands need."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, __file__, str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def main(number: int) -> None:
    """Take orders; it returns in the process of a command."""
    orders = socket.socket(fileno=number)
    while True:
        message, handles, _, _ = socket.recv_fds(orders, _ORDER_BYTES, 4)
        if not message:
            sys.exit()
        order = json.loads(message)
        _load(_name(order["arguments"]))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Supervisors are not waited for.
        if not os.fork():
            break
        for handle in handles:
            os.close(handle)
    orders.close()
    _supervise(socket.socket(fileno=handles[0]))
    for handle, standard in zip(handles[1:], range(3), strict=True):
        os.dup2(handle, standard)
        os.close(handle)
    if order["has_session"]:
        os.setsid()
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    _run(order["arguments"])


def _run(arguments: Sequence[str]) -> None:
    """Run a program as Python would."""
    program, *more = arguments
    if tuple(arguments[:2]) == RIGHTSIZER:
        sys.argv = ["rightsizer", *more[1:]]
        entry_point()
    elif program == "-c":
        sys.argv = ["-c", *more[1:]]
        exec(more[0], {"__name__": "__main__"})
    elif program == "-m":
        sys.argv = more
        runpy.run_module(more[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [*arguments]
        sys.path[0] = str(Path(program).parent)
        runpy.run_path(program, run_name="__main__")


def _load(name: str) -> None:
    for entry in COMMANDS:
        if entry.name == name:
            entry.load()
    gc.collect()
    gc.freeze()


def _supervise(status: socket.socket) -> None:
    """Fork once more, report the child and its end; only the child returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _die_with_parent()
    pid = os.fork()
    if not pid:
        status.close()
        _die_with_parent()
        return
    status.send(str(pid).encode())
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        status.send(str(ended).encode())
    os._exit(0)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
