"""Who was there within the lookback: devices, what they are, and who held them lately."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.dcgm_names import DCGM_FIELDS, DcgmField
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, convert
from rightsizer.fleet.estate import EstateDevice
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.dcgm_exporter.devices import Figures, estate_devices, reading_of
from rightsizer.fleet.sources.dcgm_exporter.fields import presence_names, spellings
from rightsizer.fleet.sources.dcgm_exporter.holders import Holder, HolderNames
from rightsizer.fleet.sources.dcgm_exporter.labels import (
    DEVICE_LABELS,
    EXPORTER,
    FACT_LABELS,
    HOLDER_LABELS,
    device_of,
)
from rightsizer.fleet.sources.kubernetes_series import NODE_LABELS, POD_LABELS, Pod, Span, told
from rightsizer.fleet.sources.labels import first_label, one_of
from rightsizer.fleet.store import Sampled, Store

__all__ = ["Census", "holder_names", "take_census"]

_LOOK: Final[Nanoseconds] = 6 * 3600 * NANOSECONDS_PER_SECOND
"""Between two looks: a device that was there for less than that may be missed, if it is gone."""
_DIGITS: Final = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Census:
    """What was found."""

    devices: Mapping[str, EstateDevice]
    holders: Mapping[str, tuple[Holder, ...]]
    """Who holds each device now."""


def take_census(
    store: Store,
    report: SourceReport,
    span: Span,
    catalogue: Catalogue,
    settings: FleetSettings,
) -> Census:
    """Every device that was there, at a moment in six hours.

    Args:
        store: Whom to ask.
        report: What a probe found.
        span: How far back is looked.
        catalogue: Where a name leads to a board.
        settings: What tells clusters apart, and how many series are asked for at once.
    """
    names, cluster_label = presence_names(report.metrics), settings.cluster_label
    parts = _parts(report.devices, settings.store.series_maximum)
    seen = [series for part in parts for series in _seen(store, names, part, span, cluster_label)]
    seen.sort(key=lambda series: series.times[-1])
    labels = [series.labels for series in seen]
    devices = estate_devices(
        labels,
        _figures(store, report, span.end),
        catalogue,
        _nodes(store, labels, span),
        cluster_label,
    )
    exported = HolderNames.seen_in(labels)
    return Census(devices, _holders(seen, exported, span))


def holder_names(store: Store, names: Iterable[str], at: Nanoseconds) -> HolderNames:
    """Whether the store's scrapes write the exporter's own pod where the holder's would be."""
    inside = f'{{{one_of("__name__", names)},exported_pod!=""}}'
    found = store.instant(f"count by (job, exported_pod) ({inside})", at)
    return HolderNames.seen_in(series.labels for series in found)


def _seen(
    store: Store, names: Iterable[str], part: str, span: Span, cluster_label: str
) -> Sequence[Sampled]:
    by = ", ".join((*FACT_LABELS, *HOLDER_LABELS, cluster_label))
    query = f"group by ({by}) ({{{one_of('__name__', names)}{part}}})"
    step = min(_LOOK, span.length)
    found = store.range(query, span.end - span.length, span.end, step)
    return [series for series in found if series.times]


def _parts(devices: int, series_maximum: int) -> tuple[str, ...]:
    """Matchers that divide an estate by its devices' names."""
    if devices <= series_maximum:
        return ("",)
    tails = (
        _DIGITS
        if devices <= len(_DIGITS) * series_maximum
        else [a + b for a in _DIGITS for b in _DIGITS]
    )
    return tuple(
        matcher
        for tail in tails
        for matcher in (f',UUID=~"(GPU|MIG)-{tail}.*"', f',uuid=~"(GPU|MIG)-{tail}.*",UUID=""')
    )


def _holders(
    seen: Sequence[Sampled], names: HolderNames, span: Span
) -> Mapping[str, tuple[Holder, ...]]:
    """Those of the newest look."""
    found: dict[str, dict[Holder, None]] = {}
    for series in seen:
        entity, holder = device_of(series.labels), names.holder(series.labels)
        if entity is not None and holder is not None and series.times[-1] >= span.end:
            found.setdefault(entity.device, {})[holder] = None
    return {device: tuple(holders) for device, holders in found.items()}


def _nodes(store: Store, labels: Iterable[Mapping[str, str]], span: Span) -> Mapping[str, str]:
    """The nodes of exporters that call their host by their own pod's name."""
    pods = {
        value
        for each in labels
        for value in (each.get("Hostname", ""), each.get("hostname", ""))
        if EXPORTER in value
    }
    infos = told(store, "kube_pod_info", (POD_LABELS, pods), NODE_LABELS, Span(span.end, _LOOK))
    return {Pod.of(each).name: first_label(each, NODE_LABELS) for each in infos}


def _figures(store: Store, report: SourceReport, now: Nanoseconds) -> Figures:
    def of(name: str) -> Mapping[str, float]:
        return _figure(store, DCGM_FIELDS[name], report.metrics, now)

    used, free = of("DCGM_FI_DEV_FB_USED"), of("DCGM_FI_DEV_FB_FREE")
    kept = of("DCGM_FI_DEV_FB_RESERVED")
    sums = {
        device: used.get(device, 0.0) + size + kept.get(device, 0.0)
        for device, size in free.items()
    }
    asked = of("DCGM_FI_DEV_POWER_MGMT_LIMIT")
    return Figures(
        memory_bytes={**sums, **of("DCGM_FI_DEV_FB_TOTAL")},
        power_limit_watts={**asked, **of("DCGM_FI_DEV_ENFORCED_POWER_LIMIT")},
        sm_clock_maximum_hertz=of("DCGM_FI_DEV_MAX_SM_CLOCK"),
    )


def _figure(
    store: Store, field: DcgmField, metrics: frozenset[str], now: Nanoseconds
) -> Mapping[str, float]:
    """One figure of every device, in its base unit; what cannot be true is left out."""
    if field.signal is None:
        return {}
    _, factor = convert(field.unit)
    found: dict[str, float] = {}
    for metric in (each for each in spellings(field) if each in metrics):
        for series in store.instant(f"max by ({', '.join(DEVICE_LABELS)}) ({metric})", now):
            entity = device_of(series.labels)
            value = reading_of(field.signal, series.values[0] * factor)
            if entity is None or value is None or (entity.is_instance and field.is_of_card):
                continue
            found[entity.device] = value
    return found
