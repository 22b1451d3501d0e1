"""Fields of dcgm-exporter, and the probe for them in a store."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final

from msgspec.structs import replace

from rightsizer.fleet.cache.grid import DAY, FINE_STEP
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.source import DAYS_AT_ONCE, MetricStore, SourceReport
from rightsizer.fleet.sources.series import (
    SCRAPER_LABELS,
    at_moment,
    divided,
    names_of,
    number_of,
    one_of,
    over_time,
    seconds_by_day,
)
from rightsizer.model.dcgm_fields import (
    DCGM_FIELDS,
    FORMER_DCGM_NAMES,
    INSTANCE_LABELS,
    NAME_LABELS,
    PROFILE_LABELS,
    UUID_LABELS,
    DcgmField,
    Entity,
    entity_of,
    why_no_gpu,
)
from rightsizer.model.driver_codes import CRITICAL_XIDS, XID_MEANINGS
from rightsizer.model.errors import StoreLimitError
from rightsizer.model.signal import PIPES, Signal
from rightsizer.model.state import Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, format_duration


def _fields(*names: str) -> tuple[DcgmField, ...]:
    return tuple(DCGM_FIELDS[f"DCGM_FI_{name}"] for name in names)


PEAKED: Final = _fields(
    "DEV_GPU_UTIL",
    "PROF_GR_ENGINE_ACTIVE",
    "PROF_SM_ACTIVE",
    "PROF_PIPE_TENSOR_ACTIVE",
    "PROF_PIPE_FP64_ACTIVE",
    "PROF_PIPE_FP32_ACTIVE",
    "PROF_PIPE_FP16_ACTIVE",
    "PROF_PIPE_INT_ACTIVE",
    "PROF_DRAM_ACTIVE",
    "PROF_PCIE_TX_BYTES",
    "PROF_PCIE_RX_BYTES",
    "PROF_NVLINK_TX_BYTES",
    "PROF_NVLINK_RX_BYTES",
    "DEV_POWER_USAGE_INSTANT",
    "DEV_POWER_USAGE",
    "DEV_SM_CLOCK",
    "DEV_FB_USED",
    "DEV_ENC_UTIL",
    "DEV_DEC_UTIL",
    *(f"PROF_NVJPG{engine}_ACTIVE" for engine in range(8)),
)
"""Fields whose peaks are needed too. PCIe and NVLink bytes are rates, whatever type an exporter
declares: DCGM itself divides by time (dcgm-exporter#658)."""
MEASURED: Final = (*PEAKED, *_fields("DEV_MEM_COPY_UTIL"))
"""Fields whose means are needed."""
ENERGY, POWER_VIOLATION, THERMAL_VIOLATION, XID = _fields(
    "DEV_TOTAL_ENERGY_CONSUMPTION",
    "DEV_POWER_VIOLATION",
    "DEV_THERMAL_VIOLATION",
    "DEV_XID_ERRORS",
)
REASONS: Final = _fields("DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCK_THROTTLE_REASONS")
THROTTLING: Final = (*REASONS, POWER_VIOLATION, THERMAL_VIOLATION)
HEALTH: Final = _fields(
    "DEV_ROW_REMAP_FAILURE",
    "DEV_ROW_REMAP_PENDING",
    "DEV_ECC_DBE_VOL_TOTAL",
    "DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DEV_CORRECTABLE_REMAPPED_ROWS",
    "DEV_RETIRED_SBE",
    "DEV_RETIRED_DBE",
    "DEV_RETIRED_PENDING",
    "DEV_PCIE_REPLAY_COUNTER",
)
"""Faults of a GPU, beside its Xids."""
PIPES_TOLD: Final = _fields("PROF_SM_ACTIVE", "PROF_PIPE_FP32_ACTIVE")
"""Without them small kernels, and FP32 work, cannot be distinguished."""
FIGURES: Final = _fields(
    "DEV_FB_TOTAL",
    "DEV_FB_FREE",
    "DEV_FB_USED",
    "DEV_FB_RESERVED",
    "DEV_MAX_SM_CLOCK",
)
"""Sizes of a device."""
LIMITS: Final = _fields("DEV_POWER_MGMT_LIMIT", "DEV_ENFORCED_POWER_LIMIT")
"""Present power limit, the better one last; the board's own is the catalogue's."""
# Memory is also exported for instances, which have no utilization.
_PRESENCE: Final = _fields(
    "DEV_FB_USED", "DEV_GPU_UTIL", "PROF_GR_ENGINE_ACTIVE", "DEV_POWER_USAGE"
)
_FORMER: Final[Mapping[str, str]] = {new: old for old, new in FORMER_DCGM_NAMES.items()}
_PROFILING: Final = frozenset(
    field.name
    for field in MEASURED
    if field.signal in {Signal.SM_ACTIVE, Signal.DRAM_ACTIVE, *PIPES}
)
_BUSY: Final = frozenset({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"})
_POWER: Final = frozenset({"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE_INSTANT"})
_WORK: Final = _fields("DEV_GPU_UTIL", "PROF_GR_ENGINE_ACTIVE", "PROF_SM_ACTIVE")
"""Without any of them a GPU's state is unknown."""


def spellings(field: DcgmField) -> tuple[str, ...]:
    """Return the current name, that of dcgm-exporter 1.x, and those of relays."""
    name = field.name
    small = field.name.lower()
    return tuple(dict.fromkeys((name, _FORMER.get(name, small), small, f"{name}_total")))


DIVIDED_NAMES: Final = frozenset(
    name for field in _fields("DEV_GPU_UTIL", "DEV_FB_USED") for name in spellings(field)
)
"""Metrics that dcgm-exporter divides among the pods of a shared device, since 4.6.0-4.8.3 and with
`--kubernetes-virtual-gpus`: `isPerProcessMetric` of its process_metrics.go."""


def spelled(field: DcgmField, metrics: Collection[str]) -> tuple[str, ...]:
    """Return the spellings of a field that are among some metrics."""
    return tuple(name for name in spellings(field) if name in metrics)


def presence_names(metrics: Collection[str]) -> tuple[str, ...]:
    """Return the metrics that show that a device is watched: one field, in all its spellings."""
    return next(filter(None, (spelled(field, metrics) for field in _PRESENCE)), ())


def other_presence_names(metrics: Collection[str]) -> tuple[str, ...]:
    """Return those for exporters without that field: not all of a fleet export the same."""
    spelled_names = chain.from_iterable(spelled(field, metrics) for field in _PRESENCE)
    return tuple(name for name in spelled_names if name not in presence_names(metrics))


def presence_spellings() -> tuple[str, ...]:
    """Return all metrics by which a device may be known."""
    return tuple(name for field in _PRESENCE for name in spellings(field))


def tier_of_metrics(metrics: Iterable[str]) -> Tier:
    """Return the highest tier that the metrics of a fleet support."""
    fields = {FORMER_DCGM_NAMES.get(name, name.upper()).removesuffix("_TOTAL") for name in metrics}
    if fields & _PROFILING:
        return Tier.PROFILING
    if not fields & _BUSY:
        return Tier.NONE
    return Tier.POWER if fields & _POWER else Tier.BASIC


NAMELESS: Final = ",".join(f'{label}=""' for label in UUID_LABELS)
"""Matchers of series that name no GPU."""
DEVICE_LABELS: Final = (*UUID_LABELS, *INSTANCE_LABELS, "dra_mig_device_uuid")
"""Labels that distinguish devices."""
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
    # The scrape determines the meaning of `pod`.
    "job",
)
NODE_LABELS: Final = (
    "Hostname",
    "hostname",
    "exported_node",
    "node",
    "kubernetes_node",
    "nodename",
    "k8s_node_name",
    "NodeName",
)
INDEX_LABELS: Final = ("gpu", "GPU", "gpu_index", "gpu_id", "device")
FACT_LABELS: Final = (
    *DEVICE_LABELS,
    *INDEX_LABELS,
    *NAME_LABELS,
    "pci_bus_id",
    *PROFILE_LABELS,
    "parent_uuid",
    *NODE_LABELS,
    "instance",
)
_SERIES_AT_ONCE: Final = 8
"""A device has one, or one for each holder; the names of 250 take 10 of the 16 KiB that a query
may have in VictoriaMetrics."""


def device_of(labels: Mapping[str, str]) -> Entity | None:
    """Return the device of a series; `None` without a unique name in a fleet."""
    return _device_of(tuple(labels.items()))


@lru_cache(maxsize=4096)  # Twice the series of one query.
def _device_of(pairs: tuple[tuple[str, str], ...]) -> Entity | None:
    """Remember the devices of a shard, which each figure of it names again."""
    labels = dict(pairs)
    if why_no_gpu(labels) is not None or not any(map(labels.get, UUID_LABELS)):
        return None
    return entity_of(labels)


NAME: Final = "dcgm-exporter"
_ASKED: Final = (*MEASURED, ENERGY, *THROTTLING, XID, *HEALTH, *FIGURES, *LIMITS)
_FEW: Final = 5
_MINUTES: Final = 10
_HOUR: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND
_DEVICE: Final = ", ".join(DEVICE_LABELS)

_CAN: Final = {
    Tier.PROFILING: "Idle and stalled GPUs, bottlenecks by counters of pipes and memory, sizes.",
    Tier.POWER: "Idle and stalled GPUs, and sizes by utilization and power.",
    Tier.BASIC: "Idle GPUs, and memory in use.",
}
_CANNOT: Final = {
    Tier.POWER: "What limits busy GPUs: no DCGM_FI_PROF_ fields are exported; turn on "
    "DCGM_FI_PROF_SM_ACTIVE, PIPE_TENSOR_ACTIVE and DRAM_ACTIVE.",
    Tier.BASIC: "How large a GPU is needed, and what limits it: DCGM_FI_DEV_GPU_UTIL alone says "
    "whether a kernel ran, not how much of the GPU it used; export "
    "DCGM_FI_DEV_POWER_USAGE and DCGM_FI_PROF_ fields.",
    Tier.NONE: "Whether GPUs are idle: neither utilization nor profiling fields are exported.",
}
_BLIND: Final = (
    "Whether {:.0f} of the GPUs are idle: their exporters lack DCGM_FI_DEV_GPU_UTIL and "
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE; their time is unknown."
)


def probe(store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
    """Find what there is; a report without devices if there is nothing."""
    all_names = [name for field in dict.fromkeys(_ASKED) for name in spellings(field)]
    metrics = names_of(store, all_names, now, UUID_LABELS)
    names = presence_names(metrics)
    if not names:
        return SourceReport(NAME, metrics=metrics)
    # Before an upgrade, exporters may have spelled some fields differently, or had more of them.
    former = names_of(store, sorted({*all_names} - metrics), now, UUID_LABELS, lookback)
    series = one_of("__name__", names)
    # Median; scrapes of each device are counted separately.
    middle = f"quantile(0.5, count_over_time({names[0]}[{_MINUTES}m]))"
    medians = divided(store, at_moment(middle, now), UUID_LABELS)
    density = max((median.value for median in medians), default=0.0)
    all_series = one_of("__name__", (*names, *presence_names(former)))
    over = over_time(f"count({{{all_series}}})", now - lookback, now, _HOUR)
    counts = divided(store, over, UUID_LABELS)
    resolution = _MINUTES * 60.0 / density if density >= 1 else None
    by_day = seconds_by_day(store, _few(store, names[0], now), now, lookback)
    # The few that are asked for may be younger than a day.
    days = {
        (time - 1) // DAY for sampled_series in counts for time in sampled_series.times.tolist()
    }
    usual = dict.fromkeys(days, resolution) if resolution is not None else {}
    tier = tier_of_metrics(metrics)
    can = [_CAN[tier]] if tier in _CAN else []
    if spelled(ENERGY, metrics):
        can.append("Energy, by the driver's counter.")
    if has_throttling := any(spelled(field, metrics) for field in THROTTLING):
        can.append("Throttling by power and heat.")
    any_series = one_of("__name__", (*names, *other_presence_names(metrics)))
    devices = f"group by ({_DEVICE}) ({_having(UUID_LABELS, any_series)})"
    report = SourceReport(
        NAME,
        devices=int(number_of(store, f"count({devices})", now, UUID_LABELS)),
        oldest=min((sampled_series.span[0] for sampled_series in counts), default=None),
        resolution_seconds=resolution,
        resolution_by_day={**usual, **by_day},
        tier=tier,
        metrics=metrics,
        days_at_once=DAYS_AT_ONCE,
        series_at_once=_SERIES_AT_ONCE,
        time=now,
        can=tuple(can),
        warnings=tuple(_warnings(store, series, metrics, now)),
    )
    labels = ("exported_pod", "pod", "pod_name", "hpc_job")
    held = f"count({_having(labels, series)})"
    is_held = bool(number_of(store, held, now, UUID_LABELS))
    if not is_held:  # Some exporters lose the labels for a while.
        is_held = bool(divided(store, over_time(held, now - lookback, now, _HOUR), UUID_LABELS))
    cannot = _cannot(report, is_held=is_held, has_throttling=has_throttling)
    if work := [name for field in _WORK for name in spelled(field, metrics)]:
        working = f"group by ({_DEVICE}) ({{{one_of('__name__', work)}}})"
        if blind := number_of(
            store, f"count({devices} unless on ({_DEVICE}) {working})", now, UUID_LABELS
        ):
            cannot.insert(0, _BLIND.format(blind))
    return replace(report, cannot=tuple(cannot), metrics=metrics | former)


def _having(labels: Iterable[str], series: str) -> str:
    """Return selectors of series that have any of some labels."""
    return " or ".join(f'{{{series},{label}!=""}}' for label in labels)


def _few(store: MetricStore, name: str, now: Nanoseconds) -> str:
    series = divided(store, at_moment(f"topk({_FEW}, {name})", now), UUID_LABELS)
    for label in UUID_LABELS:
        if uuids := sorted(
            {
                sampled_series.labels[label]
                for sampled_series in series
                if sampled_series.labels.get(label)
            }
        ):
            return selector(name, {label: uuids[:_FEW]})
    return selector(name)


def _cannot(report: SourceReport, *, is_held: bool, has_throttling: bool) -> list[str]:
    resolution = report.resolution_seconds or 0.0
    sentences = {
        _CANNOT.get(report.tier, ""): report.tier in _CANNOT,
        "Whose a GPU is: series have neither pod labels nor hpc_job, so that advice is by "
        "GPU; start dcgm-exporter with --kubernetes, or with --hpc-job-mapping-dir.": not is_held,
        "Throttling: neither DCGM_FI_DEV_CLOCKS_EVENT_REASONS nor DCGM_FI_DEV_POWER_VIOLATION "
        "is exported.": not has_throttling,
        f"What is happening now by the last ten minutes: samples are {format_duration(resolution)} "
        "apart, so that it is judged by the last whole hour; scrape every 15 to 60 s.": (
            2 * resolution > FINE_STEP / NANOSECONDS_PER_SECOND
        ),
        "Idle time within a stretch of five minutes (of an hour, on older days): a stretch counts "
        "as idle only where nothing ran in all of it, so that idle time is never put too high.": (
            True
        ),
        "NUMA placement, PCIe links, processes, the host's CPU and disks: dcgm-exporter does not "
        "tell of them; install the agent.": True,
    }
    return [sentence for sentence, is_so in sentences.items() if is_so]


_COUNTED_WARNINGS: Final = (
    (
        (
            f"count(count by ({_DEVICE})"
            f" (group by ({', '.join((*DEVICE_LABELS, *SCRAPER_LABELS))}) ({{SERIES}})) > 1)"
        ),
        UUID_LABELS,
        (
            "Scraped more than once, by several jobs or replicas: {:.0f} of the GPUs; each is "
            "counted once, and kept twice by the store."
        ),
    ),
    (
        f"count({{SERIES,{NAMELESS}}})",
        (),
        "Left out for want of a UUID: {:.0f} series; a node's index names no GPU of a fleet.",
    ),
    (
        (
            "count(count by (Hostname, gpu) (group by (Hostname, gpu, UUID) "
            '({SERIES,Hostname!="",gpu!="",UUID!=""})) > 1)'
        ),
        (),
        (
            "Nodes of one name: {:.0f} times several GPUs have the same Hostname and index. "
            "Another label, the exporter's pod or the scraped instance names the node instead; "
            "add a label `node` (with -r, Hostname is the address of DCGM), or set "
            "fleet.cluster_label where "
            "clusters use the same names."
        ),
    ),
    (
        f"count(group by ({_DEVICE}) ("
        + _having(INSTANCE_LABELS, ",".join(("SERIES", *(f'{name}=""' for name in PROFILE_LABELS))))
        + "))",
        UUID_LABELS,
        (
            "Left out for want of a profile: {:.0f} MIG instances without the label GPU_I_PROFILE; "
            "keep it where series are relabeled."
        ),
    ),
)
"""Queries, labels with the uuid of what they count, and warnings."""


def _warnings(
    store: MetricStore, series: str, metrics: Collection[str], now: Nanoseconds
) -> Iterator[str]:
    for query, labels, warning in _COUNTED_WARNINGS:
        try:
            count = number_of(store, query.replace("SERIES", series), now, labels)
        except StoreLimitError as limit:  # Without labels, they cannot be counted in parts.
            if labels:
                raise
            yield f"{warning.partition(':')[0]}: not counted, since {limit}."
            continue
        if count:
            yield warning.format(count)
    for name in spelled(XID, metrics):
        query = f'count_values("xid", max by ({_DEVICE}) ({name}))'
        gpus: Counter[int] = Counter()
        for sampled_series in divided(store, at_moment(query, now), UUID_LABELS):
            gpus[int(float(sampled_series.labels["xid"]))] += int(sampled_series.value)
        for xid, count in sorted(gpus.items()):
            if xid in CRITICAL_XIDS:
                yield f"Last Xid {xid} on {count} of the GPUs: {XID_MEANINGS[xid]}."
