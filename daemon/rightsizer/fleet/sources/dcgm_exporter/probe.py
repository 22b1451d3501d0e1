"""Fields of dcgm-exporter, and the probe for them in a store."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from rightsizer.fleet.cache.day_frame import FINE_STEP
from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources.series import node_of as plain_node
from rightsizer.fleet.sources.series import one_of, seconds_by_day, selector
from rightsizer.model.dcgm_exporter import Entity, entity_of, why_no_gpu
from rightsizer.model.dcgm_fields import DCGM_FIELDS, FORMER_DCGM_NAMES, DcgmField
from rightsizer.model.driver_codes import CRITICAL_XIDS, XID_MEANINGS
from rightsizer.model.signal import PIPES, Signal
from rightsizer.model.state import Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, format_duration

_LOAD: Final = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
    "DCGM_FI_PROF_PIPE_INT_ACTIVE",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_PCIE_TX_BYTES",
    "DCGM_FI_PROF_PCIE_RX_BYTES",
    "DCGM_FI_PROF_NVLINK_TX_BYTES",
    "DCGM_FI_PROF_NVLINK_RX_BYTES",
    "DCGM_FI_DEV_POWER_USAGE_INSTANT",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_FB_USED",
)
_ENGINES: Final = (
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_ENC_UTIL",
    "DCGM_FI_DEV_DEC_UTIL",
)

PEAKED: Final = tuple(DCGM_FIELDS[name] for name in _LOAD)
"""Those of which the largest reading counts too. Bytes over PCIe and NVLink are rates, whatever
type an exporter declares: DCGM itself divides by time (dcgm-exporter#658)."""
MEASURED: Final = (*PEAKED, *(DCGM_FIELDS[name] for name in _ENGINES))
"""Those of which a mean is asked for."""
ENERGY: Final = DCGM_FIELDS["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]
POWER_VIOLATION: Final = DCGM_FIELDS["DCGM_FI_DEV_POWER_VIOLATION"]
THERMAL_VIOLATION: Final = DCGM_FIELDS["DCGM_FI_DEV_THERMAL_VIOLATION"]
REASONS: Final = (
    DCGM_FIELDS["DCGM_FI_DEV_CLOCKS_EVENT_REASONS"],
    DCGM_FIELDS["DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"],
)
XID: Final = DCGM_FIELDS["DCGM_FI_DEV_XID_ERRORS"]

FIGURES: Final = tuple(
    DCGM_FIELDS[name]
    for name in (
        "DCGM_FI_DEV_FB_TOTAL",
        "DCGM_FI_DEV_FB_FREE",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_FB_RESERVED",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT",
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
        "DCGM_FI_DEV_MAX_SM_CLOCK",
    )
)
"""What says how large a device is."""

_PRESENCE: Final = (
    # Memory is told of instances too, which have no utilization.
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_DEV_POWER_USAGE",
)
_FORMER: Final[Mapping[str, str]] = {new: old for old, new in FORMER_DCGM_NAMES.items()}
_PROFILING: Final = frozenset(
    field.name
    for field in MEASURED
    if field.signal in {Signal.SM_ACTIVE, Signal.DRAM_ACTIVE, *PIPES}
)
_BUSY: Final = frozenset({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"})
_POWER: Final = frozenset({"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE_INSTANT"})


def spellings(field: DcgmField) -> tuple[str, ...]:
    """Today's name, that of dcgm-exporter 1.x, and what a relay makes of a counter."""
    former = _FORMER.get(field.name)
    return (field.name, *((former,) if former else ()), f"{field.name}_total")


DIVIDED_NAMES: Final = frozenset(
    name
    for field in ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED")
    for name in spellings(DCGM_FIELDS[field])
)
"""What dcgm-exporter divides among the pods that share a device, since 4.6.0-4.8.3 and with
`--kubernetes-virtual-gpus`: `isPerProcessMetric` of its process_metrics.go."""


def presence_names(metrics: Iterable[str]) -> tuple[str, ...]:
    """The metrics whose samples say that a device is watched: one field, in all its spellings."""
    found = frozenset(metrics)
    for name in _PRESENCE:
        there = tuple(each for each in spellings(DCGM_FIELDS[name]) if each in found)
        if there:
            return there
    return ()


def tier_of_metrics(metrics: Iterable[str]) -> Tier:
    """What the metrics of an estate allow to be claimed at best."""
    found = {FORMER_DCGM_NAMES.get(name, name).removesuffix("_total") for name in metrics}
    if found & _PROFILING:
        return Tier.PROFILING
    if not found & _BUSY:
        return Tier.NONE
    return Tier.POWER if found & _POWER else Tier.BASIC


UUID_LABELS: Final = ("UUID", "uuid")
DEVICE_LABELS: Final = (*UUID_LABELS, "GPU_I_ID", "dra_mig_device_uuid")
"""Those that tell one device from another."""
SCRAPER_LABELS: Final = ("instance", "job", "prometheus", "prometheus_replica", "replica")
"""Those that tell one scrape of a device from another."""
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
    # Which scrape it is tells what `pod` means.
    "job",
)
_NODE_LABELS: Final = (
    "Hostname",
    "hostname",
    "exported_node",
    "node",
    "kubernetes_node",
    "nodename",
)
FACT_LABELS: Final = (
    *DEVICE_LABELS,
    "gpu",
    "modelName",
    "model",
    "pci_bus_id",
    "GPU_I_PROFILE",
    "mig_profile",
    "parent_uuid",
    *_NODE_LABELS,
    "instance",
)
EXPORTER: Final = "dcgm-exporter"


def device_of(labels: Mapping[str, str]) -> Entity | None:
    """The device that a series is about; `None` where it has no name of its own in an estate."""
    if why_no_gpu(labels) is not None or not (labels.get("UUID") or labels.get("uuid")):
        return None
    return entity_of(labels)


def node_of(labels: Mapping[str, str], node_of_pod: Mapping[str, str]) -> str:
    """The host: as the exporter calls it, unless it calls itself by its own pod's name."""
    names = [labels[label] for label in _NODE_LABELS if labels.get(label)]
    hosts = (name for name in names if EXPORTER not in name)
    known = (node_of_pod[name] for name in names if name in node_of_pod)
    instance = plain_node({"instance": labels.get("instance", "")})
    return next(hosts, "") or next(known, "") or instance


NAME: Final = "dcgm-exporter"
_ASKED: Final = (*MEASURED, ENERGY, *REASONS, POWER_VIOLATION, THERMAL_VIOLATION, XID, *FIGURES)
_AT_ONCE: Final = 24
_FEW: Final = 5
_MINUTES: Final = 10
_HOUR: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND
_DEVICE: Final = ", ".join(DEVICE_LABELS)

_ALTERNATION: Final = (
    "Idle time within a stretch of five minutes (of an hour, on older days): a stretch counts as "
    "idle only where nothing ran in all of it, so that idle time is never put too high."
)
_LOCAL: Final = (
    "NUMA placement, PCIe links, processes, the host's CPU and disks: dcgm-exporter does not "
    "tell of them; install the agent."
)
_BY_TIER: Final = {
    Tier.PROFILING: (
        ("Idle and stalled GPUs, bottlenecks by counters of pipes and memory, sizes.",),
        (),
    ),
    Tier.POWER: (
        ("Idle and stalled GPUs, and sizes by utilization and power.",),
        (
            (
                "What limits busy GPUs: no DCGM_FI_PROF_ fields are exported; turn on "
                "DCGM_FI_PROF_SM_ACTIVE, PIPE_TENSOR_ACTIVE and DRAM_ACTIVE."
            ),
        ),
    ),
    Tier.BASIC: (
        ("Idle GPUs, and memory in use.",),
        (
            (
                "How large a GPU is needed, and what limits it: DCGM_FI_DEV_GPU_UTIL alone says "
                "whether a kernel ran, not how much of the GPU it used; export "
                "DCGM_FI_DEV_POWER_USAGE and DCGM_FI_PROF_ fields."
            ),
        ),
    ),
    Tier.NONE: (
        (),
        ("Whether GPUs are idle: neither utilization nor profiling fields are exported.",),
    ),
}


def probe(store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
    """What there is; a report of no devices where there is nothing."""
    metrics = _metrics(store, now)
    names = presence_names(metrics)
    if not names:
        return SourceReport(NAME, metrics=metrics)
    series = f"{{{one_of('__name__', names)}}}"
    tier = tier_of_metrics(metrics)
    can, cannot = _BY_TIER[tier]
    devices = _number(store, f"count(group by ({_DEVICE}) ({series}))", now)
    holders = tuple(_cannot_own(store, series, now))
    resolution = _resolution(store, names[0], now)
    return SourceReport(
        NAME,
        devices=int(devices or 0),
        oldest=_oldest(store, series, now, lookback),
        resolution_seconds=resolution,
        resolution_by_day=seconds_by_day(store, _few(store, names[0], now), now, lookback),
        tier=tier,
        metrics=metrics,
        can=(*can, *_can(metrics)),
        cannot=(
            *(*cannot, *holders, *_cannot(metrics), *_cannot_now(resolution)),
            *(_ALTERNATION, _LOCAL),
        ),
        warnings=tuple(_warnings(store, series, metrics, now)),
    )


def _metrics(store: MetricStore, now: Nanoseconds) -> frozenset[str]:
    names = [name for field in dict.fromkeys(_ASKED) for name in spellings(field)]
    found: set[str] = set()
    for first in range(0, len(names), _AT_ONCE):
        some = one_of("__name__", names[first : first + _AT_ONCE])
        answer = store.instant(f"count by (__name__) ({{{some}}})", now)
        found |= {series.labels["__name__"] for series in answer}
    return frozenset(found)


def _oldest(
    store: MetricStore, series: str, now: Nanoseconds, lookback: Nanoseconds
) -> Nanoseconds | None:
    found = store.range(f"count({series})", now - lookback, now, _HOUR)
    return min((each.times[0] for each in found if each.times), default=None)


def _resolution(store: MetricStore, name: str, now: Nanoseconds) -> float | None:
    """A median; scrapes of each device are counted for themselves."""
    query = f"quantile(0.5, count_over_time({name}[{_MINUTES}m]))"
    count = _number(store, query, now)
    return None if count is None or count < 1 else _MINUTES * 60.0 / count


def _few(store: MetricStore, name: str, now: Nanoseconds) -> str:
    """A selector of the series of some GPUs."""
    found = store.instant(f"topk({_FEW}, {name})", now)
    label, uuids = "", list[str]()
    for label in UUID_LABELS:
        uuids = sorted({each.labels[label] for each in found if each.labels.get(label)})
        if uuids:
            break
    return selector(name, one_of(label, uuids) if uuids else "")


def _can(metrics: Collection[str]) -> Iterator[str]:
    if any(name in metrics for name in spellings(ENERGY)):
        yield "Energy, by the driver's counter."
    if _clocks(metrics):
        yield "Throttling by power and heat."


def _cannot(metrics: Collection[str]) -> Iterator[str]:
    if not _clocks(metrics):
        yield (
            "Throttling: neither DCGM_FI_DEV_CLOCKS_EVENT_REASONS nor DCGM_FI_DEV_POWER_VIOLATION "
            "is exported."
        )


def _cannot_now(resolution: float | None) -> Iterator[str]:
    if resolution is not None and 2 * resolution > FINE_STEP / NANOSECONDS_PER_SECOND:
        yield (
            f"What is happening now by the last ten minutes: samples are "
            f"{format_duration(resolution)} apart, so that it is judged by the last whole hour; "
            "scrape every 15 to 60 s."
        )


def _clocks(metrics: Collection[str]) -> bool:
    fields = (*REASONS, POWER_VIOLATION, THERMAL_VIOLATION)
    return any(name in metrics for field in fields for name in spellings(field))


def _cannot_own(store: MetricStore, series: str, now: Nanoseconds) -> Iterator[str]:
    inside = series.strip("{}")
    held = " or ".join(
        f'{{{inside},{label}!=""}}' for label in ("exported_pod", "pod", "pod_name", "hpc_job")
    )
    if not _number(store, f"count({held})", now):
        yield (
            "Whose a GPU is: series have neither pod labels nor hpc_job, so that advice is by "
            "GPU; start dcgm-exporter with --kubernetes, or with --hpc-job-mapping-dir."
        )


def _warnings(
    store: MetricStore, series: str, metrics: Collection[str], now: Nanoseconds
) -> Iterator[str]:
    scraped = ", ".join((*DEVICE_LABELS, *SCRAPER_LABELS))
    each = f"count by ({_DEVICE}) (group by ({scraped}) ({series}))"
    twice = _number(store, f"count({each} > 1)", now)
    if twice:
        yield (
            f"Scraped more than once, by several jobs or replicas: {twice:.0f} of the GPUs; each "
            "is counted once, and kept twice by the store."
        )
    nameless = _number(store, f'count({{{series.strip("{}")},UUID="",uuid=""}})', now)
    if nameless:
        yield (
            f"Left out for want of a UUID: {nameless:.0f} series; a node's index names no GPU "
            "of an estate."
        )
    for name in (name for name in spellings(XID) if name in metrics):
        for found in store.instant(f'count_values("xid", max by ({_DEVICE}) ({name}))', now):
            xid = int(float(found.labels["xid"]))
            if xid in CRITICAL_XIDS:
                yield f"Last Xid {xid} on {found.values[0]:.0f} of the GPUs: {XID_MEANINGS[xid]}."


def _number(store: MetricStore, query: str, now: Nanoseconds) -> float | None:
    found = store.instant(query, now)
    return found[0].values[0] if found else None
