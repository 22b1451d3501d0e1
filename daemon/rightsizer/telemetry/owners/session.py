"""Workloads of a node without a scheduler: systemd units, else login sessions."""

from pathlib import Path

from rightsizer.domain.workload import Workload, WorkloadKind
from rightsizer.telemetry.owners.control_group import unit_in
from rightsizer.telemetry.owners.owner import Allocations
from rightsizer.telemetry.owners.process_files import ProcessFiles

__all__ = ["SessionOwners"]


class SessionOwners:
    """Systemd units by name; other processes by their session and the start of its leader."""

    def __init__(self, procfs: Path) -> None:
        """Reads a process's control group and session."""
        self._files = ProcessFiles(procfs)

    def workload_of(self, pid: int) -> Workload | None:
        """The unit or session that a process runs in."""
        unit = unit_in(self._files.naming_groups(pid))
        if unit is not None:
            return Workload(f"systemd:{unit}", WorkloadKind.SYSTEMD, unit)
        standing = self._files.standing(pid)
        if standing is None or standing.session == 0:
            return None
        session = standing.session
        start = self._files.start_ticks(session)
        # A session outlives its leader; then its number alone must do.
        started = f"@{start}" if start is not None else ""
        return Workload(f"session:{session}{started}", WorkloadKind.SESSION, f"session {session}")

    def allocations(self) -> Allocations:
        """Nobody gives devices away on such a node."""
        return {}
