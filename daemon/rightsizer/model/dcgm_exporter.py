"""Labels of dcgm-exporter, those of old releases included: the device and who holds it."""

import re
from collections.abc import Mapping
from typing import Final

from rightsizer.model.frozen import dataclass
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind, owner_of_pod

_OTHERS: Final = {
    "nvlink": "it tells of one NVLink",
    "nvswitch": "it tells of a switch",
    "cpucore": "it tells of a CPU",
    "cpu": "it tells of a CPU",
}
_EXPORTER: Final = re.compile("dcgm-exporter")
"""The exporter's own pod, which a scrape writes on the series of GPUs without a holder."""


@dataclass(frozen=True, slots=True)
class Entity:
    """The device that a sample belongs to."""

    device: str
    """The uuid; `PARENT/giN` for a MIG instance that is known by its GPU, `index:N` without any."""
    whole: str | None
    """The GPU that it is, or is a part of; `None` where that is not said."""
    gpu_instance_id: int | None = None
    is_instance: bool = False


def why_no_gpu(labels: Mapping[str, str]) -> str | None:
    """Why a sample tells of no GPU at all, `None` where it does."""
    return next((why for label, why in _OTHERS.items() if label in labels), None)


def entity_of(labels: Mapping[str, str]) -> Entity | None:
    """Whose reading it is, `None` where the labels do not say."""
    uuid, index = labels.get("UUID") or labels.get("uuid"), labels.get("gpu")
    if not (uuid or index):
        return None
    whole = uuid or f"index:{index}"
    instance = labels.get("GPU_I_ID")
    number = int(instance) if instance and instance.isdigit() else None
    if whole.startswith("MIG-"):
        return Entity(whole, labels.get("parent_uuid") or None, number, is_instance=True)
    if instance:
        device = labels.get("dra_mig_device_uuid") or f"{whole}/gi{instance}"
        return Entity(device, whole, number, is_instance=True)
    return Entity(whole, whole)


def holder_of(labels: Mapping[str, str]) -> Workload | None:
    """The pod or job that the device was given to."""

    def first(*names: str) -> str:
        return next((labels[name] for name in names if labels.get(name)), "")

    # With honorLabels off, the exporter's own pod is in `pod` and the GPU's in `exported_pod`.
    prefix = "exported_" if "exported_pod" in labels else ""
    pod = first(f"{prefix}pod", "pod_name")
    namespace = first(f"{prefix}namespace", "pod_namespace")
    container = first(f"{prefix}container", "container_name")
    if pod and not _EXPORTER.search(pod):
        # By the same key that the node's own owners give it.
        made_by = owner_of_pod(pod)
        return Workload(
            f"kubernetes:{namespace}/{made_by.name}",
            WorkloadKind.KUBERNETES,
            made_by.name,
            made_by.workload_class,
            namespace=namespace,
            pod=pod,
            container=container,
        )
    job = labels.get("hpc_job")
    if not job:
        return None
    return Workload(f"slurm:{job}", WorkloadKind.SLURM, job, WorkloadClass.BATCH)
