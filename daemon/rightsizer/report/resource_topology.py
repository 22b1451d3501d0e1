"""The node as a NodeResourceTopology, by which Kubernetes' topology-aware schedulers place pods."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
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
    given = {each.uuid: each for each in devices if each.is_given_out}
    homes = {uuid: _node_of(each, topology) for uuid, each in given.items()}
    nodes = {*topology.numa_nodes, *(node for node in homes.values() if node is not None)}
    zones = sorted(node for node in nodes if node >= 0) or [0]
    if len(zones) == 1:
        homes = {uuid: zones[0] if node is None else node for uuid, node in homes.items()}
    return {
        "apiVersion": _VERSION,
        "kind": "NodeResourceTopology",
        "metadata": {"name": host},
        "zones": [
            {
                "name": f"node-{node}",
                "type": "Node",
                "costs": _costs(node, zones, distances),
                "resources": list(
                    _resources(
                        [given[uuid] for uuid, home in homes.items() if home == node],
                        topology.numa_nodes.get(node, ()),
                        held,
                    )
                ),
            }
            for node in zones
        ],
    }


def _resources(
    devices: Iterable[Device], cpus: Collection[int], held: Collection[str]
) -> Iterator[dict[str, str]]:
    """Each resource with how many there are, and how many are free."""
    counts: Counter[str] = Counter()
    free: Counter[str] = Counter()
    for each in devices:
        name = _GPU if each.mig is None else f"{_MIG}{each.mig.profile}"
        counts[name] += 1
        free[name] += each.uuid not in held
    found = sorted(counts.items())
    if cpus:
        found.append((_CPU, len(cpus)))
        free[_CPU] = len(cpus)
    for name, count in found:
        capacity, available = str(count), str(free[name])
        yield {"name": name, "capacity": capacity, "allocatable": capacity, "available": available}


def _node_of(device: Device, topology: Topology) -> int | None:
    place = topology.placements.get(device.uuid if device.mig is None else device.mig.parent_uuid)
    found = None if place is None else place.numa_node
    return device.numa_node if found is None else found


def _costs(
    node: int, zones: list[int], distances: Mapping[tuple[int, int], int]
) -> list[dict[str, Any]]:
    if len(zones) > 1 and not all((node, other) in distances for other in zones):
        return [{"name": f"node-{node}", "value": _HERE}]
    return [
        {"name": f"node-{other}", "value": distances.get((node, other), _HERE)} for other in zones
    ]
