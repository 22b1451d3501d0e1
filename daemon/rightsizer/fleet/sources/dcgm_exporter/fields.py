"""DCGM fields asked for, their metric names, and the labels of dcgm-exporter over all versions."""

from collections.abc import Iterable, Mapping
from typing import Final

from rightsizer.fleet.sources.series import node_of as plain_node
from rightsizer.model.dcgm_exporter import (
    DCGM_FIELDS,
    FORMER_DCGM_NAMES,
    Entity,
    entity_of,
    why_no_gpu,
)
from rightsizer.model.dcgm_fields import DcgmField
from rightsizer.model.signal import PIPES, Signal
from rightsizer.model.state import Tier

_LOAD: Final = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
    "DCGM_FI_PROF_PIPE_INT_ACTIVE",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_PCIE_TX_BYTES",
    "DCGM_FI_PROF_PCIE_RX_BYTES",
    "DCGM_FI_PROF_NVLINK_TX_BYTES",
    "DCGM_FI_PROF_NVLINK_RX_BYTES",
    "DCGM_FI_DEV_POWER_USAGE_INSTANT",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_FB_USED",
)
_ENGINES: Final = (
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_ENC_UTIL",
    "DCGM_FI_DEV_DEC_UTIL",
)

PEAKED: Final = tuple(DCGM_FIELDS[name] for name in _LOAD)
"""Those of which the largest reading counts too. Bytes over PCIe and NVLink are rates, whatever
type an exporter declares: DCGM itself divides by time (dcgm-exporter#658)."""
MEASURED: Final = (*PEAKED, *(DCGM_FIELDS[name] for name in _ENGINES))
"""Those of which a mean is asked for."""
ENERGY: Final = DCGM_FIELDS["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]
POWER_VIOLATION: Final = DCGM_FIELDS["DCGM_FI_DEV_POWER_VIOLATION"]
THERMAL_VIOLATION: Final = DCGM_FIELDS["DCGM_FI_DEV_THERMAL_VIOLATION"]
REASONS: Final = (
    DCGM_FIELDS["DCGM_FI_DEV_CLOCKS_EVENT_REASONS"],
    DCGM_FIELDS["DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"],
)
XID: Final = DCGM_FIELDS["DCGM_FI_DEV_XID_ERRORS"]

FIGURES: Final = tuple(
    DCGM_FIELDS[name]
    for name in (
        "DCGM_FI_DEV_FB_TOTAL",
        "DCGM_FI_DEV_FB_FREE",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_FB_RESERVED",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT",
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
        "DCGM_FI_DEV_MAX_SM_CLOCK",
    )
)
"""What says how large a device is."""

_PRESENCE: Final = (
    # Memory is told of instances too, which have no utilization.
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_DEV_POWER_USAGE",
)
_FORMER: Final[Mapping[str, str]] = {new: old for old, new in FORMER_DCGM_NAMES.items()}
_PROFILING: Final = frozenset(
    field.name
    for field in MEASURED
    if field.signal in {Signal.SM_ACTIVE, Signal.DRAM_ACTIVE, *PIPES}
)
_BUSY: Final = frozenset({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"})
_POWER: Final = frozenset({"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE_INSTANT"})


def spellings(field: DcgmField) -> tuple[str, ...]:
    """Today's name, that of dcgm-exporter 1.x, and what a relay makes of a counter."""
    former = _FORMER.get(field.name)
    return (field.name, *((former,) if former else ()), f"{field.name}_total")


DIVIDED_NAMES: Final = frozenset(
    name
    for field in ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED")
    for name in spellings(DCGM_FIELDS[field])
)
"""What dcgm-exporter divides among the pods that share a device, since 4.6.0-4.8.3 and with
`--kubernetes-virtual-gpus`: `isPerProcessMetric` of its process_metrics.go."""


def presence_names(metrics: Iterable[str]) -> tuple[str, ...]:
    """The metrics whose samples say that a device is watched: one field, in all its spellings."""
    found = frozenset(metrics)
    for name in _PRESENCE:
        there = tuple(each for each in spellings(DCGM_FIELDS[name]) if each in found)
        if there:
            return there
    return ()


def tier_of_metrics(metrics: Iterable[str]) -> Tier:
    """What the metrics of an estate allow to be claimed at best."""
    found = {FORMER_DCGM_NAMES.get(name, name).removesuffix("_total") for name in metrics}
    if found & _PROFILING:
        return Tier.PROFILING
    if not found & _BUSY:
        return Tier.NONE
    return Tier.POWER if found & _POWER else Tier.BASIC


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
