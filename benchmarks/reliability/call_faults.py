"""Calls of the C library that fail, wait or do half of what they should."""

import errno
from collections.abc import Callable, Iterator
from typing import Final

from benchmarks.reliability import shim
from benchmarks.reliability.disk_faults import delete_history
from benchmarks.reliability.fault import LENGTH_SECONDS, Fault, Group
from benchmarks.reliability.node import Node

_HISTORY: Final = "*/history.db*"
_AT_START: Final = ", as the agent starts"
_FAILURES: Final = (
    ("writes to the history find no space (ENOSPC)", "write", _HISTORY, errno.ENOSPC),
    ("writes to the history exceed a quota (EDQUOT)", "write", _HISTORY, errno.EDQUOT),
    ("writes to the history fail (EIO)", "write", _HISTORY, errno.EIO),
    ("writes to the history lose their file (ESTALE)", "write", _HISTORY, errno.ESTALE),
    ("the history is on a read-only root (EROFS)", "write", _HISTORY, errno.EROFS),
    ("fsync of the history fails (EIO)", "fsync", _HISTORY, errno.EIO),
    ("fsync of the history finds no space (ENOSPC)", "fsync", _HISTORY, errno.ENOSPC),
    ("reads of the history fail (EIO)", "read", _HISTORY, errno.EIO),
    ("the history cannot be locked (ENOLCK)", "lock", _HISTORY, errno.ENOLCK),
    ("locks of the history stay taken (EAGAIN)", "lock", _HISTORY, errno.EAGAIN),
    ("no file can be opened: the process has too many (EMFILE)", "open", "*", errno.EMFILE),
    ("no file can be opened: the machine has too many (ENFILE)", "open", "*", errno.ENFILE),
)  # fmt: skip
"""Errors of all calls of a kind; each from the start too, where an agent starts on it."""
_STARTABLE: Final = frozenset({"write", "fsync", "lock"})
_MOMENTS: Final = (
    ("a single write to the history fails (EIO)", f"write {_HISTORY} 3 1 errno {errno.EIO}"),
    ("a single fsync fails (EIO)", f"fsync {_HISTORY} 1 1 errno {errno.EIO}"),
    ("writes to the history are interrupted (EINTR)", f"write {_HISTORY} 1 50 errno {errno.EINTR}"),
    ("reads of the history are interrupted (EINTR)", f"read {_HISTORY} 1 50 errno {errno.EINTR}"),
    ("writes to the history write 100 bytes at most", f"write {_HISTORY} 1 0 short 100"),
    ("writes to the history write a byte each", f"write {_HISTORY} 1 0 short 1"),
    ("reads of the history read 50 bytes at most", f"read {_HISTORY} 1 0 short 50"),
    ("writes to the history take 2 s each", f"write {_HISTORY} 1 0 delay 2000"),
    ("reads of the history take 2 s each", f"read {_HISTORY} 1 0 delay 2000"),
    ("fsync takes 3 s", f"fsync {_HISTORY} 1 0 delay 3000"),
    ("connections cannot be accepted (EMFILE)", f"accept * 1 0 errno {errno.EMFILE}"),
    ("accepted connections are gone (ECONNABORTED)", f"accept * 1 40 errno {errno.ECONNABORTED}"),
    ("the network has no buffers (ENOBUFS)", f"send * 1 20 errno {errno.ENOBUFS}"),
    ("requests arrive a byte at a time", "recv * 1 0 short 1"),
    ("answers leave 100 bytes at a time", "send * 1 0 short 100"),
    ("requests are reset (ECONNRESET)", f"recv * 1 20 errno {errno.ECONNRESET}"),
)  # fmt: skip
_SILENT_CLIENTS: Final = 8
_REFUSED_OPENS: Final = (
    ("the history is deleted and cannot be made anew (EACCES)", errno.EACCES),
    ("the history is deleted and cannot be made anew (EROFS)", errno.EROFS),
    ("the history is deleted and cannot be made anew (ENOSPC)", errno.ENOSPC),
)


def call_faults() -> Iterator[Fault]:
    """Failures of all calls of a kind, then of some, waits and halves."""
    for name, function, pattern, number in _FAILURES:
        rule = f"{function} {pattern} 1 0 errno {number}"
        yield struck(Group.CALLS, name, rule)
        if function in _STARTABLE:
            yield struck_at_start(Group.CALLS, name + _AT_START, rule)
    yield Fault(
        Group.CALLS,
        "no thread can be started (EAGAIN)",
        prepare=shim.load,
        plant=_refuse_threads,
        lift=shim.spare,
    )
    for name, rule in _MOMENTS:
        yield struck(Group.CALLS, name, rule)
    for name, number in _REFUSED_OPENS:
        yield _deleted(name, f"open {_HISTORY} 1 0 errno {number}")
    slow = f"fsync {_HISTORY} 1 1 delay 30000"
    yield struck(Group.CALLS, "a single fsync takes 30 s", slow, seconds=33.0)


def struck(group: Group, name: str, *rules: str, seconds: float = LENGTH_SECONDS) -> Fault:
    """A fault of calls while the agent runs."""
    return Fault(
        group,
        name,
        prepare=shim.load,
        plant=shim.strike(*rules),
        lift=shim.spare,
        seconds=seconds,
    )


def _refuse_threads(node: Node) -> None:
    """Clients that say nothing, since each takes one of the threads that are there."""
    shim.strike(f"thread * 1 0 errno {errno.EAGAIN}")(node)
    for _ in range(_SILENT_CLIENTS):
        node.connect()


def _deleted(name: str, rule: str) -> Fault:
    """A history that has to be opened again, which fails."""

    def plant(node: Node) -> None:
        shim.strike(rule)(node)
        delete_history(node)

    return Fault(Group.CALLS, name, prepare=shim.load, plant=plant, lift=shim.spare)


def prepared(*rules: str) -> Callable[[Node], None]:
    """Start the agent below the shim, with rules."""

    def prepare(node: Node) -> None:
        shim.load(node)
        shim.strike(*rules)(node)

    return prepare


def struck_at_start(group: Group, name: str, *rules: str, seconds: float = LENGTH_SECONDS) -> Fault:
    """The same from the agent's start."""
    prepare = prepared(*rules)
    return Fault(group, name, prepare=prepare, lift=shim.spare, is_at_start=True, seconds=seconds)
