"""Host use by owners of GPU processes: control groups of version 2, and network namespaces."""

import os
from pathlib import Path

import pytest

from host_tree import HostTree
from rightsizer.host.cgroups import ControlGroupHierarchies
from rightsizer.host.node_signals import Disks
from rightsizer.host.process_groups import ProcessGroupReader, ProcessLocation
from rightsizer.host.settings import HostSettings
from rightsizer.model.signal import Signal
from rightsizer.model.units import nanoseconds

GROUP = "system.slice/vllm.service"
DISK = (Signal.DISK_READ_BYTES_PER_SECOND, Signal.DISK_WRITE_BYTES_PER_SECOND)
NETWORK = (Signal.NETWORK_RECEIVE_BYTES_PER_SECOND, Signal.NETWORK_TRANSMIT_BYTES_PER_SECOND)


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    """A host with four CPUs."""
    tree = HostTree(tmp_path)
    tree.online("0-3")
    return tree


def use(tree: HostTree, group: str, core_seconds: float) -> None:
    """Write a group's used CPU time."""
    tree.write(
        tree.cgroups / group / "cpu.stat", f"usage_usec {core_seconds * 1e6:.0f}\nuser_usec 5"
    )


def cpu_after_a_second(tree: HostTree, cores: dict[str, float]) -> float | None:
    """CPU of the processes 1, 2 and so on, whose groups use the given number of cores."""
    host = tree.host()
    pids = range(1, len(cores) + 1)
    for pid, group in zip(pids, cores, strict=True):
        tree.process(pid, group)
        use(tree, group, 7)
    host.owner(pids)
    tree.tick()
    for group, number in cores.items():
        use(tree, group, 7 + number)
    return host.owner(pids).get(Signal.CPU)


@pytest.mark.parametrize(
    ("limit", "cpuset", "ratio"),
    [
        ("400000 100000", "0-63", 0.5),
        ("400000 100000", "0-1", 1.0),
        ("max 100000", "0-6,9", 0.25),
        ("max 100000", "", 0.5),
        ("garbage", "garbage", 0.5),
        ("100000 0", "", 0.5),
    ],
)
def test_cpu_is_of_what_the_group_may_use(
    tree: HostTree, limit: str, cpuset: str, ratio: float
) -> None:
    """That is the lesser of quota and allowed CPUs; without both, all CPUs of the node."""
    tree.write(tree.cgroups / GROUP / "cpu.max", limit)
    tree.write(tree.cgroups / GROUP / "cpuset.cpus.effective", cpuset)
    assert cpu_after_a_second(tree, {GROUP: 2.0}) == ratio


def test_cpu_without_any_limit_known_is_absent(tree: HostTree) -> None:
    """A number of cores alone gives no ratio."""
    (tree.sysfs / "devices/system/cpu/online").unlink()
    assert cpu_after_a_second(tree, {GROUP: 2.0}) is None


def test_tightest_quota_on_the_way_up_counts(tree: HostTree) -> None:
    """Without one a container has its pod's, and never more than its pod's."""
    tree.write(tree.cgroups / "kube/pod/cpu.max", "100000 100000")
    tree.write(tree.cgroups / "kube/pod/a/cpu.max", "300000 100000")
    assert cpu_after_a_second(tree, {"kube/pod/a": 0.5}) == 0.5


def test_groups_of_one_owner_are_added_up(tree: HostTree) -> None:
    """Usage and quotas are summed, up to the quota of the group around both."""
    for group, quota in (("pod", 300), ("pod/a", 200), ("pod/b", 200), ("other", 100)):
        tree.write(tree.cgroups / group / "cpu.max", f"{quota} 100")
    assert cpu_after_a_second(tree, {"pod/a": 1.0, "pod/b": 0.5, "other": 0.5}) == 0.5


def test_cpu_set_of_the_nearest_group_that_has_one(tree: HostTree) -> None:
    """The controller is not enabled in every group."""
    tree.write(tree.cgroups / "machine/cpuset.cpus.effective", "0-1")
    assert cpu_after_a_second(tree, {"machine/a/b": 1.0}) == 0.5


def test_group_inside_another_is_not_counted_twice(tree: HostTree) -> None:
    """The outer group's files include the inner one's use."""
    assert cpu_after_a_second(tree, {"job": 2.0, "job/step": 1.0}) == 0.5


def test_process_of_the_root_group_widens_no_quota(tree: HostTree) -> None:
    """Its use is unknown, so its limit does not count."""
    tree.write(tree.cgroups / GROUP / "cpu.max", "100000 100000")
    assert cpu_after_a_second(tree, {GROUP: 0.5, "": 3.0}) == 0.5


