"""Reader of /proc/PID: control groups, session, start time, user."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NAMING: Final = ("", "name=systemd")
"""The one hierarchy of version 2, and systemd's own of version 1."""
_CHUNK_BYTES: Final = 8192
_SESSION_FIELD: Final = 3
_START_TIME_FIELD: Final = 19


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """Where a process stands among others."""

    session: int
    """0 where its leader is in another process namespace, or the kernel's own."""
    start_ticks: int
    """Since boot; with the PID it names one process for good."""


class ProcessFiles:
    """Reads `cgroup` and `stat`; the user only if asked, never command line or environment."""

    def __init__(self, procfs: Path) -> None:
        """Reads nothing yet."""
        self._procfs = procfs

    def groups(self, pid: int) -> tuple[str, ...]:
        """The paths of its control groups, those that systemd keeps first."""
        found = self._groups(pid)
        return tuple(path for _, path in sorted(found, key=lambda group: group[0] not in _NAMING))

    def naming_groups(self, pid: int) -> tuple[str, ...]:
        """The paths in the hierarchies that systemd keeps."""
        return tuple(path for kind, path in self._groups(pid) if kind in _NAMING)

    def standing(self, pid: int) -> ProcessStat | None:
        """Its session and start; `None` where it has ended or is not to be seen."""
        # The command name may itself hold spaces and parentheses.
        fields = self._text(pid, "stat").rpartition(")")[2].split()
        try:
            return ProcessStat(int(fields[_SESSION_FIELD]), int(fields[_START_TIME_FIELD]))
        except (IndexError, ValueError):
            return None

    def start_ticks(self, pid: int) -> int | None:
        """When it began; `None` where it has ended or is not to be seen."""
        standing = self.standing(pid)
        return standing.start_ticks if standing is not None else None

    def user(self, pid: int) -> int | None:
        """The number of the user that it runs as; `None` where it has ended."""
        try:
            return (self._procfs / str(pid)).stat().st_uid
        except OSError:
            return None

    def _groups(self, pid: int) -> list[tuple[str, str]]:
        """Hierarchy and path, of each line such as `4:memory:/slurm/job_1`."""
        lines = self._text(pid, "cgroup").splitlines()
        parts = (line.partition(":")[2].partition(":") for line in lines)
        return [(hierarchy, path) for hierarchy, _, path in parts]

    def _text(self, pid: int, name: str) -> str:
        # Half the time of pathlib and io, and there are hundreds of processes.
        try:
            descriptor = os.open(f"{self._procfs}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return ""
        text = b""
        try:
            while part := os.read(descriptor, _CHUNK_BYTES):
                text += part
        except OSError:
            return ""  # It ended just now.
        finally:
            os.close(descriptor)
        return text.decode(errors="replace")
