"""Who owns the processes of a simulated node."""

from rightsizer.domain.workload import Workload
from rightsizer.telemetry.simulated.node import Node

__all__ = ["ScenarioOwners"]


class ScenarioOwners:
    """Knows the workloads of a scenario by their processes."""

    def __init__(self, node: Node) -> None:
        """The owners on a node."""
        self._node = node

    def workload_of(self, pid: int) -> Workload | None:
        """The workload that a process belongs to; `None` where it is none of the scenario's."""
        return self._node.workload_of(pid)
