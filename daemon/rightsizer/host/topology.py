"""Topology of the node from sysfs and facts of the driver."""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.host.files import parse_cpus, read_integer, read_line, read_names
from rightsizer.host.numa_locality import NumaNodes, read_nodes
from rightsizer.host.pcie import PciPath, chain_of, kernel_address, read_link, relate
from rightsizer.model.values import (
    Adapter,
    AdapterKind,
    Bridge,
    Device,
    GpuLink,
    LinkKind,
    Placement,
    Topology,
)

_CLASSES: Final = (
    ("infiniband", AdapterKind.INFINIBAND),
    ("net", AdapterKind.NETWORK),
    ("nvme", AdapterKind.NVME),
)
"""Kernel's class of each; an RDMA card is in the first two."""
_SHORTEST_CHAIN: Final = 3
"""Host bridge, root port, GPU."""


class GpuPairFacts(Struct, frozen=True):
    """Driver's facts on the path between two GPUs."""

    pcie_kind: LinkKind = LinkKind.UNKNOWN
    nvlinks: int | None = 0
    """Active links between them, or from each to a switch; `None` if the number is unknown."""
    can_read: bool | None = None


class TopologyFacts(Struct, frozen=True):
    """All topology facts of the driver; empty without a driver."""

    peers: Mapping[tuple[str, str], GpuPairFacts] = {}
    """By pair of uuids in GPU order."""
    placements: Mapping[str, Placement] = {}
    """By uuid; without what only the bus tells."""

    def pair_of(self, one: str, other: str) -> GpuPairFacts:
        """Facts on two GPUs, in either order."""
        return self.peers.get((one, other)) or self.peers.get((other, one)) or GpuPairFacts()

    def placement_of(self, uuid: str) -> Placement:
        """Facts on a GPU."""
        return self.placements.get(uuid) or Placement(uuid)


def _found(sysfs: Path) -> Iterator[tuple[str, AdapterKind, tuple[str, ...]]]:
    for folder, kind in _CLASSES:
        for name in read_names(sysfs / "class" / folder):
            chain = chain_of(sysfs, f"class/{folder}/{name}")
            # Bonds, bridges and network disks have no PCI device; virtual functions are passed
            # to virtual machines and containers by the hundred.
            if chain and not os.path.lexists(sysfs / "bus/pci/devices" / chain[-1] / "physfn"):
                yield name, kind, chain


def read_topology(sysfs: Path, devices: Iterable[Device], facts: TopologyFacts) -> Topology:
    """Read how GPUs, network cards and disks are connected; missing facts stay unknown.

    Never raises, even for inconsistent trees. Reads some hundred small files, none of which wakes
    a suspended GPU.

    MIG instances share their GPU's placement and are omitted.
    """
    tree = _PciTree(sysfs, read_nodes(sysfs))
    gpus = [device for device in devices if device.mig is None]
    sites = {gpu.uuid: tree.gpu_site(kernel_address(gpu.pci_bus_id)) for gpu in gpus}
    return Topology(
        placements={
            gpu.uuid: tree.placement(gpu, sites[gpu.uuid], facts.placement_of(gpu.uuid))
            for gpu in gpus
        },
        links=tuple(_gpu_links(sites, facts, has_one_node=tree.nodes.has_one)),
        adapters=tuple(tree.adapters(sites)),
        numa_nodes=tree.nodes.cpus,
    )


def _gpu_links(
    sites: Mapping[str, PciPath], facts: TopologyFacts, *, has_one_node: bool
) -> Iterable[GpuLink]:
    for (uuid, site), (peer_uuid, peer_site) in itertools.combinations(sites.items(), 2):
        peer = facts.pair_of(uuid, peer_uuid)
        # The kernel's tree is the bus as discovered. The driver derives its answer from it, and
        # behind a hypervisor from less, so it is used only where the tree has no answer.
        seen = relate(site, peer_site, has_one_node=has_one_node)
        pcie_kind = peer.pcie_kind if seen is LinkKind.UNKNOWN else seen
        yield GpuLink(
            uuid=uuid,
            peer_uuid=peer_uuid,
            kind=pcie_kind if peer.nvlinks == 0 else LinkKind.NVLINK,
            nvlinks=peer.nvlinks or 0,
            pcie_kind=pcie_kind,
            can_read_peer=peer.can_read,
        )


class _PciTree(Struct, frozen=True):
    """Part of sysfs that locates devices."""

    sysfs: Path
    nodes: NumaNodes

    def device(self, address: str) -> Path:
        return self.sysfs / "bus/pci/devices" / address

    def shows(self, address: str) -> bool:
        return os.path.isdir(self.device(address))  # noqa: PTH112 - pathlib raises for some errors.

    def numa_node(self, address: str) -> int | None:
        node = read_integer(self.device(address) / "numa_node")
        # The kernel reports -1 if the firmware does not state it.
        return node if node in self.nodes.cpus else None

    def gpu_site(self, address: str | None) -> PciPath:
        if address is None or not self.shows(address):
            return PciPath()
        chain = chain_of(self.sysfs, f"bus/pci/devices/{address}")
        # Every real slot has a port above it. A GPU directly below the host bridge is in a virtual
        # machine, whose bus does not reflect the path between boards.
        is_real = len(chain) >= _SHORTEST_CHAIN and chain[-1] == address
        return PciPath(chain if is_real else (), self.numa_node(address))

    def adapters(self, gpus: Mapping[str, PciPath]) -> Iterator[Adapter]:
        for name, kind, chain in _found(self.sysfs):
            place = PciPath(chain, self.numa_node(chain[-1]))
            links = {
                uuid: relate(gpu, place, has_one_node=self.nodes.has_one)
                for uuid, gpu in gpus.items()
            }
            yield Adapter(name, kind, chain[-1], place.numa_node, links)

    def placement(self, device: Device, site: PciPath, reported: Placement) -> Placement:
        """Combine the kernel's and the driver's facts on a GPU's placement.

        In a container without the host's sysfs only the latter are available.
        """
        address = kernel_address(device.pci_bus_id)
        folder = self.device(address) if address is not None and self.shows(address) else None
        link = {} if folder is None else read_link(folder)
        return replace(
            reported,
            pci_bus_id=address,
            numa_node=reported.numa_node if folder is None else site.numa_node,
            cpus=reported.cpus if folder is None else self._cpus(folder, site),
            bridges=tuple(Bridge(name, **read_link(self.device(name))) for name in site.bridges),
            generation=link.get("generation") or reported.generation,
            width=link.get("width") or reported.width,
            generation_maximum=link.get("generation_maximum") or device.pcie_generation_maximum,
            width_maximum=link.get("width_maximum") or device.pcie_width_maximum,
        )

    def _cpus(self, folder: Path, site: PciPath) -> tuple[int, ...]:
        if site.numa_node is None and not self.nodes.has_one:
            # Without a known node the kernel lists all CPUs as local.
            return ()
        return parse_cpus(read_line(folder / "local_cpulist"))
