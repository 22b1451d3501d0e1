"""The metrics of the agent's own work: sampling, jobs, history, configuration, log."""

from typing import Final

from rightsizer.model.metric_family import Origin, counter, gauge

AGENT_METRICS: Final = (
    gauge("sampling_interval_seconds", Origin.AGENT, "The usual time between two samples."),
    counter("samples", Origin.AGENT, "Samples taken."),
    counter("samples_failed", Origin.AGENT, "Ticks that gave no sample."),
    counter("samples_late", Origin.AGENT, "Samples taken more than one interval late."),
    gauge("workers_abandoned", Origin.AGENT, "Workers stuck in a driver call and given up."),
    gauge(
        "device_slow",
        Origin.AGENT,
        "Whether a GPU's driver calls take so long that readings come late or some are asked for "
        "less often (1) or not (0).",
        "uuid",
    ),
    gauge(
        "device_round_duration_seconds",
        Origin.AGENT,
        "The longest round of driver calls since a GPU has become slow; absent where it is not.",
        "uuid",
    ),
    gauge(
        "collector_postponed_devices",
        Origin.AGENT,
        "GPUs whose driver is so slow that a collector is asked less often; absent where none is.",
        "collector",
    ),
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
    gauge("broker_leases", Origin.AGENT, "Leases that last; only where the broker is on."),
    gauge("broker_queue_length", Origin.AGENT, "Tickets that wait for GPUs."),
    counter("broker_grants", Origin.AGENT, "Tickets that became leases."),
    counter(
        "broker_wait_seconds",
        Origin.AGENT,
        "Time that those waited whose tickets became leases, in sum.",
    ),
    counter("log_messages", Origin.AGENT, "Log messages written.", "level"),
)
