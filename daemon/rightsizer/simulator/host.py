"""Host signals and process owners of a simulated node."""

from collections.abc import Callable, Mapping, Sequence

from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import CollectorOutcome
from rightsizer.model.topology import FabricPort, Placement
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Workload
from rightsizer.owners.owner import Allocations
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.scenario import HostLoad


class ScenarioHost:
    """Stands where procfs and control groups are read."""

    def __init__(self, node: SimulatedNode, time: Callable[[], Nanoseconds]) -> None:
        """The host of a node, by a wall clock."""
        self._node = node
        self._time = time

    def node(self) -> Mapping[Signal, float]:
        """The whole node's signals."""
        return host_signals(self._node.host(self._time()))

    def owner(
        self,
        pids: Sequence[int],
        near: Placement | None = None,  # noqa: ARG002 - a scenario places no processes.
    ) -> Mapping[Signal, float]:
        """The signals of the workload that the processes belong to; none where it is unknown."""
        host = self._node.owner_host(pids, self._time())
        return host_signals(host) if host is not None else {}

    def ports(self) -> tuple[FabricPort, ...]:
        """None: a scenario has no fabric."""
        return ()

    def device(self, near: Placement | None) -> Mapping[Signal, float]:  # noqa: ARG002 - no fabric.
        """Nothing, without ports."""
        return {}


def host_signals(host: HostLoad) -> dict[Signal, float]:
    """A host's figures by their signals."""
    return {
        Signal.CPU: host.cpu,
        Signal.CPU_PRESSURE: host.cpu_pressure,
        Signal.IO_PRESSURE: host.io_pressure,
        Signal.MEMORY_PRESSURE: host.memory_pressure,
    }


class ScenarioOwners:
    """Knows the workloads of a scenario by their processes."""

    def __init__(self, node: SimulatedNode) -> None:
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
