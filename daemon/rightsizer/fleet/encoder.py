"""Encoders of a FleetAnswer: the JSON document of docs/fleet.md, and metrics."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from rightsizer.fleet.answer import FleetAnswer, gpus_of, mean_of, peak_of, waiting_by_pool
from rightsizer.fleet.fetch_plan import FetchPlan
from rightsizer.fleet.model import FleetPool
from rightsizer.fleet.pools.placement import PoolOffer, WaitingOutcome
from rightsizer.fleet.source import SourceReport
from rightsizer.model.finding import FindingKind
from rightsizer.model.metric_family import series_key
from rightsizer.model.units import seconds
from rightsizer.report.json_encoder import advice_form, finding_form


def encode_answer(answer: FleetAnswer) -> dict[str, Any]:
    """All of it; of verdicts that were not kept, there are counts."""
    keys = {each.finding.id: each.key for each in answer.judgements}
    waiting = waiting_by_pool(answer.waiting)
    return {
        "time": seconds(answer.time),
        "lookback_seconds": answer.lookback_seconds,
        "coverage_ratio": answer.view.coverage_ratio,
        "devices": sum(len(pool.devices) for pool in answer.view.pools),
        "gpus": sum(gpus_of(pool) for pool in answer.view.pools),
        "workloads": len(answer.view.workloads),
        "sources": [encode_source(each) for each in answer.sources],
        "pools": [_pool(each, waiting.get(each.name)) for each in answer.view.pools],
        "findings": [{"key": each.key, **finding_form(each.finding)} for each in answer.judgements],
        "verdicts": _verdicts(answer),
        "advice": [
            {"key": keys.get(each.id, each.finding.workload), **advice_form(each)}
            for each in answer.advice
        ],
        "node_advice": [asdict(each) for each in answer.node_advice],
        "waiting": [asdict(each) for each in answer.waiting],
        "waiting_work": [_served(each) for each in answer.served],
        "teams": [asdict(each) for each in answer.teams],
        "use": asdict(answer.use),
        "notes": list(answer.notes),
    }


def encode_plan(
    reports: Sequence[SourceReport], plan: FetchPlan, now_seconds: float
) -> dict[str, Any]:
    """What a look would ask of the store.

    Args:
        reports: What the probe found.
        plan: What would be read.
        now_seconds: Wall time.
    """
    return {
        "time": now_seconds,
        "sources": [encode_source(each) for each in reports],
        "fine_days": len(plan.fine_days),
        "coarse_days": len(plan.coarse_days),
        "kept_device_days": plan.kept,
        "device_days": plan.wanted,
        "shards": len(plan.shards),
        "queries": plan.queries,
        "samples": plan.samples,
    }


def _verdicts(answer: FleetAnswer) -> dict[str, Any]:
    """By rule: how many complained, were well, and would not say for which reason."""
    found: dict[str, dict[str, Any]] = {}
    for tally, count in sorted(answer.tallies.items(), key=lambda each: each[0].rule):
        rule = found.setdefault(tally.rule, {"complaints": 0, "well": 0, "abstained": {}})
        if tally.abstained is not None:
            rule["abstained"][tally.abstained] = count
        else:
            rule["well" if tally.finding is FindingKind.OPTIMIZED else "complaints"] += count
    return found


def encode_source(report: SourceReport) -> dict[str, Any]:
    """What a probe found of one source."""
    return {
        "source": report.source,
        "is_found": bool(report.metrics or report.devices or report.oldest is not None),
        "devices": report.devices,
        "oldest": None if report.oldest is None else seconds(report.oldest),
        "resolution_seconds": report.resolution_seconds,
        "tier": report.tier,
        "can": list(report.can),
        "cannot": list(report.cannot),
        "warnings": list(report.warnings),
    }


def _served(served: WaitingOutcome) -> dict[str, Any]:
    waiting = served.waiting
    return {
        "key": waiting.key,
        "pool": waiting.pool,
        "namespace": waiting.namespace,
        "gpus": waiting.gpus,
        "waiting_seconds": waiting.since_seconds,
        "memory_bytes": served.memory_bytes,
        "now_gpus": served.now_gpus,
        "after_gpus": served.after_gpus,
        "left_gpus": served.left_gpus,
        "why_left": served.why_left or None,
        "offers": [_offer(each) for each in served.offers],
    }


def _offer(offer: PoolOffer) -> dict[str, Any]:
    return {
        "pool": offer.pool,
        "gpus": offer.gpus,
        "is_now": offer.is_now,
        "nodes": dict(offer.nodes),
        "steps": [
            {
                "action": each.action,
                "advice": each.advice or None,
                "workloads": list(each.workloads),
                "frees": dict(each.frees),
                "target": each.target or None,
            }
            for each in offer.steps
        ],
    }


def _pool(pool: FleetPool, waiting_gpus: float | None) -> dict[str, Any]:
    return {
        "name": pool.name,
        "board": pool.board,
        "gpus": gpus_of(pool),
        "nodes": len(pool.size_by_node),
        "held_mean": mean_of(pool.held),
        "held_peak": peak_of(pool.held_peak),
        "active_mean": mean_of(pool.active),
        "free_now": sum(pool.free_by_node.values()),
        "waiting_gpus": waiting_gpus,
    }


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
    found = dict(_verdict_samples(answer))
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


def _verdict_samples(answer: FleetAnswer) -> Iterator[tuple[str, float]]:
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


def _servable(
    pools: Iterable[FleetPool], served: Iterable[WaitingOutcome]
) -> Iterator[tuple[str, float]]:
    given: dict[tuple[str, bool], float] = {}
    for offer in (offer for each in served for offer in each.offers):
        at = offer.pool, offer.is_now
        given[at] = given.get(at, 0.0) + offer.gpus
    for pool in pools:
        for is_now, name in ((True, "servable_gpus"), (False, "servable_after_gpus")):
            key = series_key(f"rightsizer_fleet_pool_{name}", pool=_plain(pool.name))
            yield key, given.get((pool.name, is_now), 0.0)


def _pools(pools: Iterable[FleetPool], waiting: dict[str, float]) -> Iterator[tuple[str, float]]:
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
