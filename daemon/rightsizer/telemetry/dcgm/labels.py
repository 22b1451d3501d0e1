"""What the labels of a sample say of the device, and how its holders share it."""

from collections.abc import Mapping

from rightsizer.domain.dcgm_labels import Entity
from rightsizer.domain.workload import Holding, Workload
from rightsizer.telemetry.recorded.row import Facts

__all__ = ["facts_of", "holdings_of"]


def facts_of(labels: Mapping[str, str], entity: Entity) -> Facts:
    """What the labels say of the device."""
    index, node = labels.get("gpu"), labels.get("numa_node")
    return Facts(
        index=int(index) if index and index.isdigit() else None,
        name=labels.get("modelName") or labels.get("model") or None,
        pci_bus_id=labels.get("pci_bus_id") or None,
        numa_node=int(node) if node and node.isdigit() else None,
        parent_uuid=entity.whole if entity.is_instance else labels.get("parent_uuid") or None,
        mig_profile=labels.get("GPU_I_PROFILE") or labels.get("mig_profile") or None,
        gpu_instance_id=entity.gpu_instance_id,
    )


def holdings_of(holders: set[Workload]) -> tuple[Holding, ...]:
    """Equal parts: an exporter says who shares a device, never how much each takes."""
    ordered = sorted(holders, key=lambda workload: (workload.key, workload.pod, workload.container))
    return tuple(Holding(workload, 1 / len(ordered)) for workload in ordered)
