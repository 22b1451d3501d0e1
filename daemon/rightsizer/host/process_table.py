"""Processes of the machine from procfs: start, parent, session, user, environment."""

import contextlib
import errno
import os
import pwd
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from rightsizer.host.process_files import ProcessFiles

_STATE, _PARENT, _SESSION, _STARTED = 0, 1, 3, 19
_DEAD: Final = "ZXx"
"""Zombies have ended, and wait for a parent to take note."""
_STAT_BYTES: Final = 4096
"""Ten times what the longest takes."""
_ENVIRONMENT_BYTES: Final = 262_144


class Unseen(Enum):
    """Why there is nothing to see of a process."""

    GONE = "gone"
    FORBIDDEN = "forbidden"
    """It is there, and not for us to read: nor will it be at the next look."""
    UNKNOWN = "unknown"
    """The read failed, as it does where this process has no file left to open."""


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One process at one moment."""

    pid: int
    parent: int
    session: int
    started_ticks: int
    """Since boot; with the pid it names one process for good."""
    is_alive: bool
    """Whether it still runs: a zombie does not."""


class ProcessTable:
    """Reads `stat`, who owns a process, and of its environment what is asked for by name."""

    def __init__(self, procfs: Path) -> None:
        """Reads nothing yet."""
        self._procfs = str(procfs)

    def pids(self) -> list[int]:
        """All that there are; none where nobody could look, for there always is a process."""
        try:
            return [int(name) for name in os.listdir(self._procfs) if name.isdecimal()]  # noqa: PTH208 - each second, with thousands.
        except OSError:
            return []

    def row(self, pid: int) -> ProcessRow | None:
        """A process; `None` where it has ended or is not to be seen."""
        found = self.look(pid)
        return found if isinstance(found, ProcessRow) else None

    def look(self, pid: int) -> ProcessRow | Unseen:
        """A process, or why it is not seen."""
        try:
            raw = self._stat(pid)
        except OSError as error:
            return _WHY_UNSEEN.get(error.errno or 0, Unseen.UNKNOWN)
        # The command name may itself hold spaces and parentheses.
        text = raw.decode(errors="replace").rpartition(")")[2].split()
        try:
            return ProcessRow(
                pid,
                int(text[_PARENT]),
                int(text[_SESSION]),
                int(text[_STARTED]),
                text[_STATE] not in _DEAD,
            )
        except (IndexError, ValueError):
            return Unseen.UNKNOWN

    def user(self, pid: int) -> int | None:
        """The number of the user that it runs as; `None` where it has ended."""
        try:
            return os.stat(f"{self._procfs}/{pid}").st_uid  # noqa: PTH116 - as above.
        except OSError:
            return None

    def environment(self, pid: int, names: Collection[str]) -> Mapping[str, str]:
        """These variables as it was started with; none where it may not be read."""
        try:
            handle = os.open(f"{self._procfs}/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return {}
        raw = b""
        try:
            while len(raw) < _ENVIRONMENT_BYTES and (part := os.read(handle, 65536)):
                raw += part
        except OSError:
            return {}
        finally:
            os.close(handle)
        pairs = (each.partition("=") for each in raw.decode(errors="replace").split("\0"))
        return {name: value for name, _, value in pairs if name in names}

    def _stat(self, pid: int) -> bytes:
        handle = os.open(f"{self._procfs}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, _STAT_BYTES)
        finally:
            os.close(handle)


_WHY_UNSEEN: Final = {
    errno.ENOENT: Unseen.GONE,
    errno.ESRCH: Unseen.GONE,
    errno.EACCES: Unseen.FORBIDDEN,
    errno.EPERM: Unseen.FORBIDDEN,
}
"""By the number of the error."""


def user_name(uid: int) -> str:
    """A user's name; the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


_PROCFS: Final = Path("/proc")


def started_of(pid: int) -> int | None:
    """When a process started, in the kernel's ticks since it booted; `None` where there is none."""
    return ProcessFiles(_PROCFS).start_ticks(pid)


def end_group(pid: int | None, started: int | None) -> bool:
    """End a process of ours that outlived the agent, with its group; whether it was there.

    Args:
        pid: Its number, and its group's; `None` where nobody noted one.
        started: When it started; of another there with that number nothing is ended.
    """
    if pid is None or started is None or started_of(pid) != started:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return True
