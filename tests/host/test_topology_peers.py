"""Driver facts on connections between GPUs, through the real bindings."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import pynvml
import pytest

from nvml_driver import installed
from rightsizer.catalogue.catalogue import built_in
from rightsizer.host.topology import GpuPairFacts, TopologyFacts, read_topology
from rightsizer.model.device import Device
from rightsizer.model.topology import LinkKind, Placement, Topology
from rightsizer.telemetry.nvml.driver import NvmlDriver, PeerReader
from rightsizer.telemetry.nvml.inventory import DeviceTarget, Gpu, Inventory
from rightsizer.telemetry.nvml.library import NvmlLibrary
from simulated_driver import Bench, simulated_driver
from sysfs_trees import hgx

NO_BUS: Final = Path("/dev/null")
SWITCH: Final = b"FFFFFFFF:FF:FF.0"
ABSENT: Final = pynvml.NVML_ERROR_NOT_SUPPORTED


@dataclass
class Wires:
    """A driver with connections only, used as the bindings' library."""

    links: dict[str, list[tuple[bytes | None, int | None]]] = field(default_factory=dict)
    """By GPU: address and kind of the other end, `None` where the driver has none."""
    levels: dict[tuple[str, str], int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    """By capability: 0 for reading, 2 for NVLink."""
    memory_nodes: dict[str, int] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def __getattr__(self, name: str) -> Callable[..., int]:
        answer = ANSWERS.get(name)
        if answer is None:
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.asked[name] += 1
            return answer(self, *arguments)

        return call


def _state(wires: Wires, gpu: str, link: int, state: Any) -> int:
    known = wires.links.get(gpu, [])
    if link >= len(known):
        return int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    state._obj.value = 1
    return 0


def _remote_info(wires: Wires, gpu: str, link: int, info: Any) -> int:
    address = wires.links[gpu][link][0]
    info._obj.busId = address or b""
    return 0 if address else int(ABSENT)


def _remote_kind(wires: Wires, gpu: str, link: int, kind: Any) -> int:
    kind_ = wires.links[gpu][link][1]
    kind._obj.value = kind_ or 0
    return int(ABSENT) if kind_ is None else 0


def _ancestor(wires: Wires, gpu: str, other: str, level: Any) -> int:
    level._obj.value = wires.levels.get((gpu, other), 0)
    return 0 if (gpu, other) in wires.levels else int(ABSENT)


def _status(wires: Wires, gpu: str, other: str, what: int, status: Any) -> int:
    status._obj.value = wires.statuses.get(what, 0)
    return 0 if what in wires.statuses else int(ABSENT)


def _memory_node(wires: Wires, gpu: str, node: Any) -> int:
    node._obj.value = wires.memory_nodes.get(gpu, -1)
    return 0 if gpu in wires.memory_nodes else int(ABSENT)


ANSWERS: Final[dict[str, Callable[..., int]]] = {
    "nvmlDeviceGetNvLinkState": _state,
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": _remote_info,
    "nvmlDeviceGetNvLinkRemoteDeviceType": _remote_kind,
    "nvmlDeviceGetTopologyCommonAncestor": _ancestor,
    "nvmlDeviceGetP2PStatus": _status,
    "nvmlDeviceGetNumaNodeId": _memory_node,
}


def inventory(gpus: int, generation: int = 1) -> Inventory:
    """GPUs A, B, C... whose handles are their names, at buses 1, 2, 3..."""
    names = [chr(ord("A") + index) for index in range(gpus)]
    return Inventory(
        generation,
        tuple(
            Gpu(
                DeviceTarget(Device(name, index, pci_bus_id=f"00000000:{index + 1:02x}:00.0"), name)
            )
            for index, name in enumerate(names)
        ),
    )


def at(index: int) -> bytes:
    """Address of a GPU in the driver's spelling."""
    return f"00000000:{index + 1:02X}:00.0".encode()


def facts_of(wires: Wires, gpus: int = 2) -> TopologyFacts:
    """Facts read from the driver."""
    with installed(wires):
        return PeerReader(NvmlLibrary()).read(inventory(gpus))


@contextmanager
def opened(scenario: str, sysfs: Path) -> Iterator[tuple[NvmlDriver, Bench]]:
    """A simulated node's driver, and its faults."""
    with (
        simulated_driver(scenario) as bench,
        NvmlDriver(count(), built_in(), sysfs, root=sysfs) as driver,
    ):
        yield driver, bench


def topology_of(driver: NvmlDriver, sysfs: Path) -> tuple[Topology, Inventory]:
    """Topology read from the driver, with its devices."""
    found = driver.find_devices()
    assert isinstance(found, Inventory)
    devices = [gpu.whole.device for gpu in found.gpus]
    return read_topology(sysfs, devices, found.topology), found


def test_links_to_switches_join_all_alike() -> None:
    """The address behind a switch is no device's; the weaker end counts."""
    wires = Wires({"A": [(SWITCH, 2)] * 18, "B": [(SWITCH, 2)] * 18, "C": [(SWITCH, 2)] * 17})

    peers = facts_of(wires, 3).peers
    assert {pair: peer.nvlinks for pair, peer in peers.items()} == {
        ("A", "B"): 18,
        ("A", "C"): 17,
        ("B", "C"): 17,
    }


def test_switches_are_known_by_their_own_addresses_too() -> None:
    """Older drivers report them."""
    end = (b"00000000:C4:00.0", 2)

    assert facts_of(Wires({"A": [end] * 12, "B": [end] * 12})).pair_of("A", "B").nvlinks == 12


def test_a_hidden_end_of_unknown_kind_is_a_switch() -> None:
    """A driver without kinds hides no other ends."""
    end = (SWITCH, None)

    assert facts_of(Wires({"A": [end] * 6, "B": [end] * 6})).pair_of("A", "B").nvlinks == 6


def test_direct_links_join_only_their_ends() -> None:
    """In a mesh, pairs have one link, two, or none."""
    wires = Wires(
        {
            "A": [(at(1), 0), (at(1), 0), (at(2), 0)],
            "B": [(at(0), 0), (at(0), 0)],
            "C": [(at(0), 0)],
        }
    )

    peers = facts_of(wires, 3).peers
    assert [peers[pair].nvlinks for pair in (("A", "B"), ("A", "C"), ("B", "C"))] == [2, 1, 0]


def test_links_that_nobody_follows_are_joined_if_the_driver_says_so() -> None:
    """Their number stays unknown, as in a virtual machine with single GPUs of a mesh."""
    wires = Wires({"A": [(None, None)] * 4, "B": [(None, None)] * 4}, statuses={2: 0})
    assert facts_of(wires).pair_of("A", "B").nvlinks is None

    wires.statuses = {2: pynvml.NVML_P2P_STATUS_NOT_SUPPORTED}
    assert facts_of(wires).pair_of("A", "B").nvlinks == 0


@pytest.mark.parametrize(
    ("level", "kind"),
    [
        (pynvml.NVML_TOPOLOGY_INTERNAL, LinkKind.PIX),
        (pynvml.NVML_TOPOLOGY_SINGLE, LinkKind.PIX),
        (pynvml.NVML_TOPOLOGY_MULTIPLE, LinkKind.PXB),
        (pynvml.NVML_TOPOLOGY_HOSTBRIDGE, LinkKind.PHB),
        (pynvml.NVML_TOPOLOGY_NODE, LinkKind.NODE),
        (pynvml.NVML_TOPOLOGY_SYSTEM, LinkKind.SYSTEM),
        (77, LinkKind.UNKNOWN),
    ],
)
def test_levels_are_reported_in_the_words_of_nvidia_smi(level: int, kind: LinkKind) -> None:
    """An unknown level stays unknown."""
    assert facts_of(Wires(levels={("A", "B"): level})).pair_of("B", "A").pcie_kind is kind


@pytest.mark.parametrize(
    ("status", "can_read"),
    [
        (pynvml.NVML_P2P_STATUS_OK, True),
        (pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED, False),
        (pynvml.NVML_P2P_STATUS_NOT_SUPPORTED, False),
        (pynvml.NVML_P2P_STATUS_UNKNOWN, None),
    ],
)
def test_peer_access_is_reported_per_pair(status: int, *, can_read: bool | None) -> None:
    """`UNKNOWN` is a valid answer, not an error."""
    assert facts_of(Wires(statuses={0: status})).pair_of("A", "B").can_read is can_read


def test_a_gpu_that_is_a_numa_node_says_which() -> None:
    """All others do not support the call."""
    facts = facts_of(Wires(memory_nodes={"A": 2}))

    assert (facts.placement_of("A").memory_numa_node, facts.placement_of("B").memory_numa_node) == (
        2,
        None,
    )


def test_a_driver_that_tells_nothing_leaves_all_unknown() -> None:
    """Every call fails, and none raises."""
    facts = facts_of(Wires())

    assert facts.peers == {("A", "B"): GpuPairFacts()}
    assert facts.placements == {"A": Placement("A"), "B": Placement("B")}


def test_constant_facts_are_read_once() -> None:
    """A second reading of the same GPUs calls for states only; of others, for all."""
    wires = Wires(
        {"A": [(SWITCH, 2)] * 3, "B": [(SWITCH, 2)] * 3},
        levels={("A", "B"): pynvml.NVML_TOPOLOGY_NODE},
        statuses={0: 0},
    )
    with installed(wires):
        reader = PeerReader(NvmlLibrary())
        first = reader.read(inventory(2))
        wires.asked.clear()
        second = reader.read(inventory(2))
        again = Counter(wires.asked)
        reader.read(inventory(2, generation=2))

    assert first == second
    assert again == {"nvmlDeviceGetNvLinkState": 6}
    assert wires.asked["nvmlDeviceGetTopologyCommonAncestor"] == 1


def test_a_simulated_board_of_eight_is_joined_by_its_switches() -> None:
    """Nodes and near CPUs come from the driver where the kernel has none."""
    with opened("eight-gpu-node", NO_BUS) as (driver, _):
        topology, _ = topology_of(driver, NO_BUS)

    assert {link.label for link in topology.links} == {"NV18"}
    assert {link.pcie_kind for link in topology.links} == {LinkKind.NODE, LinkKind.SYSTEM}
    assert {link.can_read_peer for link in topology.links} == {True}
    assert [placement.numa_node for placement in topology.placements.values()] == [0] * 4 + [1] * 4
    assert len(topology.placements) == 8
    assert all(placement.cpus for placement in topology.placements.values())


def test_driver_and_bus_together_make_one_topology(tmp_path: Path) -> None:
    """NVLink comes from the driver, slots and neighbors from the bus."""
    tree = hgx(tmp_path)
    with opened("eight-gpu-node", tree.root) as (driver, _):
        topology, found = topology_of(driver, tree.root)
    first, second = (gpu.whole.device.uuid for gpu in found.gpus[:2])
    link = topology.link(first, second)

    assert link is not None
    assert (link.label, link.pcie_kind) == ("NV18", LinkKind.PIX)
    assert len(topology.placements[first].bridges) == 3
    assert topology.adapters[0].links[first] is LinkKind.PIX


def _is_complete(topology: Topology) -> dict[str, bool]:
    placements = topology.placements.values()
    return {
        "nvmlDeviceGetTopologyCommonAncestor": all(
            link.pcie_kind is not LinkKind.UNKNOWN for link in topology.links
        ),
        "nvmlDeviceGetP2PStatus": all(link.can_read_peer for link in topology.links),
        "nvmlDeviceGetCpuAffinity": all(placement.cpus for placement in placements),
        "nvmlDeviceGetMemoryAffinity": all(
            placement.numa_node is not None for placement in placements
        ),
        "nvmlDeviceGetCurrPcieLinkWidth": all(placement.width for placement in placements),
        # Either shows that the other end is a switch.
        "nvmlDeviceGetNvLinkRemotePciInfo_v2": True,
        "nvmlDeviceGetNvLinkRemoteDeviceType": True,
    }


@pytest.mark.parametrize("function", _is_complete(Topology()))
def test_a_function_that_is_missing_costs_its_own_answer_alone(function: str) -> None:
    """This covers an older driver; the rest of the topology is known."""
    with opened("eight-gpu-node", NO_BUS) as (driver, bench):
        bench.library.faults.remove(function)
        pynvml._nvmlGetFunctionPointer_cache.clear()
        topology, _ = topology_of(driver, NO_BUS)

    assert {link.nvlinks for link in topology.links} == {18}
    lost = {name for name, is_there in _is_complete(topology).items() if not is_there}
    assert lost == {function} - {
        "nvmlDeviceGetNvLinkRemotePciInfo_v2",
        "nvmlDeviceGetNvLinkRemoteDeviceType",
    }
