"""Users: processes of login sessions by the name of their user."""

from collections.abc import Callable

from rightsizer.host.process_table import user_name
from rightsizer.model.values import Workload, WorkloadKind
from rightsizer.owners.collector import NodeCollector, OwnerHost
from rightsizer.owners.owner import Owner
from rightsizer.owners.systemd import unit_in


class UserOwner(Owner):
    """Owner of user sessions, and of the aggregate beyond the limit of names."""

    kinds = (WorkloadKind.USER, WorkloadKind.OTHER)
    has_single_jobs = False


class UserCollector(NodeCollector):
    """Names processes of login sessions by their user, or the uid without a name."""

    def __init__(self, host: OwnerHost, name_of: Callable[[int], str] = user_name) -> None:
        super().__init__(host)
        self._name_of = name_of

    def workload_of(self, pid: int) -> Workload | None:
        """User of a process, unless it runs in a systemd unit."""
        if unit_in(self.host.groups.of(pid)) is not None:
            return None
        user = self.host.processes.user(pid)
        if user is None:
            return None
        name = self._name_of(user)
        return Workload(f"user:{name}", WorkloadKind.USER, name, unproven="")
