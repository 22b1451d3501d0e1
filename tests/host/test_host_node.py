"""CPU, pressure, disks and network of the node."""

from pathlib import Path

import pytest

from host_tree import HostTree
from rightsizer.model.signal import Signal

DISK = (Signal.DISK_READ_BYTES_PER_SECOND, Signal.DISK_WRITE_BYTES_PER_SECOND)
NETWORK = (Signal.NETWORK_RECEIVE_BYTES_PER_SECOND, Signal.NETWORK_TRANSMIT_BYTES_PER_SECOND)


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    """An empty tree."""
    return HostTree(tmp_path)


def test_first_look_has_the_kernels_mean(tree: HostTree) -> None:
    """Without a previous reading, pressure is the kernel's recent mean; the rest is missing."""
    tree.pressure(tree.procfs / "pressure/cpu", 1000, 12.5)
    tree.stat(100, 0, 100, 800, 0, 0, 0, 0, 0, 0)
    tree.disk("sda", "8:0")
    tree.diskstats(sda=(100, 100))
    assert tree.host().node() == {Signal.CPU_PRESSURE: 0.125}


def test_pressure_is_the_share_of_elapsed_time(tree: HostTree) -> None:
    """It is the difference of totals divided by the time."""
    host = tree.host()
    tree.pressure(tree.procfs / "pressure/io", 1_000_000, 99.0)
    tree.pressure(tree.procfs / "pressure/memory", 0)
    host.node()
    tree.tick(2)
    tree.pressure(tree.procfs / "pressure/io", 1_500_000, 99.0)
    assert host.node() == {Signal.IO_PRESSURE: 0.25, Signal.MEMORY_PRESSURE: 0.0}


