"""Nearness of processes and their memory to their GPU."""

import os
from pathlib import Path

import pytest

from host_tree import HostTree
from rightsizer.io.clock import FastClock
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Placement
from rightsizer.model.units import Nanoseconds, nanoseconds

NEAR = Placement("GPU-0", numa_node=0, cpus=(0, 1, 2, 3))
FAR = Placement("GPU-4", numa_node=1, cpus=(4, 5, 6, 7))
PAGE = os.sysconf("SC_PAGE_SIZE")


class SlowClock(FastClock):
    """A clock on which each reading takes a while."""

    def time(self) -> Nanoseconds:
        """The time, which advances."""
        self._now += nanoseconds(0.001)
        return self._now


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    """A host of two NUMA nodes with four CPUs each."""
    tree = HostTree(tmp_path)
    tree.online("0-7")
    tree.write(tree.sysfs / "devices/system/node/has_cpu", "0-1")
    return tree


def numa_stat(tree: HostTree, group: str, *by_node: int) -> None:
    """Write a group's bytes on each node, a quarter of them shared memory."""
    text = "\n".join(
        f"{name} " + " ".join(f"N{node}={count * share}" for node, count in enumerate(by_node))
        for name, share in (("anon", 3), ("file", 1000), ("shmem", 1), ("anon_thp", 3))
    )
    tree.write(tree.cgroups / group / "memory.numa_stat", text)


def numa_maps(tree: HostTree, pid: int, text: str, resident_bytes: int = PAGE) -> None:
    """Write the placement of a process's memory."""
    tree.write(tree.procfs / str(pid) / "numa_maps", text)
    tree.write(tree.procfs / str(pid) / "statm", f"9999 {resident_bytes // PAGE} 1 1 0 1 0")


def local(tree: HostTree, *looks: tuple[int, Placement], seconds: int = 2) -> list[float | None]:
    """Share of local memory at the end, for processes with their GPUs."""
    host = tree.host()
    for _ in range(seconds):
        answers = [host.owner([pid], near).get(Signal.HOST_MEMORY_LOCAL) for pid, near in looks]
        tree.tick()
    return answers


@pytest.mark.parametrize(
    ("cpus", "share"), [("0-3", 1.0), ("4-7", 0.0), ("0-7", 0.5), ("2,6-7", 1 / 3), ("0-255", 0.5)]
)
def test_affinity_is_of_the_cpus_allowed(tree: HostTree, cpus: str, share: float) -> None:
    """The kernel's list may contain CPUs that are absent or offline."""
    tree.process(1, cpus=cpus)
    assert tree.host().owner([1], NEAR) == {Signal.CPU_AFFINITY_LOCAL: share}


def test_affinity_is_the_processes_mean(tree: HostTree) -> None:
    """An unrestricted process does not outweigh one that is bound to a CPU."""
    tree.process(1, cpus="0")
    tree.process(2, cpus="0-7")
    assert tree.host().owner([1, 2], NEAR) == {Signal.CPU_AFFINITY_LOCAL: 0.75}


@pytest.mark.parametrize("near", [None, Placement("GPU-0"), Placement("GPU-0", numa_node=7)])
def test_without_a_place_nothing_is_near(tree: HostTree, near: Placement | None) -> None:
    """A virtual machine may not expose its GPU's place."""
    tree.process(1, "job")
    numa_stat(tree, "job", 10, 10)
    host = tree.host()
    host.owner([1], near)
    tree.tick()
    assert host.owner([1], near) == {}


def test_memory_is_counted_by_the_group(tree: HostTree) -> None:
    """Memory of processes counts; the page cache does not."""
    tree.process(1, "job")
    numa_stat(tree, "job", 30, 10)
    assert local(tree, (1, NEAR)) == [0.75]


def test_memory_of_devices_is_not_the_hosts(tree: HostTree) -> None:
    """On a Grace-Hopper, a GPU's own memory is a NUMA node without CPUs."""
    tree.process(1, "job")
    numa_stat(tree, "job", 30, 10, 5000)
    assert local(tree, (1, NEAR)) == [0.75]


def test_group_without_memory_has_no_share(tree: HostTree) -> None:
    """A share of nothing is not 0."""
    tree.process(1, "job")
    numa_stat(tree, "job", 0, 0)
    assert local(tree, (1, NEAR)) == [None]


