"""The node's topology, put together from the kernel's tree and the driver's word."""

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rightsizer.domain.device import Device
from rightsizer.domain.topology import Bridge, GpuLink, LinkKind, Placement, Topology
from rightsizer.telemetry.topology.adapters import read_adapters
from rightsizer.telemetry.topology.address import kernel_address
from rightsizer.telemetry.topology.files import parse_cpus, read_integer, read_text
from rightsizer.telemetry.topology.link import read_link
from rightsizer.telemetry.topology.nodes import Nodes, read_nodes
from rightsizer.telemetry.topology.site import Site, chain_of, relate
from rightsizer.telemetry.topology.told import Seat, Told

__all__ = ["read_topology"]

_SHORTEST_CHAIN: Final = 3
"""Host bridge, root port, GPU."""


def read_topology(sysfs: Path, devices: Iterable[Device], told: Told) -> Topology:
    """How GPUs, network cards and disks hang together; whatever nobody tells stays unknown.

    Never raises, however odd the tree. Reads some hundred small files, and none that would wake
    a GPU which is asleep.

    Args:
        sysfs: Where sysfs is mounted.
        devices: The node's GPUs; MIG instances are where their GPU is, and are left out.
        told: What the driver says.
    """
    tree = _Tree(sysfs, read_nodes(sysfs))
    gpus = [device for device in devices if device.mig is None]
    sites = {gpu.uuid: tree.gpu_site(kernel_address(gpu.pci_bus_id)) for gpu in gpus}
    return Topology(
        placements={
            gpu.uuid: tree.placement(gpu, sites[gpu.uuid], told.seat(gpu.uuid)) for gpu in gpus
        },
        links=tuple(_gpu_links(sites, told, has_one_node=tree.nodes.has_one)),
        adapters=read_adapters(
            sysfs, sites, numa_node=tree.numa_node, has_one_node=tree.nodes.has_one
        ),
        numa_nodes=tree.nodes.cpus,
    )


def _gpu_links(sites: Mapping[str, Site], told: Told, *, has_one_node: bool) -> Iterable[GpuLink]:
    for (uuid, site), (peer_uuid, peer_site) in itertools.combinations(sites.items(), 2):
        peer = told.peer(uuid, peer_uuid)
        # The kernel's tree is the bus as it was found; the driver derives its word from it, and
        # behind a hypervisor from less. Its word stands where the tree is silent.
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


@dataclass(frozen=True, slots=True)
class _Tree:
    """The part of sysfs that tells places."""

    sysfs: Path
    nodes: Nodes

    def device(self, address: str) -> Path:
        """The folder of a PCI function."""
        return self.sysfs / "bus/pci/devices" / address

    def shows(self, address: str) -> bool:
        """Whether there is such a PCI function."""
        return os.path.isdir(self.device(address))  # noqa: PTH112 - pathlib raises for some errors.

    def numa_node(self, address: str) -> int | None:
        """The node of a PCI function."""
        return self.nodes.checked(read_integer(self.device(address) / "numa_node"))

    def gpu_site(self, address: str | None) -> Site:
        """The place of a GPU."""
        if address is None or not self.shows(address):
            return Site()
        chain = chain_of(self.sysfs, f"bus/pci/devices/{address}")
        # Every real slot has a port above it. A GPU that seems to sit on the host bridge itself
        # is in a virtual machine, and its bus says nothing of the way between two boards.
        is_real = len(chain) >= _SHORTEST_CHAIN and chain[-1] == address
        return Site(chain if is_real else (), self.numa_node(address))

    def placement(self, device: Device, site: Site, seat: Seat) -> Placement:
        """What kernel and driver know of a GPU's place."""
        address = kernel_address(device.pci_bus_id)
        if address is None or not self.shows(address):
            return _told_placement(device, address, seat)
        folder = self.device(address)
        link = read_link(folder)
        return Placement(
            uuid=device.uuid,
            pci_bus_id=address,
            numa_node=site.numa_node,
            memory_numa_node=seat.memory_numa_node,
            cpus=self._cpus(folder, site),
            bridges=tuple(self._bridge(name) for name in site.bridges),
            generation=link.generation or seat.generation,
            width=link.width or seat.width,
            generation_maximum=link.generation_maximum or device.pcie_generation_maximum,
            width_maximum=link.width_maximum or device.pcie_width_maximum,
        )

    def _cpus(self, folder: Path, site: Site) -> tuple[int, ...]:
        if site.numa_node is None and not self.nodes.has_one:
            # The kernel lists all CPUs as near where it does not know the node.
            return ()
        return parse_cpus(read_text(folder / "local_cpulist"))

    def _bridge(self, address: str) -> Bridge:
        link = read_link(self.device(address))
        return Bridge(
            address, link.generation, link.width, link.generation_maximum, link.width_maximum
        )


def _told_placement(device: Device, address: str | None, seat: Seat) -> Placement:
    """The place of a GPU that the kernel does not show, as in a container without its sysfs."""
    return Placement(
        uuid=device.uuid,
        pci_bus_id=address,
        numa_node=seat.numa_node,
        memory_numa_node=seat.memory_numa_node,
        cpus=seat.cpus,
        generation=seat.generation,
        width=seat.width,
        generation_maximum=device.pcie_generation_maximum,
        width_maximum=device.pcie_width_maximum,
    )
