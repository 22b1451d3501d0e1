"""InfiniBand and RoCE ports, and those nearest to a GPU."""

from pathlib import Path

import pytest

from host_tree import HostTree
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Bridge, FabricPort, Placement

ROOT_0 = "pci0000:48/0000:48:01.0"
ROOT_1 = "pci0000:c8/0000:c8:01.0"
SWITCH = f"{ROOT_0}/0000:49:00.0/0000:4a:02.0"
GPU = Placement(
    "GPU-0",
    pci_bus_id="00000000:4B:00.0",
    numa_node=0,
    bridges=(Bridge("0000:4A:00.0"), Bridge("00000000:49:00.0"), Bridge("0000:48:01.0")),
)
RECEIVED = Signal.INFINIBAND_RECEIVE_BYTES_PER_SECOND
RATIO = Signal.INFINIBAND_RECEIVE


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    """An empty tree."""
    return HostTree(tmp_path)


def received(tree: HostTree, near: Placement | None, **words: int) -> dict[Signal, float]:
    """Signals of a GPU's ports after two seconds, with the words that adapters received."""
    host = tree.host()
    ports = {adapter: tree.sysfs / f"class/infiniband/{adapter}/ports/1" for adapter in words}
    for port in ports.values():
        tree.words(port, 1000, 1000)
    host.device(near)
    tree.tick(2)
    for adapter, port in ports.items():
        tree.words(port, 1000 + words[adapter], 1000)
    return dict(host.device(near))


def test_port_is_reported_in_full(tree: HostTree) -> None:
    """Counters are in bytes, the rate is that of one direction, errors have the kernel's names."""
    port = tree.port("mlx5_0", f"{SWITCH}/0000:4C:00.0", node=0)
    tree.words(port, 1000, 500)
    tree.write(port / "counters/port_xmit_wait", 77)
    tree.write(port / "counters/symbol_error", 3)
    tree.write(port / "counters/link_downed", "N/A (no PMA)")
    tree.write(port / "hw_counters/out_of_sequence", 9)
    assert tree.host().ports() == (
        FabricPort(
            adapter="mlx5_0",
            number=1,
            link_layer="InfiniBand",
            is_active=True,
            state="ACTIVE",
            pci_bus_id="0000:4c:00.0",
            numa_node=0,
            rate_bytes_per_second=50e9,
            receive_bytes=4000.0,
            transmit_bytes=2000.0,
            transmit_wait=77.0,
            errors={"symbol_error": 3.0, "out_of_sequence": 9.0},
        ),
    )


def test_ports_of_several_kinds(tree: HostTree) -> None:
    """Covers a port that is down, one over Ethernet, and a cloud's with counters of its own."""
    tree.port("mlx5_0", f"{ROOT_0}/0000:4c:00.0", number=2, state="1: DOWN", rate="x")
    tree.port("mlx5_1", f"{ROOT_0}/0000:4d:00.0", link_layer="Ethernet", rate="2.5 Gb/sec (1X SDR)")
    efa = tree.port("rdmap1", "virtual/rdma")
    tree.write(efa / "hw_counters/rx_bytes", 11)
    tree.write(efa / "hw_counters/tx_bytes", 12)
    down, ethernet, cloud = tree.host().ports()
    assert (down.name, down.state, down.is_active, down.rate_bytes_per_second) == (
        "mlx5_0/2",
        "DOWN",
        False,
        None,
    )
    assert (ethernet.link_layer, ethernet.rate_bytes_per_second) == ("Ethernet", 0.3125e9)
    assert (cloud.receive_bytes, cloud.transmit_bytes) == (11.0, 12.0)
    assert (cloud.pci_bus_id, cloud.numa_node, down.receive_bytes) == (None, None, None)


def test_virtual_functions_share_the_rate_of_their_port(tree: HostTree) -> None:
    """Each has its own counters and claims the whole rate: 50 GB/s by four of them fill it."""
    tree.port("mlx5_0", f"{SWITCH}/0000:4C:00.0")
    functions = {f"mlx5_{number}": int(6.25e9 * (number <= 4)) for number in range(1, 9)}
    for number, adapter in enumerate(functions, start=1):
        path = f"{SWITCH}/0000:4C:01.{number - 1}"
        tree.port(adapter, path)
        tree.link(tree.sysfs / "devices" / path / "physfn", "../0000:4c:00.0")
    found = received(tree, GPU, mlx5_0=0, **functions)
    assert (found[RECEIVED], found[RATIO]) == (50e9, 1.0)


def test_first_look_has_no_throughput(tree: HostTree) -> None:
    """Neither has a GPU of unknown place."""
    tree.words(tree.port("mlx5_0", f"{SWITCH}/0000:4c:00.0"), 5, 5)
    host = tree.host()
    assert (host.device(GPU), host.device(None)) == ({}, {})


