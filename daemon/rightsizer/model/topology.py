"""Topology of a node: GPUs, PCIe and NVLink links, NUMA nodes, network ports."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

_LANE_BYTES_PER_SECOND: Final = {
    1: 0.25e9,
    2: 0.5e9,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
"""One direction of one lane by PCIe generation: line rate less encoding overhead (PCI-SIG)."""


def link_bytes_per_second(generation: float | None, width: float | None) -> float | None:
    """Bandwidth of one link direction; `None` for an unknown generation or width."""
    lane = _LANE_BYTES_PER_SECOND.get(int(generation or 0))
    return lane * width if lane is not None and width and width > 0 else None


class Nvlink(Struct, frozen=True):
    """NVLink of a board; unknown values are `None`."""

    number: int
    is_up: bool
    generation: int | None = None
    bytes_per_second: float | None = None
    """One direction, as negotiated."""
    remote_pci_bus_id: str | None = None
    """GPU at the other end; `None` for a switch, which does not report its address."""
    leads_to_switch: bool = False
    receive_bytes: float | None = None
    """Since the driver was loaded."""
    transmit_bytes: float | None = None
    """Since the driver was loaded."""
    crc_errors: int | None = None
    replay_errors: int | None = None
    recovery_errors: int | None = None


class FabricPort(Struct, frozen=True):
    """Fabric port with its counters, which increase while the adapter runs."""

    adapter: str
    """For example `mlx5_0`."""
    number: int
    link_layer: str
    """`InfiniBand`, or `Ethernet` for RoCE."""
    is_active: bool
    state: str
    """Name used by the kernel, e.g. `ACTIVE`."""
    pci_bus_id: str | None = None
    numa_node: int | None = None
    rate_bytes_per_second: float | None = None
    """One direction."""
    receive_bytes: float | None = None
    transmit_bytes: float | None = None
    transmit_wait: float | None = None
    """Ticks with data to send that could not be sent."""
    errors: Mapping[str, float] = {}
    """By the kernel's counter name: `symbol_error`, `link_downed`."""

    @property
    def name(self) -> str:
        """For example `mlx5_0/1`."""
        return f"{self.adapter}/{self.number}"


class LinkKind(StrEnum):
    """Path between two devices, nearest first; labels of `nvidia-smi topo`."""

    SELF = "X"
    NVLINK = "NV"
    PIX = "PIX"
    """At most one PCIe bridge."""
    PXB = "PXB"
    """Several PCIe bridges without crossing the host bridge."""
    PHB = "PHB"
    """Through the PCIe host bridge."""
    NODE = "NODE"
    """Between host bridges of one NUMA node."""
    SYSTEM = "SYS"
    """Across NUMA nodes."""
    UNKNOWN = "?"


class Bridge(Struct, frozen=True):
    """A PCIe bridge between a GPU and its host: root port or switch."""

    pci_bus_id: str
    generation: int | None = None
    width: int | None = None
    generation_maximum: int | None = None
    width_maximum: int | None = None


class Placement(Struct, frozen=True):
    """Location of a GPU in the node."""

    uuid: str
    pci_bus_id: str | None = None
    numa_node: int | None = None
    """NUMA node of its slot; `None` if the platform does not report it."""
    memory_numa_node: int | None = None
    """NUMA node of its own memory where GPUs are NUMA nodes; it has no CPUs."""
    cpus: tuple[int, ...] = ()
    """Local CPUs; empty if unknown."""
    bridges: tuple[Bridge, ...] = ()
    """From the GPU up to the root port."""
    generation: int | None = None
    width: int | None = None
    generation_maximum: int | None = None
    """Maximum of the GPU itself."""
    width_maximum: int | None = None

    @property
    def slot_generation_maximum(self) -> int | None:
        """Maximum of the GPU and all bridges above; `None` if any is unknown."""
        return _least(self.generation_maximum, [b.generation_maximum for b in self.bridges])

    @property
    def slot_width_maximum(self) -> int | None:
        """Maximum of the GPU and its slot; wider bridges above do not matter."""
        return _least(self.width_maximum, [b.width_maximum for b in self.bridges[:1]])


class GpuLink(Struct, frozen=True):
    """Path between two GPUs; each pair once, in the node's GPU order."""

    uuid: str
    peer_uuid: str
    kind: LinkKind
    nvlinks: int = 0
    """Number of links between the two, or to the common switch; 0 with kind `NVLINK` if the driver
    uses links but does not report their number."""
    pcie_kind: LinkKind = LinkKind.UNKNOWN
    """Path over PCIe, also present beside NVLink."""
    can_read_peer: bool | None = None
    """Whether peer memory access works; `None` if the driver does not say."""

    @property
    def label(self) -> str:
        """Label as in `nvidia-smi topo -m`: `NV18`, `PIX`, `SYS`."""
        return f"{self.kind}{(self.nvlinks or '') if self.kind is LinkKind.NVLINK else ''}"


class AdapterKind(StrEnum):
    """Kind of a PCIe device other than a GPU."""

    INFINIBAND = "infiniband"
    NETWORK = "network"
    NVME = "nvme"


class Adapter(Struct, frozen=True):
    """Network card or disk, and its distance to each GPU."""

    name: str
    kind: AdapterKind
    pci_bus_id: str
    numa_node: int | None = None
    links: Mapping[str, LinkKind] = {}
    """By GPU uuid."""


class Topology(Struct, frozen=True):
    """Topology of a node, discovered once."""

    placements: Mapping[str, Placement] = {}
    """By uuid."""
    links: tuple[GpuLink, ...] = ()
    adapters: tuple[Adapter, ...] = ()
    numa_nodes: Mapping[int, tuple[int, ...]] = {}
    """CPUs by node; empty without NUMA."""

    def link(self, one: str, other: str) -> GpuLink | None:
        """Path between two GPUs, in either order."""
        return next(
            (link for link in self.links if {link.uuid, link.peer_uuid} == {one, other}), None
        )

    def nvlink_peers(self, uuids: Iterable[str]) -> dict[str, set[str]]:
        """GPUs that each of the given ones reaches over NVLink, among them."""
        peers: dict[str, set[str]] = {uuid: set() for uuid in uuids}
        for link in self.links:
            if link.kind is LinkKind.NVLINK and {link.uuid, link.peer_uuid} <= peers.keys():
                peers[link.uuid].add(link.peer_uuid)
                peers[link.peer_uuid].add(link.uuid)
        return peers


def _least(gpu_maximum: int | None, above: list[int | None]) -> int | None:
    # With an unreadable bridge, or none in a virtual machine, the slot may allow less.
    values = [value for value in (gpu_maximum, *above) if value is not None]
    return min(values) if above and len(values) == len(above) + 1 else None


def cpu_list(cpus: Iterable[int]) -> str:
    """Format CPUs as the kernel and `taskset` do: `0-27,56-83`."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
