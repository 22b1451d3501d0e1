"""Topology of whole machines, read from their sysfs trees."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from rightsizer.host.files import parse_cpus
from rightsizer.host.pcie import generation_of, kernel_address
from rightsizer.host.topology import GpuPairFacts, TopologyFacts, read_topology
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.topology import AdapterKind, LinkKind, Placement, Topology
from sysfs_trees import (
    Near,
    SysfsTree,
    flat_virtual_machine,
    grace_hopper,
    hgx,
    no_numa,
    one_socket,
)

UP_TO_55 = (*range(56), *range(112, 168))


def devices_of(tree: SysfsTree) -> list[Device]:
    """The tree's GPUs as the driver would list them."""
    return [
        Device(uuid=f"GPU-{index}", index=index, pci_bus_id=f"0000{address}")
        for index, address in enumerate(tree.gpus)
    ]


def topology_of(tree: SysfsTree, facts: TopologyFacts | None = None) -> Topology:
    """Topology of the tree."""
    return read_topology(tree.root, devices_of(tree), facts or TopologyFacts())


def matrix(topology: Topology) -> list[str]:
    """A line for each GPU, with the levels to those after it."""
    lines: dict[str, list[str]] = {uuid: [] for uuid in topology.placements}
    for link in topology.links:
        lines[link.uuid].append(link.label)
    return [" ".join(line) for line in lines.values()]


def ways(topology: Topology, uuid: str) -> dict[str, str]:
    """Levels from a GPU to the adapters, by their names."""
    return {adapter.name: str(adapter.links[uuid]) for adapter in topology.adapters}


def test_two_sockets_with_a_switch_for_each_pair(tmp_path: Path) -> None:
    """Pairs share a switch with a NIC; sockets are apart; NVSwitches are no GPUs."""
    topology = topology_of(hgx(tmp_path))

    assert matrix(topology) == [
        "PIX NODE NODE SYS SYS SYS SYS",
        "NODE NODE SYS SYS SYS SYS",
        "PIX SYS SYS SYS SYS",
        "SYS SYS SYS SYS",
        "PIX NODE NODE",
        "NODE NODE",
        "PIX",
        "",
    ]
    assert [placement.numa_node for placement in topology.placements.values()] == [0] * 4 + [1] * 4
    assert topology.placements["GPU-0"].cpus == UP_TO_55
    assert topology.numa_nodes == {0: UP_TO_55, 1: (*range(56, 112), *range(168, 224))}


def test_adapters_are_as_near_as_their_switch(tmp_path: Path) -> None:
    """A NIC has an RDMA device and an interface; disks and cards on other ports are far."""
    topology = topology_of(hgx(tmp_path))

    near = ways(topology, "GPU-3")
    cards = [near[f"mlx5_{number}"] for number in range(4)]
    assert cards == ["NODE", "PIX", "SYS", "SYS"]
    assert [near[f"ib{number}"] for number in range(4)] == cards
    assert (near["eno1"], near["nvme0"], near["nvme1"]) == ("NODE", "NODE", "SYS")
    card = next(adapter for adapter in topology.adapters if adapter.name == "mlx5_2")
    assert (card.kind, card.pci_bus_id, card.numa_node) == (
        AdapterKind.INFINIBAND,
        "0000:9a:00.0",
        1,
    )


def test_interfaces_without_a_slot_of_their_own_are_left_out(tmp_path: Path) -> None:
    """Loopback and bonds have no slot, virtual functions belong to others."""
    one = topology_of(one_socket(tmp_path / "one"))
    two = topology_of(hgx(tmp_path / "two"))

    assert {adapter.name for adapter in one.adapters} == {"eno1", "nvme0"}
    assert "eno1v0" not in {adapter.name for adapter in two.adapters}


