"""Probe of a store for dcgm-exporter's metrics: history, capabilities, and warnings."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from rightsizer.fleet.cache.grid import DAY, FINE_STEP
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.source import DAYS_AT_ONCE, MetricStore, SourceReport
from rightsizer.fleet.sources import dcgm_names as dcgm
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
from rightsizer.model.dcgm_fields import INSTANCE_LABELS, PROFILE_LABELS, UUID_LABELS
from rightsizer.model.values import (
    CRITICAL_XIDS,
    NANOSECONDS_PER_SECOND,
    XID_MEANINGS,
    Nanoseconds,
    StoreLimitError,
    Tier,
    format_duration,
)

NAME: Final = "dcgm-exporter"
_SERIES_AT_ONCE: Final = 11
"""A device has one, or one for each holder. Of the 16 KiB that a query may have in VictoriaMetrics
and Mimir, the names of 181 devices take 15 in the longest one, a mean, which has them twice."""
_WORK: Final = dcgm.fields("DEV_GPU_UTIL", "PROF_GR_ENGINE_ACTIVE", "PROF_SM_ACTIVE")
"""Without any of them a GPU's state is unknown."""
_ASKED: Final = (
    *dcgm.MEASURED,
    dcgm.ENERGY,
    *dcgm.THROTTLING,
    dcgm.XID,
    *dcgm.HEALTH,
    *dcgm.FIGURES,
    *dcgm.LIMITS,
)
_FEW: Final = 5
_MINUTES: Final = 10
_HOUR: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND
_DEVICE: Final = ", ".join(dcgm.DEVICE_LABELS)

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
    all_names = [name for field in dict.fromkeys(_ASKED) for name in dcgm.spellings(field)]
    metrics = names_of(store, all_names, now, UUID_LABELS)
    names = dcgm.presence_names(metrics)
    if not names:
        return SourceReport(NAME, metrics=metrics)
    # Before an upgrade, exporters may have spelled some fields differently, or had more of them.
    former = names_of(store, sorted({*all_names} - metrics), now, UUID_LABELS, lookback)
    series = one_of("__name__", names)
    # Median; scrapes of each device are counted separately.
    middle = f"quantile(0.5, count_over_time({names[0]}[{_MINUTES}m]))"
    medians = divided(store, at_moment(middle, now), UUID_LABELS)
    density = max((median.value for median in medians), default=0.0)
    all_series = one_of("__name__", (*names, *dcgm.presence_names(former)))
    over = over_time(f"count({{{all_series}}})", now - lookback, now, _HOUR)
    counts = divided(store, over, UUID_LABELS)
    resolution = _MINUTES * 60.0 / density if density >= 1 else None
    by_day = seconds_by_day(store, _few(store, names[0], now), now, lookback)
    # The few that are asked for may be younger than a day.
    days = {
        (time - 1) // DAY for sampled_series in counts for time in sampled_series.times.tolist()
    }
    usual = dict.fromkeys(days, resolution) if resolution is not None else {}
    tier = dcgm.tier_of_metrics(metrics)
    can = [_CAN[tier]] if tier in _CAN else []
    if dcgm.spelled(dcgm.ENERGY, metrics):
        can.append("Energy, by the driver's counter.")
    if has_throttling := any(dcgm.spelled(field, metrics) for field in dcgm.THROTTLING):
        can.append("Throttling by power and heat.")
    any_series = one_of("__name__", (*names, *dcgm.other_presence_names(metrics)))
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
    if work := [name for field in _WORK for name in dcgm.spelled(field, metrics)]:
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
            f" (group by ({', '.join((*dcgm.DEVICE_LABELS, *SCRAPER_LABELS))}) ({{SERIES}})) > 1)"
        ),
        UUID_LABELS,
        (
            "Scraped more than once, by several jobs or replicas: {:.0f} of the GPUs; each is "
            "counted once, and kept twice by the store."
        ),
    ),
    (
        f"count({{SERIES,{dcgm.NAMELESS}}})",
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
    for name in dcgm.spelled(dcgm.XID, metrics):
        query = f'count_values("xid", max by ({_DEVICE}) ({name}))'
        gpus: Counter[int] = Counter()
        for sampled_series in divided(store, at_moment(query, now), UUID_LABELS):
            gpus[int(float(sampled_series.labels["xid"]))] += int(sampled_series.value)
        for xid, count in sorted(gpus.items()):
            if xid in CRITICAL_XIDS:
                yield f"Last Xid {xid} on {count} of the GPUs: {XID_MEANINGS[xid]}."
