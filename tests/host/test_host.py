"""The host as a whole."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from host_tree import HostTree
from rightsizer.host.collector import HostCollector, ProcHostCollector
from rightsizer.io.clock import FastClock
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Placement
from rightsizer.model.units import Unit

FRAGMENTS = (
    "some avg10=1.0 avg60=0 avg300=0 total=9\n",
    "\ncpu 1 2 3 4 5 6 7 8\n",
    "usage_usec 7\n",
    "8:0 rbytes=1 wbytes=2\n",
    "anon N0=1 N1=2\n",
    "7f00 default anon=1 N0=1 kernelpagesize_kB=4\n",
    " 8 0 sda 1 2 3 4 5 6 7 8\n",
    "eth0: 1 2 3 4 5 6 7 8 9\n",
    "Cpus_allowed_list:\t0-1\n",
    "\n\n",
    "0-",
    "-1",
    "9" * 30,
)
FRAGMENTS_ALPHABET = "0189-,:.=aN \n\t\u0663"
PROCFS_FILES = (
    "stat",
    "diskstats",
    "1/net/dev",
    "pressure/cpu",
    "pressure/io",
    "11/status",
    "11/statm",
    "11/numa_maps",
    "11/net/dev",
)
GROUP_FILES = (
    "cpu.stat",
    "cpu.max",
    "cpuset.cpus.effective",
    "io.stat",
    "io.pressure",
    "memory.numa_stat",
)
PORT_FILES = ("state", "rate", "counters/port_rcv_data", "counters/port_xmit_wait")
GROUP = "system.slice/vllm.service"


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    """An empty tree."""
    return HostTree(tmp_path)


def test_empty_tree_says_nothing(tree: HostTree) -> None:
    """A host without any of the files has no signals and no ports."""
    host: HostCollector = tree.host()
    near = Placement("GPU-0", numa_node=0, cpus=(0, 1))
    assert (host.node(), host.owner([1], near), host.ports(), host.device(near)) == ({}, {}, (), {})


def test_ratios_stay_ratios(tree: HostTree) -> None:
    """Counters are read one after another, so that a share may come out above 1."""
    host = tree.host()
    tree.process(11, GROUP)
    tree.online("0-1")
    folder = tree.cgroups / GROUP
    for used in (0, 9_000_000):
        tree.pressure(folder / "cpu.pressure", used)
        tree.write(folder / "cpu.stat", f"usage_usec {used}")
        tree.pressure(tree.procfs / "pressure/cpu", used)
        answers = {**host.node()}, host.owner([11])
        tree.tick()
    assert answers == (
        {Signal.CPU_PRESSURE: 1.0},
        {Signal.CPU: 1.0, Signal.CPU_PRESSURE: 1.0},
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(FRAGMENTS_ALPHABET) | st.sampled_from(FRAGMENTS), max_size=12))
def test_arbitrary_file_contents_are_survived(tree: HostTree, parts: list[str]) -> None:
    """Unreadable values are omitted, and the others are valid numbers."""
    tree.disk("sda", "8:0")
    tree.interface("eth0")
    tree.write(tree.sysfs / "devices/system/node/has_cpu", "0-1")
    port = tree.port("mlx5_0", "pci0000:00/0000:00:01.0/0000:01:00.0")
    host = tree.host()
    near = Placement("GPU-0", numa_node=0, cpus=(0, 1))
    tree.process(11, GROUP)
    for turn in (1, 2):
        text = " ".join(parts * turn)
        for name in PROCFS_FILES:
            tree.write(tree.procfs / name, text)
        for name in GROUP_FILES:
            tree.write(tree.cgroups / GROUP / name, text)
        for name in PORT_FILES:
            tree.write(port / name, text)
        tree.online(text)
        answers = [host.node(), host.owner([11], near), host.device(near)]
        host.ports()
        tree.tick()
    for signal, value in (item for answer in answers for item in answer.items()):
        assert 0 <= value < float("inf")
        assert value <= 1 or signal.unit is not Unit.RATIO


def test_host_of_default_places(tmp_path: Path) -> None:
    """Three arguments suffice; sysfs is then the machine's own."""
    host = ProcHostCollector(tmp_path, tmp_path, FastClock(0))
    values = host.node()
    assert all(signal.unit is not Unit.RATIO for signal in values)
    assert host.owner([1]) == {}