def test_cpu_counts_neither_idle_nor_waiting(tree: HostTree) -> None:
    """User, system, interrupt and stolen time count; guest time is part of user time."""
    host = tree.host()
    tree.stat(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    host.node()
    tree.tick()
    tree.stat(20, 10, 10, 40, 10, 4, 4, 2, 20, 0)
    assert host.node() == {Signal.CPU: 0.5, Signal.IO_WAIT: 0.1}


def test_io_wait_that_steps_back_is_absent(tree: HostTree) -> None:
    """The kernel documents that it may decrease; CPU use does not include it."""
    host = tree.host()
    tree.stat(0, 0, 0, 0, 50, 0, 0, 0)
    host.node()
    tree.tick()
    tree.stat(30, 0, 0, 31, 49, 0, 0, 0)
    assert host.node() == {Signal.CPU: 0.5}


def test_only_whole_disks_of_hardware_count(tree: HostTree) -> None:
    """Partitions, loop devices, arrays and volumes repeat what disks do."""
    host = tree.host()
    tree.disk("nvme0n1", "259:0")
    tree.disk("cciss!c0d0", "104:0")
    for name in ("loop0", "ram0", "dm-0", "md0", "zram0"):
        tree.disk(name, "7:0", is_hardware=False)
    everyone = ("nvme0n1", "nvme0n1p1", "cciss/c0d0", "loop0", "ram0", "dm-0", "md0")
    tree.diskstats(**dict.fromkeys(everyone, (0, 0)))
    host.node()
    tree.tick(2)
    tree.diskstats(**dict.fromkeys(everyone, (100, 300)))
    assert tuple(host.node()[signal] for signal in DISK) == (2 * 100 * 256, 2 * 300 * 256)


@pytest.mark.parametrize("head", [0, 300])
def test_disk_of_several_paths_counts_by_its_paths(tree: HostTree, head: int) -> None:
    """Before Linux 6.3 the disk itself counts nothing, later what its paths count."""
    host = tree.host()
    tree.disk("nvme0n1", "259:0")
    for path in ("nvme0c0n1", "nvme0c1n1"):
        tree.disk(path, "0:0")
        tree.write(tree.sysfs / "block" / path / "hidden", 1)
    tree.diskstats(nvme0n1=(0, 0), nvme0c0n1=(0, 0), nvme0c1n1=(0, 0))
    host.node()
    tree.tick()
    tree.diskstats(nvme0n1=(head, 0), nvme0c0n1=(100, 0), nvme0c1n1=(200, 0))
    assert host.node()[DISK[0]] == 300 * 512


def test_disk_of_several_paths_counts_itself_where_they_are_not_listed(tree: HostTree) -> None:
    """A container's diskstats may list what its control group uses alone."""
    host = tree.host()
    tree.disk("nvme0n1", "259:0")
    tree.disk("nvme0c0n1", "0:0")
    tree.diskstats(nvme0n1=(0, 0))
    host.node()
    tree.tick()
    tree.diskstats(nvme0n1=(300, 0))
    assert host.node()[DISK[0]] == 300 * 512


def test_disk_that_is_new_has_no_rate_yet(tree: HostTree) -> None:
    """Its earlier activity is not recent."""
    host = tree.host(recheck_interval_seconds=1.0)
    tree.disk("sda", "8:0")
    tree.diskstats(sda=(0, 0), sdb=(0, 0))
    host.node()
    tree.tick()
    tree.disk("sdb", "8:16")
    tree.diskstats(sda=(2, 0), sdb=(9_000_000, 0))
    first = host.node()[DISK[0]]
    tree.tick()
    tree.diskstats(sda=(4, 0), sdb=(9_000_002, 0))
    assert (first, host.node()[DISK[0]]) == (1024, 2048)


def test_only_hardware_interfaces_count_once(tree: HostTree) -> None:
    """Bridges, bonds, tunnels and representors of virtual functions repeat adapters' traffic."""
    host = tree.host()
    tree.interface("eth0", master="bond0")
    tree.interface("eth1", master="eth2")  # The fast path of a virtual machine's eth2.
    tree.interface("eth2")
    tree.write(tree.interface("eth2") / "phys_port_name", "p0")
    tree.write(tree.interface("rep0") / "phys_port_name", "pf0vf3")
    for name in ("lo", "bond0", "veth12", "docker0"):
        tree.interface(name, is_hardware=False)
    names = ("lo", "eth0", "eth1", "eth2", "rep0", "bond0", "veth12", "docker0")
    tree.traffic(1, **dict.fromkeys(names, (0, 0)))
    host.node()
    tree.tick()
    tree.traffic(1, **dict.fromkeys(names, (10, 1)))
    assert tuple(host.node()[signal] for signal in NETWORK) == (20, 2)


def test_network_is_that_of_the_hosts_first_process(tree: HostTree) -> None:
    """Those of the agent's own container are used only where the host's are hidden."""
    host = tree.host()
    tree.interface("eth0")
    tree.traffic("self", eth0=(0, 0))
    (tree.procfs / "net").symlink_to("self/net")
    host.node()
    tree.tick()
    tree.traffic("self", eth0=(5, 5))
    assert host.node()[NETWORK[0]] == 5
    tree.traffic(1, eth0=(1000, 1000))
    tree.tick()
    host.node()
    tree.tick()
    tree.traffic(1, eth0=(1007, 1000))
    assert host.node()[NETWORK[0]] == 7


@pytest.mark.parametrize(
    "text", ["", "some\n", "some avg10=x total=y\n", "\x00", "cpu a b c d e f"]
)
def test_nonsense_is_absent(tree: HostTree, text: str) -> None:
    """Unparsable files omit their signals."""
    host = tree.host()
    tree.disk("sda", "8:0")
    tree.interface("eth0")
    for name in ("pressure/cpu", "stat", "diskstats", "net/dev"):
        tree.write(tree.procfs / name, text)
    host.node()
    tree.tick()
    assert host.node() == {}


def test_counter_that_starts_over_is_absent_once(tree: HostTree) -> None:
    """A reloaded module has no share of the time before."""
    host = tree.host()
    answers = []
    for total in (5_000_000, 10, 100_010):
        tree.pressure(tree.procfs / "pressure/io", total)
        answers.append(host.node())
        tree.tick()
    assert answers[1:] == [{}, {Signal.IO_PRESSURE: 0.1}]
