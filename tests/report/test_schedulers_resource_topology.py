"""The NodeResourceTopology object."""

from typing import Any

from msgspec.structs import replace

from placement_nodes import PlacementNode, hgx, mig_node, virtual_machine
from rightsizer.model.topology import Placement
from rightsizer.report.schedulers import resource_topology

DISTANCES = {(0, 0): 10, (0, 1): 21, (1, 0): 21, (1, 1): 10}


def zones(
    node: PlacementNode, held: tuple[str, ...] = (), numa_nodes: int = 2, **more: Any
) -> list[dict[str, Any]]:
    """Its zones."""
    topology = replace(
        node.topology,
        placements={slot.uuid: slot.placement or Placement(slot.uuid) for slot in node.slots},
        numa_nodes={each: tuple(range(each * 8, each * 8 + 8)) for each in range(numa_nodes)},
    )
    devices = [slot.device for slot in node.slots]
    options = {"distances": DISTANCES, **more}
    document = resource_topology(devices, topology, options["distances"], held, "gpu-1")
    assert document["apiVersion"] == "topology.node.k8s.io/v1alpha2"
    assert document["metadata"] == {"name": "gpu-1"}
    found: list[dict[str, Any]] = document["zones"]
    return found


def counts(zone: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Capacity and available count by resource."""
    return {each["name"]: (each["capacity"], each["available"]) for each in zone["resources"]}


def test_each_numa_node_is_a_zone_with_its_gpus_and_the_cost_to_the_others() -> None:
    """Each socket has four GPUs, one of them in use."""
    first, second = zones(hgx(), held=("GPU-1",))

    assert first["name"] == "node-0"
    assert first["type"] == "Node"
    assert counts(first) == {"nvidia.com/gpu": ("4", "3"), "cpu": ("8", "8")}
    assert counts(second) == {"nvidia.com/gpu": ("4", "4"), "cpu": ("8", "8")}
    assert second["costs"] == [
        {"name": "node-0", "value": 21},
        {"name": "node-1", "value": 10},
    ]


def test_mig_instances_are_resources_of_their_own() -> None:
    """Names are those of NVIDIA's device plugin; the partitioned GPU is not listed."""
    first, second = zones(mig_node([["1g.10gb", "1g.10gb"], []]), held=("MIG-0-1",))

    assert counts(first) == {"nvidia.com/mig-1g.10gb": ("2", "1"), "cpu": ("8", "8")}
    assert counts(second) == {"nvidia.com/gpu": ("1", "1"), "cpu": ("8", "8")}


def test_without_numa_all_is_in_one_zone() -> None:
    """A virtual machine has no nodes."""
    (zone,) = zones(virtual_machine(), numa_nodes=0, distances={})

    assert counts(zone) == {"nvidia.com/gpu": ("4", "4")}
    assert zone["costs"] == [{"name": "node-0", "value": 10}]


def test_of_several_zones_none_is_guessed_for_a_gpu_that_tells_none() -> None:
    """A scheduler would assume it near to CPUs that are far."""
    found = zones(virtual_machine())

    assert [counts(zone) for zone in found] == [{"cpu": ("8", "8")}] * 2


def test_a_distance_that_is_not_reported_is_left_out() -> None:
    """Wrong costs are worse than none."""
    first, _ = zones(hgx(), distances={(0, 0): 10})

    assert first["costs"] == [{"name": "node-0", "value": 10}]
