"""Every metric the agent exports, in one table.

The exposition is rendered from it, the documentation generated from it, and dashboards and
alerts are checked against it.
"""

from typing import Final

from rightsizer.domain.metric_family import (
    MetricFamily,
    MetricKind,
    Origin,
    counter,
    gauge,
    info,
    series_key,
)
from rightsizer.domain.signal_metric import SIGNAL_METRICS

__all__ = ["METRICS", "MetricFamily", "MetricKind", "Origin", "series_key"]

_IDENTITY: Final = (
    info("build", Origin.AGENT, "The agent's version and what it reads.", "version", "source"),
    info(
        "device",
        Origin.DRIVER,
        "What a device is; join it by uuid.",
        *("uuid", "gpu", "pci_bus_id", "model", "architecture"),
        *("parent_uuid", "mig_profile", "numa_node"),
    ),
    info(
        "workload",
        Origin.DRIVER,
        "Who a workload is; join it by workload.",
        *("workload", "kind", "class", "namespace", "name", "pod", "container"),
    ),
    gauge(
        "workload_share_ratio",
        Origin.DRIVER,
        "A workload's part of a device; the parts of one device sum to at most 1.",
        *("uuid", "workload"),
    ),
)

_NODE: Final = (
    info(
        "driver",
        Origin.DRIVER,
        "The driver's versions.",
        *("driver_version", "cuda_version", "nvml_version"),
    ),
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

_ACCOUNTS: Final = (
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

_DETAILS: Final = (
    info(
        "device_facts",
        Origin.DRIVER,
        "What else is known of a device and does not change by itself.",
        *("uuid", "vbios_version", "serial", "compute_mode", "persistence_mode", "ecc_mode"),
    ),
    gauge("nvlink_up", Origin.DRIVER, "Whether a link is up (1) or not (0).", "uuid", "link"),
    counter("nvlink_receive_bytes", Origin.DRIVER, "Received over a link.", "uuid", "link"),
    counter("nvlink_transmit_bytes", Origin.DRIVER, "Transmitted over a link.", "uuid", "link"),
    counter(
        "nvlink_link_errors",
        Origin.DRIVER,
        "Errors of a link since the driver was loaded, by kind.",
        *("uuid", "link", "kind"),
    ),
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

_READINGS: Final = (
    *SIGNAL_METRICS,
    gauge(
        "clock_event_reason",
        Origin.BASIC,
        "Whether a reason holds the clocks where they are (1) or not (0).",
        *("uuid", "reason"),
    ),
    *_DETAILS,
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
        "The part of a resource that the window's need leaves over.",
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

_ADVICE: Final = (
    info(
        "advice",
        Origin.ADVICE,
        "Open advice, one series for each of its devices; join the other advice metrics by id.",
        *("id", "finding", "reason", "action", "uuid", "workload"),
    ),
    gauge(
        "advice_confidence_ratio",
        Origin.ADVICE,
        "Calibrated probability that the finding is true.",
        "id",
    ),
    gauge(
        "advice_risk_ratio",
        Origin.ADVICE,
        "Upper bound of the share of 5-minute blocks that would not fit after acting; absent "
        "where it is unknown.",
        "id",
    ),
    gauge("advice_savings_gpus", Origin.ADVICE, "GPUs that acting would free, at the least.", "id"),
    gauge(
        "advice_savings_dollars_per_hour",
        Origin.ADVICE,
        "Money that acting would save, at the least.",
        "id",
    ),
    gauge("advice_opened_timestamp_seconds", Origin.ADVICE, "When the advice was opened.", "id"),
    gauge(
        "advice_open", Origin.ADVICE, "Pieces of open advice, those not exported one by one too."
    ),
    counter(
        "advice_outcomes",
        Origin.ADVICE,
        "Advice closed, by its reason and by how it ended.",
        *("reason", "outcome"),
    ),
)

_AGENT: Final = (
    gauge("sampling_interval_seconds", Origin.AGENT, "The usual time between two samples."),
    counter("samples", Origin.AGENT, "Samples taken."),
    counter("samples_failed", Origin.AGENT, "Ticks that gave no sample."),
    counter("samples_late", Origin.AGENT, "Samples taken more than one interval late."),
    gauge("workers_abandoned", Origin.AGENT, "Workers stuck in a driver call and given up."),
    counter("job_runs", Origin.AGENT, "Runs of a scheduled job.", "name"),
    counter(
        "job_skipped",
        Origin.AGENT,
        "Runs of a scheduled job left out because the one before was still under way.",
        "name",
    ),
    counter("job_failures", Origin.AGENT, "Runs of a scheduled job that failed.", "name"),
    gauge(
        "job_last_start_timestamp_seconds",
        Origin.AGENT,
        "When a scheduled job last started.",
        "name",
    ),
    gauge(
        "job_last_success_timestamp_seconds",
        Origin.AGENT,
        "When a scheduled job last succeeded.",
        "name",
    ),
    gauge(
        "job_last_duration_seconds",
        Origin.AGENT,
        "How long a scheduled job's last run took.",
        "name",
    ),
    gauge("recommender_findings", Origin.AGENT, "Complaints of the recommender's last run."),
    gauge("recommender_abstentions", Origin.AGENT, "Abstentions of the recommender's last run."),
    counter("annotations", Origin.AGENT, "Annotations that were tried to be written to Grafana."),
    counter("annotation_failures", Origin.AGENT, "Annotations that Grafana did not take."),
    gauge("annotations_pending", Origin.AGENT, "Annotations that wait to be written."),
    gauge("history_size_bytes", Origin.AGENT, "Size of the history's file."),
    counter("history_writes", Origin.AGENT, "Flushes to the history."),
    counter("history_write_failures", Origin.AGENT, "Flushes to the history that failed."),
    counter("history_breaks", Origin.AGENT, "Histories that broke and were set aside."),
    counter(
        "history_windows_forgotten",
        Origin.AGENT,
        "Windows forgotten before their time, since the history had its largest size.",
    ),
    gauge(
        "config_last_reload_successful",
        Origin.AGENT,
        "Whether the last load of the configuration succeeded (1) or not (0).",
    ),
    gauge(
        "config_last_reload_success_timestamp_seconds",
        Origin.AGENT,
        "When the configuration was last loaded with success.",
    ),
    counter("log_messages", Origin.AGENT, "Log messages written.", "level"),
)

METRICS: Final[dict[str, MetricFamily]] = {
    metric.name: metric
    for group in (_IDENTITY, _NODE, _HEALTH, _ACCOUNTS, _READINGS, _PROVISIONING, _ADVICE, _AGENT)
    for metric in group
}
"""By name, in the order of the exposition."""
