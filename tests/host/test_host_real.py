"""Real processes in real control groups and namespaces of this machine.

Time is a clock of the tests' own: a second passes between two readings, whatever the work took.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from host_tree import HostTree
from rightsizer.host.collector import ProcHostCollector
from rightsizer.host.node_signals import online_cpus
from rightsizer.host.numa_locality import process_memory, resident_bytes
from rightsizer.io.clock import SystemClock
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Placement
from rightsizer.model.units import Unit

PROCFS: Final = Path("/proc")
CGROUPS: Final = Path("/sys/fs/cgroup")
UNIFIED: Final = CGROUPS / "unified" if (CGROUPS / "unified").is_dir() else CGROUPS
ROOTS: Final = [top for top in CGROUPS.iterdir() if (top / "release_agent").exists()]
"""Roots of all version 1 hierarchies: the test's own group must not interfere."""
NAME: Final = f"rightsizer-test-{os.getpid()}"
MEBIBYTE: Final = 2**20

WORKER: Final = """
import mmap, os, socket, sys, time
def burn(seconds):
    end = time.process_time() + float(seconds)
    while time.process_time() < end:
        pass
def pin(cpu):
    os.sched_setaffinity(0, {int(cpu)})
def hold(size):
    global held
    held = bytearray(b"x" * int(size))
def write(path):
    block = mmap.mmap(-1, 1 << 20)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    os.write(handle, block)
    os.fsync(handle)
def send(size):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x" * int(size), ("192.0.2.2", 9))
print("ready", flush=True)
for line in sys.stdin:
    name, argument = line.split()
    try:
        globals()[name](argument)
        print("done", flush=True)
    except OSError as error:
        print(error, flush=True)
"""


class Worker:
    """A process that runs commands."""

    def __init__(self, *prefix: str) -> None:
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.pid = self._process.pid
        if self._answer() != "ready":
            self.close()
            pytest.skip("the kernel refuses this user a process of that kind")

    def start(self, name: str, argument: object) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name} {argument}\n")

    def finish(self) -> None:
        """Wait for the command's end; skip if the machine does not allow it."""
        answer = self._answer()
        if answer != "done":
            pytest.skip(f"this machine does not allow it: {answer}")

    def do(self, name: str, argument: object) -> None:
        """Send a command and wait."""
        self.start(name, argument)
        self.finish()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A child process."""
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture
def group(worker: Worker) -> Iterator[Callable[[Path], Path]]:
    """Puts the worker into a control group of a hierarchy, and removes the group afterward."""
    with ExitStack() as stack:
        with suppress(OSError):
            for root in ROOTS:
                (root / "cgroup.procs").write_text(str(worker.pid))

        def enter(top: Path) -> Path:
            return stack.enter_context(_group(top, worker))

        yield enter
        worker.close()


@contextmanager
def _group(top: Path, worker: Worker) -> Iterator[Path]:
    folder = top / NAME
    if not (top / "cgroup.procs").exists():
        pytest.skip(f"{top} is no control group hierarchy")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"control groups cannot be created: {error}")
    try:
        (folder / "cgroup.procs").write_text(str(worker.pid))
        yield folder
    except OSError as error:
        pytest.skip(f"processes cannot be moved: {error}")
    finally:
        with suppress(OSError):
            folder.rmdir()


@pytest.fixture
def machine(tmp_path: Path) -> HostTree:
    """This machine, with a clock of the test's own."""
    machine = HostTree(tmp_path)
    machine.procfs = PROCFS
    machine.sysfs = Path("/sys")
    machine.cgroups = CGROUPS
    return machine


def test_node_gives_ratios_and_rates(machine: HostTree) -> None:
    """This holds on any machine."""
    host = ProcHostCollector(PROCFS, CGROUPS, SystemClock())
    host.node()
    sum(range(10**6))
    signals = host.node() or machine.host().node()
    assert all(value >= 0 for value in signals.values())
    assert all(v <= 1 for s, v in signals.items() if s.unit is Unit.RATIO)


