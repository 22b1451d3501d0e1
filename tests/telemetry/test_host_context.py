"""Host context, probed off the coordinator: slow probes and crashes delay nothing."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from nvml_driver import FakeDriver, FakeGpu, installed, tick
from owner_trees import write_process
from rightsizer.catalogue.catalogue import built_in
from rightsizer.host.collector import ProcHostCollector
from rightsizer.host.topology import TopologyFacts
from rightsizer.io.clock import FastClock
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.reading import Process
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import CollectorOutcome, Snapshot
from rightsizer.model.topology import Placement, Topology
from rightsizer.model.workload import Holding, Workload, WorkloadKind
from rightsizer.owners.collector import WorkloadResolver
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.settings import OwnerSettings
from rightsizer.owners.workload_limits import Allocations
from rightsizer.telemetry.host_context import (
    HostContext,
    HostContextCollector,
    HostQuery,
    NodeHostProbe,
)
from rightsizer.telemetry.live import LiveSource
from rightsizer.telemetry.nvml.settings import LiveSettings
from rightsizer.telemetry.source import SecondarySource

NOWHERE = Path("/nowhere")
WORKLOAD = Workload("slurm/1", WorkloadKind.SLURM, "job 1")
SEEN = HostContext(
    node={Signal.CPU: 0.5},
    devices={"GPU-0": {Signal.CPU_PRESSURE: 0.25}},
    holdings={"GPU-0": (Holding(WORKLOAD, 1.0),)},
    topology=Topology(),
    collectors={"host": CollectorOutcome(True, 0.01), "owners": CollectorOutcome(True, 0.01)},
)
PATIENCE_SECONDS = 10.0


@dataclass
class FakeProbe:
    """Host probe with given results, that can block and crash."""

    __test__ = False
    seen: HostContext = SEEN
    error: Exception | None = None
    gate: threading.Event = field(default_factory=threading.Event)
    questions: list[HostQuery] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    is_closed: bool = False

    def __post_init__(self) -> None:
        self.gate.set()

    def collect(self, question: HostQuery) -> HostContext:
        """Return the given result."""
        self.questions.append(question)
        self.threads.add(threading.current_thread().name)
        self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.seen

    def forget(self, uuid: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Record the call."""
        self.is_closed = True


def soon() -> float:
    """A deadline that only a failing test reaches."""
    return time.monotonic() + PATIENCE_SECONDS


@contextmanager
def running_collector(
    probe: FakeProbe, hold_seconds: float = 60.0
) -> Iterator[HostContextCollector]:
    """A running collector with the probe."""
    collector = HostContextCollector(probe, hold_seconds=hold_seconds)
    try:
        yield collector
    finally:
        probe.gate.set()
        collector.close(soon())


def eventually(
    collector: HostContextCollector, is_so: Callable[[HostContext], bool]
) -> HostContext:
    """Context once a condition holds."""
    for _ in range(500):
        look = collector.collect(HostQuery(), time.monotonic())
        if is_so(look):
            return look
        time.sleep(0.005)
    pytest.fail(f"it never came to pass: {look}")


def test_host_context_seen_in_time_is_used() -> None:
    """Each probe is one query on a thread of its own."""
    probe = FakeProbe()
    question = HostQuery((Device("GPU-0", 0),))
    with running_collector(probe) as collector:
        assert collector.collect(question, soon()) is SEEN
        assert collector.collect(question, soon()) is SEEN
    assert probe.questions == [question, question]
    assert probe.threads == {"host"}
    assert probe.is_closed


def test_slow_eyes_leave_what_was_seen_last() -> None:
    """It is used meanwhile, the delay is reported, and no caller waits twice."""
    probe = FakeProbe()
    with running_collector(probe) as collector:
        collector.collect(HostQuery(), soon())
        probe.gate.clear()
        late = collector.collect(HostQuery(), time.monotonic())
        for _ in range(5):
            # If this deadline were waited for, the test would never end.
            assert collector.collect(HostQuery(), time.monotonic() + 1e6).node == SEEN.node
        assert (late.devices, late.holdings, late.topology) == (
            SEEN.devices,
            SEEN.holdings,
            SEEN.topology,
        )
        assert not late.collectors["host"].success
        assert late.collectors["owners"].success
        assert len(probe.questions) <= 2
        probe.seen = HostContext(node={Signal.CPU: 0.75})
        probe.gate.set()
        assert eventually(collector, lambda look: look.node == {Signal.CPU: 0.75})


def test_outdated_host_context_is_dropped() -> None:
    """Host and holders become unknown after their time; the places of GPUs do not change."""
    probe = FakeProbe()
    with running_collector(probe, hold_seconds=0.0) as collector:
        collector.collect(HostQuery(), soon())
        probe.gate.clear()
        blind = collector.collect(HostQuery(), time.monotonic())
        assert (blind.node, blind.devices, blind.holdings) == ({}, {}, {})
        assert blind.topology is SEEN.topology
        assert blind.collectors.keys() == {"host"}
        assert not blind.collectors["host"].success
        probe.gate.set()
        assert eventually(collector, lambda look: look is SEEN)