def test_every_bridge_above_a_gpu_is_listed(tmp_path: Path) -> None:
    """They range from its own port to the root port, each with its link."""
    tree = hgx(tmp_path)
    tree.write("0000:16:00.0", "current_link_speed", "16.0 GT/s PCIe")
    tree.write("0000:16:00.0", "current_link_width", "8")
    (downstream, upstream, root) = topology_of(tree).placements["GPU-0"].bridges

    assert (downstream.pci_bus_id, upstream.pci_bus_id, root.pci_bus_id) == (
        "0000:17:00.0",
        "0000:16:00.0",
        "0000:15:01.0",
    )
    assert (upstream.generation, upstream.width) == (4, 8)
    assert (upstream.generation_maximum, upstream.width_maximum) == (5, 16)


def test_the_slot_counts_and_not_what_the_gpu_could_do(tmp_path: Path) -> None:
    """A Gen 4 x16 card in a Gen 3 x8 slot runs at its maximum."""
    wide, narrow = topology_of(one_socket(tmp_path)).placements.values()

    assert (wide.slot_generation_maximum, wide.slot_width_maximum) == (4, 16)
    assert (narrow.generation_maximum, narrow.width_maximum) == (4, 16)
    assert (narrow.slot_generation_maximum, narrow.slot_width_maximum) == (3, 8)
    assert (narrow.generation, narrow.width) == (3, 8)


def test_a_slot_that_does_not_tell_its_limit_has_none(tmp_path: Path) -> None:
    """It may be less than the card's maximum."""
    tree = one_socket(tmp_path)
    tree.write("0000:00:01.0", "max_link_speed", "Unknown")
    tree.write("0000:00:01.0", "max_link_width", "255")
    placement = topology_of(tree).placements["GPU-0"]

    assert placement.generation_maximum == 4
    assert placement.slot_generation_maximum is None
    assert placement.slot_width_maximum is None


def test_one_socket_joins_its_slots_at_the_host_bridge(tmp_path: Path) -> None:
    """A NIC of the chipset is on the host bridge itself."""
    topology = topology_of(one_socket(tmp_path))

    assert matrix(topology) == ["PHB", ""]
    assert ways(topology, "GPU-0") == {"eno1": "PHB", "nvme0": "PHB"}


def test_cascaded_switches_are_several_bridges(tmp_path: Path) -> None:
    """A card below a second switch is farther away than one beside the GPU."""
    tree = hgx(tmp_path)
    switch = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:03.0"
    for below in ("", "/0000:20:00.0", "/0000:20:00.0/0000:21:00.0"):
        tree.function(f"{switch}{below}", "0x060400", near=Near(0, "0-55"))
    card = f"{switch}/0000:20:00.0/0000:21:00.0/0000:22:00.0"
    tree.function(card, "0x020000", near=Near(0, "0-55"))
    tree.adapter("net", "far0", card)

    assert ways(topology_of(tree), "GPU-0")["far0"] == "PXB"


def test_a_machine_without_numa_is_one_node(tmp_path: Path) -> None:
    """Its firmware names no node, and there is only one."""
    topology = topology_of(no_numa(tmp_path))

    assert matrix(topology) == ["NODE", ""]
    assert {placement.numa_node for placement in topology.placements.values()} == {None}
    assert topology.placements["GPU-0"].cpus == tuple(range(48))
    assert ways(topology, "GPU-1") == {"nvme0": "PHB"}


def test_a_firmware_that_names_no_node_of_several_tells_nothing(tmp_path: Path) -> None:
    """The kernel then lists all CPUs as near, which would be wrong."""
    tree = no_numa(tmp_path)
    tree.node(1, "48-95")
    topology = topology_of(tree)

    assert matrix(topology) == ["?", ""]
    assert topology.placements["GPU-0"].cpus == ()


def test_a_flat_virtual_machine_shows_no_ways(tmp_path: Path) -> None:
    """Its bus is the hypervisor's: no slot, node or link is known."""
    topology = topology_of(flat_virtual_machine(tmp_path))
    placement = topology.placements["GPU-0"]

    assert matrix(topology) == ["?", ""]
    assert ways(topology, "GPU-0") == {"eth0": "?"}
    assert (placement.numa_node, placement.cpus, placement.bridges) == (None, (), ())
    assert (placement.generation, placement.width_maximum) == (None, None)
    assert placement.slot_generation_maximum is None


