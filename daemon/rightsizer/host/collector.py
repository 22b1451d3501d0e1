"""Collectors of host signals: their protocol, and one through procfs, sysfs and cgroups."""

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
from rightsizer.host.settings import HostSettings
from rightsizer.io.clock import Clock
from rightsizer.model.signal import Signal
from rightsizer.model.topology import FabricPort, Placement
from rightsizer.model.units import Nanoseconds, nanoseconds

_SYSFS: Final = Path("/sys")


class HostCollector(Protocol):
    """Knows how the host fares; signals that it cannot tell are left out."""

    def node(self) -> Mapping[Signal, float]:
        """The whole node's signals."""

    def owner(self, pids: Sequence[int], near: Placement | None = None) -> Mapping[Signal, float]:
        """The signals of the control groups that processes run in, and of where they run.

        Args:
            pids: The processes that hold one GPU.
            near: Where that GPU sits; without it nothing is said of CPUs and memory near to it.
        """

    def ports(self) -> tuple[FabricPort, ...]:
        """The InfiniBand and RoCE ports, by name; none without a fabric."""
        return ()

    def device(self, near: Placement | None) -> Mapping[Signal, float]:
        """The throughput of the ports nearest to a GPU; none where its place is unknown."""
        del near
        return {}


class ProcHostCollector(HostCollector):
    """Reads small files, many of them; what is not there is left out.

    Rates need two looks. Everything here is for one thread, and not for one that must not wait:
    an adapter's firmware may take its time over a counter.
    """

    def __init__(
        self,
        procfs: Path,
        cgroups: Path,
        clock: Clock,
        *,
        sysfs: Path = _SYSFS,
        settings: HostSettings | None = None,
    ) -> None:
        settings = settings or HostSettings()
        recheck = nanoseconds(settings.recheck_interval_seconds)
        forget_after = nanoseconds(settings.forget_after_seconds)
        self._clock = clock
        self._sysfs = str(sysfs)
        self._node = NodeSignalReader(str(procfs), self._sysfs, settings)
        self._owners = ProcessGroupReader(str(procfs), settings)
        self._locality = NumaLocalityReader(str(procfs), settings, clock.time)
        self._fabric = FabricPortReader(self._sysfs, settings)
        self._locator = ProcessLocator(
            str(procfs),
            ControlGroupHierarchies(str(cgroups)),
            interval=recheck,
            forget_after=forget_after,
            shortest=nanoseconds(settings.shortest_seconds),
        )
        self._disks = RefreshingCache[None, Disks](recheck, forget_after)
        self._online = RefreshingCache[None, frozenset[int]](recheck, forget_after)
        self._numa_nodes = RefreshingCache[None, frozenset[int]](recheck, forget_after)

    def node(self) -> Mapping[Signal, float]:
        """CPU, I/O wait, pressures, disks and network of the node since the last look."""
        now = self._clock.time()
        return self._node.read(self._whole_disks(now), now)

    def owner(self, pids: Sequence[int], near: Placement | None = None) -> Mapping[Signal, float]:
        """The processes' control groups and namespaces since the last look at them."""
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

    def ports(self) -> tuple[FabricPort, ...]:
        """The InfiniBand and RoCE ports, by name."""
        return self._fabric.ports(self._clock.time())

    def device(self, near: Placement | None) -> Mapping[Signal, float]:
        """The throughput of the ports nearest to a GPU; none where its place is unknown."""
        return self._fabric.near(near, self._clock.time()) if near is not None else {}

    def _whole_disks(self, now: Nanoseconds) -> Disks:
        return self._disks.get(None, now, lambda: whole_disks(self._sysfs))
