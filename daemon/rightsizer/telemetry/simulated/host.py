"""CPU and pressure of a simulated node and of the workloads on it."""

from collections.abc import Callable, Mapping, Sequence

from rightsizer.domain.fabric_port import FabricPort
from rightsizer.domain.signal import Signal
from rightsizer.domain.topology import Placement
from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.simulated.node import Node
from rightsizer.telemetry.simulated.plan import Host

__all__ = ["ScenarioHost", "host_signals"]


class ScenarioHost:
    """Stands where procfs and control groups are read."""

    def __init__(self, node: Node, time: Callable[[], Nanoseconds]) -> None:
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


def host_signals(host: Host) -> dict[Signal, float]:
    """A host's figures by their signals."""
    return {
        Signal.CPU: host.cpu,
        Signal.CPU_PRESSURE: host.cpu_pressure,
        Signal.IO_PRESSURE: host.io_pressure,
        Signal.MEMORY_PRESSURE: host.memory_pressure,
    }