def test_the_drivers_word_stands_where_the_bus_is_silent(tmp_path: Path) -> None:
    """`nvidia-smi` shows it in a virtual machine."""
    facts = TopologyFacts(
        peers={("GPU-0", "GPU-1"): GpuPairFacts(pcie_kind=LinkKind.PHB, can_read=False)}
    )
    (link,) = topology_of(flat_virtual_machine(tmp_path), facts).links

    assert (link.kind, link.pcie_kind, link.can_read_peer) == (LinkKind.PHB, LinkKind.PHB, False)


def test_bus_takes_precedence_over_the_driver(tmp_path: Path) -> None:
    """The two GPUs are below one switch, whatever the driver reports."""
    facts = TopologyFacts(peers={("GPU-0", "GPU-1"): GpuPairFacts(pcie_kind=LinkKind.SYSTEM)})

    assert topology_of(hgx(tmp_path), facts).links[0].kind is LinkKind.PIX


def test_nvlink_goes_before_pcie_and_hides_nothing(tmp_path: Path) -> None:
    """The PCIe level is kept beside it; links without a count are links."""
    facts = TopologyFacts(
        peers={
            ("GPU-0", "GPU-1"): GpuPairFacts(nvlinks=18, can_read=True),
            ("GPU-2", "GPU-0"): GpuPairFacts(nvlinks=None),
        }
    )
    topology = topology_of(hgx(tmp_path), facts)
    joined = topology.link("GPU-1", "GPU-0")
    uncounted = topology.link("GPU-0", "GPU-2")

    assert joined is not None
    assert (joined.label, joined.nvlinks, joined.pcie_kind) == ("NV18", 18, LinkKind.PIX)
    assert joined.can_read_peer is True
    assert uncounted is not None
    assert (uncounted.label, uncounted.pcie_kind) == ("NV", LinkKind.NODE)


def test_grace_hopper_has_a_domain_and_a_memory_node_for_each_gpu(tmp_path: Path) -> None:
    """Nodes of memory alone have no CPUs, and are not the slot's node."""
    facts = TopologyFacts(
        placements={
            "GPU-0": Placement("GPU-0", memory_numa_node=2),
            "GPU-1": Placement("GPU-1", memory_numa_node=10),
        }
    )
    topology = topology_of(grace_hopper(tmp_path), facts)
    first, second = topology.placements.values()

    assert (first.pci_bus_id, second.pci_bus_id) == ("0009:01:00.0", "0019:01:00.0")
    assert (first.numa_node, first.memory_numa_node) == (0, 2)
    assert (second.numa_node, second.memory_numa_node) == (1, 10)
    assert second.cpus == tuple(range(72, 144))
    assert (topology.numa_nodes[2], topology.numa_nodes[10]) == ((), ())
    assert matrix(topology) == ["SYS", ""]
    assert ways(topology, "GPU-1") == {"mlx5_0": "SYS", "mlx5_1": "NODE"}


def test_nodes_of_memory_alone_do_not_make_a_machine_of_several(tmp_path: Path) -> None:
    """One superchip has one node with CPUs, though the kernel lists two."""
    tree = no_numa(tmp_path)
    tree.node(1, "")

    assert matrix(topology_of(tree)) == ["NODE", ""]


def test_a_gpu_that_is_asleep_is_not_asked_for_its_link(tmp_path: Path) -> None:
    """Reading its link's registers would wake it; its place is known anyway."""
    tree = one_socket(tmp_path)
    for address in ("0000:01:00.0", "0000:00:01.0"):
        tree.write(address, "power/runtime_status", "suspended")
    asleep, awake = topology_of(tree).placements.values()

    assert (asleep.generation, asleep.width, asleep.width_maximum) == (None, None, None)
    assert asleep.bridges[0].generation_maximum is None
    assert (asleep.numa_node, asleep.cpus) == (0, tuple(range(32)))
    assert awake.generation == 3


