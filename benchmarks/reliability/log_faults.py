# ruff: noqa: E501 - a table, one fault a line.
"""Faults of standard error and standard output, where the agent's log goes."""

import errno
import fcntl
import os
import pty
import signal
import socket
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from benchmarks.reliability import shim
from benchmarks.reliability.fault import LENGTH_SECONDS, Fault, Group
from benchmarks.reliability.node import Node

_LOG: Final = "*/log-*"
_DEBUG: Final = {"log": {"level": "debug"}}
_SMALLEST_PIPE: Final = 4096
_NOISE_SECONDS: Final = 0.5
_FAILURES: Final = (
    ("standard error is on a full disk (ENOSPC)", f"write {_LOG} 1 0 errno {errno.ENOSPC}"),
    ("standard error is beyond a quota (EDQUOT)", f"write {_LOG} 1 0 errno {errno.EDQUOT}"),
    ("standard error is on a broken disk (EIO)", f"write {_LOG} 1 0 errno {errno.EIO}"),
    ("standard error is a closed descriptor (EBADF)", f"write {_LOG} 1 0 errno {errno.EBADF}"),
    ("standard error would wait (EAGAIN)", f"write {_LOG} 1 0 errno {errno.EAGAIN}"),
    ("standard error is interrupted (EINTR)", f"write {_LOG} 1 20 errno {errno.EINTR}"),
    ("standard error takes a byte at a time", f"write {_LOG} 1 0 short 1"),
    ("a line to standard error takes 5 s", f"write {_LOG} 1 0 delay 5000"),
)  # fmt: skip
_AT_START: Final = ", as the agent starts"


def log_faults() -> Iterator[Fault]:
    """By calls, then by real files, pipes, sockets and terminals."""
    for name, rule in _FAILURES:
        yield _struck(name, rule)
    group = Group.LOG
    yield from (
        Fault(group, "standard error is on a full disk (/dev/full)" + _AT_START, prepare=_opened(_full), plant=_make_noise, is_at_start=True),
        _piped("standard error is a pipe whose reader has gone" + _AT_START, _abandoned_pipe, is_at_start=True),
        _piped("the reader of standard error goes", _pipe, _close_readers),
        _piped("standard error is a full pipe that nobody reads" + _AT_START, _full_pipe, is_at_start=True),
        _piped("nobody reads standard error any more", _pipe, _fill_pipe),
        _piped("standard error is read a byte a second", _pipe, _read_slowly),
        _piped("standard error is a pipe that does not wait, and is full", _nonblocking_pipe, _fill_pipe),
        _piped("journald is stopped", _journal, _fill_journal),
        _piped("journald is stopped" + _AT_START, _full_journal, is_at_start=True),
        _piped("journald has gone", _journal, _close_readers),
        _piped("the terminal hangs up", _terminal, _close_readers),
        _piped("the terminal is stopped", _terminal, _make_noise),
        Fault(group, "standard error is closed" + _AT_START, config=_DEBUG, prepare=_without("2>&-"), plant=_make_noise, is_at_start=True),
        Fault(group, "standard output is closed" + _AT_START, config=_DEBUG, prepare=_without(">&-"), plant=_make_noise, is_at_start=True),
        Fault(group, "all three standard files are closed" + _AT_START, config=_DEBUG, prepare=_without("<&- >&- 2>&-"), plant=_make_noise, is_at_start=True),
        Fault(group, "the log file is deleted", config=_DEBUG, plant=_then_noise(_delete_log)),
        Fault(group, "the log file is cut off", config=_DEBUG, plant=_then_noise(_truncate_log)),
    )  # fmt: skip


@dataclass(slots=True)
class Stream:
    """Both ends of the log, as a fault holds them."""

    reader: int
    writer: int
    is_read: bool = False
    """Whether it is written into a log file so far."""

    def fill(self) -> None:
        """Write until there is no room; the agent's next line would wait."""
        os.set_blocking(self.writer, False)
        with suppress(BlockingIOError):
            while True:
                os.write(self.writer, b"x" * 512)
        with suppress(BlockingIOError):
            while True:
                os.write(self.writer, b"x")
        os.set_blocking(self.writer, True)

    def close_reader(self) -> None:
        """Let the reader go."""
        if self.reader >= 0:
            os.close(self.reader)
        self.reader = -1

    def close(self) -> None:
        """Close both."""
        self.is_read = False
        self.close_reader()
        if self.writer >= 0:
            os.close(self.writer)
        self.writer = -1


def _struck(name: str, rule: str) -> Fault:
    def plant(node: Node) -> None:
        shim.strike(rule)(node)
        _make_noise(node)

    return Fault(Group.LOG, name, config=_DEBUG, prepare=shim.load, plant=plant, lift=shim.spare)


