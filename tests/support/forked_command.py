"""`rightsizer` commands in processes forked from one that has loaded their modules already.

Loading takes most of an agent's start, and there are hundreds of starts. Environment, folder and
files are the caller's, and the exit is the interpreter's own. As a program this is the process that
forks; it takes orders from a socket until that is closed.
"""

import atexit
import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from rightsizer.cli.main import COMMANDS, entry_point

__all__ = ["ForkedCommand", "forked_command"]

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
) -> ForkedCommand:
    """Start a command.

    Args:
        arguments: Arguments of `rightsizer`.
        files: Its standard input, output and error.
        folder: Its working folder.
        environment: All of its variables.
    """
    order = {"arguments": [*arguments], "folder": str(folder), "environment": environment}
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        handles = [theirs.fileno(), *(file.fileno() for file in files)]
        socket.send_fds(
            _orders(is_agent=arguments[0] == "agent"), [json.dumps(order).encode()], handles
        )
    return ForkedCommand(int(ours.recv(_ORDER_BYTES)), ours)


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
        _load(order["arguments"][0])
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
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.argv = ["rightsizer", *order["arguments"]]
    entry_point()


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
