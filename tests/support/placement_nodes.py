"""The slots and links of real machines, as far as placing by them needs."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.broker.choice import PlacementChoice, PlacementRefusal, choose
from rightsizer.broker.lease import GpuRequest
from rightsizer.broker.settings import GpuPlacementSettings
from rightsizer.broker.slot import LeaseSlot, SlotHolder
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.state import State
from rightsizer.model.topology import GpuLink, LinkKind, Placement, Topology

__all__ = [
    "GIBIBYTE",
    "PlacementNode",
    "board_of_four",
    "bridged_pairs",
    "cube_mesh",
    "dual_socket",
    "grace_blackwell",
    "grace_hopper",
    "hgx",
    "mig_node",
    "switched_pcie",
    "two_trays",
    "virtual_machine",
]

GIBIBYTE: Final = 1 << 30
_Way = tuple[LinkKind, int]
_PIX: Final = LinkKind.PIX


class PlacementNode(Struct, frozen=True):
    """A machine whose slots are free unless a user is given."""

    slots: tuple[LeaseSlot, ...]
    topology: Topology

    def taken(self, *indices: int, **facts: Any) -> "PlacementNode":
        """The same machine with some slots held by a busy process, or in the given state."""
        held = facts or {"holders": (SlotHolder("train", True),), "state": State.PRODUCTIVE}
        return replace(
            self,
            slots=tuple(
                replace(slot, **held) if place in indices else slot
                for place, slot in enumerate(self.slots)
            ),
        )

    def choose(self, request: GpuRequest, **more: Any) -> PlacementChoice | PlacementRefusal:
        """Slots that the product would choose with its defaults."""
        return choose(self.slots, self.topology, request, GpuPlacementSettings(), **more)

    def places(self, request: GpuRequest, **more: Any) -> tuple[int, ...]:
        """The places of the slots that would be chosen."""
        choice = self.choose(request, **more)
        assert isinstance(choice, PlacementChoice), choice
        order = [slot.uuid for slot in self.slots]
        return tuple(order.index(uuid) for uuid in choice.uuids)


def hgx() -> PlacementNode:
    """Eight H100 on NVSwitches; each pair below a PCIe switch, four on each socket."""
    return _node(8, "H100", 80, _pcie_pairs, nvlink=lambda one, other: 18)


def two_trays() -> PlacementNode:
    """Sixteen V100 of two trays on NVSwitches, as in a DGX-2."""
    return _node(16, "V100", 32, _pcie_pairs, nvlink=lambda one, other: 6)


def cube_mesh() -> PlacementNode:
    """Eight V100 of a DGX-1: a hybrid cube mesh, in which not every two have an NVLink."""
    links = {
        (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
        (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
    }  # fmt: skip
    return _node(8, "V100", 16, _pcie_pairs, nvlink=lambda one, other: links.get((one, other), 0))


def switched_pcie() -> PlacementNode:
    """Eight boards without NVLink, four below a PCIe switch of each socket."""
    return _node(
        8, "A30", 24, lambda one, other: _PIX if one // 4 == other // 4 else LinkKind.SYSTEM
    )


def dual_socket() -> PlacementNode:
    """Eight boards without NVLink, each on a root port of its own."""
    return _node(
        8,
        "L40S",
        48,
        lambda one, other: LinkKind.NODE if one // 4 == other // 4 else LinkKind.SYSTEM,
    )


def bridged_pairs() -> PlacementNode:
    """Four PCIe boards, 0 with 1 and 2 with 3 under an NVLink bridge, all on one socket."""
    return _node(
        4,
        "A100 PCIe",
        80,
        lambda one, other: LinkKind.PHB,
        nvlink=lambda one, other: 12 if one // 2 == other // 2 else 0,
        nodes=1,
    )


def board_of_four() -> PlacementNode:
    """Four A100 on one board, four NVLinks between every two, two on each socket."""
    return _node(4, "A100", 40, lambda one, other: LinkKind.SYSTEM, nvlink=lambda one, other: 4)


def grace_hopper() -> PlacementNode:
    """Two superchips, a NUMA node of CPUs for each GPU, joined by NVLink."""
    return _node(2, "GH200", 96, lambda one, other: LinkKind.SYSTEM, nvlink=lambda one, other: 18)


def grace_blackwell() -> PlacementNode:
    """A tray with two GB200: four GPUs on switches, two on each CPU."""
    return _node(
        4,
        "GB200",
        186,
        lambda one, other: LinkKind.NODE if one // 2 == other // 2 else LinkKind.SYSTEM,
        nvlink=lambda one, other: 18,
    )


def virtual_machine() -> PlacementNode:
    """Four passed-through GPUs: no NUMA node, no bridge, no link is told."""
    node = _node(4, "A10", 24, lambda one, other: LinkKind.UNKNOWN)
    return replace(
        node, slots=tuple(replace(slot, placement=Placement(slot.uuid)) for slot in node.slots)
    )


def mig_node(profiles: Sequence[Sequence[str]]) -> PlacementNode:
    """GPUs as divided as each says; one of no profile is whole."""
    whole = _node(len(profiles), "H100", 80, _pcie_pairs, nvlink=lambda one, other: 18)
    slots: list[LeaseSlot] = []
    for slot, parts in zip(whole.slots, profiles, strict=True):
        device = replace(slot.device, has_mig_instances=bool(parts))
        slots.append(replace(slot, device=device))
        slots += [_instance(slot, number, profile) for number, profile in enumerate(parts)]
    return PlacementNode(tuple(slots), whole.topology)


def _instance(slot: LeaseSlot, number: int, profile: str) -> LeaseSlot:
    compute, memory = profile.removesuffix("gb").split("g.")
    mig = MigInstance(slot.uuid, profile, number, 0, int(compute) / 7, int(memory) / 80)
    device = replace(
        slot.device,
        uuid=f"MIG-{slot.device.index}-{number}",
        mig=mig,
        memory_total_bytes=float(int(memory) * GIBIBYTE),
    )
    return replace(slot, device=device)


def _pcie_pairs(one: int, other: int) -> LinkKind:
    if one // 2 == other // 2:
        return _PIX
    return LinkKind.NODE if one // 4 == other // 4 else LinkKind.SYSTEM


def _node(  # noqa: PLR0913 - all that makes a machine.
    count: int,
    name: str,
    gibibytes: int,
    pcie: Callable[[int, int], LinkKind],
    *,
    nvlink: Callable[[int, int], int] = lambda one, other: 0,
    nodes: int = 2,
) -> PlacementNode:
    links = [
        GpuLink(
            f"GPU-{one}",
            f"GPU-{other}",
            LinkKind.NVLINK if nvlink(one, other) else pcie(one, other),
            nvlink(one, other),
            pcie(one, other),
        )
        for one, other in combinations(range(count), 2)
    ]
    slots = [_slot(index, name, gibibytes, index * nodes // count) for index in range(count)]
    return PlacementNode(tuple(slots), Topology(links=tuple(links)))


def _slot(index: int, name: str, gibibytes: int, numa_node: int) -> LeaseSlot:
    uuid = f"GPU-{index}"
    cpus = tuple(range(numa_node * 8, numa_node * 8 + 8))
    return LeaseSlot(
        device=Device(uuid, index, name=name, memory_total_bytes=float(gibibytes * GIBIBYTE)),
        placement=Placement(uuid, numa_node=numa_node, cpus=cpus),
        state=State.IDLE_EMPTY,
        memory_used_bytes=0.0,
        power_headroom_watts=600.0,
        temperature_headroom_celsius=50.0,
    )
