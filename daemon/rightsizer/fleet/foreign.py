"""Series of GPUs that are not read: other exporters, renamed metrics, stores without devices."""

from collections.abc import Iterator, Mapping
from typing import Final

from rightsizer.fleet.model import FleetInventory
from rightsizer.fleet.source import MetricStore
from rightsizer.fleet.sources.dcgm_names import NAMELESS, spellings
from rightsizer.fleet.sources.series import last_seen, one_of
from rightsizer.model.dcgm_fields import DCGM_FIELDS, EXPORTER
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    StoreError,
    StoreLimitError,
    format_duration,
)

_NAMES: Final = (
    "rightsizer_device_up",
    "uuid:rightsizer_device_info:last5m",
    *spellings(DCGM_FIELDS["DCGM_FI_DEV_FB_USED"]),
    *spellings(DCGM_FIELDS["DCGM_FI_DEV_GPU_UTIL"]),
)
_FOREIGN: Final[Mapping[str, str]] = {
    "nvidia_smi_utilization_gpu_ratio": "nvidia_gpu_exporter, which reads nvidia-smi",
    "nvidia_gpu_duty_cycle": "nvidia_gpu_prometheus_exporter",
    "nvidia_smi_utilization_gpu": "Telegraf, which reads nvidia-smi",
    "gpu_dcgm_utilization": "OpenTelemetry's DCGM receiver",
    "hw_gpu_utilization": "OpenTelemetry's conventions for hardware",
    "nv_gpu_utilization": "a Triton server, for itself",
    "kubernetes_io:node_accelerator_duty_cycle": "Google's system metrics",
    "gpu_gfx_activity": "AMD's device-metrics-exporter, and AMD's GPUs are not read",
    "amd_gpu_gfx_activity": "AMD's device-metrics-exporter, and AMD's GPUs are not read",
    "amd_gpu_use_percent": "AMD's amd_smi_exporter, and AMD's GPUs are not read",
    "neuroncore_utilization_ratio": "AWS's Neuron monitor, and its devices are not read",
    "habanalabs_utilization": "Intel's Gaudi exporter, and its devices are not read",
}
"""GPU-related metrics of other exporters, by name."""
_BESIDE: Final = frozenset({"nv_gpu_utilization", "kubernetes_io:node_accelerator_duty_cycle"})
"""Metrics of GPUs that usually have another exporter, too."""
_ABOUT_GPUS: Final = "(?i).*(gpu|dcgm|nvidia|nvml|accelerator).*"
_SHOWN: Final = 3
_JUST_NOW: Final = (900, 3600)
"""Seconds that unsynchronized clocks may differ."""


def why_nothing(store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> str:
    """Return why a store has no devices now, with the remedy; begins with "has no".

    Raises:
        StoreError: it does not answer.
    """
    names = one_of("__name__", _NAMES)
    if store.instant(f"count({{{names},{NAMELESS}}})", now):
        return (
            "has series of GPUs that name no GPU: keep the label UUID of dcgm-exporter where "
            "series are relabeled; a node's index names no GPU of a fleet"
        )
    selector = f"{{{names}}}"
    latest = ((span, f"count(last_over_time({selector}[{span}s]))") for span in _JUST_NOW)
    age: float | None = next((span for span, query in latest if store.instant(query, now)), None)
    if age is None:
        last = last_seen(store, _NAMES, now, lookback)
        age = None if last is None else (now - last) / NANOSECONDS_PER_SECOND
    if age is not None:
        return (
            f"has no series of GPUs now; the last are about {format_duration(age)} old: see "
            "whether it still scrapes, and whether this machine's clock is ahead of its own; to "
            "look back from a time before that, give --at"
        )
    for name in _foreign(store, now):
        return (
            f"has no series of GPUs that are read: {name} is by {_FOREIGN[name]}; let it scrape "
            "the agents or dcgm-exporter"
        )
    if others := _others(store, now):
        return (
            f"has no series of GPUs that are read, but of {', '.join(others)}: by another "
            "exporter, or renamed; let it scrape the agents or dcgm-exporter, and keep their names"
        )
    return (
        "has no series of GPUs: neither rightsizer_device_info nor DCGM_FI_DEV_*; let it scrape "
        "the agents, or check fleet.matchers, tenant and sources"
    )


def _others(store: MetricStore, now: Nanoseconds) -> list[str]:
    """Return some metrics that are about GPUs by their names."""
    query = f'topk({_SHOWN}, count by (__name__) ({{__name__=~"{_ABOUT_GPUS}"}}))'
    try:
        return sorted(series.labels["__name__"] for series in store.instant(query, now))
    except StoreError:  # Not all stores look for parts of names.
        return []


def _foreign(store: MetricStore, now: Nanoseconds) -> dict[str, int]:
    """Return the number of series of each unsupported exporter, by metric name."""
    others = one_of("__name__", sorted(_FOREIGN))
    series = store.instant(f"count by (__name__) ({{{others}}})", now)
    counts = {
        sampled_series.labels.get("__name__", ""): int(sampled_series.value)
        for sampled_series in series
    }
    return {name: count for name, count in counts.items() if name in _FOREIGN}


def left_out(store: MetricStore, now: Nanoseconds) -> Iterator[str]:
    """Yield a sentence for each exporter that may be the only one of some GPUs."""
    try:
        counts = _foreign(store, now)
    except StoreLimitError:  # A refusal to count is not fatal.
        return
    for name in sorted(counts.keys() - _BESIDE):
        yield (
            f"Left out: {counts[name]} series of {name}, which are by {_FOREIGN[name]}. GPUs that "
            "neither an agent nor dcgm-exporter watches are missing here."
        )


def unnamed_nodes(inventory: FleetInventory) -> Iterator[str]:
    """Yield a sentence if GPUs are known by the pods of their exporters alone."""
    if count := sum(EXPORTER in device.node for device in inventory.devices.values()):
        yield (
            f"The nodes of {count} GPUs or instances are named by the pods of their exporters, "
            "which change with each restart: set NODE_NAME in dcgm-exporter's environment, add a "
            "label `node` where it is scraped, or scrape kube-state-metrics."
        )
