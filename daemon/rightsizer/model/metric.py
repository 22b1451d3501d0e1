"""The table of metrics: families of the agent, its devices and their signals."""

from typing import Final

from rightsizer.model.agent_metrics import (
    ADVICE_METRICS,
    AGENT_METRICS,
    FLEET_METRICS,
    TELLING_METRICS,
)
from rightsizer.model.metric_family import (
    DEFAULT_COLLECTORS,
    Collector,
    Export,
    MetricFamily,
    MetricKind,
    Origin,
    collected_by,
    counter,
    gauge,
    info,
)
from rightsizer.model.signal import Signal
from rightsizer.model.units import Unit

_READ: Final = tuple(each for each in Signal if each.export is not Export.NAMED)
_DEFAULT: Final = tuple(each for each in _READ if each.collector in DEFAULT_COLLECTORS)

DISTRIBUTION_SIGNALS: Final = tuple(each for each in Signal if each.export is Export.HISTOGRAM)
"""The ratios that are exported as histograms too."""

RATIO_GAUGES: Final = tuple(each for each in _DEFAULT if each.unit is Unit.RATIO)
"""The ratios that are exported as gauges. Links have theirs as bytes per second, their shares as
the need of a resource; JPEG and optical flow engines are rare."""

QUANTITY_SIGNALS: Final = tuple(each for each in _DEFAULT if each.unit is not Unit.RATIO)
"""The readings with a unit that are exported as they are."""

DETAIL_SIGNALS: Final = tuple(each for each in _READ if each.collector not in DEFAULT_COLLECTORS)
"""The rest, exported only where details are asked for: series are not free."""


def _reading(signal: Signal) -> MetricFamily:
    kind = MetricKind.COUNTER if signal.export is Export.COUNTER else MetricKind.GAUGE
    return MetricFamily(
        signal.metric_name, kind, signal.meaning, ("uuid",), signal.origin, signal.collector
    )


def _distribution(signal: Signal) -> MetricFamily:
    return MetricFamily(
        signal.distribution_metric_name,
        MetricKind.HISTOGRAM,
        f"Seconds by {signal}, one observation a second: {signal.meaning}",
        ("uuid",),
        signal.origin,
        Collector.DISTRIBUTIONS,
    )


SIGNAL_METRICS: Final = (
    *map(_distribution, DISTRIBUTION_SIGNALS),
    *map(_reading, (*RATIO_GAUGES, *QUANTITY_SIGNALS, *DETAIL_SIGNALS)),
)
"""In the order of the exposition."""


_BUILD: Final = (
    info("build", Origin.AGENT, "The agent's version and what it reads.", "version", "source"),
)

_DEVICES: Final = (
    info(
        "device",
        Origin.DRIVER,
        "What a device is; join it by uuid.",
        *("uuid", "gpu", "pci_bus_id", "model", "architecture"),
        *("parent_uuid", "mig_profile", "numa_node"),
    ),
)

_WORKLOADS: Final = (
    info(
        "workload",
        Origin.DRIVER,
        "Who a workload is; join it by workload.",
        *("workload", "kind", "class", "namespace", "name", "pod", "container", "allocator"),
    ),
    gauge(
        "workload_share_ratio",
        Origin.DRIVER,
        "A workload's part of a device; the parts of one device sum to at most 1.",
        *("uuid", "workload"),
    ),
)

_DRIVER: Final = (
    info(
        "driver",
        Origin.DRIVER,
        "The driver's versions.",
        *("driver_version", "cuda_version", "nvml_version"),
    ),
)

_TOPOLOGY: Final = (
    info(
        "topology_link",
        Origin.DRIVER,
        "The way between two GPUs, as `nvidia-smi topo -m` writes it; each pair once.",
        *("uuid", "peer_uuid", "link"),
    ),
)

_HEALTH: Final = (
    gauge("device_up", Origin.DRIVER, "Whether the device answers (1) or not (0).", "uuid"),
    info("device_down", Origin.DRIVER, "Why a device does not answer.", "uuid", "reason"),
    gauge(
        "device_last_sample_timestamp_seconds",
        Origin.DRIVER,
        "When the device was last read; samples are taken on the agent's own clock, not at the "
        "scrape.",
        "uuid",
    ),
    gauge(
        "device_capacity_ratio",
        Origin.DRIVER,
        "1 for a GPU, the share of its SMs for a MIG instance.",
        "uuid",
    ),
    info(
        "device_telemetry",
        Origin.DRIVER,
        "The telemetry tier of a device, and which source tells how busy it is.",
        *("uuid", "tier", "source"),
    ),
)

_XIDS: Final = (
    counter("xid_errors", Origin.DRIVER, "Xids since the agent started.", "uuid"),
    counter(
        "xid_code_errors",
        Origin.DRIVER,
        "Xids since the agent started, by code; a code's series begins with its first.",
        *("uuid", "xid"),
    ),
    gauge(
        "xid_last_timestamp_seconds",
        Origin.DRIVER,
        "When the last Xid came; absent before the first.",
        "uuid",
    ),
)

_TELEMETRY: Final = (
    gauge(
        "collector_success",
        Origin.AGENT,
        "Whether a collector's last pass over all devices succeeded (1) or not (0).",
        "collector",
    ),
    gauge(
        "collector_duration_seconds",
        Origin.AGENT,
        "How long a collector's last pass over all devices took.",
        "collector",
    ),
)

_STATES: Final = (
    counter(
        "state_seconds",
        Origin.ACCOUNTING,
        "Seconds spent in each state; each second has exactly one, `unknown` included.",
        *("uuid", "state"),
    ),
    counter(
        "condition_seconds",
        Origin.ACCOUNTING,
        "Seconds during which a condition held; conditions overlap with states and each other.",
        *("uuid", "condition"),
    ),
)

