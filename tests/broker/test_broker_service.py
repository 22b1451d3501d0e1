"""An agent's broker: effects of a reload, and assignment of processes."""

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from managed_node import BootClock
from process_files import ProcessFolder
from publish_reports import node_report
from readings import HOUR, SECOND
from rightsizer.agent.settings import Settings
from rightsizer.broker.lease import GpuRequest, LeaseOwner, Reservation, Ticket
from rightsizer.broker.service import BrokerService
from rightsizer.host.process_table import started_of
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.reading import Missing, Process, Reading
from rightsizer.model.report import DeviceReport, Report
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Down
from rightsizer.model.state import State, Tier
from rightsizer.report.freshness import FreshnessSettings

CLIENT: Final = LeaseOwner(os.getuid(), "ada", 10, 100)
ROOT: Final = LeaseOwner(0, "root", 1, 100)
WISH: Final = Ticket("a", CLIENT, GpuRequest(1), 0)


class Node:
    """GPUs with the same processes on them, a process table in files, and a broker."""

    def __init__(self, folder: Path, procfs: Path | None = None) -> None:
        self.processes = ProcessFolder(folder / "proc")
        for pid in (1, 10):
            self.processes.start(pid)
        self.clock = BootClock()
        self.count = 1
        self.on_the_gpu: tuple[int, ...] = ()
        self.down: dict[int, Down] = {}
        """By the index of the GPU."""
        settings = Settings()
        self.settings = replace(
            settings,
            path=replace(settings.path, procfs=str(procfs or folder / "proc")),
            broker=replace(settings.broker, path=str(folder / "broker.db"), processes_maximum=10),
        )
        self.lending = BrokerService(self.settings, self.report, FreshnessSettings(), self.clock)

    def report(self) -> Report:
        """The current node."""
        whole = node_report()
        gpus = tuple(self._gpu(whole.devices[0], index) for index in range(self.count))
        return replace(whole, wall_time=self.clock.wall_time(), devices=gpus, advice=())

    def _gpu(self, template: DeviceReport, index: int) -> DeviceReport:
        uuid = f"GPU-{index}"
        values = {Signal.MEMORY_USED_BYTES: 5e8}
        there = tuple(Process(pid, memory_used_bytes=1e9) for pid in self.on_the_gpu)
        return DeviceReport(
            device=Device(uuid, index, memory_total_bytes=80e9),
            down=self.down.get(index),
            last_sample=self.clock.wall_time(),
            reading=Reading(uuid, 0, values, processes=there),
            signals=values,
            state=State.IDLE_HELD if there else State.IDLE_EMPTY,
            conditions=frozenset(),
            tier=Tier.PROFILING,
            totals=template.totals,
            provisioning={},
            xids=XidLog({}),
        )

    def looks(self, times: int = 1) -> None:
        """Broker steps, once a second."""
        for _ in range(times):
            self.clock.now += SECOND
            self.clock.wall += SECOND
            self.lending.manager.turn()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node without holders."""
    with capture_logs():
        found = Node(tmp_path)
        yield found
        found.lending.stop()


def test_a_reload_changes_how_many_processes_are_looked_at(node: Node) -> None:
    """From the next step on, up and down."""
    node.lending.manager.ask(WISH)
    node.looks(2)
    for pid in range(100, 300):
        node.processes.start(pid, parent=10)
    node.looks()
    assert len(node.lending.leased().pids) <= 11
    more = replace(node.settings, broker=replace(node.settings.broker, processes_maximum=1000))
    node.lending.change_settings(more)
    node.looks()
    assert node.lending.leased().pids == {10, *range(100, 300)}
    node.lending.change_settings(node.settings)
    for pid in range(300, 400):
        node.processes.start(pid, parent=10)
    node.looks()
    assert len(node.lending.leased().pids) == 211


def test_processes_of_a_lease_that_is_over_are_outsiders(node: Node) -> None:
    """After the last lease too, when scanning stops: the GPU is neither free nor reservable."""
    node.lending.manager.ask(WISH)
    node.looks(2)
    node.processes.start(20, parent=10)
    node.on_the_gpu = (20,)
    node.looks()
    given = node.lending.leased()
    assert (set(given.leases), given.pids) == ({"GPU-0"}, {10, 20})
    node.lending.manager.end("a", CLIENT)
    given = node.lending.leased()
    assert (set(given.leases), given.pids) == (set(), frozenset())
    node.looks()
    wanted = Reservation("r", "root", GpuRequest(1), HOUR, 2 * HOUR)
    step = node.lending.manager.reserve(
        lambda now: replace(wanted, starts=now + HOUR, ends=now + 2 * HOUR), ROOT
    )
    assert step.is_refused
    assert "work without a lease" in step.events[-1].message
    node.lending.manager.ask(replace(WISH, id="b"))
    node.looks()
    assert [ticket.id for ticket in node.lending.manager.overview.state.tickets] == ["b"]
    node.on_the_gpu = ()
    node.looks()
    assert [lease.id for lease in node.lending.manager.overview.state.leases] == ["b"]


@pytest.fixture
def living(tmp_path: Path) -> Iterator[Node]:
    """A node with the processes of this machine."""
    with capture_logs():
        found = Node(tmp_path, procfs=Path("/proc"))
        whole = replace(found.settings.broker, processes_maximum=100_000)
        found.lending.change_settings(replace(found.settings, broker=whole))
        yield found
        found.lending.stop()


def test_a_client_that_is_killed_right_after_the_grant_frees_its_gpu(living: Node) -> None:
    """With the next step, and the waiting ticket gets it."""
    with subprocess.Popen(["sleep", "60"]) as process:
        living.lending.manager.ask(replace(WISH, client=_owner(process.pid)))
        living.looks()
        assert living.lending.leased().leases.keys() == {"GPU-0"}
        process.kill()
    living.lending.manager.ask(replace(WISH, id="b", client=_owner(os.getpid())))
    living.looks()
    assert [lease.id for lease in living.lending.manager.overview.state.leases] == ["b"]


def _owner(pid: int) -> LeaseOwner:
    started = started_of(pid)
    assert started is not None
    return LeaseOwner(os.getuid(), "ada", pid, started)


def test_one_of_two_leases_that_is_over_gives_its_processes_back(node: Node) -> None:
    """At once, not with the next step."""
    node.count = 2
    node.lending.manager.ask(WISH)
    node.lending.manager.ask(replace(WISH, id="b", client=replace(CLIENT, pid=1)))
    node.looks(2)
    assert [lease.id for lease in node.lending.manager.overview.state.leases] == ["a", "b"]
    node.lending.manager.end("a", CLIENT)
    assert node.lending.leased().pids == {1}


@pytest.mark.parametrize("reason", list(Missing))
def test_a_leased_gpu_is_lost_where_the_driver_says_so(node: Node, reason: Missing) -> None:
    """A slow, sleeping or released GPU is not lost."""
    node.count = 2
    node.lending.manager.ask(WISH)
    node.looks(2)
    node.down = {0: Down(reason, "the GPU has fallen off the bus")}
    node.looks(12)
    is_lost = reason is Missing.LOST
    assert node.lending.metrics()["rightsizer_broker_lost_gpus"] == is_lost
    assert len(node.lending.manager.messages_for("a")) == is_lost


def test_a_leased_gpu_that_is_not_listed_any_more_is_lost(node: Node) -> None:
    """As after an agent's restart, when the driver no longer offers its uuid."""
    node.count = 2
    node.lending.manager.ask(replace(WISH, request=GpuRequest(2)))
    node.looks(2)
    node.count = 1
    node.looks(12)
    (message,) = node.lending.manager.messages_for("a")
    assert message.startswith("lease a has lost GPU-1 (the driver no longer offers it)")


def test_queue_is_served_after_a_shortage_of_memory(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for the next turn needs a lock, and a lock memory."""
    manager = node.lending.manager
    turns = threading.Semaphore(0)
    wait = manager.woken.wait
    shortages = iter([RuntimeError("can't allocate lock")])

    def short_of_memory(seconds: float) -> bool:
        if (error := next(shortages, None)) is not None:
            raise error
        return wait(seconds)

    monkeypatch.setattr(manager.woken, "wait", short_of_memory)
    monkeypatch.setattr(manager, "turn", turns.release)
    node.lending.start()
    assert turns.acquire(timeout=10)
    assert turns.acquire(timeout=10)
