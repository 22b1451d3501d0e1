"""Whole hosts in shapes that few machines have: what is not there is absent, never 0."""

from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from host_tree import HostTree
from rightsizer.host.topology import TopologyFacts, read_topology
from rightsizer.model.device import Device
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Placement
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.settings import OwnerSettings

POD = "kubepods.slice/kubepods-pod0f1c2d3e_aaaa_bbbb_cccc_0123456789ab.slice"
LOCAL = Signal.CPU_AFFINITY_LOCAL
NODE_NUMBERS = (Signal.CPU, Signal.IO_WAIT)
DISK = (Signal.DISK_READ_BYTES_PER_SECOND, Signal.DISK_WRITE_BYTES_PER_SECOND)
NETWORK = (Signal.NETWORK_RECEIVE_BYTES_PER_SECOND, Signal.NETWORK_TRANSMIT_BYTES_PER_SECOND)


def counters(tree: HostTree, at: int) -> None:
    """CPU of the node and of the pod, at a second."""
    tree.stat(at * 100, 0, 0, at * 100, 0, 0, 0, 0)
    tree.write(tree.cgroups / POD / "cpu.stat", f"usage_usec {at * 2_000_000}")


def grace(tree: HostTree, at: int) -> None:
    """144 cores, memory of the GPUs as nodes without CPUs."""
    counters(tree, at)
    tree.online("0-143")
    nodes = tree.sysfs / "devices/system/node"
    tree.write(nodes / "online", "0-2,10")
    tree.write(nodes / "has_cpu", "0-1")
    for node, cpus in {0: "0-71", 1: "72-143", 2: "", 10: ""}.items():
        tree.write(nodes / f"node{node}/cpulist", cpus)
    tree.process(11, POD, cpus="0-143")
    group = tree.cgroups / POD
    tree.write(group / "memory.numa_stat", "anon N0=300 N1=100 N2=9000 N10=9000")


def four_hundred_cores(tree: HostTree, at: int) -> None:
    """EPYC of four nodes a socket, whose kernel lists CPUs in several ranges."""
    counters(tree, at)
    tree.online("0-399")
    tree.write(tree.sysfs / "devices/system/node/has_cpu", "0-7")
    tree.process(11, POD, cpus="0-71,200-271")


def without_pressure(tree: HostTree, at: int) -> None:
    """Red Hat 8: files of pressure that cannot be read, control groups without them."""
    counters(tree, at)
    tree.online("0-3")
    tree.process(11, POD)
    for kind in ("cpu", "io", "memory"):
        (tree.procfs / "pressure" / kind).mkdir(parents=True, exist_ok=True)


def wsl(tree: HostTree, at: int) -> None:
    """WSL 2: disks and an interface of Hyper-V, no PCI."""
    counters(tree, at)
    tree.online("0-3")
    tree.process(1, "init.scope", name="systemd")
    tree.process(11, POD)
    tree.disk("sda", "8:0")
    tree.diskstats(sda=(at, at))
    tree.interface("eth0")
    tree.traffic(1, lo=(9, 9), eth0=(at, at))


def gvisor(tree: HostTree, at: int) -> None:
    """gVisor: CPU times that are all 0, statuses without CPUs and namespaces."""
    del at
    tree.stat(*[0] * 10)
    tree.online("0-3")
    tree.process(1, "", name="sh")
    tree.process(11, {"memory": "job", "cpuacct": "job"})
    tree.write(tree.procfs / "11/status", "Name:\tpython\nState:\tR (running)\nPid:\t11\nPPid:\t1")
    tree.write(tree.procfs / "self/status", "Name:\tagent\nPid:\t12")


def lxcfs(tree: HostTree, at: int) -> None:
    """LXC: CPU times and disks of the container, the host's disks in sysfs."""
    counters(tree, at)
    tree.online("0-3")
    tree.process(1, "", name="init")
    tree.process(11, "lxc.payload.c1")
    tree.disk("nvme0n1", "259:0")
    tree.write(tree.procfs / "diskstats", "")
    tree.interface("eth0", is_hardware=False)
    tree.traffic(1, lo=(9, 9), eth0=(at, at))


def hidden_processes(tree: HostTree, at: int) -> None:
    """hidepid=2: other users' processes, the first one too, are not there."""
    counters(tree, at)
    tree.online("0-3")
    tree.process(40, "", name="agent")
    tree.link(tree.procfs / "self", "40")


Build = Callable[[HostTree, int], None]


@pytest.mark.parametrize(
    ("build", "node", "owner"),
    [
        (grace, NODE_NUMBERS, {Signal.CPU: 2 / 144, LOCAL: 0.5, Signal.HOST_MEMORY_LOCAL: 0.75}),
        (four_hundred_cores, NODE_NUMBERS, {Signal.CPU: 2 / 400, LOCAL: 0.5}),
        (without_pressure, NODE_NUMBERS, {Signal.CPU: 0.5, LOCAL: 1.0}),
        (wsl, (*NODE_NUMBERS, *DISK, *NETWORK), {Signal.CPU: 0.5, LOCAL: 1.0}),
        (gvisor, (), {}),
        (lxcfs, NODE_NUMBERS, {LOCAL: 1.0}),
        (hidden_processes, NODE_NUMBERS, {}),
    ],
)
def test_signals_of_a_foreign_host(
    tmp_path: Path, build: Build, node: tuple[Signal, ...], owner: dict[Signal, float]
) -> None:
    """Every signal that is present is known, and nothing is logged."""
    tree = HostTree(tmp_path)
    host = tree.host()
    near = Placement("GPU-0", numa_node=0, cpus=tuple(range(72)))
    with capture_logs() as logs:
        for at in (1, 2, 3):
            build(tree, at)
            of_node = host.node()
            of_owner = host.owner([11], near)
            assert host.ports() == ()
            assert host.device(near) == {}
            tree.tick()
    assert set(of_node) == set(node)
    assert of_owner == pytest.approx(owner)
    assert logs == []


@pytest.mark.parametrize(
    "build", [grace, four_hundred_cores, without_pressure, wsl, gvisor, lxcfs, hidden_processes]
)
def test_places_and_owners_of_a_foreign_host(tmp_path: Path, build: Build) -> None:
    """Without PCI in sysfs the driver's facts stand; a process that is hidden is nobody's."""
    tree = HostTree(tmp_path)
    build(tree, 1)
    gpu = Device(uuid="GPU-0", index=0, pci_bus_id="00000000:01:00.0")
    facts = TopologyFacts(placements={"GPU-0": Placement("GPU-0", numa_node=0, cpus=(0, 1))})
    settings = OwnerSettings(kubelet_socket="", pod_log_folder="")
    with capture_logs() as logs:
        place = read_topology(tree.sysfs, [gpu], facts).placements["GPU-0"]
        owners = OwnerResolver.on_host(tree.procfs, sysfs=tree.sysfs, settings=settings)
        workload = owners.workload_of(11)
        given = owners.allocations()
        owners.close()
    assert (place.numa_node, place.cpus) == (0, (0, 1))
    assert (place.bridges, place.generation, place.width) == ((), None, None)
    assert given == {}
    assert (workload is None) == (build is hidden_processes)
    assert (owners.blindness() is None) == (build is not hidden_processes)
    assert logs == []
