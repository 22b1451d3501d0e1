"""Topology of a node: GPUs, PCIe and NVLink links, NUMA nodes, network ports."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from rightsizer.model.frozen import dataclass, field

_LANE_BYTES_PER_SECOND: Final = {
    1: 0.25e9,
    2: 0.5e9,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
"""One direction of one lane by generation: line rate less its code (PCI-SIG)."""


def link_bytes_per_second(generation: float | None, width: float | None) -> float | None:
    """One direction of a link; `None` for a generation or a width that does not exist."""
    lane = _LANE_BYTES_PER_SECOND.get(int(generation or 0))
    return lane * width if lane is not None and width and width > 0 else None


@dataclass(frozen=True, slots=True)
class Nvlink:
    """A link that the board has; what is not known is `None`."""

    number: int
    is_up: bool
    generation: int | None = None
    bytes_per_second: float | None = None
    """One direction, as negotiated."""
    remote_pci_bus_id: str | None = None
    """The GPU at the other end; `None` for a switch, which does not tell its address."""
    leads_to_switch: bool = False
    receive_bytes: float | None = None
    """Since the driver was loaded."""
    transmit_bytes: float | None = None
    """Since the driver was loaded."""
    crc_errors: int | None = None
    replay_errors: int | None = None
    recovery_errors: int | None = None


@dataclass(frozen=True, slots=True)
class FabricPort:
    """One port with its counters, which only grow while the adapter runs."""

    adapter: str
    """As in `mlx5_0`."""
    number: int
    link_layer: str
    """`InfiniBand`, or `Ethernet` for RoCE."""
    is_active: bool
    state: str
    """The kernel's word, as in `ACTIVE`."""
    pci_bus_id: str | None = None
    numa_node: int | None = None
    rate_bytes_per_second: float | None = None
    """One direction."""
    receive_bytes: float | None = None
    transmit_bytes: float | None = None
    transmit_wait: float | None = None
    """Ticks during which data was there and could not be sent."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """By the kernel's name of the counter: `symbol_error`, `link_downed`."""

    @property
    def name(self) -> str:
        """As in `mlx5_0/1`."""
        return f"{self.adapter}/{self.number}"


class LinkKind(StrEnum):
    """The way between two devices, nearest first; the words are those of `nvidia-smi topo`."""

    SELF = "X"
    NVLINK = "NV"
    PIX = "PIX"
    """At most one PCIe bridge."""
    PXB = "PXB"
    """Several PCIe bridges, not the host bridge."""
    PHB = "PHB"
    """The PCIe host bridge."""
    NODE = "NODE"
    """Host bridges of one NUMA node."""
    SYSTEM = "SYS"
    """The link between NUMA nodes."""
    UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Bridge:
    """A PCIe bridge between a GPU and its host: root port or switch."""

    pci_bus_id: str
    generation: int | None = None
    width: int | None = None
    generation_maximum: int | None = None
    width_maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a GPU sits."""

    uuid: str
    pci_bus_id: str | None = None
    numa_node: int | None = None
    """Of its slot; `None` where the platform does not say."""
    memory_numa_node: int | None = None
    """That its own memory is, on platforms where GPUs are NUMA nodes; holds no CPUs."""
    cpus: tuple[int, ...] = ()
    """Those near to it; empty where unknown."""
    bridges: tuple[Bridge, ...] = ()
    """From the GPU up to the root port."""
    generation: int | None = None
    width: int | None = None
    generation_maximum: int | None = None
    """What the GPU itself could do."""
    width_maximum: int | None = None

    @property
    def slot_generation_maximum(self) -> int | None:
        """What GPU and all bridges above it allow together; `None` unless all of them tell."""
        return _least(self.generation_maximum, [b.generation_maximum for b in self.bridges])

    @property
    def slot_width_maximum(self) -> int | None:
        """What GPU and the slot it sits in allow together; wider bridges above do not matter."""
        return _least(self.width_maximum, [b.width_maximum for b in self.bridges[:1]])


@dataclass(frozen=True, slots=True)
class GpuLink:
    """The way between two GPUs; each pair once, in the order of the node's GPUs."""

    uuid: str
    peer_uuid: str
    kind: LinkKind
    nvlinks: int = 0
    """Links between the two, or to the switch that joins them; 0 beside the kind `NVLINK` where
    the driver uses them and does not tell how many."""
    pcie_kind: LinkKind = LinkKind.UNKNOWN
    """The way over PCIe, which stands beside NVLink."""
    can_read_peer: bool | None = None
    """Whether one can read the other's memory; `None` where the driver does not say."""

    @property
    def label(self) -> str:
        """As `nvidia-smi topo -m` writes it: `NV18`, `PIX`, `SYS`."""
        return f"{self.kind}{(self.nvlinks or '') if self.kind is LinkKind.NVLINK else ''}"


class AdapterKind(StrEnum):
    """What is beside the GPUs."""

    INFINIBAND = "infiniband"
    NETWORK = "network"
    NVME = "nvme"


@dataclass(frozen=True, slots=True)
class Adapter:
    """A network card or disk, and how near each GPU is."""

    name: str
    kind: AdapterKind
    pci_bus_id: str
    numa_node: int | None = None
    links: Mapping[str, LinkKind] = field(default_factory=dict)
    """By the GPU's uuid."""


@dataclass(frozen=True, slots=True)
class Topology:
    """All of it, as it was found once."""

    placements: Mapping[str, Placement] = field(default_factory=dict)
    """By uuid."""
    links: tuple[GpuLink, ...] = ()
    adapters: tuple[Adapter, ...] = ()
    numa_nodes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """CPUs by node; empty without NUMA."""

    def link(self, one: str, other: str) -> GpuLink | None:
        """The way between two GPUs, whichever comes first."""
        return next(
            (link for link in self.links if {link.uuid, link.peer_uuid} == {one, other}), None
        )

    def nvlink_peers(self, uuids: Iterable[str]) -> dict[str, set[str]]:
        """Of each of some GPUs those among them that it reaches over NVLink."""
        peers: dict[str, set[str]] = {uuid: set() for uuid in uuids}
        for link in self.links:
            if link.kind is LinkKind.NVLINK and {link.uuid, link.peer_uuid} <= peers.keys():
                peers[link.uuid].add(link.peer_uuid)
                peers[link.peer_uuid].add(link.uuid)
        return peers


def _least(own: int | None, above: list[int | None]) -> int | None:
    # Where a bridge is silent, or a virtual machine shows none, the slot may allow less.
    known = [value for value in (own, *above) if value is not None]
    return min(known) if above and len(known) == len(above) + 1 else None


def cpu_list(cpus: Iterable[int]) -> str:
    """CPUs as the kernel and `taskset` write them: `0-27,56-83`."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
