"""The node as a NodeResourceTopology, by which Kubernetes' topology-aware schedulers place pods."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from rightsizer.model.device import Device
from rightsizer.model.topology import Topology

_VERSION: Final = "topology.node.k8s.io/v1alpha2"
_GPU: Final = "nvidia.com/gpu"
_MIG: Final = "nvidia.com/mig-"
_CPU: Final = "cpu"
_HERE: Final = 10
"""A node's distance to itself, by the firmware's convention (ACPI, SLIT)."""


def resource_topology(
    devices: Iterable[Device],
    topology: Topology,
    distances: Mapping[tuple[int, int], int],
    held: Collection[str],
    host: str,
) -> dict[str, Any]:
    """The object, one zone for each NUMA node with CPUs or devices.

    `available` leaves out what is held now, by processes or by allocation. Of CPUs only the
    capacity is known here: what the kubelet has given away of them, it alone knows. Resources have
    the names that NVIDIA's device plugin gives them (mixed strategy). Devices whose node is unknown
    are in the first zone of a machine with a single one, and else in none.

    Args:
        devices: All of the node; GPUs that are cut up are left out.
        topology: Of the node.
        distances: Between NUMA nodes; empty where unknown.
        held: Uuids of what is in use.
        host: The node's name in Kubernetes.
    """
    given = tuple(each for each in devices if each.is_given_out)
    nodes = sorted({*topology.numa_nodes, *(_known(_node_of(each, topology)) for each in given)})
    zones = sorted(node for node in nodes if node >= 0) or [0]
    return {
        "apiVersion": _VERSION,
        "kind": "NodeResourceTopology",
        "metadata": {"name": host},
        "zones": [
            {
                "name": f"node-{node}",
                "type": "Node",
                "costs": _costs(node, zones, distances),
                "resources": _resources(
                    [each for each in given if _is_in(each, node, zones, topology)],
                    topology.numa_nodes.get(node, ()),
                    held,
                ),
            }
            for node in zones
        ],
    }


def _node_of(device: Device, topology: Topology) -> int | None:
    place = topology.placements.get(device.uuid if device.mig is None else device.mig.parent_uuid)
    found = None if place is None else place.numa_node
    return device.numa_node if found is None else found


def _known(node: int | None) -> int:
    return -1 if node is None else node


def _is_in(device: Device, node: int, zones: list[int], topology: Topology) -> bool:
    found = _node_of(device, topology)
    return found == node or (found is None and len(zones) == 1)


def _costs(
    node: int, zones: list[int], distances: Mapping[tuple[int, int], int]
) -> list[dict[str, Any]]:
    if len(zones) > 1 and not all((node, other) in distances for other in zones):
        return [{"name": f"node-{node}", "value": _HERE}]
    return [
        {"name": f"node-{other}", "value": distances.get((node, other), _HERE)} for other in zones
    ]


def _resources(
    devices: list[Device], cpus: Collection[int], held: Collection[str]
) -> list[dict[str, str]]:
    names = [_GPU if each.mig is None else f"{_MIG}{each.mig.profile}" for each in devices]
    found = []
    for name in sorted(set(names)):
        own = [each.uuid for each, its in zip(devices, names, strict=True) if its == name]
        free = sum(uuid not in held for uuid in own)
        found.append(_resource(name, len(own), free))
    return [*found, _resource(_CPU, len(cpus), len(cpus))] if cpus else found


def _resource(name: str, capacity: int, available: int) -> dict[str, str]:
    return {
        "name": name,
        "capacity": str(capacity),
        "allocatable": str(capacity),
        "available": str(available),
    }