def _piped(
    name: str,
    make: Callable[[Node], Stream],
    plant: Callable[[Node], None] | None = None,
    *,
    is_at_start: bool = False,
) -> Fault:
    """A fault of what the agent's standard error is connected to."""

    def open_log(node: Node) -> BinaryIO:
        stream = make(node)
        node.held.append(stream)
        return os.fdopen(os.dup(stream.writer), "wb", buffering=0)

    return Fault(
        Group.LOG,
        name,
        config=_DEBUG,
        prepare=_opened(open_log),
        plant=_then_noise(plant or _nothing),
        is_at_start=is_at_start,
    )


def _opened(open_log: Callable[[Node], BinaryIO]) -> Callable[[Node], None]:
    def prepare(node: Node) -> None:
        node.open_log = open_log

    return prepare


def _nothing(_: Node) -> None:
    """The fault has been there from the start."""


def _full(_: Node) -> BinaryIO:
    return open("/dev/full", "wb", buffering=0)  # noqa: PTH123 - closed by who starts.


def _pipe(node: Node) -> Stream:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _SMALLEST_PIPE)
    return _read_until_planted(node, Stream(reader, writer))


def _read_until_planted(node: Node, stream: Stream) -> Stream:
    """Write what the agent says before the fault into a log file."""
    stream.is_read = True
    os.set_blocking(stream.reader, False)
    log = node.folder / f"log-{time.monotonic_ns()}"

    def read() -> None:
        with log.open("wb") as file:
            while stream.is_read:
                with suppress(OSError):
                    file.write(os.read(stream.reader, 65536))
                    file.flush()
                time.sleep(0.05)

    threading.Thread(target=read, daemon=True).start()
    return stream


def _abandoned_pipe(_: Node) -> Stream:
    reader, writer = os.pipe()
    os.close(reader)
    return Stream(-1, writer)


def _full_pipe(_: Node) -> Stream:
    stream = Stream(*os.pipe())
    fcntl.fcntl(stream.writer, fcntl.F_SETPIPE_SZ, _SMALLEST_PIPE)
    stream.fill()
    return stream


def _nonblocking_pipe(node: Node) -> Stream:
    stream = _pipe(node)
    os.set_blocking(stream.writer, False)
    return stream


def _journal(node: Node) -> Stream:
    """A stream socket with the variable by which systemd announces its journal."""
    return _read_until_planted(node, _sockets(node))


def _full_journal(node: Node) -> Stream:
    stream = _sockets(node)
    stream.fill()
    return stream


def _sockets(node: Node) -> Stream:
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    status = os.fstat(writer.fileno())
    node.environment["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
    return Stream(reader.detach(), writer.detach())


def _terminal(node: Node) -> Stream:
    reader, writer = pty.openpty()
    attributes: list[Any] = termios.tcgetattr(writer)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(writer, termios.TCSANOW, attributes)
    return _read_until_planted(node, Stream(reader, writer))


def _streams(node: Node) -> list[Stream]:
    return [held for held in node.held if isinstance(held, Stream)]


def _close_readers(node: Node) -> None:
    for stream in _streams(node):
        stream.close_reader()


def _fill_pipe(node: Node) -> None:
    for stream in _streams(node):
        stream.fill()


def _fill_journal(node: Node) -> None:
    _fill_pipe(node)


def _read_slowly(node: Node) -> None:
    stream = _streams(node)[0]
    _fill_pipe(node)

    def read() -> None:
        for _ in range(int(LENGTH_SECONDS)):
            with suppress(OSError):
                os.read(stream.reader, 1)
            time.sleep(1.0)

    threading.Thread(target=read, daemon=True).start()


def _without(redirection: str) -> Callable[[Node], None]:
    def prepare(node: Node) -> None:
        node.prefix = ("sh", "-c", f'exec "$@" {redirection}', "sh")

    return prepare


def _then_noise(plant: Callable[[Node], None]) -> Callable[[Node], None]:
    def plant_and_make_noise(node: Node) -> None:
        for stream in _streams(node):
            stream.is_read = False
        plant(node)
        _make_noise(node)

    return plant_and_make_noise


def _make_noise(node: Node) -> None:
    """Have it log: each reload says something."""

    def reload() -> None:
        for _ in range(int(LENGTH_SECONDS / _NOISE_SECONDS)):
            with suppress(ProcessLookupError):
                node.send(signal.SIGHUP)
            time.sleep(_NOISE_SECONDS)

    threading.Thread(target=reload, daemon=True).start()


def _delete_log(node: Node) -> None:
    for file in node.folder.glob("log-*"):
        file.unlink()


def _truncate_log(node: Node) -> None:
    for file in node.folder.glob("log-*"):
        os.truncate(file, 0)