def test_a_container_without_the_hosts_sysfs_is_identified_by_the_driver(tmp_path: Path) -> None:
    """No other facts are known."""
    device = Device(uuid="GPU-0", index=0, pci_bus_id="00000000:19:00.0", pcie_generation_maximum=5)
    facts = TopologyFacts(
        placements={"GPU-0": Placement("GPU-0", numa_node=1, cpus=(4, 5), generation=4, width=16)}
    )
    placement = read_topology(tmp_path, [device], facts).placements["GPU-0"]

    assert (placement.pci_bus_id, placement.numa_node) == ("0000:19:00.0", 1)
    assert (placement.cpus, placement.bridges) == ((4, 5), ())
    assert (placement.generation, placement.width) == (4, 16)
    assert (placement.generation_maximum, placement.slot_generation_maximum) == (5, None)


def test_a_folder_without_its_way_makes_no_claim(tmp_path: Path) -> None:
    """A container may bind single devices instead of links to them."""
    tree = hgx(tmp_path)
    for address in tree.gpus[:2]:
        entry = tmp_path / "bus/pci/devices" / address
        target = entry.resolve()
        entry.unlink()
        target.rename(entry)
    topology = topology_of(tree)

    assert matrix(topology)[0] == "? ? ? SYS SYS SYS SYS"
    assert topology.placements["GPU-0"].numa_node == 0


def test_mig_instances_are_where_their_gpu_is(tmp_path: Path) -> None:
    """They have no place of their own."""
    tree = one_socket(tmp_path)
    instance = Device(
        uuid="MIG-0",
        index=0,
        pci_bus_id=f"0000{tree.gpus[0]}",
        mig=MigInstance("GPU-0", "1g.10gb", 1, 0, 0.1, 0.1),
    )
    topology = read_topology(tree.root, [*devices_of(tree), instance], TopologyFacts())

    assert set(topology.placements) == {"GPU-0", "GPU-1"}
    assert len(topology.links) == 1


@pytest.mark.parametrize(
    ("speed", "generation"),
    [
        ("2.5 GT/s PCIe", 1),
        ("5 GT/s", 2),
        ("8.0 GT/s PCIe", 3),
        ("16.0 GT/s PCIe", 4),
        ("32.0 GT/s PCIe", 5),
        ("64.0 GT/s PCIe", 6),
        ("Unknown", None),
        ("Unknown speed", None),
        ("fast GT/s", None),
        ("7.0 GT/s PCIe", None),
        ("nan GT/s", None),
        ("", None),
    ],
)
def test_speeds_are_known_by_their_generation(speed: str, generation: int | None) -> None:
    """Covers the spelling of old and new kernels."""
    assert generation_of(speed) == generation


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", (0,)),
        ("0-3,8-9", (0, 1, 2, 3, 8, 9)),
        ("4,2", (2, 4)),
        ("", ()),
        (None, ()),
        ("3-1", ()),
        ("0-999999", ()),
        ("0-3,x", ()),
        ("0-3,", ()),
    ],
)
def test_cpu_lists_are_read_as_a_whole_or_not_at_all(text: str | None, cpus: Sequence[int]) -> None:
    """Half a list would be wrong, and an endless one is no list."""
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0000:1b:00.0", "0000:1b:00.0"),
        ("00010000:01:00.1", "10000:01:00.1"),
        ("00000009:01:00.0", "0009:01:00.0"),
        ("1b:00.0", None),
        ("", None),
    ],
)
def test_addresses_of_the_driver_are_those_of_the_kernel(
    text: str | None, address: str | None
) -> None:
    """The kernel writes domains with four digits, or five behind a volume controller."""
    assert kernel_address(text) == address