def test_node_sees_work(machine: HostTree, worker: Worker, tmp_path: Path) -> None:
    """The node includes our CPU time, and our disk writes if they go to a whole disk."""
    host = machine.host()
    before = host.node()
    machine.tick()
    worker.do("burn", 0.1)
    worker.do("write", tmp_path / "written")
    after = host.node()
    assert Signal.CPU not in before
    assert after[Signal.CPU] > 0
    if Signal.DISK_WRITE_BYTES_PER_SECOND in after and _disk_of(tmp_path):
        assert after[Signal.DISK_WRITE_BYTES_PER_SECOND] >= MEBIBYTE


def test_cpu_time_of_a_process(machine: HostTree, worker: Worker) -> None:
    """Half of a CPU burned in a second of the test's clock, to a tick of the kernel."""
    host = machine.host()
    assert host.processes([worker.pid]) == {}
    machine.tick()
    worker.do("burn", 0.5)
    assert host.processes([worker.pid])[Signal.PROCESS_CPU] == pytest.approx(0.5, abs=0.05)


def test_cpu_time_of_a_group_of_version_2(
    machine: HostTree, worker: Worker, group: Callable[[Path], Path]
) -> None:
    """It is the process's CPU time, of all CPUs."""
    group(UNIFIED)
    assert _cores_burned(machine, worker) >= 0.3


def test_cpu_time_of_a_group_of_version_1(
    machine: HostTree, worker: Worker, group: Callable[[Path], Path]
) -> None:
    """It is the same, with a quota of half a CPU."""
    group(CGROUPS / "cpuacct")
    quota = group(CGROUPS / "cpu")
    (quota / "cpu.cfs_quota_us").write_text("50000")
    host = machine.host()
    host.owner([worker.pid])
    machine.tick()
    worker.do("burn", 0.2)
    assert 0.4 <= host.owner([worker.pid])[Signal.CPU] <= 1


def test_pressure_of_a_group(
    machine: HostTree, worker: Worker, group: Callable[[Path], Path]
) -> None:
    """Two processes on one CPU wait for each other."""
    folder = group(UNIFIED)
    if not (folder / "cpu.pressure").exists():
        pytest.skip("the kernel keeps no pressure")
    other = Worker()
    try:
        (folder / "cgroup.procs").write_text(str(other.pid))
        host = machine.host()
        host.owner([worker.pid])
        machine.tick()
        cpu = min(os.sched_getaffinity(0))
        for each in (worker, other):
            each.do("pin", cpu)
            each.start("burn", 0.2)
        for each in (worker, other):
            each.finish()
        pressure = host.owner([worker.pid])[Signal.CPU_PRESSURE]
    finally:
        other.close()
    assert 0 < pressure <= 1


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder on a disk, as other temporary files may be in memory."""
    with TemporaryDirectory(dir="/var/tmp") as name:
        yield Path(name)


@pytest.mark.parametrize("top", [UNIFIED, CGROUPS / "blkio"])
def test_disk_writes_of_a_group(
    machine: HostTree, worker: Worker, group: Callable[[Path], Path], on_disk: Path, top: Path
) -> None:
    """The page cache is bypassed, so that the writes are the process's own."""
    folder = group(top)
    if not any((folder / name).exists() for name in ("io.stat", "blkio.throttle.io_service_bytes")):
        pytest.skip("this hierarchy does not account for disks")
    if _disk_of(on_disk) is None:
        pytest.skip(f"{on_disk.parent} is not on a whole disk")
    limit = folder / "blkio.throttle.write_bps_device"
    if limit.exists():
        # In version 1 newer kernels count only where there is a limit.
        limit.write_text(f"{_disk_of(on_disk)} {2**40}")
    host = machine.host()
    worker.do("write", on_disk / "written")
    host.owner([worker.pid])
    machine.tick()
    worker.do("write", on_disk / "written")
    written = host.owner([worker.pid]).get(Signal.DISK_WRITE_BYTES_PER_SECOND)
    if written is None:
        pytest.skip("the kernel does not count the bytes of this hierarchy's groups")
    assert MEBIBYTE <= written < 2 * MEBIBYTE


def test_affinity_of_a_process(machine: HostTree, worker: Worker) -> None:
    """It is pinned to one CPU, which is near to one GPU and not to another."""
    cpu = min(os.sched_getaffinity(0))
    worker.do("pin", cpu)
    host = machine.host()
    shares = [
        host.owner([worker.pid], Placement("GPU-0", cpus=(near,)))[Signal.CPU_AFFINITY_LOCAL]
        for near in (cpu, cpu + 1)
    ]
    assert shares == [1.0, 0.0]