_WASTE: Final = (
    counter(
        "used_seconds",
        Origin.ACCOUNTING,
        "Device seconds put to use: each second counts by the most used resource's share of what "
        "is achievable.",
        "uuid",
    ),
    counter(
        "waste_seconds",
        Origin.ACCOUNTING,
        "Device seconds left unused by cause; with the used seconds they sum to all known time.",
        *("uuid", "cause"),
    ),
    counter(
        "used_joules", Origin.ACCOUNTING, "Energy drawn in proportion to what was used.", "uuid"
    ),
    counter(
        "waste_joules",
        Origin.ACCOUNTING,
        "Energy drawn in proportion to what was left unused, by cause.",
        *("uuid", "cause"),
    ),
)

_FACTS: Final = (
    info(
        "device_facts",
        Origin.DRIVER,
        "What else is known of a device and does not change by itself.",
        *("uuid", "vbios_version", "serial", "compute_mode", "persistence_mode", "ecc_mode"),
    ),
)

_LINKS: Final = (
    gauge("nvlink_up", Origin.DRIVER, "Whether a link is up (1) or not (0).", "uuid", "link"),
    counter("nvlink_receive_bytes", Origin.DRIVER, "Received over a link.", "uuid", "link"),
    counter("nvlink_transmit_bytes", Origin.DRIVER, "Transmitted over a link.", "uuid", "link"),
    counter(
        "nvlink_link_errors",
        Origin.DRIVER,
        "Errors of a link since the driver was loaded, by kind.",
        *("uuid", "link", "kind"),
    ),
)

_PORTS: Final = (
    gauge("fabric_port_up", Origin.HOST, "Whether a port is active (1) or not (0).", "port"),
    gauge(
        "fabric_port_rate_bytes_per_second", Origin.HOST, "A port's rate in one direction.", "port"
    ),
    counter("fabric_port_receive_bytes", Origin.HOST, "Received by a port.", "port"),
    counter("fabric_port_transmit_bytes", Origin.HOST, "Transmitted by a port.", "port"),
    counter(
        "fabric_port_transmit_wait",
        Origin.HOST,
        "Ticks during which a port had data and could not send it.",
        "port",
    ),
    counter(
        "fabric_port_errors", Origin.HOST, "Errors of a port, by the kernel's name.", "port", "kind"
    ),
)

_CLOCK_EVENTS: Final = (
    gauge(
        "clock_event_reason",
        Origin.BASIC,
        "Whether a reason holds the clocks where they are (1) or not (0).",
        *("uuid", "reason"),
    ),
)

_PROVISIONING: Final = (
    gauge(
        "need_ratio",
        Origin.ACCOUNTING,
        "Demand over the window with its margin, of the device's capacity; above 1 the "
        "margin is gone.",
        *("uuid", "resource", "window"),
    ),
    gauge(
        "overprovisioned_ratio",
        Origin.ACCOUNTING,
        "The part of a resource that the window's need leaves over; of links only with the "
        "collector `extra`.",
        *("uuid", "resource", "window"),
    ),
    gauge(
        "saturated_ratio",
        Origin.ACCOUNTING,
        "Share of the window's time at the resource's limit; a saturated batch job is well used.",
        *("uuid", "resource", "window"),
    ),
    gauge(
        "underprovisioned_ratio",
        Origin.ACCOUNTING,
        "Share of the window's time during which the resource was short.",
        *("uuid", "resource", "window"),
    ),
    gauge(
        "device_overprovisioned_ratio",
        Origin.ACCOUNTING,
        "What the largest need of the window leaves over; 0 while any resource is short.",
        *("uuid", "window"),
    ),
    gauge(
        "device_underprovisioned_ratio",
        Origin.ACCOUNTING,
        "Share of the window's time during which the device was short of the resource that it was "
        "shortest of.",
        *("uuid", "window"),
    ),
    gauge(
        "coverage_ratio",
        Origin.ACCOUNTING,
        "Known seconds of the window over its length: how far the window's other gauges can be "
        "trusted.",
        *("uuid", "window"),
    ),
)

METRICS: Final[dict[str, MetricFamily]] = {
    metric.name: metric
    for group in (
        collected_by(Collector.AGENT, *_BUILD),
        collected_by(Collector.DEVICE, *_DEVICES),
        collected_by(Collector.WORKLOAD, *_WORKLOADS),
        collected_by(Collector.DEVICE, *_DRIVER),
        collected_by(Collector.TOPOLOGY, *_TOPOLOGY),
        collected_by(Collector.DEVICE, *_HEALTH),
        collected_by(Collector.ERRORS, *_XIDS),
        collected_by(Collector.AGENT, *_TELEMETRY),
        collected_by(Collector.STATES, *_STATES),
        collected_by(Collector.WASTE, *_WASTE),
        SIGNAL_METRICS,
        collected_by(Collector.CLOCKS, *_CLOCK_EVENTS),
        collected_by(Collector.EXTRA, *_FACTS),
        collected_by(Collector.LINKS, *_LINKS),
        collected_by(Collector.FABRIC, *_PORTS),
        collected_by(Collector.PROVISIONING, *_PROVISIONING),
        collected_by(Collector.ADVICE, *ADVICE_METRICS),
        collected_by(Collector.RECOMMENDER, *TELLING_METRICS),
        collected_by(Collector.AGENT, *AGENT_METRICS),
        collected_by(Collector.AGENT, *FLEET_METRICS),
    )
    for metric in group
}
"""By name, in the order of the exposition."""
