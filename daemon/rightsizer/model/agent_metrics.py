"""Metrics of the agent itself, of its advice, and of a fleet."""

from typing import Final

from rightsizer.model.metric_family import Origin, counter, gauge, info

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


ADVICE_METRICS: Final = (
    info(
        "advice",
        Origin.ADVICE,
        "Open advice, one series for each of its devices; join the other advice metrics by id.",
        *("id", "finding", "reason", "action", "severity", "state", "uuid", "workload"),
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
    gauge(
        "advice_realized_gpu_seconds",
        Origin.ADVICE,
        "Time of GPUs that was seen to be saved by advice which was acted on, as far back as the "
        "ledger remembers.",
        "rule",
    ),
    counter(
        "advice_outcomes",
        Origin.ADVICE,
        "Advice closed, by its reason and by how it ended.",
        *("reason", "outcome"),
    ),
    counter(
        "profiles",
        Origin.AGENT,
        "Profiles that were taken, by their format and by what came of them: complaint, fine, "
        "undecided, or unmatched with any workload.",
        *("format", "outcome"),
    ),
    counter(
        "captures",
        Origin.AGENT,
        "Profiles that the agent called for, by how that ended: landed, empty, failed, timed_out, "
        "interrupted.",
        "outcome",
    ),
    counter(
        "actions",
        Origin.AGENT,
        "What came of actions on advice: done, failed, timed_out, interrupted, unknown; and of "
        "those not done: dry_run, refused, withdrawn.",
        *("action", "outcome"),
    ),
)

_RECOMMENDER: Final = (
    counter("recommender_runs", Origin.AGENT, "Runs of the recommender."),
    counter("recommender_failures", Origin.AGENT, "Runs of the recommender that failed."),
    counter(
        "recommender_rule_failures",
        Origin.AGENT,
        "Verdicts that are missing because a rule failed; the log says which and how.",
    ),
    counter(
        "recommender_skipped",
        Origin.AGENT,
        "Runs of the recommender left out because the one before was still under way.",
    ),
    gauge(
        "recommender_duration_seconds", Origin.AGENT, "How long the recommender's last run took."
    ),
    gauge(
        "recommender_last_success_timestamp_seconds",
        Origin.AGENT,
        "When the recommender last succeeded.",
    ),
    gauge(
        "recommender_findings",
        Origin.AGENT,
        "Complaints of the recommender's last run; a reason that it did not find has no series.",
        "reason",
    ),
    gauge(
        "recommender_abstentions",
        Origin.AGENT,
        "Verdicts that the recommender's last run would not give, by why.",
        "reason",
    ),
)

_ANNOTATION: Final = (
    counter("annotations", Origin.AGENT, "Annotations that were tried to be written to Grafana."),
    counter("annotation_failures", Origin.AGENT, "Annotations that Grafana did not take."),
    gauge("annotations_pending", Origin.AGENT, "Annotations that wait to be written."),
    gauge(
        "annotation_last_success_timestamp_seconds",
        Origin.AGENT,
        "When Grafana had last taken all there was to write.",
    ),
)

_WEBHOOK: Final = (
    counter("webhook_requests", Origin.AGENT, "Requests to a webhook.", "webhook"),
    counter("webhook_failures", Origin.AGENT, "Requests that a webhook did not take.", "webhook"),
    counter(
        "webhook_dropped",
        Origin.AGENT,
        "Changes of advice given up: refused for what they say, or crowded out by later ones.",
        "webhook",
    ),
    gauge("webhooks_pending", Origin.AGENT, "Changes of advice that wait to be sent.", "webhook"),
    gauge(
        "webhook_last_success_timestamp_seconds",
        Origin.AGENT,
        "When a webhook had last taken all there was to send.",
        "webhook",
    ),
)

TELLING_METRICS: Final = (*_RECOMMENDER, *_ANNOTATION, *_WEBHOOK)
"""What the agent says of its own advising."""


FLEET_METRICS: Final = (
    gauge("fleet_pool_gpus", Origin.FLEET, "Whole GPUs of a pool, however divided.", "pool"),
    gauge(
        "fleet_pool_held_gpus",
        Origin.FLEET,
        "GPUs of a pool that somebody holds, as a mean over the lookback.",
        "pool",
    ),
    gauge(
        "fleet_pool_active_gpus",
        Origin.FLEET,
        "GPUs of a pool that are neither idle nor unknown, as a mean over the lookback.",
        "pool",
    ),
    gauge("fleet_pool_free_gpus", Origin.FLEET, "GPUs of a pool that nobody holds now.", "pool"),
    gauge(
        "fleet_pool_waiting_gpus",
        Origin.FLEET,
        "GPUs that work waits for in a pool, where a scheduler's exporter tells.",
        "pool",
    ),
    gauge(
        "fleet_pool_servable_gpus",
        Origin.FLEET,
        "Free GPUs of a pool that waiting work could have now, each promised once.",
        "pool",
    ),
    gauge(
        "fleet_pool_servable_after_gpus",
        Origin.FLEET,
        "GPUs of a pool that waiting work could have beside those, once open advice is followed.",
        "pool",
    ),
    gauge(
        "fleet_team_wasted_gpus",
        Origin.FLEET,
        "GPUs' worth of a team's time that was wasted, as a mean over the lookback.",
        "team",
    ),
    gauge(
        "fleet_node_advice",
        Origin.FLEET,
        "Open advice that the nodes' own agents export, by what they found.",
        "finding",
    ),
    gauge("fleet_source_devices", Origin.FLEET, "Devices that a source tells of.", "source"),
    gauge("fleet_coverage_ratio", Origin.FLEET, "Known part of all devices' time."),
    counter("fleet_queries", Origin.FLEET, "Queries that the store was asked."),
    counter("fleet_query_retries", Origin.FLEET, "Queries that were sent again."),
    counter(
        "fleet_query_halvings", Origin.FLEET, "Queries cut in halves, since they were too much."
    ),
    counter("fleet_query_bytes", Origin.FLEET, "Bytes that the store answered."),
    counter("fleet_query_seconds", Origin.FLEET, "Seconds that the store took to answer."),
)
"""They are there once a look has succeeded."""
