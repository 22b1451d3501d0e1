"""The labels of dcgm-exporter's series, and of those who scrape it, over all its versions."""

from collections.abc import Mapping
from typing import Final

from rightsizer.domain.dcgm_labels import Entity, entity_of, why_no_gpu
from rightsizer.fleet.sources.labels import node_of as plain_node

__all__ = [
    "DEVICE_LABELS",
    "EXPORTER",
    "FACT_LABELS",
    "HOLDER_LABELS",
    "SCRAPER_LABELS",
    "UUID_LABELS",
    "device_of",
    "node_of",
]

UUID_LABELS: Final = ("UUID", "uuid")
DEVICE_LABELS: Final = (*UUID_LABELS, "GPU_I_ID", "dra_mig_device_uuid")
"""Those that tell one device from another."""
SCRAPER_LABELS: Final = ("instance", "job", "prometheus", "prometheus_replica", "replica")
"""Those that tell one scrape of a device from another."""
HOLDER_LABELS: Final = (
    "pod",
    "namespace",
    "container",
    "exported_pod",
    "exported_namespace",
    "exported_container",
    "pod_name",
    "pod_namespace",
    "container_name",
    "hpc_job",
    # Which scrape it is tells what `pod` means.
    "job",
)
_NODE_LABELS: Final = (
    "Hostname",
    "hostname",
    "exported_node",
    "node",
    "kubernetes_node",
    "nodename",
)
FACT_LABELS: Final = (
    *DEVICE_LABELS,
    "gpu",
    "modelName",
    "model",
    "pci_bus_id",
    "GPU_I_PROFILE",
    "mig_profile",
    "parent_uuid",
    *_NODE_LABELS,
    "instance",
)
EXPORTER: Final = "dcgm-exporter"


def device_of(labels: Mapping[str, str]) -> Entity | None:
    """The device that a series is about; `None` where it has no name of its own in an estate."""
    if why_no_gpu(labels) is not None or not (labels.get("UUID") or labels.get("uuid")):
        return None
    return entity_of(labels)


def node_of(labels: Mapping[str, str], node_of_pod: Mapping[str, str]) -> str:
    """The host: as the exporter calls it, unless it calls itself by its own pod's name."""
    names = [labels[label] for label in _NODE_LABELS if labels.get(label)]
    hosts = (name for name in names if EXPORTER not in name)
    known = (node_of_pod[name] for name in names if name in node_of_pod)
    instance = plain_node({"instance": labels.get("instance", "")})
    return next(hosts, "") or next(known, "") or instance
