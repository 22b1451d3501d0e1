"""What a dcgm-exporter says, read from its text; our own gauges are read the same way.

The one importer of prometheus_client in this room, for its parser alone.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.dcgm_names import DCGM_FIELDS
from rightsizer.domain.device import Device
from rightsizer.domain.errors import DriverError
from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import SIGNALS, Signal
from rightsizer.domain.units import Unit, convert
from rightsizer.domain.workload import Holding, Workload, WorkloadKind
from rightsizer.telemetry.recorded.devices import build_devices
from rightsizer.telemetry.recorded.plausible import plausible, scaled
from rightsizer.telemetry.recorded.row import Facts

__all__ = ["Exposition", "Series", "holdings_of", "parse_exposition", "parse_sample", "wanted"]

_OURS: Final = "rightsizer_"
_PREFIXES: Final = ("DCGM_FI_", _OURS)
_MIB: Final = 2.0**20
_MEMORY_PARTS: Final = {
    "DCGM_FI_DEV_FB_FREE": "memory_free_bytes",
    "DCGM_FI_DEV_FB_USED": "memory_used_bytes",
    "DCGM_FI_DEV_FB_RESERVED": "memory_reserved_bytes",
}


def _our_metric(signal: Signal) -> str:
    suffix = "_ratio" if SIGNALS[signal].unit is Unit.RATIO else ""
    return f"{_OURS}{signal}{suffix}"


_OUR_SIGNALS: Final = {_our_metric(signal): signal for signal in Signal}
_DESCRIBING: Final = {f"{_OURS}device_info", *_MEMORY_PARTS}
_EXPORTER: Final = re.compile("dcgm-exporter")
"""The exporter's own pod, which a scrape writes on the series of GPUs that nobody holds."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of an exposition without its value: whose reading it is, and of what."""

    metric: str
    device: str
    signal: Signal | None
    """`None` for what only describes the device."""
    factor: float
    rank: int
    holder: Workload | None
    facts: Facts
    """What the labels say of the device."""

    def read(self, value: float) -> float | Missing:
        """The reading in its base unit, or why it cannot be believed."""
        if self.signal is None:
            return Missing.NOT_READ
        return plausible(self.signal, scaled(value, self.factor))

    def learned(self, value: float) -> Facts:
        """What labels and value say of the device: a part of its memory, for one."""
        part = _MEMORY_PARTS.get(self.metric)
        if part is None:
            return self.facts
        size = plausible(Signal.MEMORY_USED_BYTES, value * _MIB)
        facts = replace(self.facts)
        if not isinstance(size, Missing):
            setattr(facts, part, size)
        return facts


@dataclass(frozen=True, slots=True)
class Exposition:
    """One scrape: the devices, and what was read of each, by uuid."""

    devices: tuple[Device, ...]
    values: Mapping[str, Mapping[Signal, float]]
    missing: Mapping[str, Mapping[Signal, Missing]]
    holdings: Mapping[str, tuple[Holding, ...]]


def wanted(line: str) -> bool:
    """Whether a line can hold a sample of interest."""
    return line.startswith(_PREFIXES)


def _parse_series(name: str, labels: Mapping[str, str]) -> Series | None:
    """What a sample's name and labels mean; `None` where it is of no use here."""
    field = DCGM_FIELDS.get(name)
    signal = field.signal if field is not None else _OUR_SIGNALS.get(name)
    uuid = labels.get("UUID") or labels.get("uuid")
    index = labels.get("gpu")
    if (signal is None and name not in _DESCRIBING) or not (uuid or index):
        return None
    whole = uuid or f"index:{index}"
    instance = labels.get("GPU_I_ID")
    if instance and field is not None and field.is_of_card:
        return None
    return Series(
        metric=name,
        device=_instance_key(whole, instance, labels) if instance else whole,
        signal=signal,
        factor=1.0 if field is None else convert(field.unit)[1],
        rank=0 if field is None else field.rank,
        holder=_holder(labels),
        facts=_facts(labels, whole),
    )


