"""Workloads of a node without a scheduler: systemd units, else login sessions.

Reads a process's control group and session, never its user, command line or environment.
"""

import re
from pathlib import Path
from typing import Final

from rightsizer.domain.workload import Workload, WorkloadKind

__all__ = ["SessionOwners"]

_UNIT: Final = re.compile(r"[^/]+\.(?:service|scope)")
# These hold whatever somebody logged in for, not one piece of work.
_LOGIN: Final = re.compile(r"(?:session-[^/]*\.scope|user@[^/]*\.service|init\.scope)")
_SESSION_FIELD: Final = 3
_START_TIME_FIELD: Final = 19


class SessionOwners:
    """Systemd units by name; other processes by their session and the start of its leader."""

    def __init__(self, procfs: Path) -> None:
        """Reads `<procfs>/<pid>/cgroup` and `stat`."""
        self._procfs = procfs

    def workload_of(self, pid: int) -> Workload | None:
        """The unit or session that a process runs in."""
        unit = self._unit(pid)
        if unit is not None:
            return Workload(f"systemd:{unit}", WorkloadKind.SYSTEMD, unit)
        fields = self._stat(pid)
        if fields is None:
            return None
        session = int(fields[_SESSION_FIELD])
        if session == 0:
            return None  # Of another process namespace, or the kernel's own.
        leader = self._stat(session)
        # A session outlives its leader; then its number alone must do.
        started = f"@{leader[_START_TIME_FIELD]}" if leader else ""
        return Workload(f"session:{session}{started}", WorkloadKind.SESSION, f"session {session}")

    def _unit(self, pid: int) -> str | None:
        for line in self._text(pid, "cgroup").splitlines():
            controllers, _, path = line.partition(":")[2].partition(":")
            # The one hierarchy of version 2, or systemd's own of version 1.
            if controllers in ("", "name=systemd"):
                units: list[str] = _UNIT.findall(path)
                for unit in reversed(units):
                    if not _LOGIN.fullmatch(unit):
                        return unit
        return None

    def _stat(self, pid: int) -> list[str] | None:
        """The fields after the command name, which may itself hold spaces and parentheses."""
        fields = self._text(pid, "stat").rpartition(")")[2].split()
        is_whole = len(fields) > _START_TIME_FIELD and fields[_SESSION_FIELD].isdecimal()
        return fields if is_whole else None

    def _text(self, pid: int, name: str) -> str:
        try:
            return (self._procfs / str(pid) / name).read_text(errors="replace")
        except OSError:
            return ""
