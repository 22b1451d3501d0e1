"""What a look at an estate comes to, by the names of metrics."""

from typing import Final

from rightsizer.domain.metric_family import series_key
from rightsizer.fleet.view import Hours
from rightsizer.runtime.fleet.answer import FleetAnswer
from rightsizer.runtime.recommender_gauges import recommender_gauges

__all__ = ["USED", "fleet_gauges"]

USED: Final = {
    "queries": "rightsizer_fleet_queries_total",
    "retries": "rightsizer_fleet_query_retries_total",
    "halvings": "rightsizer_fleet_query_halvings_total",
    "received_bytes": "rightsizer_fleet_query_bytes_total",
    "store_seconds": "rightsizer_fleet_query_seconds_total",
}
"""What a look tells of its use of the store, and the counter that it adds to."""


def fleet_gauges(answer: FleetAnswer) -> dict[str, float]:
    """By pool, team and source; what is not known has no series."""
    found = {
        **recommender_gauges(answer.judgements),
        "rightsizer_fleet_coverage_ratio": answer.view.coverage_ratio,
    }
    for source in answer.sources:
        found[series_key("rightsizer_fleet_source_devices", source=source.source)] = source.devices
    waiting: dict[str, float] = {}
    for each in answer.waiting:
        waiting[each.pool] = waiting.get(each.pool, 0.0) + each.gpus
    for pool in answer.view.pools:
        figures = {
            "gpus": sum(each.device.capacity_ratio for each in pool.devices),
            "held_gpus": _mean(pool.held),
            "active_gpus": _mean(pool.active),
            "free_gpus": sum(pool.free_by_node.values()),
        }
        for name, value in figures.items():
            if value is not None:
                found[series_key(f"rightsizer_fleet_pool_{name}", pool=pool.name)] = value
    for name, gpus in waiting.items():
        found[series_key("rightsizer_fleet_pool_waiting_gpus", pool=name)] = gpus
    return found


def _mean(hours: Hours) -> float | None:
    known = [value for value in hours.values if value is not None]
    return sum(known) / len(known) if known else None
