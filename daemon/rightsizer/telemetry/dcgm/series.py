"""One line of an exposition: meaning of its name and labels, and its row."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from rightsizer.model.dcgm_exporter import (
    DCGM_FIELDS,
    FORMER_DCGM_NAMES,
    Entity,
    entity_of,
    holder_of,
    why_no_gpu,
)
from rightsizer.model.dcgm_fields import DcgmField
from rightsizer.model.plausible import plausible, scaled
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds, Unit, convert
from rightsizer.model.workload import Holding, Workload
from rightsizer.telemetry.recordings.row import RecordingDeviceFacts, RecordingRow


def facts_of(labels: Mapping[str, str], entity: Entity) -> RecordingDeviceFacts:
    """What the labels say of the device."""
    index, node = labels.get("gpu"), labels.get("numa_node")
    return RecordingDeviceFacts(
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


XID_METRIC: Final = "DCGM_FI_DEV_XID_ERRORS"

_OURS: Final = "rightsizer_"
_PREFIXES: Final = ("DCGM_", "dcgm_", _OURS)
_MIB: Final = 2.0**20
_MEMORY_PARTS: Final = {
    "DCGM_FI_DEV_FB_FREE": "memory_free_bytes",
    "DCGM_FI_DEV_FB_USED": "memory_used_bytes",
    "DCGM_FI_DEV_FB_RESERVED": "memory_reserved_bytes",
}


def _our_metric(signal: Signal) -> str:
    suffix = "_ratio" if signal.unit is Unit.RATIO else ""
    return f"{_OURS}{signal}{suffix}"


_OUR_SIGNALS: Final = {_our_metric(signal): signal for signal in Signal}
_DESCRIBING: Final = frozenset({f"{_OURS}device_info", XID_METRIC})


@dataclass(frozen=True, slots=True)
class DcgmSeries:
    """One line of an exposition without its value: whose reading it is, and of what."""

    metric: str
    """By today's name."""
    device: str
    signal: Signal | None
    """`None` for what only describes the device."""
    factor: float
    rank: int
    holder: Workload | None
    facts: RecordingDeviceFacts
    """What the labels say of the device."""
    part_of: Signal | None = None
    """The signal that several such series sum up to; `signal` is `None` then."""
    driver_version: str | None = None

    @property
    def is_profiling(self) -> bool:
        """Whether it comes from the hardware's own counters."""
        field = DCGM_FIELDS.get(self.metric)
        return field is not None and field.is_profiling

    def read(self, value: float) -> float | Missing:
        """The reading in its base unit, or why it cannot be believed."""
        signal = self.signal or self.part_of
        if signal is None:
            return Missing.NOT_READ
        return plausible(signal, scaled(value, self.factor))

    def learned(self, value: float) -> RecordingDeviceFacts:
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
class UnusedSeries:
    """A line that says nothing here."""

    metric: str
    because: str


def wanted(line: str) -> bool:
    """Whether a line can hold a sample of interest."""
    return line.startswith(_PREFIXES)


def interpret(text: str) -> DcgmSeries | UnusedSeries:
    """What the name and labels of a line, `name{label="value"}`, mean, or why nothing.

    Raises:
        ValueError: the text is not of that form.
    """
    try:
        families = tuple(text_string_to_metric_families(f"{text} 0\n"))
    except IndexError:
        # What the parser says to labels like `{,=}`.
        families = ()
    for family in families:
        for sample in family.samples:
            return _interpret(_name_of_today(sample.name), sample.labels)
    raise ValueError(f"'{text}' is not a sample")


def series_of(name: str, labels: Mapping[str, str]) -> DcgmSeries | None:
    """What a name and labels mean; `None` where they say nothing here."""
    found = _interpret(_name_of_today(name), labels)
    return found if isinstance(found, DcgmSeries) else None


def parse_sample(text: str) -> DcgmSeries | None:
    """What the name and labels of a line mean; `None` where they say nothing here.

    Raises:
        ValueError: the text is not of the form `name{label="value"}`.
    """
    found = interpret(text)
    return found if isinstance(found, DcgmSeries) else None


def _name_of_today(name: str) -> str:
    """Former names, and names to which a relay has added the suffix of counters."""
    name = FORMER_DCGM_NAMES.get(name, name)
    if name in DCGM_FIELDS or not name.startswith("DCGM_"):
        return name
    return name.removesuffix("_total")


def _interpret(name: str, labels: Mapping[str, str]) -> DcgmSeries | UnusedSeries:
    field = DCGM_FIELDS.get(name)
    signal = field.signal if field is not None else _OUR_SIGNALS.get(name)
    if signal is None and name not in _DESCRIBING:
        known = "" if field is None else field.unused_because
        return UnusedSeries(name, known or "nobody here knows the field")
    elsewhere = why_no_gpu(labels)
    if elsewhere is not None:
        return UnusedSeries(name, elsewhere)
    entity = entity_of(labels)
    if entity is None:
        return UnusedSeries(name, "its labels name no GPU")
    if entity.is_instance and field is not None and field.is_of_card:
        return UnusedSeries(name, "it tells of the whole card and is labelled with one instance")
    is_part = field is not None and field.is_part
    return DcgmSeries(
        metric=name,
        device=entity.device,
        signal=None if is_part else signal,
        factor=_factor(field),
        rank=0 if field is None else field.rank,
        holder=holder_of(labels),
        facts=facts_of(labels, entity),
        part_of=signal if is_part else None,
        driver_version=labels.get("DCGM_FI_DRIVER_VERSION") or None,
    )


def _factor(field: DcgmField | None) -> float:
    return 1.0 if field is None else convert(field.unit)[1]


def sample_row(
    series: DcgmSeries, signal: Signal, time: Nanoseconds, number: float, file: str
) -> RecordingRow:
    """The row of a sample: each metric of a file is a stream, as its times are its own."""
    value = series.read(number)
    values: dict[Signal, float] = {}
    missing: dict[Signal, Missing] = {}
    if isinstance(value, Missing):
        missing[signal] = value
    else:
        values[signal] = value
    holdings = () if series.holder is None else holdings_of({series.holder})
    stream = f"{file}:{series.metric}"
    return RecordingRow(time, series.device, values, missing, stream, series.rank, holdings)
