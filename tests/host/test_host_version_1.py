"""Control groups of version 1, and both versions side by side."""

from pathlib import Path

import pytest

from host_tree import HostTree
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Placement

POD = "kubepods/pod1/ctr"
DISK = (Signal.DISK_READ_BYTES_PER_SECOND, Signal.DISK_WRITE_BYTES_PER_SECOND)
EVERYWHERE = {
    "cpu,cpuacct": POD,
    "cpuset": POD,
    "blkio": POD,
    "memory": POD,
    "pids": POD,
    "name=systemd": POD,
}
"""Paths as a container runtime writes them."""


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    """A host with eight CPUs, one disk and the usual mounts."""
    tree = HostTree(tmp_path)
    tree.online("0-7")
    tree.disk("sda", "8:0")
    for controller in ("cpu,cpuacct", "cpuset", "blkio", "memory"):
        (tree.cgroups / controller).mkdir(parents=True)
    return tree


def cpu_after_a_second(tree: HostTree, file: Path, unit: int, cores: float) -> float | None:
    """CPU of process 1, whose group counts in units of a second."""
    host = tree.host()
    tree.write(file, 5 * unit)
    host.owner([1])
    tree.tick()
    tree.write(file, round((5 + cores) * unit))
    return host.owner([1]).get(Signal.CPU)


@pytest.mark.parametrize("is_linked", [True, False])
def test_cpu_is_of_the_quota(tree: HostTree, is_linked: bool) -> None:  # noqa: FBT001
    """Joined controllers may or may not have a link each."""
    if is_linked:
        for controller in ("cpu", "cpuacct"):
            tree.link(tree.cgroups / controller, "cpu,cpuacct")
    tree.process(1, EVERYWHERE)
    folder = tree.cgroups / "cpu,cpuacct" / POD
    tree.write(folder / "cpu.cfs_quota_us", 200_000)
    tree.write(folder / "cpu.cfs_period_us", 100_000)
    assert cpu_after_a_second(tree, folder / "cpuacct.usage", 10**9, 1.0) == 0.5


def test_quota_of_minus_one_is_none(tree: HostTree) -> None:
    """The pod's quota applies; without one, the CPU set does."""
    tree.process(1, EVERYWHERE)
    folder = tree.cgroups / "cpu,cpuacct" / POD
    tree.write(folder / "cpu.cfs_quota_us", -1)
    tree.write(folder / "cpu.cfs_period_us", 100_000)
    tree.write(tree.cgroups / "cpuset" / POD / "cpuset.cpus", "0-3")
    assert cpu_after_a_second(tree, folder / "cpuacct.usage", 10**9, 2.0) == 0.5
    tree.write(folder.parent / "cpu.cfs_quota_us", 250_000)
    tree.write(folder.parent / "cpu.cfs_period_us", 100_000)
    assert cpu_after_a_second(tree, folder / "cpuacct.usage", 10**9, 2.0) == 0.8


@pytest.mark.parametrize("suffix", ["", "_recursive"])
def test_disks_are_those_of_hardware(tree: HostTree, suffix: str) -> None:
    """Every device has a line for each operation; the last line is the sum."""
    host = tree.host()
    name = f"blkio.throttle.io_service_bytes{suffix}"
    tree.process(1, EVERYWHERE)
    for count in (0, 4096):
        lines = [
            f"{device} {operation} {count}"
            for device in ("8:0", "253:0")
            for operation in ("Read", "Write", "Sync", "Total")
        ]
        tree.write(tree.cgroups / "blkio" / POD / name, "\n".join([*lines, f"Total {4 * count}"]))
        answer = host.owner([1])
        tree.tick()
    assert [answer[signal] for signal in DISK] == [4096, 4096]


def test_disks_that_the_kernel_does_not_count_are_absent(tree: HostTree) -> None:
    """A file with nothing but a sum of 0 does not show an idle group."""
    host = tree.host()
    tree.process(1, EVERYWHERE)
    tree.write(tree.cgroups / "blkio" / POD / "blkio.throttle.io_service_bytes", "Total 0")
    host.owner([1])
    tree.tick()
    assert host.owner([1]) == {}


def test_memory_placement_is_that_of_the_group_and_those_inside(tree: HostTree) -> None:
    """Pages of processes count; the page cache does not."""
    host = tree.host()
    near = Placement("GPU-0", numa_node=1)
    tree.write(tree.sysfs / "devices/system/node/has_cpu", "0-1")
    tree.process(1, EVERYWHERE)
    tree.write(
        tree.cgroups / "memory" / POD / "memory.numa_stat",
        "total=9 N0=9 N1=0\nanon=5 N0=5 N1=0\nhierarchical_total=900 N0=900 N1=0\n"
        "hierarchical_file=100 N0=100 N1=0\nhierarchical_anon=12 N0=4 N1=8\n"
        "hierarchical_unevictable=4 N0=0 N1=4",
    )
    first = host.owner([1], near)
    tree.tick()
    assert (first, host.owner([1], near)) == ({}, {Signal.HOST_MEMORY_LOCAL: 0.75})


def test_hybrid_takes_pressure_from_version_2(tree: HostTree) -> None:
    """Version 1 has none; systemd keeps the same group in both."""
    tree.process(1, {**EVERYWHERE, "": POD})
    tree.pressure(tree.cgroups / "unified" / POD / "io.pressure", 0, 40.0)
    tree.write(tree.cgroups / "unified" / POD / "cpu.stat", "usage_usec 1")
    assert tree.host().owner([1]) == {Signal.IO_PRESSURE: 0.4}


def test_hybrid_counts_cpu_where_version_1_does_not(tree: HostTree) -> None:
    """Version 2 counts it for every group, wherever the controller is."""
    tree.process(1, {"cpu,cpuacct": "", "cpuset": "", "blkio": "", "": "a/b"})
    file = tree.cgroups / "unified/a/b/cpu.stat"
    file.parent.mkdir(parents=True)
    host = tree.host()
    for used in (0, 2):
        tree.write(file, f"usage_usec {used}000000")
        answer = host.owner([1])
        tree.tick()
    assert answer == {Signal.CPU: 0.25}


@pytest.mark.parametrize("path", ["system.slice/containerd.service", "", "kubepods/pod1"])
def test_hybrid_group_that_holds_others_too_is_not_the_owners(tree: HostTree, path: str) -> None:
    """An old container runtime leaves its containers in its own group of version 2."""
    tree.process(1, {**EVERYWHERE, "": path})
    tree.pressure(tree.cgroups / "unified" / path / "io.pressure", 0, 40.0)
    assert tree.host().owner([1]) == {}


def test_each_controller_has_groups_of_its_own(tree: HostTree) -> None:
    """With memory in a group and CPU in the root, only the memory is the owner's."""
    tree.process(1, {"cpu,cpuacct": "", "memory": "job", "cpuset": "../elsewhere"})
    folder = tree.cgroups / "cpu,cpuacct"
    assert cpu_after_a_second(tree, folder / "cpuacct.usage", 10**9, 2.0) is None


def test_controller_that_is_not_mounted_is_absent(tree: HostTree) -> None:
    """This holds whatever the process's file lists."""
    (tree.cgroups / "blkio").rmdir()
    tree.process(1, EVERYWHERE)
    host = tree.host()
    host.owner([1])
    tree.tick()
    assert host.owner([1]) == {}
