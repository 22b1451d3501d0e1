"""The metrics of `rightsizer fleet --serve`: an estate by its pools, and what asking costs."""

from typing import Final

from rightsizer.model.metric_family import Origin, counter, gauge

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
