"""DCGM fields and dcgm-exporter counters, listed in `dcgm_fields.csv`, and its labels."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from rightsizer.model.device import BY_INDEX
from rightsizer.model.signal import Signal
from rightsizer.model.table import table_rows
from rightsizer.model.units import Unit, convert
from rightsizer.model.workload import Workload, workload_of_job, workload_of_pod


class DcgmType(StrEnum):
    """Metric type as declared by dcgm-exporter, which may differ from the actual one."""

    GAUGE = "gauge"
    COUNTER = "counter"
    LABEL = "label"
    """Not a metric: a label on all others."""


class DcgmField(Struct, frozen=True):
    """Field of DCGM, or metric computed by dcgm-exporter itself."""

    name: str
    type: DcgmType
    unit: str
    """Spelling accepted by `model.units.convert`; `count` for plain numbers."""
    signal: Signal | None
    short_name: str | None
    """Column heading in `dcgmi dmon`."""
    rank: int
    """Priority among several fields of one signal; the highest wins."""
    is_default: bool
    """Whether dcgm-exporter's default counter list enables it."""
    is_of_card: bool
    """Covers the whole card even if labeled with a MIG instance."""
    is_part: bool
    """The signal is the sum of all its parts."""
    unused_because: str
    """Why it is not read, if it has no signal."""

    @property
    def is_profiling(self) -> bool:
        """Whether it comes from hardware counters rather than NVML."""
        return self.name.startswith("DCGM_FI_PROF_")


class DcgmCounter(Struct, frozen=True):
    """Counter enabled in dcgm-exporter by default."""

    field: DcgmField
    help: str
    """Help text of dcgm-exporter, which dashboards and people search for."""
    signals: tuple[Signal, ...]
    """Signals whose sum is the value; empty if no signal provides it."""
    unit: str
    """Unit of the metric; empty for a plain number."""
    base_units: float
    """Size of its unit in base units."""
    decimals: int = 0
    """dcgm-exporter writes integers, and fractions with six digits."""

    @property
    def name(self) -> str:
        """Name of the metric."""
        return self.field.name

    def text(self, value: float) -> str:
        """Format a value in base units as dcgm-exporter does."""
        return f"{value / self.base_units:.{self.decimals}f}"


def _field(row: dict[str, str]) -> DcgmField:
    return DcgmField(
        name=row["name"],
        type=DcgmType(row["type"]),
        unit=row["unit"],
        signal=Signal(row["signal"]) if row["signal"] else None,
        short_name=row["short_name"] or None,
        rank=int(row["rank"] or 0),
        is_default=bool(row["is_default"]),
        is_of_card=bool(row["is_of_card"]),
        is_part=bool(row["is_part"]),
        unused_because=row["unused_because"],
    )


def _counter(row: dict[str, str]) -> DcgmCounter:
    field = DCGM_FIELDS[row["name"]]
    signals: tuple[Signal, ...] = () if field.signal is None else (field.signal,)
    unit = "" if field.unit == Unit.COUNT else field.unit
    base_units = convert(field.unit)[1]
    if field.name == _NVLINK_TRAFFIC:
        # A rate despite its declared type: KiB/s in the driver, divided by 1000 in DCGM.
        # https://github.com/NVIDIA/dcgm-exporter/pull/658
        signals = _NVLINK_RATES
        unit = "MB/s"
        base_units = 1024_000.0
    return DcgmCounter(field, row["help"], signals, unit, base_units, int(row["decimals"] or 0))


_NVLINK_TRAFFIC: Final = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"
_NVLINK_RATES: Final = (
    Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
    Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
)
_ROWS: Final = table_rows(__file__, "dcgm_fields.csv")

DCGM_FIELDS: Final[dict[str, DcgmField]] = {row["name"]: _field(row) for row in _ROWS}
"""By name: dcgm-exporter's own list, its commented-out entries, and other useful fields."""