def process_cpu(tree: HostTree, *seconds_used: float, started: int = 1000) -> float | None:
    """CPU of the busiest process after a second in which each used some CPU time."""
    host = tree.host()
    pids = range(1, len(seconds_used) + 1)
    per_second = os.sysconf("SC_CLK_TCK")
    for pid in pids:
        tree.process(pid, GROUP, ticks=(7 * per_second, per_second))
    host.processes(pids)
    tree.tick()
    for pid, used in zip(pids, seconds_used, strict=True):
        ticks = (7 * per_second, round((1 + used) * per_second))
        tree.process(pid, GROUP, started=started, ticks=ticks)
    return host.processes(pids).get(Signal.PROCESS_CPU)


def test_busiest_process_counts(tree: HostTree) -> None:
    """One of two ranks launches without rest; a process of many threads counts as one CPU."""
    assert process_cpu(tree, 0.25, 0.75) == 0.75
    assert process_cpu(tree, 0.25, 3.0) == 1.0


def test_cpu_of_a_process_is_exact_at_ten_readings_a_second(tree: HostTree) -> None:
    """Its file is read less often than that; the rate is of the time between the reads."""
    host = tree.host()
    per_second = os.sysconf("SC_CLK_TCK")
    found = []
    for tenth in range(40):
        tree.process(1, GROUP, ticks=(tenth * per_second // 10, 0))
        found.append(host.processes([1]).get(Signal.PROCESS_CPU))
        tree.tick(0.1)
    assert found[10:] == [pytest.approx(1.0)] * 30


def test_cpu_of_a_process_that_takes_over_a_pid_is_unknown(tree: HostTree) -> None:
    """Its CPU time continues nothing."""
    assert process_cpu(tree, 0.5, started=2000) is None


def test_cpu_of_no_process_is_unknown(tree: HostTree) -> None:
    """Neither of processes that have ended, nor at the first read."""
    tree.process(1, GROUP)
    assert tree.host().processes([]) == {}
    assert tree.host().processes([1]) == {}
    assert tree.host().processes([2]) == {}


def test_processes_of_one_group_count_once(tree: HostTree) -> None:
    """Eight ranks in one container are one container."""
    host = tree.host()
    for pid in range(1, 9):
        tree.process(pid, GROUP)
    use(tree, GROUP, 1)
    host.owner(range(1, 9))
    tree.tick()
    use(tree, GROUP, 2)
    assert host.owner(range(1, 9)) == {Signal.CPU: 0.25}


def test_group_that_joins_counts_from_its_second_look(tree: HostTree) -> None:
    """Before that it counts neither in the usage nor in the quota."""
    host = tree.host()
    for pid, group in ((1, "a"), (2, "b")):
        tree.process(pid, group)
        tree.write(tree.cgroups / group / "cpu.max", "100000 100000")
        use(tree, group, 0)
    host.owner([1])
    tree.tick()
    use(tree, "a", 0.5)
    use(tree, "b", 0.9)
    first = host.owner([1, 2])
    tree.tick()
    use(tree, "a", 1.0)
    use(tree, "b", 1.9)
    assert (first, host.owner([1, 2])) == ({Signal.CPU: 0.5}, {Signal.CPU: 0.75})


def test_pressure_is_the_worst_of_the_groups(tree: HostTree) -> None:
    """Each group is measured separately from the others and from the node."""
    host = tree.host()
    for pid, group in ((11, "a.service"), (12, "b.service")):
        tree.process(pid, group)
        tree.pressure(tree.cgroups / group / "io.pressure", 0)
        host.owner([pid])
    tree.tick()
    tree.pressure(tree.cgroups / "b.service/io.pressure", 900_000)
    assert host.owner([11, 12]) == {Signal.IO_PRESSURE: 0.9}
    assert host.owner([11]) == {Signal.IO_PRESSURE: 0.0}
    assert host.node() == {}


def test_disks_of_a_group_count_whole_and_once(tree: HostTree) -> None:
    """A volume's line repeats that of its disk; a group without I/O has 0."""
    host = tree.host()
    tree.disk("nvme0n1", "259:0")
    tree.disk("dm-0", "253:0", is_hardware=False)
    tree.process(1, GROUP)
    tree.write(tree.cgroups / GROUP / "io.stat", "")
    host.owner([1])
    tree.tick()
    idle = host.owner([1])
    line = "rbytes=4096 wbytes=1024 rios=9 wios=9 dbytes=7 dios=1"
    tree.write(tree.cgroups / GROUP / "io.stat", f"259:0 {line}\n253:0 {line}\n8:0 \nx")
    tree.tick(2)
    assert [idle[signal] for signal in DISK] == [0, 0]
    assert [host.owner([1])[signal] for signal in DISK] == [2048, 512]


@pytest.mark.parametrize("group", ["", "../../escaped", "gone.service (deleted)"])
def test_group_that_says_nothing(tree: HostTree, group: str) -> None:
    """The root group, one of another namespace and a removed one have no signals."""
    tree.process(11, group)
    tree.pressure(tree.cgroups / "io.pressure", 1000, 50.0)
    use(tree, "", 5)
    host = tree.host()
    assert host.owner([11]) == host.owner([99]) == host.owner([]) == {}
    tree.tick()
    assert host.owner([11]) == {}


def test_looks_in_one_tick_share_an_answer(tree: HostTree) -> None:
    """Eight devices of one owner do not divide its second into eight."""
    host = tree.host()
    tree.process(11, GROUP)
    tree.pressure(tree.cgroups / GROUP / "io.pressure", 0)
    host.owner([11])
    tree.tick()
    tree.pressure(tree.cgroups / GROUP / "io.pressure", 400_000)
    answers = []
    for _ in range(8):
        answers.append(host.owner([11]))
        tree.tick(0.001)
    assert answers == [{Signal.IO_PRESSURE: 0.4}] * 8


def test_reused_pid_is_another_process(tree: HostTree) -> None:
    """The start time distinguishes them at once, although groups are looked up rarely."""
    host = tree.host()
    for group, total in (("old", 0.1), ("new", 0.2)):
        tree.pressure(tree.cgroups / group / "io.pressure", 0, 100 * total)
    tree.process(11, "old", started=100)
    before = host.owner([11])
    tree.tick()
    tree.process(11, "new", started=200, name="a b) R 1 (c")
    assert (before, host.owner([11])) == ({Signal.IO_PRESSURE: 0.1}, {Signal.IO_PRESSURE: 0.2})


def test_process_that_moves_is_followed(tree: HostTree) -> None:
    """The change is seen at once, as its groups are read with its row."""
    host = tree.host()
    tree.pressure(tree.cgroups / "b/io.pressure", 0, 30.0)
    tree.process(11, "a")
    host.owner([11])
    tree.process(11, "b")
    tree.tick(1)
    assert host.owner([11]) == {Signal.IO_PRESSURE: 0.3}


def test_quota_that_changes_is_followed(tree: HostTree) -> None:
    """A pod may be resized in place."""
    host = tree.host(recheck_interval_seconds=1.0)
    tree.process(1, GROUP)
    ratios = []
    for second, quota in enumerate((100, 100, 200)):
        tree.write(tree.cgroups / GROUP / "cpu.max", f"{quota} 100")
        use(tree, GROUP, second * 0.5)
        ratios.append(host.owner([1]).get(Signal.CPU))
        tree.tick()
    assert ratios == [None, 0.5, 0.25]


def test_procfs_of_another_namespace_is_not_believed(tree: HostTree) -> None:
    """The driver's PIDs are those of our own namespace; there they are other processes."""
    tree.pressure(tree.cgroups / GROUP / "io.pressure", 0, 70.0)
    tree.process(11, GROUP)
    tree.write(tree.procfs / "self/status", "Name:\trightsizer\nNSpid:\t4711\t1\nThreads:\t3")
    assert tree.host().owner([11]) == {}
    tree.write(tree.procfs / "self/status", "Name:\trightsizer\nNSpid:\t4711\nThreads:\t3")
    assert tree.host().owner([11]) == {Signal.IO_PRESSURE: 0.7}


def test_network_is_that_of_the_containers_own_namespaces(tree: HostTree) -> None:
    """Each namespace counts once through its outward interfaces, for any process in it."""
    host = tree.host()
    tree.process(1, network="host")
    for pid, network in ((11, "pod"), (12, "pod"), (13, "host"), (14, "other")):
        tree.process(pid, GROUP, network=network)
    for seen in ((0, 0), (100, 10)):
        tree.traffic(11, lo=(5, 5), eth0=seen, docker0=seen)
        tree.traffic(13, eth0=seen, eth1=seen)
        tree.traffic(14, net1=seen)
        answer = host.owner([11, 12, 13, 14])
        tree.tick()
    assert [answer[signal] for signal in NETWORK] == [200, 20]


@pytest.mark.parametrize("hidden", ["1/net/dev", "11/net/dev"])
def test_network_namespace_that_is_hidden(tree: HostTree, hidden: str) -> None:
    """Without it, the traffic may be the owner's or the node's."""
    host = tree.host()
    tree.process(1, network="host")
    tree.process(11, GROUP, network="pod")
    tree.traffic(11, eth0=(0, 0))
    (tree.procfs / hidden).unlink()
    host.owner([11])
    tree.tick()
    assert host.owner([11]) == {}


def test_groups_that_nobody_asks_for_are_forgotten(tree: HostTree) -> None:
    """Owners come and go for months."""
    reader = ProcessGroupReader(str(tree.procfs), HostSettings(forget_after_seconds=10.0))
    hierarchies = ControlGroupHierarchies(str(tree.cgroups))
    sizes = []
    for second in range(100):
        membership = hierarchies.membership(f"0::/job-{second}")
        place = ProcessLocation(second, 1, membership, frozenset(), second)
        now = nanoseconds(second)
        reader.read([place], disks=Disks(), online=frozenset(), host_network=-1, now=now)
        sizes.append(len(reader))
    assert max(sizes[20:]) == max(sizes[:20])