def parse_sample(text: str) -> Series | None:
    """What the name and labels of a line, `name{label="value"}`, mean.

    Raises:
        ValueError: the text is not of that form.
    """
    for family in text_string_to_metric_families(f"{text} 0\n"):
        for sample in family.samples:
            return _parse_series(sample.name, sample.labels)
    return None


def parse_exposition(text: str, catalogue: Catalogue) -> Exposition:
    """One scrape of a dcgm-exporter, samples with or without times.

    Raises:
        DriverError: the text is not an exposition.
    """
    found: dict[tuple[str, Signal], tuple[int, float | Missing]] = {}
    facts: dict[str, Facts] = {}
    holders: dict[str, set[Workload]] = {}
    for series, value in _samples(text):
        facts.setdefault(series.device, Facts()).learn(series.learned(value))
        if series.holder is not None:
            holders.setdefault(series.device, set()).add(series.holder)
        if series.signal is None:
            continue
        key = (series.device, series.signal)
        read = series.read(value)
        # What is there goes before what is missing, then the better of two fields.
        rank = -1 if isinstance(read, Missing) else series.rank
        if key not in found or rank >= found[key][0]:
            found[key] = (rank, read)
    values: dict[str, dict[Signal, float]] = {device: {} for device in facts}
    missing: dict[str, dict[Signal, Missing]] = {device: {} for device in facts}
    for (device, signal), (_, read) in found.items():
        if isinstance(read, Missing):
            missing[device][signal] = read
        else:
            values[device][signal] = read
    held = {device: holdings_of(of_device) for device, of_device in holders.items()}
    return Exposition(build_devices(facts, catalogue), values, missing, held)


def holdings_of(holders: set[Workload]) -> tuple[Holding, ...]:
    """Equal parts: an exporter says who shares a device, never how much each takes."""
    ordered = sorted(holders, key=lambda workload: workload.key)
    return tuple(Holding(workload, 1 / len(ordered)) for workload in ordered)


def _samples(text: str) -> Iterator[tuple[Series, float]]:
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                series = _parse_series(_name_in_text(sample.name), sample.labels)
                if series is not None:
                    yield series, sample.value
    except ValueError as error:
        raise DriverError(f"this is not the text of a dcgm-exporter: {error}") from None


def _name_in_text(name: str) -> str:
    """The name as it was written: the parser adds `_total` to counters that lack it."""
    return name.removesuffix("_total") if name.startswith("DCGM_FI_") else name


def _facts(labels: Mapping[str, str], whole: str) -> Facts:
    index, instance, node = labels.get("gpu"), labels.get("GPU_I_ID"), labels.get("numa_node")
    return Facts(
        index=int(index) if index and index.isdigit() else None,
        name=labels.get("modelName") or labels.get("model") or None,
        pci_bus_id=labels.get("pci_bus_id") or None,
        numa_node=int(node) if node and node.isdigit() else None,
        parent_uuid=whole if instance else labels.get("parent_uuid") or None,
        mig_profile=labels.get("GPU_I_PROFILE") or labels.get("mig_profile") or None,
        gpu_instance_id=int(instance) if instance and instance.isdigit() else None,
    )


def _instance_key(parent: str, instance: str, labels: Mapping[str, str]) -> str:
    return labels.get("dra_mig_device_uuid") or f"{parent}/gi{instance}"


def _holder(labels: Mapping[str, str]) -> Workload | None:
    def first(*names: str) -> str:
        return next((labels[name] for name in names if labels.get(name)), "")

    # With honorLabels off, the exporter's own pod is in `pod` and the GPU's in `exported_pod`.
    prefix = "exported_" if "exported_pod" in labels else ""
    pod = first(f"{prefix}pod", "pod_name")
    namespace = first(f"{prefix}namespace", "pod_namespace")
    container = first(f"{prefix}container", "container_name")
    if pod and not _EXPORTER.search(pod):
        key = f"kubernetes:{namespace}/{pod}"
        return Workload(
            key, WorkloadKind.KUBERNETES, pod, namespace=namespace, pod=pod, container=container
        )
    job = labels.get("hpc_job")
    return Workload(f"slurm:{job}", WorkloadKind.SLURM, job) if job else None
