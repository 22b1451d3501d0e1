"""An answer about an estate as plain values for JSON; docs/fleet.md tells every key."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rightsizer.domain.finding import FindingKind
from rightsizer.domain.units import seconds
from rightsizer.fleet.pools.brokerage import Offer, Served
from rightsizer.fleet.reading.plan import Plan
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.view import PoolView
from rightsizer.publish.json_form import advice_form, finding_form
from rightsizer.runtime.fleet.answer import FleetAnswer
from rightsizer.runtime.fleet.pool_figures import gpus_of, mean_of, peak_of, waiting_by_pool

__all__ = ["fleet_form", "plan_form", "source_form"]


def fleet_form(answer: FleetAnswer) -> dict[str, Any]:
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
        "sources": [source_form(each) for each in answer.sources],
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


def plan_form(reports: Sequence[SourceReport], plan: Plan, now_seconds: float) -> dict[str, Any]:
    """What a look would ask of the store.

    Args:
        reports: What the probe found.
        plan: What would be read.
        now_seconds: Wall time.
    """
    return {
        "time": now_seconds,
        "sources": [source_form(each) for each in reports],
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


def source_form(report: SourceReport) -> dict[str, Any]:
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


def _served(served: Served) -> dict[str, Any]:
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


def _offer(offer: Offer) -> dict[str, Any]:
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


def _pool(pool: PoolView, waiting_gpus: float | None) -> dict[str, Any]:
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
