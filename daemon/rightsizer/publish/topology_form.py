"""The node's topology as plain values for JSON; what is not known is null."""

from collections.abc import Collection, Iterable
from typing import Any

from rightsizer.domain.device import Device
from rightsizer.domain.topology import Adapter, Bridge, GpuLink, LinkKind, Placement, Topology

__all__ = ["cpu_list", "topology_form"]


def topology_form(
    topology: Topology, devices: Iterable[Device], offered: Collection[str]
) -> dict[str, Any]:
    """GPUs, the ways between them, adapters with their ways to each GPU, and NUMA nodes.

    Args:
        topology: How they hang together.
        devices: Those that have a place in it are told of.
        offered: The uuids of those that the driver offers; others have no index.
    """
    return {
        "gpus": [
            _gpu(device, topology.placements[device.uuid], is_offered=device.uuid in offered)
            for device in devices
            if device.uuid in topology.placements
        ],
        "links": [_link(link) for link in topology.links],
        "adapters": [_adapter(adapter) for adapter in topology.adapters],
        "numa_nodes": [
            {"node": node, "cpus": cpu_list(cpus)}
            for node, cpus in sorted(topology.numa_nodes.items())
        ],
    }


def cpu_list(cpus: tuple[int, ...]) -> str | None:
    """CPUs as the kernel and `taskset` write them, `0-55,112-167`; `None` for none."""
    spans: list[list[int]] = []
    for cpu in cpus:
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    return ",".join(parts) or None


def _gpu(device: Device, placement: Placement, *, is_offered: bool) -> dict[str, Any]:
    return {
        "uuid": device.uuid,
        "index": device.index if is_offered else None,
        "name": device.name or None,
        "offered": is_offered,
        "pci_bus_id": placement.pci_bus_id,
        "numa_node": placement.numa_node,
        "memory_numa_node": placement.memory_numa_node,
        "cpus": cpu_list(placement.cpus),
        "link": _port(placement),
        "slot": {
            "generation_maximum": placement.slot_generation_maximum,
            "width_maximum": placement.slot_width_maximum,
        },
        "bridges": [
            {"pci_bus_id": bridge.pci_bus_id, **_port(bridge)} for bridge in placement.bridges
        ],
    }


def _port(port: Placement | Bridge) -> dict[str, Any]:
    return {
        "generation": port.generation,
        "width": port.width,
        "generation_maximum": port.generation_maximum,
        "width_maximum": port.width_maximum,
    }


def _link(link: GpuLink) -> dict[str, Any]:
    return {
        "uuid": link.uuid,
        "peer_uuid": link.peer_uuid,
        "kind": _kind(link.kind),
        "nvlinks": None if link.kind is LinkKind.NVLINK and not link.nvlinks else link.nvlinks,
        "pcie_kind": _kind(link.pcie_kind),
        "can_read_peer": link.can_read_peer,
    }


def _adapter(adapter: Adapter) -> dict[str, Any]:
    return {
        "name": adapter.name,
        "kind": str(adapter.kind),
        "pci_bus_id": adapter.pci_bus_id,
        "numa_node": adapter.numa_node,
        "links": {uuid: _kind(kind) for uuid, kind in adapter.links.items()},
    }


def _kind(kind: LinkKind) -> str | None:
    return None if kind is LinkKind.UNKNOWN else str(kind)
