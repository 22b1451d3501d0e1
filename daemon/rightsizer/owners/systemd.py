"""Systemd units, else login sessions."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rightsizer.host.process_table import ProcessTable
from rightsizer.model.finding import Instruction
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.owners.owner import Instructions, NodeCollector, NumaHome, Owner

_UNIT: Final = re.compile(r"[^/]+\.(?:service|scope)")
# These hold all that a user logged in for, not one workload.
_LOGIN: Final = re.compile(r"(?:session-[^/]*\.scope|user@[^/]*\.service|init\.scope)")


def unit_in(paths: Sequence[str]) -> str | None:
    """The innermost systemd unit that is not a mere login."""
    for path in paths:
        units: list[str] = _UNIT.findall(path)
        for unit in reversed(units):
            if not _LOGIN.fullmatch(unit):
                return unit
    return None


class SystemdOwner(Owner):
    """Units, by systemctl."""

    kinds = (WorkloadKind.SYSTEMD,)
    texts = "systemd"

    def bind(self, homes: Sequence[NumaHome]) -> Instructions:
        """A drop-in of the unit for each GPU."""
        return tuple(
            Instruction(
                f"systemd: bind the unit that feeds {home.device.title} (systemctl edit)",
                f"[Service]\n{f'CPUAffinity={home.cpus}{chr(10)}' if home.cpus else ''}"
                f"NUMAPolicy=bind\nNUMAMask={home.numa_node}",
            )
            for home in homes
        )


class SystemdCollector(NodeCollector):
    """Systemd units by name; other processes by their session and the start of its leader."""

    def __init__(self, procfs: Path) -> None:
        self._processes = ProcessTable(procfs)

    def workload_of(self, pid: int) -> Workload | None:
        """The unit or session that a process runs in."""
        unit = unit_in(self._processes.systemd_groups(pid))
        if unit is not None:
            return Workload(f"systemd:{unit}", WorkloadKind.SYSTEMD, unit)
        row = self._processes.row(pid)
        if row is None or row.session == 0:
            return None
        session = row.session
        start = self._processes.started_ticks(session)
        # A session outlives its leader; then its number alone must do.
        started = f"@{start}" if start is not None else ""
        return Workload(f"session:{session}{started}", WorkloadKind.SESSION, f"session {session}")
