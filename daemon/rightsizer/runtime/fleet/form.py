"""An answer about an estate as plain values for JSON; docs/fleet.md tells every key."""

from dataclasses import asdict
from typing import Any

from rightsizer.domain.finding import FindingKind
from rightsizer.domain.units import seconds
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.view import Hours, PoolView
from rightsizer.publish.json_form import advice_form, finding_form
from rightsizer.runtime.fleet.answer import FleetAnswer

__all__ = ["fleet_form", "source_form"]


def fleet_form(answer: FleetAnswer) -> dict[str, Any]:
    """All of it; of verdicts that were not kept, there are counts."""
    return {
        "time": seconds(answer.time),
        "lookback_seconds": answer.lookback_seconds,
        "coverage_ratio": answer.view.coverage_ratio,
        "devices": sum(len(pool.devices) for pool in answer.view.pools),
        "gpus": sum(_gpus(pool) for pool in answer.view.pools),
        "workloads": len(answer.view.workloads),
        "sources": [source_form(each) for each in answer.sources],
        "pools": [_pool(each) for each in answer.view.pools],
        "findings": [finding_form(each) for each in answer.findings],
        "verdicts": _verdicts(answer),
        "advice": [advice_form(each) for each in answer.advice],
        "node_advice": [asdict(each) for each in answer.node_advice],
        "waiting": [asdict(each) for each in answer.waiting],
        "teams": [asdict(each) for each in answer.teams],
        "use": asdict(answer.use),
        "notes": list(answer.notes),
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
        "devices": report.devices,
        "oldest": None if report.oldest is None else seconds(report.oldest),
        "resolution_seconds": report.resolution_seconds,
        "tier": report.tier,
        "can": list(report.can),
        "cannot": list(report.cannot),
        "warnings": list(report.warnings),
    }


def _pool(pool: PoolView) -> dict[str, Any]:
    return {
        "name": pool.name,
        "board": pool.board,
        "gpus": _gpus(pool),
        "nodes": len(pool.size_by_node),
        "held_mean": _mean(pool.held),
        "held_peak": _peak(pool.held_peak),
        "active_mean": _mean(pool.active),
        "free_now": sum(pool.free_by_node.values()),
    }


def _gpus(pool: PoolView) -> float:
    return sum(each.device.capacity_ratio for each in pool.devices)


def _mean(hours: Hours) -> float | None:
    known = [value for value in hours.values if value is not None]
    return sum(known) / len(known) if known else None


def _peak(hours: Hours) -> float | None:
    return max((value for value in hours.values if value is not None), default=None)
