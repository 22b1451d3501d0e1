"""Names, labels and default counters of dcgm-exporter, those of old releases included."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.model.dcgm_fields import LOAD_FIELDS, STATE_FIELDS, DcgmField
from rightsizer.model.dcgm_health_fields import HEALTH_FIELDS
from rightsizer.model.dcgm_unread_fields import UNREAD_FIELDS
from rightsizer.model.signal import Signal
from rightsizer.model.units import Unit, convert
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind, owner_of_pod

DCGM_FIELDS: Final[dict[str, DcgmField]] = {
    field.name: field for field in (*STATE_FIELDS, *LOAD_FIELDS, *HEALTH_FIELDS, *UNREAD_FIELDS)
}
"""By name; dcgm-exporter's own list, what is commented out in it, and more that says something."""


_DEVICE: Final = {
    "sm_clock": "SM_CLOCK",
    "memory_clock": "MEM_CLOCK",
    "memory_temp": "MEMORY_TEMP",
    "gpu_temp": "GPU_TEMP",
    "power_usage": "POWER_USAGE",
    "total_energy_consumption": "TOTAL_ENERGY_CONSUMPTION",
    "pcie_tx_throughput": "PCIE_TX_THROUGHPUT",
    "pcie_rx_throughput": "PCIE_RX_THROUGHPUT",
    "pcie_replay_counter": "PCIE_REPLAY_COUNTER",
    "gpu_utilization": "GPU_UTIL",
    "mem_copy_utilization": "MEM_COPY_UTIL",
    "enc_utilization": "ENC_UTIL",
    "dec_utilization": "DEC_UTIL",
    "xid_errors": "XID_ERRORS",
    "power_violation": "POWER_VIOLATION",
    "thermal_violation": "THERMAL_VIOLATION",
    "sync_boost_violation": "SYNC_BOOST_VIOLATION",
    "board_limit_violation": "BOARD_LIMIT_VIOLATION",
    "low_util_violation": "LOW_UTIL_VIOLATION",
    "reliability_violation": "RELIABILITY_VIOLATION",
    "fb_free": "FB_FREE",
    "fb_used": "FB_USED",
    "ecc_sbe_volatile_total": "ECC_SBE_VOL_TOTAL",
    "ecc_dbe_volatile_total": "ECC_DBE_VOL_TOTAL",
    "ecc_sbe_aggregate_total": "ECC_SBE_AGG_TOTAL",
    "ecc_dbe_aggregate_total": "ECC_DBE_AGG_TOTAL",
    "retired_pages_sbe": "RETIRED_SBE",
    "retired_pages_dbe": "RETIRED_DBE",
    "retired_pages_pending": "RETIRED_PENDING",
    "nvlink_flit_crc_error_count_total": "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "nvlink_data_crc_error_count_total": "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    "nvlink_replay_error_count_total": "NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "nvlink_recovery_error_count_total": "NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    "nvlink_bandwidth_total": "NVLINK_BANDWIDTH_TOTAL",
}
_PROFILING: Final = (
    "gr_engine_active",
    "sm_active",
    "sm_occupancy",
    "pipe_tensor_active",
    "pipe_fp64_active",
    "pipe_fp32_active",
    "pipe_fp16_active",
    "dram_active",
    "pcie_tx_bytes",
    "pcie_rx_bytes",
    "nvlink_tx_bytes",
    "nvlink_rx_bytes",
)

FORMER_DCGM_NAMES: Final[dict[str, str]] = {
    **{f"dcgm_{old}": f"DCGM_FI_DEV_{new}" for old, new in _DEVICE.items()},
    **{f"dcgm_fi_prof_{name}": f"DCGM_FI_PROF_{name.upper()}" for name in _PROFILING},
}
"""The name of today, by the former one; values and units are the same."""


_OTHERS: Final = {
    "nvlink": "it tells of one NVLink",
    "nvswitch": "it tells of a switch",
    "cpucore": "it tells of a CPU",
    "cpu": "it tells of a CPU",
}
_EXPORTER: Final = re.compile("dcgm-exporter")
"""The exporter's own pod, which a scrape writes on the series of GPUs that nobody holds."""


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


@dataclass(frozen=True, slots=True)
class DcgmCounter:
    """One of the counters that dcgm-exporter has on by default."""

    field: DcgmField
    help: str
    """In its own words, which dashboards and people look for."""
    signals: tuple[Signal, ...]
    """Their sum is the value; none where it comes from no signal."""
    unit: str
    """Its unit; empty for a plain number."""
    base_units: float
    """How many of our base units one of its units is."""
    decimals: int = 0
    """dcgm-exporter writes whole numbers, and fractions with six digits."""

    @property
    def name(self) -> str:
        """The name of the metric."""
        return self.field.name

    def text(self, value: float) -> str:
        """A value in base units as dcgm-exporter writes it."""
        return f"{value / self.base_units:.{self.decimals}f}"


def _counter(name: str, sentence: str, decimals: int = 0) -> DcgmCounter:
    field = DCGM_FIELDS[name]
    _, base_units = convert(field.unit)
    unit = "" if field.unit == Unit.COUNT else field.unit
    signals = () if field.signal is None else (field.signal,)
    return DcgmCounter(field, sentence, signals, unit, base_units, decimals)


DCGM_COUNTERS: Final = (
    _counter("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz)."),
    _counter("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz)."),
    _counter("DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C)."),
    _counter("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C)."),
    _counter("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", 6),
    _counter(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ)."
    ),
    _counter("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "Total number of PCIe retries."),
    _counter("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %)."),
    _counter("DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %)."),
    _counter("DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %)."),
    _counter("DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %)."),
    _counter("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered."),
    _counter("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB)."),
    _counter("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB)."),
    _counter("DCGM_FI_DEV_FB_RESERVED", "Framebuffer memory reserved (in MiB)."),
    _counter(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for uncorrectable errors",
    ),
    _counter(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for correctable errors"
    ),
    _counter("DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows has failed"),
    DcgmCounter(
        DCGM_FIELDS["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"],
        "Total number of NVLink bandwidth counters for all lanes.",
        (Signal.NVLINK_RECEIVE_BYTES_PER_SECOND, Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND),
        "MB/s",
        # A rate, whatever it is declared as: KiB/s by the driver, divided by 1000 in DCGM.
        # https://github.com/NVIDIA/dcgm-exporter/pull/658
        1024_000.0,
    ),
    _counter("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", 6),
    _counter(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        6,
    ),
    _counter(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        6,
    ),
    _counter(
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "The rate of data transmitted over the PCIe bus - including both protocol headers and "
        "data payloads - in bytes per second.",
    ),
    _counter(
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "The rate of data received over the PCIe bus - including both protocol headers and "
        "data payloads - in bytes per second.",
    ),
)
"""In the order of its list. The state of a vGPU license is not read, and so not claimed."""
