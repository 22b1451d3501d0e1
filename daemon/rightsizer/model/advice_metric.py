"""The metrics of advice, of the recommender that makes it, and of whoever is told of it."""

from typing import Final

from rightsizer.model.metric_family import Origin, counter, gauge, info

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
