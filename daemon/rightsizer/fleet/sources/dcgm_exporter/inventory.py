"""Devices and holders within the lookback, completed by the catalogue."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product, takewhile
from typing import Any, Final

from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue, completed, mig_instance
from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.model import FleetDevice
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import MetricStore, SampledSeries, SourceReport
from rightsizer.fleet.sources import dcgm_names as dcgm
from rightsizer.fleet.sources.dcgm_exporter.holdings import (
    HolderNames,
    pods_of_exporters,
    target_of,
)
from rightsizer.fleet.sources.pod_owners import (
    NODE_LABELS,
    POD_LABELS,
    LookbackSpan,
    Pod,
    object_labels,
)
from rightsizer.fleet.sources.series import (
    DIGITS,
    at_moment,
    divided,
    first_label,
    instance_of,
    matchers_of,
    one_of,
    seen_over,
    shares_of,
)
from rightsizer.model.dcgm_fields import (
    EXPORTER,
    NAME_LABELS,
    PROFILE_LABELS,
    UUID_LABELS,
    DcgmField,
    Entity,
)
from rightsizer.model.values import (
    CRITICAL_XIDS,
    NANOSECONDS_PER_SECOND,
    Device,
    Missing,
    Nanoseconds,
    Signal,
    Workload,
    XidLog,
    convert,
    plausible,
)

_ADDRESS: Final = re.compile(r"\d+(?:\.\d+){3}|[\da-fA-F]*:[\da-fA-F:.]+")
_CONTAINER: Final = re.compile(r"[0-9a-f]{12}")
"""Host of a container, unless started with another. That of a pod is the pod."""
_LOCAL: Final = re.compile(rf"|localhost|127\..*|.*{EXPORTER}.*")
"""Targets of Prometheus on the same machine."""


def shared_hosts(series: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """Return the hosts that name no node: several targets have a GPU of one index there.

    With `-r` dcgm-exporter 4 reports the address of DCGM: `localhost`, or a service of Kubernetes.
    """
    gpus_by_host = defaultdict[tuple[str, str], dict[str, set[str]]](lambda: defaultdict(set))
    for labels in series:
        entity = dcgm.device_of(labels)
        index = first_label(labels, dcgm.INDEX_LABELS)
        if entity is not None and index:
            for name in filter(None, map(labels.get, dcgm.NODE_LABELS)):
                gpu = entity.whole or entity.device
                gpus_by_host[name, index][labels.get("instance", "")].add(gpu)
    return frozenset(
        name
        for (name, _), gpus in gpus_by_host.items()
        if len(gpus) > 1 and len(set[str]().union(*gpus.values())) > 1
    )


def hosts_of(labels: Mapping[str, str], shared: Container[str] = ()) -> tuple[list[str], list[str]]:
    """Return the nodes, and the pods (the exporter's or the holder's), that labels report.

    The exporter's pod is included if nodes have no names but addresses.
    """
    pods = {labels.get(label) for label in ("pod", "exported_pod", "pod_name")}
    names = [labels[label] for label in dcgm.NODE_LABELS if labels.get(label)]
    pod_names = [name for name in names if EXPORTER in name or name in pods]
    is_host = any(pods) or _LOCAL.fullmatch(instance_of(labels)) is not None
    nodes = [
        name
        for name in names
        if not (name in pod_names or name in shared or (_CONTAINER.fullmatch(name) and not is_host))
    ]
    exporter = labels.get("pod", "")
    is_named = any(not _ADDRESS.fullmatch(name) for name in nodes)
    if not is_named and (EXPORTER in exporter or labels.get("exported_pod")):
        pod_names.append(exporter)
    return nodes, pod_names


def node_of(
    labels: Mapping[str, str], node_of_pod: Mapping[str, str], shared: Container[str] = ()
) -> str:
    """Return the reported node, else the node of a reported pod, else the scraped instance.

    A name goes before an address.
    """
    nodes, pods = hosts_of(labels, shared)
    nodes += [node_of_pod[pod] for pod in pods if pod in node_of_pod]
    names = (name for name in nodes if not _ADDRESS.fullmatch(name))
    return next(chain(names, nodes), instance_of(labels))


Figures = Mapping[str, Mapping[str, float]]
"""By field of `Device` and by device, in base units."""


def _device(
    entity: Entity, labels: Mapping[str, str], figures: Figures, catalogue: Catalogue
) -> Device | None:
    """Create a device from labels; `None` for a MIG instance of an unknown board.

    Its share of the board would be unknown.
    """
    name = first_label(labels, NAME_LABELS)
    numbers = (labels.get(label, "").removeprefix("nvidia") for label in dcgm.INDEX_LABELS)
    index = next(filter(str.isdecimal, numbers), None)
    board = catalogue.find(name) if name else None
    instance = None
    if entity.is_instance:
        profile = first_label(labels, PROFILE_LABELS)
        if board is not None and profile:
            instance = mig_instance(board, profile, entity.whole or "", entity.gpu_instance_id or 0)
        if instance is None:
            return None
    device_figures: dict[str, Any] = {
        name: values.get(entity.device) for name, values in figures.items()
    }
    device = Device(
        uuid=entity.device,
        index=int(index or 0),
        has_index=index is not None,
        name=name,
        pci_bus_id=labels.get("pci_bus_id") or None,
        mig=instance,
        **device_figures,
    )
    return device if board is None else completed(device, board)


_DEVICE: Final = ", ".join(dcgm.DEVICE_LABELS)
_STEP: Final[Nanoseconds] = 6 * COARSE_STEP
"""Between two samples, unless devices come and go within it."""


def read_inventory(
    store: MetricStore,
    report: SourceReport,
    span: LookbackSpan,
    catalogue: Catalogue,
    settings: FleetSettings,
) -> tuple[dict[str, FleetDevice], set[Workload], HolderNames]:
    """Return every device within the span, the current holders, and how series name both.

    GPUs divided into instances are included, and marked.
    """
    names = dcgm.presence_names(report.metrics), dcgm.other_presence_names(report.metrics)
    series = one_of("__name__", chain(*names))
    by = ", ".join((*dcgm.FACT_LABELS, *dcgm.HOLDER_LABELS))
    step = min(_STEP, span.length)
    times = span.end - span.length // step * step, span.end
    parts = _parts(report.devices, settings.store.series_maximum)
    queries = (f"group by ({by}) ({{{series}{part}}})" for part in parts)
    asked = (seen_over(store, query, times, step, UUID_LABELS) for query in queries)
    seen = [*chain.from_iterable(asked)]
    seen.sort(key=lambda sampled_series: sampled_series.span[1])
    all_labels = [sampled_series.labels for sampled_series in seen]
    shared = shared_hosts(
        sampled_series.labels for sampled_series in seen if sampled_series.span[1] >= span.end
    )
    figures = _figures(store, report, span.end)
    nodes = _nodes(store, all_labels, shared, span)
    holder_names = HolderNames.seen_in(all_labels, pods_of_exporters(store, series, times))
    labels_of: dict[str, tuple[Entity, Mapping[str, str]]] = {}
    last: dict[str, Nanoseconds] = {}
    holders: defaultdict[str, set[Workload]] = defaultdict(set)
    for one in seen:
        entity = dcgm.device_of(one.labels)
        if entity is not None:
            former = labels_of.get(entity.device, (entity, {}))[1]
            labels_of[entity.device] = entity, {**former, **one.labels}
            last[entity.device] = one.span[1]
            if (holder := holder_names.holder(one.labels)) and one.span[1] >= span.end:
                holders[entity.device].add(holder)
    readings = _readings(store, report, span.end)
    gone = [uuid for uuid, at in last.items() if at < span.end]
    xids = _last_xids(store, report, gone, span) | _xids(store, report, span)
    divided = _divided(last, (entity for entity, _ in labels_of.values()))
    awaited = _awaited(store, labels_of, last, span.end)
    devices: dict[str, FleetDevice] = {}
    for uuid, (entity, labels) in sorted(labels_of.items()):
        if (device := _device(entity, labels, figures, catalogue)) is not None:
            pods = {holder.pod for holder in holders.get(uuid, ())}
            devices[uuid] = FleetDevice(
                replace(device, has_mig_instances=uuid in divided),
                node_of(labels, nodes, shared),
                device.board or device.name or "unknown",
                readings=readings.get(entity.whole or uuid, {}),
                xids=xids.get(entity.whole or uuid),
                seen=(0, last[uuid]),
                is_awaited=uuid in awaited,
                pod=pods.pop() if len(pods) == 1 else "",
            )
    return devices, set[Workload]().union(*holders.values()), holder_names


def _awaited(
    store: MetricStore,
    labels_of: Mapping[str, tuple[Entity, Mapping[str, str]]],
    last: Mapping[str, Nanoseconds],
    now: Nanoseconds,
) -> frozenset[str]:
    """Return the devices that are gone while their target is not, and has no others now."""
    targets = {uuid: target_of(labels) for uuid, (_, labels) in labels_of.items()}
    present = {target for uuid, target in targets.items() if last[uuid] >= now}
    gone = {uuid: at for uuid, at in targets.items() if at[1] and at not in present}
    present_targets = set[tuple[str, str]]()
    for some in shares_of(sorted({instance for _, instance in gone.values()})):
        query = f"group by (job, instance) ({selector('up', {'instance': some})})"
        present_targets |= {target_of(series.labels) for series in store.instant(query, now)}
    return frozenset(uuid for uuid, target in gone.items() if target in present_targets)


def _divided(last: Mapping[str, Nanoseconds], entities: Iterable[Entity]) -> frozenset[str]:
    """Return the GPUs with MIG instances: of others, instances have ended, and the GPU goes on."""
    instances = (entity for entity in entities if entity.is_instance)
    return frozenset(
        entity.whole or entity.device
        for entity in instances
        if last[entity.device] >= last.get(entity.whole or "", 0)
    )


def _latest(
    store: MetricStore, field: DcgmField, metrics: frozenset[str], now: Nanoseconds
) -> Iterator[tuple[str, Entity, SampledSeries]]:
    """Yield metric, device and series of a field; of several scrapes of a device, the largest."""
    for metric in dcgm.spelled(field, metrics):
        query = at_moment(f"max by ({_DEVICE}) ({metric})", now)
        for series in divided(store, query, UUID_LABELS):
            if (entity := dcgm.device_of(series.labels)) is not None:
                yield metric, entity, series


def _parts(devices: int, series_maximum: int) -> tuple[str, ...]:
    if devices <= series_maximum:
        return ("",)
    digits = 1 if devices <= len(DIGITS) * series_maximum else 2
    starts = map("".join, product(DIGITS, repeat=digits))
    return tuple(f",{matcher}" for start in starts for matcher in matchers_of(UUID_LABELS, start))


def _nodes(
    store: MetricStore,
    labels: Iterable[Mapping[str, str]],
    shared: frozenset[str],
    span: LookbackSpan,
) -> Mapping[str, str]:
    """Return the nodes of pods that are reported as hosts, or run exporters without a name."""
    pods = POD_LABELS, {pod for label in labels for pod in hosts_of(label, shared)[1]}
    lately = LookbackSpan(span.end, _STEP)
    infos = object_labels(store, "kube_pod_info", pods, NODE_LABELS, lately)
    return {Pod.of(info).name: first_label(info, NODE_LABELS) for info in infos}


def _figures(store: MetricStore, report: SourceReport, now: Nanoseconds) -> Figures:
    total, free, used, kept, clock = (
        {uuid: value for uuid, value in _figure(store, field, report.metrics, now).items() if value}
        for field in dcgm.FIGURES
    )
    sums = {uuid: used.get(uuid, 0.0) + size + kept.get(uuid, 0.0) for uuid, size in free.items()}
    return {"memory_total_bytes": {**sums, **total}, "sm_clock_maximum_hertz": clock}


def _figure(
    store: MetricStore, field: DcgmField, metrics: frozenset[str], now: Nanoseconds
) -> Mapping[str, float]:
    """Return one figure of every device, in its base unit, without implausible values."""
    if field.signal is None:
        return {}
    _, factor = convert(field.unit)
    return {
        entity.device: value
        for _, entity, series in _latest(store, field, metrics, now)
        if not (entity.is_instance and field.is_of_card)
        and not isinstance(value := plausible(field.signal, series.value * factor), Missing)
    }


_READ: Final = (*dcgm.THROTTLING, *dcgm.PIPES_TOLD, *dcgm.HEALTH, *dcgm.LIMITS)


def _readings(
    store: MetricStore, report: SourceReport, now: Nanoseconds
) -> dict[str, dict[Signal, float]]:
    """Return current signals of health and clocks by uuid; instances have the values of the GPU."""
    readings = defaultdict[str, dict[Signal, float]](dict)
    for field in _READ:
        for uuid, value in _figure(store, field, report.metrics, now).items():
            readings[uuid] |= {field.signal: value} if field.signal else {}
    return readings


def _xids(store: MetricStore, report: SourceReport, span: LookbackSpan) -> dict[str, XidLog]:
    """Return the critical Xid of each GPU since its exporter started; an empty log without one."""
    xids: dict[str, XidLog] = {}
    for metric, entity, series in _latest(store, dcgm.XID, report.metrics, span.end):
        if not entity.is_instance:
            code = int(series.value)
            log = XidLog({})
            if code in CRITICAL_XIDS:
                label = next(
                    uuid_label for uuid_label in UUID_LABELS if series.labels.get(uuid_label)
                )
                log = _xid_log(store, selector(metric, {label: series.labels[label]}), code, span)
            xids[entity.device] = log
    return xids


def _last_xids(
    store: MetricStore, report: SourceReport, gone: Sequence[str], span: LookbackSpan
) -> dict[str, XidLog]:
    """Return the last critical Xid of GPUs that are not seen any more."""
    past = f"[{span.length // NANOSECONDS_PER_SECOND}s]"
    xids: dict[str, XidLog] = {}
    for metric in dcgm.spelled(dcgm.XID, report.metrics):
        for some in shares_of(gone):
            parts = (selector(metric, {label: some}) for label in UUID_LABELS)
            over = " or ".join(f"last_over_time({part}{past})" for part in parts)
            for series in store.instant(f"max by ({_DEVICE}) ({over})", span.end):
                entity = dcgm.device_of(series.labels)
                code = int(series.value)
                if entity is not None and code in CRITICAL_XIDS:
                    xids[entity.device] = XidLog({code: 1}, code)
    return xids


def _xid_log(store: MetricStore, chosen: str, code: int, span: LookbackSpan) -> XidLog:
    """Return since when a GPU reports an Xid, to the hour."""
    start = span.end - span.length // COARSE_STEP * COARSE_STEP
    samples = [
        (at, int(value))
        for series in store.range(f"max({chosen})", start, span.end, COARSE_STEP)
        for at, value in zip(series.times.tolist(), series.values, strict=True)
    ]
    shown = [at for at, _ in takewhile(lambda sample: sample[1] == code, reversed(samples))]
    return XidLog({code: 1}, code, min(shown, default=span.end), is_standing=True)
