"""What is around the GPUs, looked at off the coordinator: slow eyes and crashes delay no one."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nvml_driver import FakeDriver, FakeGpu, installed, tick
from owner_trees import write_process
from rightsizer.catalogue.catalogue import built_in
from rightsizer.host.collector import ProcHostCollector
from rightsizer.host.topology import GpuPlacementFacts, TopologyFacts
from rightsizer.io.clock import FastClock
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.reading import Process
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import CollectorOutcome, Snapshot
from rightsizer.model.topology import Topology
from rightsizer.model.workload import Holding, Workload, WorkloadKind
from rightsizer.owners.owner import Allocations
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.settings import OwnerSettings
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
class TestEyes:
    """Eyes that see what a test says, that can be held shut, and that crash."""

    __test__ = False
    seen: HostContext = SEEN
    error: Exception | None = None
    gate: threading.Event = field(default_factory=threading.Event)
    questions: list[HostQuery] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    is_closed: bool = False

    def __post_init__(self) -> None:
        self.gate.set()

    def look(self, question: HostQuery) -> HostContext:
        """What the test says."""
        self.questions.append(question)
        self.threads.add(threading.current_thread().name)
        self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.seen

    def close(self) -> None:
        """Note that it was done."""
        self.is_closed = True


def soon() -> float:
    """A deadline that only a failing test reaches."""
    return time.monotonic() + PATIENCE_SECONDS


@contextmanager
def looking(eyes: TestEyes, hold_seconds: float = 60.0) -> Iterator[HostContextCollector]:
    """Surroundings that look with the eyes."""
    surroundings = HostContextCollector(eyes, hold_seconds=hold_seconds)
    try:
        yield surroundings
    finally:
        eyes.gate.set()
        surroundings.close(soon())


def eventually(
    surroundings: HostContextCollector, is_so: Callable[[HostContext], bool]
) -> HostContext:
    """What is seen when something has come to be so."""
    for _ in range(500):
        look = surroundings.collect(HostQuery(), time.monotonic())
        if is_so(look):
            return look
        time.sleep(0.005)
    pytest.fail(f"it never came to pass: {look}")


def test_host_context_seen_in_time_is_used() -> None:
    """By a thread of its own, one question a look."""
    eyes = TestEyes()
    question = HostQuery((Device("GPU-0", 0),))
    with looking(eyes) as surroundings:
        assert surroundings.collect(question, soon()) is SEEN
        assert surroundings.collect(question, soon()) is SEEN
    assert eyes.questions == [question, question]
    assert eyes.threads == {"surroundings"}
    assert eyes.is_closed


def test_slow_eyes_leave_what_was_seen_last() -> None:
    """It stands meanwhile, that no one could look is told, and no one waits twice."""
    eyes = TestEyes()
    with looking(eyes) as surroundings:
        surroundings.collect(HostQuery(), soon())
        eyes.gate.clear()
        late = surroundings.collect(HostQuery(), time.monotonic())
        for _ in range(5):
            # Were this deadline waited for, the test would never end.
            assert surroundings.collect(HostQuery(), time.monotonic() + 1e6).node == SEEN.node
        assert (late.devices, late.holdings, late.topology) == (
            SEEN.devices,
            SEEN.holdings,
            SEEN.topology,
        )
        assert not late.collectors["host"].success
        assert late.collectors["owners"].success
        assert len(eyes.questions) <= 2
        eyes.seen = HostContext(node={Signal.CPU: 0.75})
        eyes.gate.set()
        assert eventually(surroundings, lambda look: look.node == {Signal.CPU: 0.75})


def test_outdated_host_context_is_dropped() -> None:
    """Past its time nothing is said of host and holders; the places of GPUs do not change."""
    eyes = TestEyes()
    with looking(eyes, hold_seconds=0.0) as surroundings:
        surroundings.collect(HostQuery(), soon())
        eyes.gate.clear()
        blind = surroundings.collect(HostQuery(), time.monotonic())
        assert (blind.node, blind.devices, blind.holdings) == ({}, {}, {})
        assert blind.topology is SEEN.topology
        assert blind.collectors.keys() == {"host"}
        assert not blind.collectors["host"].success
        eyes.gate.set()
        assert eventually(surroundings, lambda look: look is SEEN)


def test_crash_is_told_once_and_looked_again() -> None:
    """Each error is one line of the log, however often it comes; then all is well again."""
    eyes = TestEyes()
    with looking(eyes) as surroundings, capture_logs() as logs:
        surroundings.collect(HostQuery(), soon())
        eyes.error = ValueError("not a number")
        for _ in range(3):
            crashed = surroundings.collect(HostQuery(), soon())
        assert crashed.node == SEEN.node
        assert not crashed.collectors["host"].success
        eyes.error = OSError("no such file")
        surroundings.collect(HostQuery(), soon())
        eyes.error = None
        assert surroundings.collect(HostQuery(), soon()) is SEEN
        eyes.error = OSError("no such file")
        surroundings.collect(HostQuery(), soon())
    assert [log["error"] for log in logs] == [
        "ValueError('not a number')",
        "OSError('no such file')",
        "OSError('no such file')",
    ]
    assert {log["event"] for log in logs} == {"surroundings_unseen"}


def test_crash_is_held_no_longer_than_slowness() -> None:
    """Past its time, what was seen before the crash is gone."""
    eyes = TestEyes()
    with looking(eyes, hold_seconds=0.0) as surroundings, capture_logs():
        surroundings.collect(HostQuery(), soon())
        eyes.error = ValueError("not a number")
        assert surroundings.collect(HostQuery(), soon()).node == {}


def test_eyes_that_hang_are_never_shared() -> None:
    """No second thread looks with them, however long the first one takes."""
    eyes = TestEyes()
    eyes.gate.clear()
    with looking(eyes) as surroundings:
        for _ in range(20):
            surroundings.collect(HostQuery(), time.monotonic())
            time.sleep(0.001)
        assert sum(thread.name == "surroundings" for thread in threading.enumerate()) == 1
        assert len(eyes.questions) == 1


class Marking:
    """A neighbor that marks each snapshot with a word, after those that were there."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.is_closed = False

    def enrich(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with one driver's version more."""
        number = str(len(snapshot.driver))
        return replace(snapshot, driver={**snapshot.driver, self.word: number})

    def close(self) -> None:
        """Note that it was done."""
        self.is_closed = True


@contextmanager
def live(eyes: TestEyes, *neighbors: SecondarySource, **settings: float) -> Iterator[LiveSource]:
    """A live source over one GPU, with these eyes."""
    with installed(FakeDriver(FakeGpu("GPU-0"))):
        source = LiveSource(
            clock=FastClock(0),
            interval=10**9,
            settings=LiveSettings(**settings),  # type: ignore[arg-type] # Each is a number.
            catalogue=built_in(),
            host_context=HostContextCollector(eyes),
            sysfs=NOWHERE,
            secondary=neighbors,
        )
        try:
            yield source
        finally:
            eyes.gate.set()
            source.close()


def test_sampling_goes_on_without_eyes() -> None:
    """Whether they hang or crash, the GPUs are read and the snapshot comes."""
    eyes = TestEyes()
    with live(eyes, deadline_seconds=0.5) as source, capture_logs():
        # What is not there by the first deadline on a busy machine comes with a later one.
        seen = source.read()
        # One that is under way yet would pass for the look of the round that follows.
        while "GPU-0" not in seen.readings or not seen.collectors["host"].success:
            seen = source.read()
        eyes.gate.clear()
        slow = source.read()
        eyes.gate.set()
        eyes.error = ValueError("no")
        crashed = source.read()
    for snapshot in (seen, slow, crashed):
        assert snapshot.readings["GPU-0"].get(Signal.POWER_WATTS) == 350
        assert snapshot.readings["GPU-0"].get(Signal.CPU_PRESSURE) == 0.25
        assert snapshot.readings["GPU-0"].origins[Signal.CPU_PRESSURE] == "host"
        assert snapshot.host == SEEN.node
        assert snapshot.holdings == SEEN.holdings
    assert not slow.collectors["host"].success
    assert slow.collectors["power"].success
    assert eyes.is_closed


def test_neighbors_have_their_say_in_turn() -> None:
    """A later one finds what the earlier have said; all are closed with the source."""
    neighbors = Marking("first"), Marking("second")
    with live(TestEyes(), *neighbors) as source:
        snapshot = source.read()
    assert int(snapshot.driver["second"]) == int(snapshot.driver["first"]) + 1
    assert all(neighbor.is_closed for neighbor in neighbors)


class Scheduler:
    """Owners of a node whose scheduler has given GPU-1 away, and no one's processes."""

    def __init__(self) -> None:
        self.is_closed = False

    def workload_of(self, pid: int) -> Workload | None:
        """One process is a job's."""
        return WORKLOAD if pid == 11 else None

    def allocations(self) -> Allocations:
        """GPU-1 is given away."""
        return {"GPU-1": (WORKLOAD,)}

    def sees_processes(self) -> bool:
        """All of them."""
        return True

    def collectors(self) -> Mapping[str, CollectorOutcome]:
        """The scheduler's daemon was asked."""
        return {"slurm": CollectorOutcome(False, 0.5)}

    def close(self) -> None:
        """Note that it was done."""
        self.is_closed = True


def test_node_eyes_see_host_and_holders() -> None:
    """Who runs on a device and who was given it; each collector says how it fared."""
    clock, owners = FastClock(0), Scheduler()
    eyes = NodeHostProbe(ProcHostCollector(NOWHERE, NOWHERE, clock, sysfs=NOWHERE), owners, None)
    devices = Device("GPU-0", 0), Device("GPU-1", 1), Device("GPU-2", 2)
    question = HostQuery(devices, {"GPU-0": (Process(11),), "GPU-1": (), "GPU-2": (Process(12),)})
    look = eyes.collect(question)
    assert look.holdings == {
        "GPU-0": (Holding(WORKLOAD, 1.0),),
        "GPU-1": (Holding(WORKLOAD, 1.0, has_process=False),),
    }
    assert look.topology is None
    assert look.collectors.keys() == {"host", "owners", "slurm"}
    assert not look.collectors["slurm"].success
    assert look.devices.keys() == {"GPU-0", "GPU-1", "GPU-2"}
    eyes.close()
    assert owners.is_closed


def test_owners_that_cannot_see_processes_say_so(tmp_path: Path) -> None:
    """With procfs mounted `hidepid` there are own processes and no first one; one line says so."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").write_text("7 (agent) S 1 7 7 0")
    owners = OwnerResolver.on_host(tmp_path, settings=OwnerSettings(sources=("session",)))
    host = ProcHostCollector(tmp_path, tmp_path, FastClock(0), sysfs=NOWHERE)
    eyes = NodeHostProbe(host, owners, None)
    with capture_logs() as lines:
        looks = [eyes.collect(HostQuery()) for _ in range(3)]
        write_process(tmp_path, 1, cgroup="0::/init.scope")
        looks.append(eyes.collect(HostQuery()))
    assert [look.collectors["owners"].success for look in looks] == [False, False, False, True]
    assert [line["event"] for line in lines] == ["processes_hidden"]


def test_topology_is_read_when_something_has_changed(tmp_path: Path) -> None:
    """The same devices at the same places are not looked for twice."""
    (tmp_path / "bus/pci/devices/0000:17:00.0").mkdir(parents=True)
    clock = FastClock(0)
    host = ProcHostCollector(tmp_path, tmp_path, clock, sysfs=tmp_path)
    eyes = NodeHostProbe(host, OwnerResolver([]), tmp_path)
    gpu = Device("GPU-0", 0, pci_bus_id="00000000:17:00.0")
    part = Device("MIG-a", 0, mig=MigInstance("GPU-0", "1g.10gb", 1, 0, 1 / 7, 1 / 8))
    first = eyes.collect(HostQuery((gpu, part))).topology
    tick(clock, 100)
    assert eyes.collect(HostQuery((gpu, part))).topology is first
    other = eyes.collect(HostQuery((gpu,))).topology
    assert other is not first
    assert first is not None
    assert first.placements.keys() == {"GPU-0"}  # An instance sits where its GPU does.
    seated = TopologyFacts(placements={"GPU-0": GpuPlacementFacts(generation=5)})
    topology = eyes.collect(HostQuery((gpu,), topology=seated)).topology
    assert topology is not None
    assert topology.placements["GPU-0"].generation == 5