def test_crash_is_told_and_looked_again() -> None:
    """The outcome has the error; then probing works again."""
    probe = FakeProbe()
    with running_collector(probe) as collector:
        collector.collect(HostQuery(), soon())
        probe.error = ValueError("not a number")
        for _ in range(3):
            crashed = collector.collect(HostQuery(), soon())
        assert crashed.node == SEEN.node
        outcome = crashed.collectors["host"]
        assert (outcome.success, outcome.failure) == (False, "ValueError('not a number')")
        probe.error = None
        assert collector.collect(HostQuery(), soon()) is SEEN


def test_crash_is_held_no_longer_than_slowness() -> None:
    """Context from before the crash expires after its time."""
    probe = FakeProbe()
    with running_collector(probe, hold_seconds=0.0) as collector, capture_logs():
        collector.collect(HostQuery(), soon())
        probe.error = ValueError("not a number")
        assert collector.collect(HostQuery(), soon()).node == {}


def test_eyes_that_hang_are_never_shared() -> None:
    """No second thread uses the probe, however long the first one takes."""
    probe = FakeProbe()
    probe.gate.clear()
    with running_collector(probe) as collector:
        for _ in range(20):
            collector.collect(HostQuery(), time.monotonic())
            time.sleep(0.001)
        assert sum(thread.name == "host" for thread in threading.enumerate()) == 1
        assert len(probe.questions) == 1


class Marking:
    """A secondary source that appends a mark to each snapshot."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.is_closed = False

    def enrich(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with one more driver version."""
        number = str(len(snapshot.driver))
        return replace(snapshot, driver={**snapshot.driver, self.word: number})

    def close(self) -> None:
        """Record the call."""
        self.is_closed = True


@contextmanager
def live(probe: FakeProbe, *neighbors: SecondarySource, **settings: float) -> Iterator[LiveSource]:
    """A live source over one GPU, with the given probe."""
    with installed(FakeDriver(FakeGpu("GPU-0"))):
        source = LiveSource(
            clock=FastClock(0),
            interval=10**9,
            settings=LiveSettings(**settings),  # type: ignore[arg-type] # Each is a number.
            catalogue=built_in(),
            host_context=HostContextCollector(probe),
            sysfs=NOWHERE,
            secondary=neighbors,
        )
        try:
            yield source
        finally:
            probe.gate.set()
            source.close()


def test_sampling_goes_on_without_eyes() -> None:
    """GPUs are read and snapshots arrive, whether the probe hangs or crashes."""
    probe = FakeProbe()
    with live(probe, deadline_seconds=0.5) as source, capture_logs():
        # On a busy machine a snapshot may miss the first deadline, and comes with a later one.
        seen = source.read()
        # A probe still running would pass for that of the next round.
        while "GPU-0" not in seen.readings or not seen.collectors["host"].success:
            time.sleep(0.01)
            seen = source.read()
        probe.gate.clear()
        slow = source.read()
        probe.gate.set()
        probe.error = ValueError("no")
        crashed = source.read()
    for snapshot in (seen, slow, crashed):
        assert snapshot.readings["GPU-0"].get(Signal.POWER_WATTS) == 350
        assert snapshot.readings["GPU-0"].get(Signal.CPU_PRESSURE) == 0.25
        assert snapshot.readings["GPU-0"].origins[Signal.CPU_PRESSURE] == "host"
        assert snapshot.host == SEEN.node
        assert snapshot.holdings == SEEN.holdings
    assert not slow.collectors["host"].success
    assert slow.collectors["power"].success
    assert probe.is_closed


def test_neighbors_have_their_say_in_turn() -> None:
    """Later ones see the results of earlier ones; all are closed with the source."""
    neighbors = Marking("first"), Marking("second")
    with live(FakeProbe(), *neighbors) as source:
        snapshot = source.read()
    assert int(snapshot.driver["second"]) == int(snapshot.driver["first"]) + 1
    assert all(neighbor.is_closed for neighbor in neighbors)


class Raising(Marking):
    """A neighbor with a fault."""

    def enrich(self, snapshot: Snapshot) -> Snapshot:
        """Fail."""
        raise ValueError("no")


def test_neighbor_that_raises_is_a_collector_that_failed() -> None:
    """The others have their say, and its outcome has the error."""
    with live(FakeProbe(), Raising("first"), Marking("second")) as source:
        snapshot = source.read()
    assert "second" in snapshot.driver
    assert snapshot.collectors["Raising"] == CollectorOutcome(False, 0.0, "ValueError('no')")


