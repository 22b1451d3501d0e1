"""JSON document of a node's topology; unknown values are null."""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from rightsizer.model.values import (
    Adapter,
    Bridge,
    Device,
    GpuLink,
    LinkKind,
    Placement,
    Topology,
    cpu_list,
)


class GpuLinkDocument(msgspec.Struct, frozen=True):
    """Path between two GPUs."""

    uuid: str
    peer_uuid: str
    kind: LinkKind | None
    nvlinks: int | None
    pcie_kind: LinkKind | None
    can_read_peer: bool | None


class AdapterDocument(msgspec.Struct, frozen=True):
    """Network or storage adapter with its path to each GPU."""

    name: str
    kind: str
    pci_bus_id: str
    numa_node: int | None
    links: Mapping[str, LinkKind | None]


class NumaNodeDocument(msgspec.Struct, frozen=True):
    """NUMA node with its CPUs."""

    node: int
    cpus: str | None


class PciePortDocument(msgspec.Struct, frozen=True):
    """Negotiated link of a device, and what it could be."""

    generation: int | None
    width: int | None
    generation_maximum: int | None
    width_maximum: int | None


class PcieSlotDocument(msgspec.Struct, frozen=True):
    """Limits of a slot."""

    generation_maximum: int | None
    width_maximum: int | None


class GpuPlaceDocument(msgspec.Struct, frozen=True):
    """GPU with its place in the node."""

    uuid: str
    index: int | None
    name: str | None
    offered: bool
    pci_bus_id: str | None
    numa_node: int | None
    memory_numa_node: int | None
    cpus: str | None
    link: PciePortDocument
    slot: PcieSlotDocument
    bridges: tuple[Bridge, ...]


class TopologyDocument(msgspec.Struct, frozen=True):
    """GPUs, links between them, adapters with their links to GPUs, and NUMA nodes."""

    gpus: tuple[GpuPlaceDocument, ...]
    links: tuple[GpuLinkDocument, ...]
    adapters: tuple[AdapterDocument, ...]
    numa_nodes: tuple[NumaNodeDocument, ...]


def topology_document(
    topology: Topology, devices: Iterable[Device], offered: Collection[str]
) -> TopologyDocument:
    """Describe a node's topology; GPUs not in `offered` have no index."""
    return TopologyDocument(
        gpus=tuple(
            _gpu_place(device, topology.placements[device.uuid], offered=device.uuid in offered)
            for device in devices
            if device.uuid in topology.placements
        ),
        links=tuple(map(_gpu_link, topology.links)),
        adapters=tuple(map(_adapter, topology.adapters)),
        numa_nodes=tuple(
            NumaNodeDocument(node, cpu_list(cpus) or None)
            for node, cpus in sorted(topology.numa_nodes.items())
        ),
    )


def _gpu_place(device: Device, placement: Placement, *, offered: bool) -> GpuPlaceDocument:
    return GpuPlaceDocument(
        uuid=device.uuid,
        index=device.stated_index if offered else None,
        name=device.name or None,
        offered=offered,
        pci_bus_id=placement.pci_bus_id,
        numa_node=placement.numa_node,
        memory_numa_node=placement.memory_numa_node,
        cpus=cpu_list(placement.cpus) or None,
        link=PciePortDocument(
            generation=placement.generation,
            width=placement.width,
            generation_maximum=placement.generation_maximum,
            width_maximum=placement.width_maximum,
        ),
        slot=PcieSlotDocument(
            generation_maximum=placement.slot_generation_maximum,
            width_maximum=placement.slot_width_maximum,
        ),
        bridges=placement.bridges,
    )


def _gpu_link(link: GpuLink) -> GpuLinkDocument:
    is_uncounted = link.kind is LinkKind.NVLINK and not link.nvlinks
    return GpuLinkDocument(
        uuid=link.uuid,
        peer_uuid=link.peer_uuid,
        kind=_known_kind(link.kind),
        nvlinks=None if is_uncounted else link.nvlinks,
        pcie_kind=_known_kind(link.pcie_kind),
        can_read_peer=link.can_read_peer,
    )


def _adapter(adapter: Adapter) -> AdapterDocument:
    return AdapterDocument(
        name=adapter.name,
        kind=str(adapter.kind),
        pci_bus_id=adapter.pci_bus_id,
        numa_node=adapter.numa_node,
        links={uuid: _known_kind(kind) for uuid, kind in adapter.links.items()},
    )


def _known_kind(kind: LinkKind) -> LinkKind | None:
    return None if kind is LinkKind.UNKNOWN else kind
