"""Who owns the processes of a simulated node."""

from collections.abc import Mapping

from rightsizer.domain.snapshot import CollectorOutcome
from rightsizer.domain.workload import Workload
from rightsizer.telemetry.owners.owner import Allocations
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

    def allocations(self) -> Allocations:
        """Nobody gives devices away here."""
        return {}

    def collectors(self) -> Mapping[str, CollectorOutcome]:
        """Nobody else is asked."""
        return {}

    def close(self) -> None:
        """Nothing was started."""
