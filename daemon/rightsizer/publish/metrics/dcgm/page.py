"""A report as dcgm-exporter's page: one entity a GPU, or a MIG instance where it is divided."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.dcgm_counter import DCGM_COUNTERS, DcgmCounter
from rightsizer.domain.report import DeviceReport, Report
from rightsizer.domain.signal import Signal
from rightsizer.domain.state import Tier
from rightsizer.publish.metrics.dcgm.labels import Labels, Spelling, label_text

__all__ = ["dcgm_page"]

_XID: Final = "DCGM_FI_DEV_XID_ERRORS"
_NOT_OF_INSTANCES: Final = "_UTIL"
"""The driver tells no utilization of a MIG instance, nor of the GPU that is divided."""
_CLOCKS: Final = frozenset({Signal.SM_CLOCK_HERTZ, Signal.MEMORY_CLOCK_HERTZ})
"""An instance runs at its GPU's clocks."""
_NO_COUNTER: Final = frozenset({"utilization"})
"""Origins of a busy share that no engine has counted."""


@dataclass(frozen=True, slots=True)
class _Entity:
    """What a line tells of: a GPU, or a GPU instance and the card that it is a part of."""

    report: DeviceReport
    card: DeviceReport
    """The same where it is a whole GPU."""
    labels: tuple[Labels, ...]
    """Of each holder."""


def dcgm_page(report: Report, fresh: Collection[str], spelling: Spelling) -> str:
    """The page; a device without a fresh reading has no series.

    Args:
        report: The node.
        fresh: The uuids whose readings are fresh.
        spelling: What all series have in common.
    """
    entities = tuple(_entities(report, fresh, spelling))
    lines = []
    for counter in DCGM_COUNTERS:
        samples = [line for entity in entities for line in _lines(counter, entity, spelling)]
        if samples:
            lines.append(f"# HELP {counter.name} {counter.help}\n")
            lines.append(f"# TYPE {counter.name} {counter.field.type}\n")
            lines += samples
    return "".join(lines)


def _entities(report: Report, fresh: Collection[str], spelling: Spelling) -> Iterator[_Entity]:
    cards = {each.device.uuid: each for each in report.devices}
    seen = set()
    for each in report.devices:
        device, mig = each.device, each.device.mig
        key = (device.uuid, 0) if mig is None else (mig.parent_uuid, mig.gpu_instance_id)
        if device.uuid not in fresh or device.has_mig_instances or key in seen:
            continue
        seen.add(key)  # Compute instances that share a GPU instance are one entity.
        card = each if mig is None else cards.get(mig.parent_uuid, each)
        labels = spelling.device(device, card.device)
        holders = spelling.holders(each.holdings)
        yield _Entity(each, card, tuple(labels | holder for holder in holders))


def _lines(counter: DcgmCounter, entity: _Entity, spelling: Spelling) -> Iterator[str]:
    more: Labels = {}
    if counter.name == _XID:
        xids = entity.card.xids
        code = None if xids is None else xids.last or 0
        text = None if code is None else str(code)
        more = {} if code is None else spelling.xid(code)
    else:
        value = _value(counter, entity)
        text = None if value is None else counter.text(value)
    if text is not None:
        for labels in entity.labels:
            yield f"{counter.name}{label_text(labels | more)} {text}\n"


def _value(counter: DcgmCounter, entity: _Entity) -> float | None:
    """The value in base units, `None` where dcgm-exporter would have no series."""
    own, is_instance = entity.report, entity.report is not entity.card
    if is_instance and counter.name.endswith(_NOT_OF_INSTANCES):
        return None
    if counter.field.is_profiling and not _is_counted(own, counter.signals):
        return None
    known = [_reading(counter, entity, signal) for signal in counter.signals]
    values = [value for value in known if value is not None]
    return sum(values) if values and len(values) == len(known) else None


def _reading(counter: DcgmCounter, entity: _Entity, signal: Signal) -> float | None:
    own = entity.report.signals.get(signal)
    is_shared = counter.field.is_of_card or signal in _CLOCKS
    return entity.card.signals.get(signal) if own is None and is_shared else own


def _is_counted(report: DeviceReport, signals: tuple[Signal, ...]) -> bool:
    """Whether the hardware's own counters tell these signals of the device."""
    origins = report.reading.origins if report.reading is not None else {}
    return report.tier is Tier.PROFILING and not any(
        origins.get(signal) in _NO_COUNTER for signal in signals
    )