class Scheduler(WorkloadResolver):
    """Owners of a node whose scheduler has allocated GPU-1, without processes."""

    def __init__(self) -> None:
        self.is_closed = False

    def workload_of(self, pid: int) -> Workload | None:
        """One process belongs to a job."""
        return WORKLOAD if pid == 11 else None

    def allocations(self) -> Allocations:
        """GPU-1 is allocated."""
        return {"GPU-1": (WORKLOAD,)}

    def blindness(self) -> str | None:
        """All processes are visible."""
        return None

    def collectors(self) -> Mapping[str, CollectorOutcome]:
        """The scheduler's daemon was queried."""
        return {"slurm": CollectorOutcome(False, 0.5)}

    def close(self) -> None:
        """Record the call."""
        self.is_closed = True


def test_node_eyes_see_host_and_holders() -> None:
    """Processes on a device and its allocations are known; each collector reports its outcome."""
    clock = FastClock(0)
    owners = Scheduler()
    probe = NodeHostProbe(ProcHostCollector(NOWHERE, NOWHERE, clock, sysfs=NOWHERE), owners, None)
    devices = Device("GPU-0", 0), Device("GPU-1", 1), Device("GPU-2", 2)
    question = HostQuery(devices, {"GPU-0": (Process(11),), "GPU-1": (), "GPU-2": (Process(12),)})
    look = probe.collect(question)
    assert look.holdings == {
        "GPU-0": (Holding(WORKLOAD, 1.0),),
        "GPU-1": (Holding(WORKLOAD, 1.0, has_process=False),),
    }
    assert look.topology is None
    assert look.collectors.keys() == {"host", "owners", "slurm"}
    assert not look.collectors["slurm"].success
    assert look.devices.keys() == {"GPU-0", "GPU-1", "GPU-2"}
    probe.close()
    assert owners.is_closed


def test_servers_of_all_gpus_do_not_count(tmp_path: Path) -> None:
    """An MPS server alone computes nothing; else an empty GPU would be held by nobody."""
    write_process(tmp_path, 11, name="nvidia-cuda-mps")
    write_process(tmp_path, 12, session=12, name="python")
    host = ProcHostCollector(tmp_path, tmp_path, FastClock(0), sysfs=NOWHERE)
    probe = NodeHostProbe(host, OwnerResolver.on_host(tmp_path), None)
    devices = Device("GPU-0", 0), Device("GPU-1", 1), Device("GPU-2", 2)
    server = Process(11)
    client = Process(12)
    processes = {"GPU-0": (server,), "GPU-1": (server, client), "GPU-2": (client,)}
    look = probe.collect(HostQuery(devices, processes))
    probe.close()
    counts = [look.devices[device.uuid].get(Signal.PROCESS_COUNT) for device in devices]
    assert counts == [0, 1, None]
    assert look.holdings.keys() == {"GPU-1", "GPU-2"}


def test_owners_that_cannot_see_processes_say_so(tmp_path: Path) -> None:
    """With procfs mounted `hidepid`, process 1 is invisible; the remedy is told."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").write_text("7 (agent) S 1 7 7 0")
    owners = OwnerResolver.on_host(tmp_path, settings=OwnerSettings(sources=("session",)))
    host = ProcHostCollector(tmp_path, tmp_path, FastClock(0), sysfs=NOWHERE)
    probe = NodeHostProbe(host, owners, None)
    looks = [probe.collect(HostQuery()) for _ in range(3)]
    write_process(tmp_path, 1, cgroup="0::/init.scope")
    looks.append(probe.collect(HostQuery()))
    assert [look.collectors["owners"].success for look in looks] == [False, False, False, True]
    assert "without hidepid" in str(looks[0].collectors["owners"].failure)


def test_topology_is_read_when_something_has_changed(tmp_path: Path) -> None:
    """Unchanged devices at unchanged places are not probed twice."""
    (tmp_path / "bus/pci/devices/0000:17:00.0").mkdir(parents=True)
    clock = FastClock(0)
    host = ProcHostCollector(tmp_path, tmp_path, clock, sysfs=tmp_path)
    probe = NodeHostProbe(host, OwnerResolver([], OwnerSettings()), tmp_path)
    gpu = Device("GPU-0", 0, pci_bus_id="00000000:17:00.0")
    part = Device("MIG-a", 0, mig=MigInstance("GPU-0", "1g.10gb", 1, 0, 1 / 7, 1 / 8))
    first = probe.collect(HostQuery((gpu, part))).topology
    tick(clock, 100)
    assert probe.collect(HostQuery((gpu, part))).topology is first
    other = probe.collect(HostQuery((gpu,))).topology
    assert other is not first
    assert first is not None
    assert first.placements.keys() == {"GPU-0"}  # An instance has its GPU's place.
    seated = TopologyFacts(placements={"GPU-0": Placement("GPU-0", generation=5)})
    topology = probe.collect(HostQuery((gpu,), topology=seated)).topology
    assert topology is not None
    assert topology.placements["GPU-0"].generation == 5
