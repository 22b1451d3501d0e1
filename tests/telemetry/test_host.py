"""CPU use and pressure of the node and of a control group."""

from pathlib import Path

import pytest

from nvml_driver import FakeDriver, FakeGpu, reading, tick
from rightsizer.domain.signal import Signal
from rightsizer.edge.clock import FastClock, SystemClock
from rightsizer.telemetry.host import ProcHost

GROUP = "system.slice/vllm.service"


class Tree:
    """procfs and control groups on disk."""

    def __init__(self, root: Path) -> None:
        self.procfs = root / "proc"
        self.cgroups = root / "cgroup"

    def host(self, clock: FastClock) -> ProcHost:
        """A host that reads this tree."""
        return ProcHost(self.procfs, self.cgroups, clock)

    def write(self, path: Path, text: str) -> None:
        """Write a file and the folders that it needs."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def pressure(self, path: Path, total: int, recent: float = 0.0) -> None:
        """Write a pressure file: microseconds waited in all, and percent lately."""
        line = f"avg10={recent:.2f} avg60=0.00 avg300=0.00 total={total}\n"
        self.write(path, f"some {line}full {line}")

    def process(self, pid: int, group: str) -> None:
        """Write a process of a control group."""
        self.write(self.procfs / str(pid) / "cgroup", f"0::/{group}\n")

    def stat(self, *ticks: int) -> None:
        """Write the node's CPU time."""
        self.write(self.procfs / "stat", f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2 3\n")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty tree."""
    return Tree(tmp_path)


def test_first_look_has_the_kernels_mean(tree: Tree) -> None:
    """With nothing to compare with, pressure is the kernel's ten-second mean; CPU is absent."""
    tree.pressure(tree.procfs / "pressure/cpu", 1000, 12.5)
    tree.stat(100, 0, 100, 800, 0, 0, 0, 0, 0, 0)
    assert tree.host(FastClock(0)).node() == {Signal.CPU_PRESSURE: 0.125}


def test_pressure_is_the_share_of_elapsed_time(tree: Tree) -> None:
    """Totals are differenced over the time between two looks."""
    clock = FastClock(0)
    host = tree.host(clock)
    tree.pressure(tree.procfs / "pressure/io", 1_000_000, 99.0)
    tree.pressure(tree.procfs / "pressure/memory", 0)
    host.node()
    tick(clock, 2)
    tree.pressure(tree.procfs / "pressure/io", 1_500_000, 99.0)
    assert host.node() == {Signal.IO_PRESSURE: 0.25, Signal.MEMORY_PRESSURE: 0.0}


def test_cpu_counts_neither_idle_nor_waiting(tree: Tree) -> None:
    """User, system, interrupt and stolen time are use; guest time is already in user's."""
    clock = FastClock(0)
    host = tree.host(clock)
    tree.stat(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    host.node()
    tick(clock)
    tree.stat(20, 10, 10, 40, 10, 4, 4, 2, 20, 0)
    assert host.node()[Signal.CPU] == 0.5


@pytest.mark.parametrize(
    ("limit", "cpuset", "ratio"),
    [("400000 100000", "0-63", 0.5), ("max 100000", "0-6,9", 0.25), ("max 100000", "", None)],
)
def test_owner_cpu_is_of_its_quota(
    tree: Tree, limit: str, cpuset: str, ratio: float | None
) -> None:
    """CPU time is compared with the quota, else with the CPUs allowed, else with nothing."""
    clock, folder = FastClock(0), tree.cgroups / GROUP
    host = tree.host(clock)
    tree.process(11, GROUP)
    tree.write(folder / "cpu.max", limit)
    tree.write(folder / "cpuset.cpus.effective", cpuset)
    tree.write(folder / "cpu.stat", "usage_usec 1000000\nuser_usec 5\n")
    host.owner([11])
    tick(clock)
    tree.write(folder / "cpu.stat", "usage_usec 3000000\nuser_usec 5\n")
    assert host.owner([11]).get(Signal.CPU) == ratio


def test_owner_pressure_is_its_own(tree: Tree) -> None:
    """Each control group is measured apart from the others and from the node."""
    clock = FastClock(0)
    host = tree.host(clock)
    for pid, group in ((11, "a.service"), (12, "b.service")):
        tree.process(pid, group)
        tree.pressure(tree.cgroups / group / "io.pressure", 0)
        host.owner([pid])
    tick(clock)
    tree.pressure(tree.cgroups / "a.service/io.pressure", 900_000)
    assert host.owner([11, 12]) == {Signal.IO_PRESSURE: 0.9}
    assert host.owner([12]) == {Signal.IO_PRESSURE: 0.0}
    assert host.node() == {}


@pytest.mark.parametrize("group", ["", "../../escaped", "gone.service"])
def test_group_that_says_nothing(tree: Tree, group: str) -> None:
    """The root group, one of another namespace and one that is gone have no signals."""
    tree.process(11, group)
    tree.pressure(tree.cgroups / "io.pressure", 1000, 50.0)
    host = tree.host(FastClock(0))
    assert host.owner([11]) == {}
    assert host.owner([99]) == {}
    assert host.owner([]) == {}


def test_looks_in_one_tick_share_an_answer(tree: Tree) -> None:
    """Eight devices of one owner do not divide its second into eight."""
    clock = FastClock(0)
    host = tree.host(clock)
    tree.process(11, GROUP)
    tree.pressure(tree.cgroups / GROUP / "io.pressure", 0)
    host.owner([11])
    tick(clock)
    tree.pressure(tree.cgroups / GROUP / "io.pressure", 400_000)
    answers = []
    for _ in range(8):
        answers.append(host.owner([11]))
        tick(clock, 0.001)
    assert answers == [{Signal.IO_PRESSURE: 0.4}] * 8


def test_counter_that_starts_over_is_left_out(tree: Tree) -> None:
    """A control group that was made anew has no share of the time before."""
    clock = FastClock(0)
    host = tree.host(clock)
    tree.pressure(tree.procfs / "pressure/io", 5_000_000)
    host.node()
    tick(clock)
    tree.pressure(tree.procfs / "pressure/io", 10)
    assert host.node() == {}


@pytest.mark.parametrize("text", ["", "some\n", "some avg10=x total=y\n", "\x00"])
def test_nonsense_is_absent(tree: Tree, text: str) -> None:
    """Files that do not read as expected leave their signals out."""
    tree.write(tree.procfs / "pressure/cpu", text)
    tree.write(tree.procfs / "stat", text)
    assert tree.host(FastClock(0)).node() == {}


def test_real_node() -> None:
    """This machine's own files give ratios."""
    host = ProcHost(Path("/proc"), Path("/sys/fs/cgroup"), SystemClock())
    assert all(0 <= value <= 1 for value in host.node().values())


def test_snapshot_has_node_and_owner_apart(tree: Tree, tmp_path: Path) -> None:
    """The node's signals are the snapshot's; an owner's go with the devices that it holds."""
    tree.pressure(tree.procfs / "pressure/io", 0, 10.0)
    tree.process(11, GROUP)
    tree.pressure(tree.cgroups / GROUP / "io.pressure", 0, 70.0)
    driver = FakeDriver(FakeGpu("GPU-0", processes={11: 1 << 30}), FakeGpu("GPU-1"))
    with reading(driver, FastClock(0), tmp_path) as source:
        snapshot = source.read()
    assert snapshot.host == {Signal.IO_PRESSURE: 0.1}
    assert snapshot.readings["GPU-0"].get(Signal.IO_PRESSURE) == 0.7
    assert snapshot.readings["GPU-1"].get(Signal.IO_PRESSURE) is None
