"""Process table from procfs: start, parent, session, groups, user, environment."""

import contextlib
import errno
import os
import pwd
import signal
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.host.files import read_file
from rightsizer.model.workload import ProcessGeneration

_STATE = 0
_PARENT = 1
_SESSION = 3
_USER = 11
_SYSTEM = 12
_STARTED = 19
_INIT: Final = 1
_ANCESTORS_MAXIMUM: Final = 64
_NAMESPACED_PIDS: Final = "NSpid:"
_DEAD: Final = "ZXx"
"""Zombies and dead processes have ended."""
_STAT_BYTES: Final = 4096
"""Ten times the longest possible content."""
_ENVIRONMENT_BYTES: Final = 262_144
_UIDS: Final = "\nUid:"


class Unseen(Enum):
    """Reason why a process cannot be seen."""

    GONE = "gone"
    FORBIDDEN = "forbidden"
    """Exists but is unreadable, also in the future."""
    UNKNOWN = "unknown"
    """The read failed, e.g. because this process has no free file descriptor."""


class ProcessRow(Struct, frozen=True):
    """Process at one moment."""

    pid: int
    parent: int
    session: int
    """0 if its leader is in another pid namespace, or for kernel threads."""
    started_ticks: int
    """Since boot; identifies a process uniquely together with the pid."""
    cpu_ticks: int
    """CPU time of all its threads."""
    is_alive: bool
    name: str
    """Command name, truncated by the kernel to 15 characters."""


class ProcessTable:
    """Reads `stat`, user and selected environment variables of processes."""

    def __init__(self, procfs: Path | str) -> None:
        self._procfs = str(procfs)

    def sees_others(self) -> bool:
        """Whether processes of other users are visible, as without procfs's `hidepid`."""
        return self.row(1) is not None or read_file(f"{self._procfs}/self/stat") is None

    @cached_property
    def shows_our_pids(self) -> bool:
        """Whether this procfs uses the same pids as the driver's answers.

        The driver reports pids in the caller's namespace; in another namespace's procfs, the same
        number is another process.
        """
        for line in (read_file(f"{self._procfs}/self/status") or "").splitlines():
            if line.startswith(_NAMESPACED_PIDS):
                return len(line.split()) == len((_NAMESPACED_PIDS, "pid"))
        return True

    def pids(self) -> list[int]:
        """All pids; empty if procfs cannot be read, since at least one process always exists."""
        try:
            return [int(name) for name in os.listdir(self._procfs) if name.isdecimal()]  # noqa: PTH208 - each second, with thousands.
        except OSError:
            return []

    def row(self, pid: int) -> ProcessRow | None:
        """Process by pid; `None` if it has ended or is invisible."""
        row = self.find(pid)
        return row if isinstance(row, ProcessRow) else None

    def find(self, pid: int) -> ProcessRow | Unseen:
        """Process by pid, or the reason why it cannot be seen."""
        try:
            handle = os.open(f"{self._procfs}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
            try:
                raw = os.read(handle, _STAT_BYTES)
            finally:
                os.close(handle)
        except OSError as error:
            return _WHY_UNSEEN.get(error.errno or 0, Unseen.UNKNOWN)
        # The command name may contain spaces and parentheses.
        named, _, rest = raw.decode(errors="replace").rpartition(")")
        text = rest.split(maxsplit=_STARTED + 1)
        try:
            parent, session, started = (int(text[at]) for at in (_PARENT, _SESSION, _STARTED))
            cpu_ticks = int(text[_USER]) + int(text[_SYSTEM])
            is_alive = text[_STATE] not in _DEAD
            name = named.partition("(")[2]
            return ProcessRow(pid, parent, session, started, cpu_ticks, is_alive, name)
        except (IndexError, ValueError):
            return Unseen.UNKNOWN

    def started_ticks(self, pid: int) -> int | None:
        """Start of a process; `None` if it has ended or is invisible."""
        row = self.row(pid)
        return None if row is None else row.started_ticks

    def generation(self, pid: int) -> ProcessGeneration | None:
        """Process that has a pid now, in its control groups; `None` if it has ended."""
        row = self.row(pid)
        if row is None or not row.is_alive:
            return None
        return ProcessGeneration(pid, row.started_ticks, self.control_groups(pid))

    def ancestors(self, row: ProcessRow) -> Iterator[ProcessRow]:
        """Processes above one, nearest first, without init; pids reused meanwhile end no loop."""
        for _ in range(_ANCESTORS_MAXIMUM):
            above = self.row(row.parent) if row.parent > _INIT else None
            if above is None:
                return
            yield above
            row = above

    def control_groups(self, pid: int) -> str:
        """Control groups, one hierarchy a line; empty if it has ended."""
        return read_file(f"{self._procfs}/{pid}/cgroup") or ""

    def command_line(self, pid: int) -> str:
        """Arguments, or the title that it gave itself; empty if it has ended."""
        return (read_file(f"{self._procfs}/{pid}/cmdline") or "").replace("\0", " ").rstrip()

    def user(self, pid: int) -> int | None:
        """Real uid of a process; `None` if it has ended.

        The owner of its folder may be another: `prctl(PR_SET_DUMPABLE)` makes root own it.
        """
        status = read_file(f"{self._procfs}/{pid}/status") or ""
        real, *_ = status.partition(_UIDS)[2].partition("\n")[0].split() or [""]
        return int(real) if real.isdecimal() else None

    def environment(self, pid: int, names: Collection[str]) -> Mapping[str, str]:
        """Selected variables of its initial environment; empty if unreadable."""
        text = read_file(f"{self._procfs}/{pid}/environ", _ENVIRONMENT_BYTES) or ""
        pairs = (variable.partition("=") for variable in text.split("\0"))
        return {name: value for name, _, value in pairs if name in names}


_WHY_UNSEEN: Final = {
    errno.ENOENT: Unseen.GONE,
    errno.ESRCH: Unseen.GONE,
    errno.EACCES: Unseen.FORBIDDEN,
    errno.EPERM: Unseen.FORBIDDEN,
}


def user_name(uid: int) -> str:
    """Name of a user, or the uid if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def started_of(pid: int) -> int | None:
    """Start of a process in kernel ticks since boot; `None` if there is none."""
    return ProcessTable("/proc").started_ticks(pid)


def end_group(pid: int | None, started: int | None) -> bool:
    """Kill a process group of ours that outlived the agent; return whether it existed.

    Args:
        pid: Pid of the group leader, or `None`.
        started: Its start; another process with the same pid is not killed.
    """
    if pid is None or started is None or started_of(pid) != started:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return True
