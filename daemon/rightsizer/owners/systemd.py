"""Systemd units, and otherwise launchers with their processes, by the process tree."""

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from rightsizer.host.process_table import ProcessRow
from rightsizer.host.trusted_groups import TrustedGroup
from rightsizer.model.values import Workload, WorkloadKind
from rightsizer.owners.collector import NodeCollector
from rightsizer.owners.owner import Instructions, Owner

_UNIT: Final = re.compile(r".+\.(?:service|scope)")
_NUMBER: Final = re.compile(r"\d")
_BATCH: Final = re.compile(r"(?:condor|lsf|pbs|sge)[^/]*\.service")
"""Batch systems that start jobs in numbered groups below a unit, all of one name."""
# These contain everything of a login session or terminal, not one workload.
_LOGIN: Final = re.compile(
    r"(?:(?:session-|(?:vte|tmux)-spawn-|app-)[^/]*\.scope|user@[^/]*\.service|init\.scope)"
)
_ALLOCATION: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[.-].+\.scope")
"""Task of a Nomad allocation (exec and raw_exec drivers), which systemd does not know."""
_USER_UNIT: Final = re.compile(r"user@(\d+)\.service/([^/]+)")


_MANAGER: Final = re.compile(r"(?:.*/)?user@\d+\.service")
_TREE: Final = (
    "the tree of processes that it belongs to is known by its programs' names, which anyone can "
    "choose: run it in a unit"
)


def unit_in(groups: Sequence[TrustedGroup]) -> tuple[str, str] | None:
    """Innermost systemd unit that is not just a login session, and why it proves nothing.

    Named with what it is in but for slices: units of users and of system containers often have the
    same name. Numbered groups below the unit of a batch system are parts of the name too: there is
    one for each job. What a user has made within another unit than the user's own manager counts
    for that unit.
    """
    for group in groups:
        if not group.is_of_systemd:
            continue
        parts = group.containment
        if _MANAGER.fullmatch(parts[-1].path):
            parts = group.parts
        if unit := _unit("".join(part.path for part in parts)):
            outermost, innermost = parts[0], parts[-1]
            is_of_node = unit == _unit(outermost.path)
            return unit, outermost.unproven if is_of_node else innermost.unproven
    return None


def _unit(path: str) -> str:
    parts = [part for part in path.split("/") if part.strip(".") and part[-6:] != ".slice"]
    has_jobs = any(map(_BATCH.fullmatch, parts))
    while parts and not (_is_unit(parts[-1]) or (has_jobs and _NUMBER.search(parts[-1]))):
        parts.pop()
    return "/".join(parts)


def _is_unit(group: str) -> bool:
    return _UNIT.fullmatch(group) is not None and _LOGIN.fullmatch(group) is None


class SystemdOwner(Owner):
    """Owner of units, with commands of systemctl."""

    kinds = (WorkloadKind.SYSTEMD,)
    texts = "systemd"

    def release(self, workload: Workload) -> Instructions:
        """Stop the unit through its manager; a part of a unit is left to the one that made it."""
        if match := _ALLOCATION.fullmatch(workload.name):
            return self._instructions("stop allocation", workload=workload, allocation=match[1])
        if match := _USER_UNIT.fullmatch(workload.name):
            unit = shlex.quote(match[2])
            return self._instructions("release user", workload=workload, user=match[1], unit=unit)
        return () if "/" in workload.name else super().release(workload)


class SystemdCollector(NodeCollector):
    """Names systemd units; other processes by the program that started them."""

    def workload_of(self, pid: int) -> Workload | None:
        """Unit that a process runs in, or the launcher that it belongs to."""
        unit, unproven = self._unit(pid)
        row = self.host.processes.row(pid)
        root, confidence, manager = (None, 1.0, None) if row is None else self._root(row)
        inside = "" if manager is None else self._unit(manager.pid)[0]
        # A group below a batch system's unit may be a slot, which has one job after the other.
        if unit and not (inside and f"{unit}/".startswith(f"{inside}/")):
            return Workload(f"systemd:{unit}", WorkloadKind.SYSTEMD, unit, unproven=unproven)
        if row is None or root is None or row.session == 0:
            return None
        name = f"{root.name} {root.pid}"
        key = f"session:{root.pid}@{root.started_ticks}"
        return Workload(
            key, WorkloadKind.SESSION, name, confidence_ratio=confidence, unproven=_TREE
        )

    def _unit(self, pid: int) -> tuple[str, str]:
        """Unit of a process and doubts of it; empty if in none."""
        return unit_in(self.host.groups.of(pid)) or ("", "")

    def _root(self, row: ProcessRow) -> tuple[ProcessRow, float, ProcessRow | None]:
        """Topmost launcher above a process, or else its topmost ancestor below a shell or manager.

        Also returns the confidence, and the process manager directly above, if any.
        """
        line = [row, *self.host.processes.ancestors(row)]
        settings = self.host.settings
        root = row
        manager = None
        for process_row in reversed(line):
            if _is_named(process_row.name, settings.launchers):
                return process_row, settings.launcher_confidence_ratio, None
        for process_row in line[1:]:
            if _is_named(process_row.name, settings.process_managers):
                manager = process_row
            if manager or _is_named(process_row.name, settings.shells):
                break
            root = process_row
        return root, 1.0 if root is row else settings.parent_confidence_ratio, manager


@lru_cache(maxsize=1024)
def _is_named(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
