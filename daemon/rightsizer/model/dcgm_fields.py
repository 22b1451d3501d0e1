"""DCGM's fields and dcgm-exporter's counters, as `dcgm_fields.csv` lists them, and its labels."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rightsizer.model.frozen import dataclass
from rightsizer.model.signal import Signal
from rightsizer.model.table import table_rows
from rightsizer.model.units import Unit, convert
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind, owner_of_pod


class DcgmType(StrEnum):
    """How dcgm-exporter declares a metric, which is not always what it is."""

    GAUGE = "gauge"
    COUNTER = "counter"
    LABEL = "label"
    """No metric: a label on all the others."""


@dataclass(frozen=True, slots=True)
class DcgmField:
    """One field of DCGM, or one metric that dcgm-exporter makes itself."""

    name: str
    type: DcgmType
    unit: str
    """A spelling that `model.units.convert` knows; `count` for plain numbers."""
    signal: Signal | None
    short_name: str | None
    """The heading of its column in `dcgmi dmon`."""
    rank: int
    """Of several fields with one signal, the one with the highest rank is taken."""
    is_default: bool
    """Whether dcgm-exporter's own list of counters turns it on."""
    is_of_card: bool
    """Tells of the whole card even where it is labelled with a MIG instance."""
    is_part: bool
    """The signal is the sum of all fields that are parts of it."""
    unused_because: str
    """Why it is not read, where it has no signal."""

    @property
    def is_profiling(self) -> bool:
        """Whether it comes from the hardware's counters rather than from NVML."""
        return self.name.startswith("DCGM_FI_PROF_")


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
    unit, base_units = "" if field.unit == Unit.COUNT else field.unit, convert(field.unit)[1]
    if field.name == _NVLINK_TRAFFIC:
        # A rate, whatever it is declared as: KiB/s by the driver, divided by 1000 in DCGM.
        # https://github.com/NVIDIA/dcgm-exporter/pull/658
        signals, unit, base_units = _NVLINK_RATES, "MB/s", 1024_000.0
    return DcgmCounter(field, row["help"], signals, unit, base_units, int(row["decimals"] or 0))


_NVLINK_TRAFFIC: Final = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"
_NVLINK_RATES: Final = (
    *(Signal.NVLINK_RECEIVE_BYTES_PER_SECOND, Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND),
)
_ROWS: Final = table_rows(__file__, "dcgm_fields.csv")

DCGM_FIELDS: Final[dict[str, DcgmField]] = {row["name"]: _field(row) for row in _ROWS}
"""By name; dcgm-exporter's own list, what is commented out in it, and more that says something."""

FORMER_DCGM_NAMES: Final[dict[str, str]] = {
    row["former_name"]: row["name"] for row in _ROWS if row["former_name"]
}
"""The name of today, by the former one; values and units are the same."""

DCGM_COUNTERS: Final = tuple(_counter(row) for row in _ROWS if row["help"])
"""In the order of its list. The state of a vGPU license is not read, and so not claimed."""

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


INSTANCE_LABELS: Final = ("GPU_I_ID", "gpu_i_id")
"""Of a MIG instance: as exporters write it, and where relays write labels small."""


def entity_of(labels: Mapping[str, str]) -> Entity | None:
    """Whose reading it is, `None` where the labels do not say."""
    uuid, index = labels.get("UUID") or labels.get("uuid"), labels.get("gpu")
    if not (uuid or index):
        return None
    whole = uuid or f"index:{index}"
    instance = next(filter(None, map(labels.get, INSTANCE_LABELS)), None)
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
