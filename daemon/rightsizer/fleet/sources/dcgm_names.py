"""Fields of dcgm-exporter that are read, their spellings, and the labels of their series."""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final

from rightsizer.model.dcgm_fields import (
    DCGM_FIELDS,
    FORMER_DCGM_NAMES,
    INSTANCE_LABELS,
    NAME_LABELS,
    PROFILE_LABELS,
    UUID_LABELS,
    DcgmField,
    Entity,
    entity_of,
    why_no_gpu,
)
from rightsizer.model.values import PIPES, Signal, Tier


def fields(*names: str) -> tuple[DcgmField, ...]:
    """Return fields by name, without `DCGM_FI_`."""
    return tuple(DCGM_FIELDS[f"DCGM_FI_{name}"] for name in names)


PEAKED: Final = fields(
    "DEV_GPU_UTIL",
    "PROF_GR_ENGINE_ACTIVE",
    "PROF_SM_ACTIVE",
    "PROF_PIPE_TENSOR_ACTIVE",
    "PROF_PIPE_FP64_ACTIVE",
    "PROF_PIPE_FP32_ACTIVE",
    "PROF_PIPE_FP16_ACTIVE",
    "PROF_PIPE_INT_ACTIVE",
    "PROF_DRAM_ACTIVE",
    "PROF_PCIE_TX_BYTES",
    "PROF_PCIE_RX_BYTES",
    "PROF_NVLINK_TX_BYTES",
    "PROF_NVLINK_RX_BYTES",
    "DEV_POWER_USAGE_INSTANT",
    "DEV_POWER_USAGE",
    "DEV_SM_CLOCK",
    "DEV_FB_USED",
    "DEV_ENC_UTIL",
    "DEV_DEC_UTIL",
    *(f"PROF_NVJPG{engine}_ACTIVE" for engine in range(8)),
)
"""Fields whose peaks are needed too. PCIe and NVLink bytes are rates, whatever type an exporter
declares: DCGM itself divides by time (dcgm-exporter#658)."""
(MEMORY_CONTROLLER,) = fields("DEV_MEM_COPY_UTIL")
MEASURED: Final = (*PEAKED, MEMORY_CONTROLLER)
"""Fields whose means are needed."""
ENERGY, POWER_VIOLATION, THERMAL_VIOLATION, XID = fields(
    "DEV_TOTAL_ENERGY_CONSUMPTION",
    "DEV_POWER_VIOLATION",
    "DEV_THERMAL_VIOLATION",
    "DEV_XID_ERRORS",
)
REASONS: Final = fields("DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCK_THROTTLE_REASONS")
THROTTLING: Final = (*REASONS, POWER_VIOLATION, THERMAL_VIOLATION)
HEALTH: Final = fields(
    "DEV_ROW_REMAP_FAILURE",
    "DEV_ROW_REMAP_PENDING",
    "DEV_ECC_DBE_VOL_TOTAL",
    "DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DEV_CORRECTABLE_REMAPPED_ROWS",
    "DEV_RETIRED_SBE",
    "DEV_RETIRED_DBE",
    "DEV_RETIRED_PENDING",
    "DEV_PCIE_REPLAY_COUNTER",
)
"""Faults of a GPU, beside its Xids."""
PIPES_TOLD: Final = fields("PROF_SM_ACTIVE", "PROF_PIPE_FP32_ACTIVE")
"""Without them small kernels, and FP32 work, cannot be distinguished."""
FIGURES: Final = fields(
    "DEV_FB_TOTAL",
    "DEV_FB_FREE",
    "DEV_FB_USED",
    "DEV_FB_RESERVED",
    "DEV_MAX_SM_CLOCK",
)
"""Sizes of a device."""
LIMITS: Final = fields("DEV_POWER_MGMT_LIMIT", "DEV_ENFORCED_POWER_LIMIT")
"""Present power limit, the better one last; the board's own is the catalogue's."""
# Memory is also exported for instances, which have no utilization.
_PRESENCE: Final = fields("DEV_FB_USED", "DEV_GPU_UTIL", "PROF_GR_ENGINE_ACTIVE", "DEV_POWER_USAGE")
_FORMER: Final[Mapping[str, str]] = {new: old for old, new in FORMER_DCGM_NAMES.items()}
_PROFILING: Final = frozenset(
    field.name
    for field in MEASURED
    if field.signal in {Signal.SM_ACTIVE, Signal.DRAM_ACTIVE, *PIPES}
)
_BUSY: Final = frozenset({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"})
_POWER: Final = frozenset({"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE_INSTANT"})


def spellings(field: DcgmField) -> tuple[str, ...]:
    """Return the current name, that of dcgm-exporter 1.x, and those of relays."""
    name = field.name
    small = field.name.lower()
    return tuple(dict.fromkeys((name, _FORMER.get(name, small), small, f"{name}_total")))


DIVIDED_NAMES: Final = frozenset(
    name for field in fields("DEV_GPU_UTIL", "DEV_FB_USED") for name in spellings(field)
)
"""Metrics that dcgm-exporter divides among the pods of a shared device, since 4.6.0-4.8.3 and with
`--kubernetes-virtual-gpus`: `isPerProcessMetric` of its process_metrics.go."""


def spelled(field: DcgmField, metrics: Collection[str]) -> tuple[str, ...]:
    """Return the spellings of a field that are among some metrics."""
    return tuple(name for name in spellings(field) if name in metrics)


def presence_names(metrics: Collection[str]) -> tuple[str, ...]:
    """Return the metrics that show that a device is watched: one field, in all its spellings."""
    return next(filter(None, (spelled(field, metrics) for field in _PRESENCE)), ())


def other_presence_names(metrics: Collection[str]) -> tuple[str, ...]:
    """Return those for exporters without that field: not all of a fleet export the same."""
    spelled_names = chain.from_iterable(spelled(field, metrics) for field in _PRESENCE)
    return tuple(name for name in spelled_names if name not in presence_names(metrics))


def presence_spellings() -> tuple[str, ...]:
    """Return all metrics by which a device may be known."""
    return tuple(name for field in _PRESENCE for name in spellings(field))


def tier_of_metrics(metrics: Iterable[str]) -> Tier:
    """Return the highest tier that the metrics of a fleet support."""
    fields = {FORMER_DCGM_NAMES.get(name, name.upper()).removesuffix("_TOTAL") for name in metrics}
    if fields & _PROFILING:
        return Tier.PROFILING
    if not fields & _BUSY:
        return Tier.NONE
    return Tier.POWER if fields & _POWER else Tier.BASIC


NAMELESS: Final = ",".join(f'{label}=""' for label in UUID_LABELS)
"""Matchers of series that name no GPU."""
DEVICE_LABELS: Final = (*UUID_LABELS, *INSTANCE_LABELS, "dra_mig_device_uuid")
"""Labels that distinguish devices."""
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
    # The scrape determines the meaning of `pod`.
    "job",
)
NODE_LABELS: Final = (
    "Hostname",
    "hostname",
    "exported_node",
    "node",
    "kubernetes_node",
    "nodename",
    "k8s_node_name",
    "NodeName",
)
INDEX_LABELS: Final = ("gpu", "GPU", "gpu_index", "gpu_id", "device")
FACT_LABELS: Final = (
    *DEVICE_LABELS,
    *INDEX_LABELS,
    *NAME_LABELS,
    "pci_bus_id",
    *PROFILE_LABELS,
    "parent_uuid",
    *NODE_LABELS,
    "instance",
)


def device_of(labels: Mapping[str, str]) -> Entity | None:
    """Return the device of a series; `None` without a unique name in a fleet."""
    return _device_of(tuple(labels.items()))


@lru_cache(maxsize=4096)  # Twice the series of one query.
def _device_of(pairs: tuple[tuple[str, str], ...]) -> Entity | None:
    """Remember the devices of a shard, which each figure of it names again."""
    labels = dict(pairs)
    if why_no_gpu(labels) is not None or not any(map(labels.get, UUID_LABELS)):
        return None
    return entity_of(labels)
