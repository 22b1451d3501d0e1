"""Page `/metrics/dcgm`: a report with dcgm-exporter's names and labels, as text format only."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from msgspec import Struct

from rightsizer.exposition.families import escaped
from rightsizer.exposition.settings import DcgmLabels
from rightsizer.model.dcgm_fields import DCGM_COUNTERS, DcgmCounter
from rightsizer.model.values import (
    XID_MEANINGS,
    Device,
    DeviceReport,
    Holding,
    Report,
    Signal,
    Tier,
    Workload,
)
from rightsizer.owners.registry import owner_of

Labels = dict[str, str]

_POD_NAMES: Final = ("container", "namespace", "pod")
_FORMER_POD_NAMES: Final = ("container_name", "pod_namespace", "pod_name")


class DcgmLabelEncoder(Struct, frozen=True):
    """Encoder of dcgm-exporter's labels for one node, in one generation of names."""

    generation: DcgmLabels
    hostname: str
    driver_version: str = ""
    """Empty if unknown."""

    def device(self, device: Device, card: Device) -> Labels:
        """Return the identity labels of a device; a MIG instance has those of its card."""
        is_former = self.generation is DcgmLabels.FORMER
        labels = {
            "gpu": str(card.index),
            "uuid" if is_former else "UUID": (device.board_uuid),
            "pci_bus_id": device.pci_bus_id or card.pci_bus_id or "",
            "device": f"nvidia{card.index}",
            "modelName": card.name,
        }
        if device.mig is not None:
            labels["GPU_I_PROFILE"] = device.mig.profile
            labels["GPU_I_ID"] = str(device.mig.gpu_instance_id)
        is_lowercase = self.generation is DcgmLabels.LOWERCASE
        labels["hostname" if is_lowercase else "Hostname"] = self.hostname
        labels["DCGM_FI_DRIVER_VERSION"] = "" if is_former else self.driver_version
        return {name: value for name, value in labels.items() if value}

    def holders(self, holdings: Iterable[Holding]) -> tuple[Labels, ...]:
        """Return the labels of each pod or job that holds a device; one empty set if it is free.

        A shared device has a series for each holder, each with the whole value, as dcgm-exporter
        writes them with `--kubernetes-virtual-gpus`.
        """
        holders = [self._holder(holding.workload) for holding in holdings]
        distinct = {tuple(labels.items()): labels for labels in holders if labels}
        return tuple(distinct.values()) or ({},)

    def xid(self, code: int) -> Labels:
        """Return the labels that explain an Xid; 0 for none."""
        if self.generation is DcgmLabels.FORMER:
            return {}
        meaning = XID_MEANINGS.get(code, "Unknown Error") if code else "No Error"
        return {"err_code": str(code), "err_msg": meaning}

    def _holder(self, workload: Workload) -> Labels:
        if job := owner_of(workload.kind).job_of(workload):
            return {"hpc_job": job}
        if not workload.pod:
            return {}
        is_former = self.generation is DcgmLabels.FORMER
        values = (workload.container, workload.namespace, workload.pod)
        return dict(zip(_FORMER_POD_NAMES if is_former else _POD_NAMES, values, strict=True))


_XID: Final = "DCGM_FI_DEV_XID_ERRORS"
_NOT_OF_INSTANCES: Final = "_UTIL"
"""The driver reports no utilization of MIG instances, nor of the GPU they are part of."""
_CLOCKS: Final = frozenset({Signal.SM_CLOCK_HERTZ, Signal.MEMORY_CLOCK_HERTZ})
"""An instance runs at its GPU's clocks."""
_NO_COUNTER: Final = frozenset({"utilization"})
"""Origins of a busy share that is not from an engine's counter."""


class _Entity(Struct, frozen=True):
    """Subject of a line: a GPU, or a GPU instance and its card."""

    report: DeviceReport
    card: DeviceReport
    """The device itself for a whole GPU."""
    labels: tuple[Labels, ...]
    """One set for each holder."""


def dcgm_page(report: Report, fresh: Collection[str], spelling: DcgmLabelEncoder) -> str:
    """Render the page; a device without a fresh reading has no series."""
    entities = tuple(_entities(report, fresh, spelling))
    lines = []
    for counter in DCGM_COUNTERS:
        if samples := [line for entity in entities for line in _lines(counter, entity, spelling)]:
            lines.append(f"# HELP {counter.name} {counter.help}\n")
            lines.append(f"# TYPE {counter.name} {counter.field.type}\n")
            lines += samples
    return "".join(lines)


def _entities(
    report: Report, fresh: Collection[str], spelling: DcgmLabelEncoder
) -> Iterator[_Entity]:
    cards = {device_report.device.uuid: device_report for device_report in report.devices}
    seen = set()
    for device_report in report.devices:
        device = device_report.device
        mig = device_report.device.mig
        key = (device.uuid, 0) if mig is None else (mig.parent_uuid, mig.gpu_instance_id)
        if device.uuid not in fresh or device.has_mig_instances or key in seen:
            continue
        seen.add(key)  # Compute instances that share a GPU instance are one entity.
        card = device_report if mig is None else cards.get(mig.parent_uuid, device_report)
        labels = spelling.device(device, card.device)
        holders = spelling.holders(device_report.holdings)
        yield _Entity(device_report, card, tuple(labels | holder for holder in holders))


def _lines(counter: DcgmCounter, entity: _Entity, spelling: DcgmLabelEncoder) -> Iterator[str]:
    more: Labels = {}
    if counter.name != _XID:
        if (value := _value(counter, entity)) is None:
            return
        text = counter.text(value)
    else:
        if (xids := entity.card.xids) is None:
            return
        text = str(xids.last or 0)
        more = spelling.xid(xids.last or 0)
    for labels in entity.labels:
        pairs = ",".join(f'{key}="{escaped(of)}"' for key, of in (labels | more).items())
        yield f"{counter.name}{{{pairs}}} {text}\n"


def _value(counter: DcgmCounter, entity: _Entity) -> float | None:
    """Return the value in base units, or `None` where dcgm-exporter would have no series."""
    device_report = entity.report
    is_instance = entity.report is not entity.card
    if is_instance and counter.name.endswith(_NOT_OF_INSTANCES):
        return None
    if counter.field.is_profiling:
        origins = device_report.reading.origins if device_report.reading is not None else {}
        is_guessed = any(origins.get(signal) in _NO_COUNTER for signal in counter.signals)
        if device_report.tier is not Tier.PROFILING or is_guessed:
            return None
    readings = [_reading(counter, entity, signal) for signal in counter.signals]
    values = [value for value in readings if value is not None]
    return sum(values) if values and len(values) == len(readings) else None


def _reading(counter: DcgmCounter, entity: _Entity, signal: Signal) -> float | None:
    value = entity.report.signals.get(signal)
    is_shared = counter.field.is_of_card or signal in _CLOCKS
    return entity.card.signals.get(signal) if value is None and is_shared else value


DCGM_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
