"""The one interface of all that know workloads."""

from typing import Protocol

from rightsizer.domain.workload import Workload

__all__ = ["Owners"]


class Owners(Protocol):
    """Knows whose a process is: Kubernetes, Slurm, systemd."""

    def workload_of(self, pid: int) -> Workload | None:
        """The workload that a process belongs to; `None` where nobody knows."""
