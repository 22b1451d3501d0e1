"""Users: processes of login sessions by the name of their user."""

from collections.abc import Callable
from pathlib import Path

from rightsizer.host.process_table import ProcessTable, user_name
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.owners.owner import NodeCollector, Owner
from rightsizer.owners.systemd import unit_in


class UserOwner(Owner):
    """Users, and the sum of the workloads that are too many to be named."""

    kinds = (WorkloadKind.USER, WorkloadKind.OTHER)
    has_single_jobs = False


class UserCollector(NodeCollector):
    """Processes of login sessions by the name of their user, or by its number without one."""

    def __init__(self, procfs: Path, name_of: Callable[[int], str] = user_name) -> None:
        self._processes = ProcessTable(procfs)
        self._name_of = name_of

    def workload_of(self, pid: int) -> Workload | None:
        """The user that a process runs as, unless it runs in a systemd unit."""
        if unit_in(self._processes.systemd_groups(pid)) is not None:
            return None
        user = self._processes.user(pid)
        if user is None:
            return None
        name = self._name_of(user)
        return Workload(f"user:{name}", WorkloadKind.USER, name)
