"""What a look at an estate comes to, by the names of metrics."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from rightsizer.domain.metric_family import series_key
from rightsizer.fleet.pools.brokerage import Served
from rightsizer.fleet.view import PoolView
from rightsizer.runtime.fleet.answer import FleetAnswer
from rightsizer.runtime.fleet.pool_figures import gpus_of, mean_of, waiting_by_pool

__all__ = ["USED", "fleet_gauges"]

USED: Final = {
    "queries": "rightsizer_fleet_queries_total",
    "retries": "rightsizer_fleet_query_retries_total",
    "halvings": "rightsizer_fleet_query_halvings_total",
    "received_bytes": "rightsizer_fleet_query_bytes_total",
    "store_seconds": "rightsizer_fleet_query_seconds_total",
}
"""What a look tells of its use of the store, and the counter that it adds to."""
_HOUR_SECONDS: Final = 3600.0


def fleet_gauges(answer: FleetAnswer, limit: int) -> dict[str, float]:
    """By pool, team and source; what is not known has no series.

    Args:
        answer: What was found.
        limit: Pools, and teams, that have series; the largest.
    """
    found = dict(_verdicts(answer))
    found["rightsizer_fleet_coverage_ratio"] = answer.view.coverage_ratio
    for source in answer.sources:
        key = series_key("rightsizer_fleet_source_devices", source=source.source)
        found[key] = float(source.devices)
    for name, value in Counter(each.finding for each in answer.node_advice).items():
        found[series_key("rightsizer_fleet_node_advice", finding=_plain(name))] = float(value)
    pools = sorted(answer.view.pools, key=lambda pool: (-gpus_of(pool), pool.name))[:limit]
    found.update(_pools(pools, waiting_by_pool(answer.waiting)))
    if answer.served:
        found.update(_servable(pools, answer.served))
    hours = answer.lookback_seconds / _HOUR_SECONDS
    for team in answer.teams[:limit]:
        key = series_key("rightsizer_fleet_team_wasted_gpus", team=_plain(team.team))
        found[key] = team.wasted_gpu_hours / hours
    return found


def _verdicts(answer: FleetAnswer) -> Iterator[tuple[str, float]]:
    """Complaints and abstentions by their first reason; there are as many as reasons at most."""
    complaints = Counter(
        finding.reasons[0]
        for finding in answer.findings
        if finding.is_complaint and finding.reasons
    )
    abstained: Counter[str] = Counter()
    for tally, count in answer.tallies.items():
        if tally.abstained is not None:
            abstained[tally.abstained] += count
    for name, counts in (("findings", complaints), ("abstentions", abstained)):
        for reason, count in counts.items():
            yield series_key(f"rightsizer_recommender_{name}", reason=str(reason)), float(count)


def _plain(name: str) -> str:
    """A name that others gave, as the value of a label."""
    return name.replace('"', "'")


def _servable(pools: Iterable[PoolView], served: Iterable[Served]) -> Iterator[tuple[str, float]]:
    given: dict[tuple[str, bool], float] = {}
    for offer in (offer for each in served for offer in each.offers):
        at = offer.pool, offer.is_now
        given[at] = given.get(at, 0.0) + offer.gpus
    for pool in pools:
        for is_now, name in ((True, "servable_gpus"), (False, "servable_after_gpus")):
            key = series_key(f"rightsizer_fleet_pool_{name}", pool=_plain(pool.name))
            yield key, given.get((pool.name, is_now), 0.0)


def _pools(pools: Iterable[PoolView], waiting: dict[str, float]) -> Iterator[tuple[str, float]]:
    for pool in pools:
        figures = {
            "gpus": gpus_of(pool),
            "held_gpus": mean_of(pool.held),
            "active_gpus": mean_of(pool.active),
            "free_gpus": sum(pool.free_by_node.values()),
            "waiting_gpus": waiting.get(pool.name),
        }
        for name, value in figures.items():
            if value is not None:
                yield (
                    series_key(f"rightsizer_fleet_pool_{name}", pool=_plain(pool.name)),
                    float(value),
                )