@pytest.mark.parametrize("top", [UNIFIED, CGROUPS / "memory"])
def test_memory_placement_of_a_group(
    machine: HostTree, worker: Worker, group: Callable[[Path], Path], top: Path
) -> None:
    """It is a ratio where the group accounts for memory, and 1 on a machine with one node."""
    folder = group(top)
    if not (folder / "memory.numa_stat").exists():
        pytest.skip("this hierarchy does not account for memory by node")
    worker.do("hold", 8 * MEBIBYTE)
    host = machine.host()
    near = Placement("GPU-0", numa_node=0)
    host.owner([worker.pid], near)
    machine.tick()
    nodes = len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))
    share = host.owner([worker.pid], near)[Signal.HOST_MEMORY_LOCAL]
    assert share == 1 if nodes == 1 else 0 <= share <= 1


def test_memory_placement_of_a_process(worker: Worker) -> None:
    """Its map has its memory, without mapped files."""
    worker.do("hold", 32 * MEBIBYTE)
    clock = SystemClock()
    found = process_memory(str(PROCFS), worker.pid, clock.time, 10**10)
    if found is None:
        pytest.skip("numa_maps cannot be read")
    resident = resident_bytes(str(PROCFS), worker.pid)
    assert resident is not None
    assert 32 * MEBIBYTE <= found.total() <= resident + MEBIBYTE
    worker.close()
    assert process_memory(str(PROCFS), worker.pid, clock.time, 10**10) is None


def test_network_of_a_namespace(machine: HostTree) -> None:
    """A container's outgoing traffic is the owner's, and not the node's."""
    if not all(map(shutil.which, ("ip", "unshare"))):
        pytest.skip("ip or unshare is not installed")
    setup = (
        "ip link add eth7 type veth peer name veth7 && ip addr add 192.0.2.1/24 dev eth7"
        " && ip link set eth7 up && ip link set veth7 up"
        " && ip neighbor add 192.0.2.2 lladdr 02:00:00:00:00:02 dev eth7"
        ' && exec "$0" "$@"'
    )
    container = Worker("unshare", "--net", "sh", "-c", setup)
    try:
        host = machine.host()
        host.owner([container.pid])
        machine.tick()
        container.do("send", 1000)
        sent = host.owner([container.pid]).get(Signal.NETWORK_TRANSMIT_BYTES_PER_SECOND)
    finally:
        container.close()
    assert sent is not None
    assert 1000 <= sent < 5000


def test_process_that_ended_has_no_signals(machine: HostTree, worker: Worker) -> None:
    """No exception is raised either."""
    host = machine.host()
    host.owner([worker.pid], Placement("GPU-0", cpus=(0,), numa_node=0))
    worker.close()
    machine.tick()
    assert host.owner([worker.pid], Placement("GPU-0", cpus=(0,), numa_node=0)) == {}


def test_nothing_is_left_open(machine: HostTree, worker: Worker) -> None:
    """This holds for any number of readings."""
    host = machine.host()
    near = Placement("GPU-0", cpus=(0,), numa_node=0)
    counts = set()
    for _ in range(20):
        host.node()
        host.owner([worker.pid, os.getpid()], near)
        host.device(near)
        machine.tick()
        counts.add(len(os.listdir("/proc/self/fd")))  # noqa: PTH208 - opens no more than it counts.
    assert len(counts) == 1


def _cores_burned(machine: HostTree, worker: Worker) -> float:
    """Core-seconds of the worker's group for a third of a second's work."""
    host = machine.host()
    host.owner([worker.pid])
    machine.tick()
    worker.do("burn", 0.3)
    return host.owner([worker.pid])[Signal.CPU] * len(online_cpus("/sys"))


def _disk_of(path: Path) -> str | None:
    """The whole disk of a file system, directly or through a partition."""
    device = path.stat().st_dev
    folder = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    whole = next((each for each in (folder, folder.parent) if (each / "device").exists()), None)
    return (whole / "dev").read_text().strip() if whole else None