def test_groups_of_one_owner_are_added_up(tree: HostTree) -> None:
    """The sum is weighted by memory, not by number."""
    host = tree.host()
    for pid, group, by_node in ((1, "a", (10, 0)), (2, "b", (0, 30)), (3, "a/inside", (0, 99))):
        tree.process(pid, group)
        numa_stat(tree, group, *by_node)
    host.owner([1, 2, 3], NEAR)
    tree.tick()
    assert host.owner([1, 2, 3], NEAR)[Signal.HOST_MEMORY_LOCAL] == 0.25


@pytest.mark.parametrize("other", ["job", "job/step"])
def test_group_of_gpus_on_two_nodes_cannot_tell(tree: HostTree, other: str) -> None:
    """Half on each node is right for eight ranks, but says nothing of any one of them."""
    tree.process(1, "job")
    tree.process(2, other)
    numa_stat(tree, "job", 20, 20)
    assert local(tree, (1, NEAR), (2, FAR))[0] is None


def test_processes_tell_where_groups_cannot(tree: HostTree) -> None:
    """Maps include private and shared memory, in pages of any size, without mapped files."""
    for pid in (1, 2):
        tree.process(pid, "job")
    numa_stat(tree, "job", 20, 20)
    numa_maps(
        tree,
        1,
        "7f00 default anon=3 dirty=3 active=0 N0=3 kernelpagesize_kB=4\n"
        "7f01 default file=/usr/lib/libcuda.so mapped=500 N1=500 kernelpagesize_kB=4\n"
        "7f02 default file=/dev/shm/nccl-1 dirty=1 N1=1 kernelpagesize_kB=4\n"
        "7f03 bind:0 huge anon=1 N0=1 kernelpagesize_kB=16\n"
        "7f04 default file=/dev/nvidia0",
    )
    numa_maps(tree, 2, "7f00 default stack anon=8 N1=8 kernelpagesize_kB=4")
    assert local(tree, (1, NEAR), (2, FAR)) == [7 / 8, 1.0]


def test_process_without_a_group_tells_itself(tree: HostTree) -> None:
    """A workstation's session is in no group that counts memory."""
    tree.process(1, "")
    numa_maps(tree, 1, "7f00 default heap anon=4 N0=1 N1=3 kernelpagesize_kB=4")
    assert local(tree, (1, NEAR)) == [0.25]


def test_one_unknown_process_makes_the_share_unknown(tree: HostTree) -> None:
    """The known ones may be the smaller part."""
    host = tree.host()
    for pid in (1, 2):
        tree.process(pid, "")
    numa_maps(tree, 1, "7f00 default heap anon=4 N0=4 kernelpagesize_kB=4")
    host.owner([1, 2], NEAR)
    tree.tick()
    assert Signal.HOST_MEMORY_LOCAL not in host.owner([1, 2], NEAR)


def test_maps_are_read_a_few_at_a_time(tree: HostTree) -> None:
    """They are read rarely: the kernel blocks the process meanwhile."""
    host = tree.host(numa_maps_processes_maximum=2, memory_placement_interval_seconds=60.0)
    pids = range(1, 6)
    for pid in pids:
        tree.process(pid, "")
        numa_maps(tree, pid, "7f00 default heap anon=4 N0=4 kernelpagesize_kB=4")
    known = []
    for second in range(64):
        if second == 3:
            for pid in pids:
                numa_maps(tree, pid, "7f00 default heap anon=4 N1=4 kernelpagesize_kB=4")
        known.append(host.owner(pids, NEAR).get(Signal.HOST_MEMORY_LOCAL))
        tree.tick()
    assert known[:4] == [None, None, 1.0, 1.0]
    assert known[59:] == [1.0, 0.6, pytest.approx(0.2), 0.0, 0.0]


def test_large_processes_are_left_alone(tree: HostTree) -> None:
    """One mapping may be all of their memory."""
    tree.process(1, "")
    numa_maps(tree, 1, "7f00 default heap anon=4 N0=4 kernelpagesize_kB=4", 2**40)
    assert local(tree, (1, NEAR)) == [None]


def test_maps_that_take_too_long_are_given_up(tree: HostTree) -> None:
    """A part of them says nothing about the rest."""
    tree.clock = SlowClock(0)
    line = "7f00 default heap anon=4 N0=4 kernelpagesize_kB=4\n"
    for pid, lines in ((1, 100), (2, 100_000)):
        tree.process(pid, "")
        numa_maps(tree, pid, line * lines)
    assert local(tree, (1, NEAR), (2, NEAR)) == [1.0, None]
