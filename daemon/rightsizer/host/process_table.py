"""Processes of the machine from procfs: start, parent, session, groups, user, environment."""

import contextlib
import errno
import os
import pwd
import signal
from collections.abc import Collection, Mapping
from enum import Enum
from pathlib import Path
from typing import Final

from rightsizer.host.files import read_file
from rightsizer.model.frozen import dataclass

_STATE, _PARENT, _SESSION, _STARTED = 0, 1, 3, 19
_DEAD: Final = "ZXx"
"""Zombies have ended, and wait for a parent to take note."""
_STAT_BYTES: Final = 4096
"""Ten times what the longest takes."""
_ENVIRONMENT_BYTES: Final = 262_144
_SYSTEMD_HIERARCHIES: Final = ("", "name=systemd")
"""The one hierarchy of version 2, and systemd's own of version 1."""


class Unseen(Enum):
    """Why there is nothing to see of a process."""

    GONE = "gone"
    FORBIDDEN = "forbidden"
    """It is there and may not be read: nor will it be at the next look."""
    UNKNOWN = "unknown"
    """The read failed, as it does where this process has no file left to open."""


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One process at one moment."""

    pid: int
    parent: int
    session: int
    """0 where its leader is in another process namespace, or the kernel's own."""
    started_ticks: int
    """Since boot; with the pid it names one process for good."""
    is_alive: bool
    name: str
    """Of its program, of which the kernel keeps 15 characters."""


class ProcessTable:
    """Reads `stat`, `cgroup` and the owner, and of an environment what is asked for by name."""

    def __init__(self, procfs: Path | str) -> None:
        self._procfs = str(procfs)

    def sees_others(self) -> bool:
        """Whether processes of other users are to be seen: not where procfs is `hidepid`."""
        return self.row(1) is not None or read_file(f"{self._procfs}/self/stat") is None

    def pids(self) -> list[int]:
        """All processes; none where procfs cannot be read, for there always is one."""
        try:
            return [int(name) for name in os.listdir(self._procfs) if name.isdecimal()]  # noqa: PTH208 - each second, with thousands.
        except OSError:
            return []

    def row(self, pid: int) -> ProcessRow | None:
        """A process; `None` where it has ended or is not to be seen."""
        found = self.find(pid)
        return found if isinstance(found, ProcessRow) else None

    def find(self, pid: int) -> ProcessRow | Unseen:
        """A process, or why it is not seen."""
        try:
            handle = os.open(f"{self._procfs}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
            try:
                raw = os.read(handle, _STAT_BYTES)
            finally:
                os.close(handle)
        except OSError as error:
            return _WHY_UNSEEN.get(error.errno or 0, Unseen.UNKNOWN)
        # The command name may itself hold spaces and parentheses.
        named, _, rest = raw.decode(errors="replace").rpartition(")")
        text = rest.split(maxsplit=_STARTED + 1)
        try:
            parent, session, started = (int(text[at]) for at in (_PARENT, _SESSION, _STARTED))
            is_alive, name = text[_STATE] not in _DEAD, named.partition("(")[2]
            return ProcessRow(pid, parent, session, started, is_alive, name)
        except (IndexError, ValueError):
            return Unseen.UNKNOWN

    def started_ticks(self, pid: int) -> int | None:
        """When a process began; `None` where it has ended or is not to be seen."""
        row = self.row(pid)
        return None if row is None else row.started_ticks

    def user(self, pid: int) -> int | None:
        """The number of the user that it runs as; `None` where it has ended."""
        try:
            return os.stat(f"{self._procfs}/{pid}").st_uid  # noqa: PTH116 - as above.
        except OSError:
            return None

    def groups(self, pid: int) -> tuple[str, ...]:
        """The paths of its control groups, those that systemd keeps first."""
        found = sorted(self._groups(pid), key=lambda group: group[0] not in _SYSTEMD_HIERARCHIES)
        return tuple(path for _, path in found)

    def systemd_groups(self, pid: int) -> tuple[str, ...]:
        """The paths in the hierarchies that systemd keeps."""
        return tuple(path for kind, path in self._groups(pid) if kind in _SYSTEMD_HIERARCHIES)

    def _groups(self, pid: int) -> list[tuple[str, str]]:
        """Hierarchy and path, of each line such as `4:memory:/slurm/job_1`."""
        lines = (read_file(f"{self._procfs}/{pid}/cgroup") or "").splitlines()
        parts = (line.partition(":")[2].partition(":") for line in lines)
        return [(hierarchy, path) for hierarchy, _, path in parts]

    def environment(self, pid: int, names: Collection[str]) -> Mapping[str, str]:
        """These variables as it was started with; none where it may not be read."""
        text = read_file(f"{self._procfs}/{pid}/environ", _ENVIRONMENT_BYTES) or ""
        pairs = (each.partition("=") for each in text.split("\0"))
        return {name: value for name, _, value in pairs if name in names}


_WHY_UNSEEN: Final = {
    errno.ENOENT: Unseen.GONE,
    errno.ESRCH: Unseen.GONE,
    errno.EACCES: Unseen.FORBIDDEN,
    errno.EPERM: Unseen.FORBIDDEN,
}


def user_name(uid: int) -> str:
    """A user's name; the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def started_of(pid: int) -> int | None:
    """When a process started, in the kernel's ticks since it booted; `None` where there is none."""
    return ProcessTable("/proc").started_ticks(pid)


def end_group(pid: int | None, started: int | None) -> bool:
    """End a process of ours that outlived the agent, with its group; whether it was there.

    Args:
        pid: Its number, and its group's; `None` where none was noted.
        started: When it started; of another there with that number nothing is ended.
    """
    if pid is None or started is None or started_of(pid) != started:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return True