FORMER_DCGM_NAMES: Final[dict[str, str]] = {
    row["former_name"]: row["name"] for row in _ROWS if row["former_name"]
}
"""Current name by former name; values and units are the same."""

DCGM_COUNTERS: Final = tuple(_counter(row) for row in _ROWS if row["help"])
"""In dcgm-exporter's order, without the vGPU license state, which is not read."""

DIVIDED_DCGM_FIELDS: Final = frozenset(
    {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"}
)
"""With `--kubernetes-virtual-gpus`, dcgm-exporter since 4.6 writes the GPU's value without a pod,
and each pod's part of it; in some releases the last of these too. Others are copied to each pod."""

_OTHERS: Final = {
    "nvlink": "it tells of one NVLink",
    "nvswitch": "it tells of a switch",
    "cpucore": "it tells of a CPU",
    "cpu": "it tells of a CPU",
}
EXPORTER: Final = "dcgm-exporter"
"""In the name of the exporter's own pod, which a scrape puts on series of unallocated GPUs."""


class Entity(Struct, frozen=True):
    """Device of a sample."""

    device: str
    """UUID; `PARENT/giN` for a MIG instance identified by its GPU; `index:N` without a UUID."""
    whole: str | None
    """GPU itself or parent of the instance; `None` if not stated."""
    gpu_instance_id: int | None = None
    is_instance: bool = False


def why_no_gpu(labels: Mapping[str, str]) -> str | None:
    """Reason why a sample belongs to no GPU, or `None` if it belongs to one."""
    return next((why for label, why in _OTHERS.items() if label in labels), None)


UUID_LABELS: Final = ("UUID", "uuid", "gpuuuid", "gpu_uuid")
"""Labels of a GPU's uuid: the exporter's, and what relays and dashboards rename it to."""
INSTANCE_LABELS: Final = ("GPU_I_ID", "gpu_i_id")
"""Labels of a MIG instance: exporters' spelling, and lower case after some relays."""
NAME_LABELS: Final = ("modelName", "model", "model_name", "modelname")
PROFILE_LABELS: Final = ("GPU_I_PROFILE", "dra_mig_profile", "mig_profile", "gpu_i_profile")


def entity_of(labels: Mapping[str, str]) -> Entity | None:
    """Device of a sample by its labels, or `None` if they do not identify one."""
    uuid = next(filter(None, map(labels.get, UUID_LABELS)), None)
    index = labels.get("gpu")
    if not (uuid or index):
        return None
    whole = uuid or f"{BY_INDEX}{index}"
    instance = next(filter(None, map(labels.get, INSTANCE_LABELS)), None)
    number = int(instance) if instance and instance.isdigit() else None
    if whole.startswith("MIG-"):
        return Entity(whole, labels.get("parent_uuid") or None, number, is_instance=True)
    if instance:
        device = labels.get("dra_mig_device_uuid") or f"{whole}/gi{instance}"
        return Entity(device, whole, number, is_instance=True)
    return Entity(whole, whole)


_LABELED: Final = "a label of a metrics exporter names it, which proves nothing"


def holder_of(labels: Mapping[str, str]) -> Workload | None:
    """Pod or job that the device is allocated to."""

    def first(*names: str) -> str:
        return next((labels[name] for name in names if labels.get(name)), "")

    # Slurm may run in pods: then the job has the GPU, and the pod is Slurm's own.
    if job := labels.get("hpc_job"):
        return workload_of_job(job, unproven=_LABELED)
    # With honorLabels off, what the target has too is renamed: `pod` is then the exporter's own.
    pods = filter(None, map(labels.get, ("exported_pod", "pod", "pod_name")))
    pod = next((candidate for candidate in pods if EXPORTER not in candidate), "")
    if not pod:
        return None
    namespace = first("exported_namespace", "pod_namespace", "namespace")
    container = first("exported_container", "container_name", "container")
    return workload_of_pod(namespace, pod, container, _LABELED)
