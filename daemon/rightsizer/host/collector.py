"""Collectors of host signals: their protocol, and one for procfs, sysfs and cgroups."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from rightsizer.host.cache import RefreshingCache
from rightsizer.host.cgroups import ControlGroupHierarchies
from rightsizer.host.fabric import FabricPortReader
from rightsizer.host.node_signals import (
    Disks,
    NodeSignalReader,
    nodes_with_cpus,
    online_cpus,
    whole_disks,
)
from rightsizer.host.numa_locality import NumaLocalityReader, affinity
from rightsizer.host.process_groups import ProcessGroupReader, ProcessLocator
from rightsizer.host.process_table import ProcessTable
from rightsizer.host.settings import HostSettings
from rightsizer.io.clock import Clock
from rightsizer.model.values import FabricPort, Nanoseconds, Placement, Signal, nanoseconds

_SYSFS: Final = Path("/sys")


class HostCollector(Protocol):
    """Collects host signals; unavailable ones are omitted."""

    def node(self) -> Mapping[Signal, float]:
        """Signals of the whole node."""

    def owner(self, pids: Sequence[int], near: Placement | None = None) -> Mapping[Signal, float]:
        """Signals of the processes' control groups and of their placement.

        Args:
            pids: Processes that hold one GPU.
            near: Placement of that GPU; without it, CPU and memory locality are omitted.
        """

    def processes(self, pids: Sequence[int]) -> Mapping[Signal, float]:
        """CPU time of the busiest of the processes that hold one GPU."""
        del pids
        return {}

    def ports(self) -> tuple[FabricPort, ...]:
        """InfiniBand and RoCE ports, by name; empty without a fabric."""
        return ()

    def device(self, near: Placement | None) -> Mapping[Signal, float]:
        """Throughput of the ports nearest to a GPU; empty if its placement is unknown."""
        del near
        return {}


class ProcHostCollector(HostCollector):
    """Reads many small files; missing data is omitted.

    Rates need two reads. Not thread-safe, and not for a thread that must not block: a network
    adapter's firmware may be slow to report a counter.
    """

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        procfs: Path,
        cgroups: Path,
        clock: Clock,
        *,
        sysfs: Path = _SYSFS,
        settings: HostSettings | None = None,
        processes: ProcessTable | None = None,
    ) -> None:
        """Create it; `processes` is shared with other readers of processes, if there are any."""
        settings = settings or HostSettings()
        hierarchies = ControlGroupHierarchies(str(cgroups))
        table = processes or ProcessTable(procfs)
        recheck = nanoseconds(settings.recheck_interval_seconds)
        forget_after = nanoseconds(settings.forget_after_seconds)
        self._clock = clock
        self._sysfs = str(sysfs)
        self._node = NodeSignalReader(str(procfs), self._sysfs, settings)
        self._owners = ProcessGroupReader(str(procfs), settings)
        self._locality = NumaLocalityReader(str(procfs), settings, clock.time)
        self._fabric = FabricPortReader(self._sysfs, settings)
        self._locator = ProcessLocator(str(procfs), table, hierarchies, settings)
        self._disks = RefreshingCache[None, Disks](recheck, forget_after)
        self._online = RefreshingCache[None, frozenset[int]](recheck, forget_after)
        self._numa_nodes = RefreshingCache[None, frozenset[int]](recheck, forget_after)

    def node(self) -> Mapping[Signal, float]:
        """CPU, I/O wait, pressure, disks and network of the node since the last read."""
        now = self._clock.time()
        return self._node.read(self._whole_disks(now), now)

    def owner(self, pids: Sequence[int], near: Placement | None = None) -> Mapping[Signal, float]:
        """Signals of the processes' control groups and namespaces since their last read."""
        now = self._clock.time()
        places = self._locator.of(pids, now)
        if not places:
            return {}
        online = self._online.get(None, now, lambda: online_cpus(self._sysfs))
        signals = self._owners.read(
            places,
            disks=self._whole_disks(now),
            online=online,
            host_network=self._locator.host_network(now),
            now=now,
        )
        if near is None:
            return signals
        nodes = self._numa_nodes.get(None, now, lambda: nodes_with_cpus(self._sysfs))
        return {
            **signals,
            **affinity(places, near, online),
            **self._locality.memory(places, near, nodes, now),
        }

    def processes(self, pids: Sequence[int]) -> Mapping[Signal, float]:
        """CPU time of the busiest of the processes since their last read."""
        return self._locator.busiest(pids, self._clock.time())

    def ports(self) -> tuple[FabricPort, ...]:
        """InfiniBand and RoCE ports, by name."""
        return self._fabric.ports(self._clock.time())

    def device(self, near: Placement | None) -> Mapping[Signal, float]:
        """Throughput of the ports nearest to a GPU; empty if its placement is unknown."""
        return self._fabric.near(near, self._clock.time()) if near is not None else {}

    def _whole_disks(self, now: Nanoseconds) -> Disks:
        return self._disks.get(None, now, lambda: whole_disks(self._sysfs))