def test_port_below_the_gpus_own_switch_is_nearest(tree: HostTree) -> None:
    """It precedes others of its NUMA node."""
    tree.port("mlx5_0", f"{SWITCH}/0000:4c:00.0", node=0)
    tree.port("mlx5_1", f"{ROOT_0}/0000:50:00.0", node=0)
    tree.port("mlx5_2", f"{ROOT_1}/0000:ca:00.0", node=0)
    assert received(tree, GPU, mlx5_0=5_000_000_000, mlx5_1=7, mlx5_2=9) == {
        RECEIVED: 10e9,
        RATIO: 0.2,
        Signal.INFINIBAND_TRANSMIT_BYTES_PER_SECOND: 0.0,
        Signal.INFINIBAND_TRANSMIT: 0.0,
    }


def test_else_the_ports_of_its_numa_node_are(tree: HostTree) -> None:
    """Their values are summed."""
    tree.port("mlx5_0", f"{ROOT_1}/0000:ca:00.0", node=0)
    tree.port("mlx5_1", f"{ROOT_1}/0000:cb:00.0", node=0)
    tree.port("mlx5_2", f"{ROOT_1}/0000:cc:00.0", node=1)
    found = received(tree, GPU, mlx5_0=12_500_000_000, mlx5_1=12_500_000_000, mlx5_2=1)
    assert (found[RECEIVED], found[RATIO]) == (50e9, 0.5)


def test_else_the_ports_of_the_nearest_node_are(tree: HostTree) -> None:
    """A socket of two nodes (NPS2) has its port on the one where the GPU is not."""
    nodes = tree.sysfs / "devices/system/node"
    tree.write(nodes / "online", "0-3")
    for node, distances in enumerate(("10 12 32 32", "12 10 32 32", "32 32 10 12", "32 32 12 10")):
        tree.write(nodes / f"node{node}/distance", distances)
    tree.port("mlx5_0", f"{ROOT_1}/0000:ca:00.0", node=1)
    tree.port("mlx5_1", f"{ROOT_1}/0000:cb:00.0", node=3)
    assert received(tree, GPU, mlx5_0=2, mlx5_1=100)[RECEIVED] == 4


def test_without_any_topology_all_are_equally_near(tree: HostTree) -> None:
    """A virtual machine with one adapter still has a fabric."""
    tree.port("mlx5_0", "vmbus/mlx", node=-1)
    assert received(tree, Placement("GPU-0"), mlx5_0=2)[RECEIVED] == 4


def test_port_that_is_down_is_not_near(tree: HostTree) -> None:
    """The next one carries the traffic."""
    tree.port("mlx5_0", f"{SWITCH}/0000:4c:00.0", node=0, state="1: DOWN")
    tree.port("mlx5_1", f"{ROOT_1}/0000:ca:00.0", node=1)
    assert received(tree, GPU, mlx5_0=100, mlx5_1=2)[RECEIVED] == 4


def test_ratio_needs_every_rate(tree: HostTree) -> None:
    """A part of the capacity is not the capacity."""
    tree.port("mlx5_0", f"{ROOT_1}/0000:ca:00.0", rate="unknown")
    tree.port("mlx5_1", f"{ROOT_1}/0000:cb:00.0")
    found = received(tree, GPU, mlx5_0=2, mlx5_1=2)
    assert (found[RECEIVED], RATIO in found) == (8, False)


def test_adapter_that_was_reset_has_no_throughput_once(tree: HostTree) -> None:
    """Its counters restart; the other direction is unaffected."""
    tree.port("mlx5_0", f"{SWITCH}/0000:4c:00.0")
    found = received(tree, GPU, mlx5_0=-500)
    assert found.keys() == {
        Signal.INFINIBAND_TRANSMIT_BYTES_PER_SECOND,
        Signal.INFINIBAND_TRANSMIT,
    }


def test_state_and_errors_are_read_more_seldom(tree: HostTree) -> None:
    """Bytes are read each time; values of the adapter's firmware are read at an interval."""
    port = tree.port("mlx5_0", f"{SWITCH}/0000:4c:00.0")
    host = tree.host(recheck_interval_seconds=10.0)
    seen = []
    for second in range(12):
        tree.words(port, second, second)
        tree.write(port / "counters/symbol_error", second)
        tree.write(port / "state", "4: ACTIVE" if second == 0 else "1: DOWN")
        (counters,) = host.ports()
        seen.append((counters.receive_bytes, counters.errors["symbol_error"], counters.state))
        tree.tick()
    assert seen[9] == (36.0, 0.0, "ACTIVE")
    assert seen[10] == (40.0, 10.0, "DOWN")
