"""Host context of devices: holders, host signals, topology."""

import contextlib
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.host.collector import HostCollector
from rightsizer.host.process_cache import CachedProcessTable
from rightsizer.host.topology import TopologyFacts, read_topology
from rightsizer.io.worker import Crashed, Stuck, Worker
from rightsizer.model.values import (
    CollectorOutcome,
    Device,
    FabricPort,
    Holding,
    Process,
    ProcessGeneration,
    Signal,
    Topology,
    count_computing,
)
from rightsizer.owners.collector import WorkloadResolver
from rightsizer.owners.holdings import holdings_on, workloads_on

_TOPOLOGY_VALID_SECONDS: Final = 3600.0
"""Topology rarely changes: GPUs do not move, and links that train down show in readings."""


class HostQuery(Struct, frozen=True):
    """Devices whose context is requested."""

    devices: tuple[Device, ...] = ()
    processes: Mapping[str, tuple[Process, ...]] = {}
    """By uuid; without devices whose processes are unknown."""
    topology: TopologyFacts = TopologyFacts()


class HostContext(Struct, frozen=True):
    """Signals of the host, holders of devices, and topology."""

    node: Mapping[Signal, float] = {}
    devices: Mapping[str, Mapping[Signal, float]] = {}
    """By uuid: signals of the processes on the device, and of the ports near it."""
    holdings: Mapping[str, tuple[Holding, ...]] = {}
    ports: tuple[FabricPort, ...] = ()
    topology: Topology | None = None
    collectors: Mapping[str, CollectorOutcome] = {}


class NodeHostProbe:
    """Reads files and owners; used by one thread."""

    def __init__(
        self,
        host: HostCollector,
        owners: WorkloadResolver,
        sysfs: Path | None,
        processes: CachedProcessTable | None = None,
    ) -> None:
        """Create it; `processes` is the cache of host and owners, if they share one."""
        self._processes = processes
        self._host = host
        self._owners = owners
        self._sysfs = sysfs
        self._topology: Topology | None = None
        self._topology_of: object = None
        self._topology_due = 0.0

    def collect(self, query: HostQuery) -> HostContext:
        """Read the host first, then the holders."""
        started = time.perf_counter()
        if self._processes is not None:
            self._processes.begin_pass()
        topology = self._read_topology(query)
        node = self._host.node()
        signals = {
            device.uuid: self._signals_near(device, query, topology) for device in query.devices
        }
        ports = self._host.ports()
        seen = time.perf_counter()
        owned = {
            uuid: workloads_on(processes, self._owners)
            for uuid, processes in query.processes.items()
        }
        allocations = self._owners.allocations()
        device_holdings = (
            (
                device.uuid,
                holdings_on(device, owned.get(device.uuid), allocations, self._generation_of),
            )
            for device in query.devices
        )
        holdings = {uuid: held for uuid, held in device_holdings if held}
        for uuid in owned.keys() & signals.keys():
            if len(owned[uuid]) < len(query.processes[uuid]):
                count = count_computing(process for process, _ in owned[uuid])
                signals[uuid] = {**signals[uuid], Signal.PROCESS_COUNT: count}
        blindness = self._owners.blindness()
        took = time.perf_counter() - seen
        collectors = {
            "host": CollectorOutcome(True, seen - started),
            "owners": CollectorOutcome(blindness is None, took, blindness),
            **self._owners.collectors(),
        }
        return HostContext(node, signals, holdings, ports, topology, collectors)

    def close(self) -> None:
        """Stop what the owners started."""
        self._owners.close()

    def _generation_of(self, pid: int) -> ProcessGeneration | None:
        return None if self._processes is None else self._processes.generation(pid)

    def _signals_near(
        self, device: Device, query: HostQuery, topology: Topology | None
    ) -> Mapping[Signal, float]:
        whole = device.mig.parent_uuid if device.mig else device.uuid
        near = topology.placements.get(whole) if topology is not None else None
        pids = [process.pid for process in query.processes.get(device.uuid, ())]
        nearest = self._host.device(near)
        if not pids:
            return nearest
        return {**nearest, **self._host.owner(pids, near), **self._host.processes(pids)}

    def _read_topology(self, query: HostQuery) -> Topology | None:
        if self._sysfs is None:
            return None
        asked_of = (query.devices, query.topology)
        now = time.monotonic()
        if asked_of != self._topology_of or now >= self._topology_due:
            self._topology = read_topology(self._sysfs, *asked_of)
            self._topology_of = asked_of
            self._topology_due = now + _TOPOLOGY_VALID_SECONDS
        return self._topology


class HostContextCollector:
    """A probe on its own thread; its last result stays valid while it is slow."""

    def __init__(self, probe: NodeHostProbe, *, hold_seconds: float = 10.0) -> None:
        self._hold_seconds = hold_seconds
        # The probe belongs to one thread, so a hung thread is never replaced.
        self._worker: Worker[None, HostContext] = Worker(
            "host",
            contextlib.nullcontext,
            abandon_after_seconds=math.inf,
            abandoned_maximum=0,
        )
        self._probe = probe
        self._is_asked = False
        self._last = HostContext()
        self._seen_at = time.monotonic()

    def collect(self, query: HostQuery, deadline: float) -> HostContext:
        """Return the present context, or the last complete one.

        `deadline` is on the monotonic clock.
        """
        if not self._is_asked:
            self._is_asked = self._worker.ask(lambda _: self._probe.collect(query))
            answer = self._worker.answer(deadline) if self._is_asked else self._worker.stuck()
        else:
            # The previous query is late, and is not waited for twice.
            answer = self._worker.answer(time.monotonic())
        if isinstance(answer, Stuck):
            return self._stale_context(answer.seconds)
        self._is_asked = False
        if isinstance(answer, Crashed):
            return self._stale_context(0.0, repr(answer.error))
        self._seen_at = time.monotonic()
        self._last = answer
        return answer

    def close(self, deadline: float) -> None:
        """End the thread; a hung one is left behind."""
        self._worker.close()
        self._worker.join(deadline)
        self._probe.close()

    def _stale_context(self, duration_seconds: float, failure: str | None = None) -> HostContext:
        """Return the last context while it is valid; the outcome is a failure."""
        if time.monotonic() - self._seen_at >= self._hold_seconds:
            self._last = HostContext(topology=self._last.topology)
        failed = CollectorOutcome(False, duration_seconds, failure)
        return replace(self._last, collectors={**self._last.collectors, "host": failed})
