"""Answer of the fleet recommender, and its encoding in JSON and gauges."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import Judgement
from rightsizer.fleet.cases.evaluation import VerdictKind
from rightsizer.fleet.fetch_plan import FetchPlan
from rightsizer.fleet.model import (
    FleetPool,
    FleetView,
    FleetWorkload,
    HourlySeries,
    NodeAdvice,
    WaitingWork,
)
from rightsizer.fleet.pools.placement import PoolOffer, WaitingOutcome
from rightsizer.fleet.source import SourceReport, StoreUse
from rightsizer.model.advice import Advice
from rightsizer.model.finding import Case, Finding, FindingKind
from rightsizer.model.frozen import asdict, dataclass, field
from rightsizer.model.metric_family import series_key
from rightsizer.model.state import Cause
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.model.window import Window
from rightsizer.report.json_encoder import advice_form, finding_form
from rightsizer.sizing.estimate import EstimateInterval

_HOUR_SECONDS: Final = 3600.0
_JOULES_PER_KILOWATT_HOUR: Final = 3.6e6
_NOTHING: Final = EstimateInterval(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class TeamUse:
    """A row of the table."""

    team: str
    workloads: int
    held_gpu_hours: float
    """Whose state is known."""
    used_gpu_hours: float
    wasted_gpu_hours: float
    kilowatt_hours: float | None
    """At the GPUs; `None` where those of some workload were not measured."""
    dollars: EstimateInterval | None
    """Of the hours held; `None` where nobody states the price of a board."""
    wasted_dollars: EstimateInterval | None
    price_source: str
    price_date: str


@dataclass(frozen=True, slots=True)
class _TeamPart:
    """One device of one workload."""

    held_hours: float
    used_hours: float
    wasted_hours: float
    joules: float | None
    dollars_per_hour: EstimateInterval | None
    price_source: str
    price_date: str


def team_uses(views: Iterable[FleetWorkload], market: Market) -> tuple[TeamUse, ...]:
    """A row a team, whoever held most first."""
    parts: dict[str, list[_TeamPart]] = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    for view in sorted(views, key=lambda view: view.case.key):
        counts[view.team] += 1
        parts[view.team].extend(_parts(view.case, market))
    rows = (_row(team, counts[team], parts[team]) for team in counts)
    return tuple(sorted(rows, key=lambda row: (-row.held_gpu_hours, row.team)))


def _parts(case: Case, market: Market) -> Iterator[_TeamPart]:
    for device, window in zip(case.devices, case.windows, strict=True):
        cost = market.cost(market.board(device.board))
        part = device.capacity_ratio
        yield _TeamPart(
            held_hours=part * window.known_seconds / _HOUR_SECONDS,
            used_hours=part * window.used_seconds / _HOUR_SECONDS,
            wasted_hours=part * _wasted_seconds(window) / _HOUR_SECONDS,
            joules=window.energy_joules if window.energy_joules > 0.0 else None,
            dollars_per_hour=cost.dollars_per_hour if cost else None,
            price_source=cost.source if cost else "",
            price_date=cost.date if cost else "",
        )


def _wasted_seconds(window: Window) -> float:
    """All but the headroom: room that a GPU at work has left wastes nobody's time."""
    return sum(lost for cause, lost in window.waste_seconds.items() if cause is not Cause.HEADROOM)


def _row(team: str, workloads: int, parts: list[_TeamPart]) -> TeamUse:
    known = [each for each in parts if each.held_hours > 0.0]
    joules = [each.joules for each in known]
    measured = [each for each in joules if each is not None]
    is_measured = bool(measured) and len(measured) == len(joules)
    return TeamUse(
        team=team,
        workloads=workloads,
        held_gpu_hours=sum(each.held_hours for each in known),
        used_gpu_hours=sum(each.used_hours for each in known),
        wasted_gpu_hours=sum(each.wasted_hours for each in known),
        kilowatt_hours=sum(measured) / _JOULES_PER_KILOWATT_HOUR if is_measured else None,
        dollars=_dollars((each, each.held_hours) for each in known),
        wasted_dollars=_dollars((each, each.wasted_hours) for each in known),
        price_source=_joined(each.price_source for each in known),
        price_date=_joined(each.price_date for each in known),
    )


def _dollars(hours: Iterable[tuple[_TeamPart, float]]) -> EstimateInterval | None:
    total = _NOTHING
    for part, time in hours:
        if part.dollars_per_hour is None:
            return None
        hour = part.dollars_per_hour.scaled(time)
        total = EstimateInterval(
            total.value + hour.value, total.low + hour.low, total.high + hour.high
        )
    return total


def _joined(words: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, words)))


def gpus_of(pool: FleetPool) -> float:
    """Whole GPUs, however divided."""
    return sum(each.device.capacity_ratio for each in pool.devices)


def mean_of(hours: HourlySeries) -> float | None:
    """Over the hours that are known, `None` where none is."""
    known = [value for value in hours.values if value is not None]
    return sum(known) / len(known) if known else None


def peak_of(hours: HourlySeries) -> float | None:
    """The highest of the hours that are known, `None` where none is."""
    return max((value for value in hours.values if value is not None), default=None)


def waiting_by_pool(waiting: Iterable[WaitingWork]) -> dict[str, float]:
    """GPUs that work waits for, by the pool that it waits for."""
    found: dict[str, float] = {}
    for each in waiting:
        found[each.pool] = found.get(each.pool, 0.0) + each.gpus
    return found


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """One look at an estate."""

    time: Nanoseconds
    """Wall time that is looked back from."""
    lookback_seconds: float
    sources: tuple[SourceReport, ...]
    view: FleetView
    judgements: tuple[Judgement, ...] = ()
    """Those that complain, and those on what is open; all where that was asked for."""
    tallies: Mapping[VerdictKind, int] = field(default_factory=dict)
    """How many verdicts there were of each kind."""
    node_advice: tuple[NodeAdvice, ...] = ()
    """What the nodes' own agents advise beside; the fleet neither repeats nor annotates it."""
    waiting: tuple[WaitingWork, ...] = ()
    served: tuple[WaitingOutcome, ...] = ()
    """What each of those could get, the longest waiting first."""
    advice: tuple[Advice, ...] = ()
    """The ledger's, open first."""
    teams: tuple[TeamUse, ...] = ()
    use: StoreUse = field(default_factory=StoreUse)
    """What it cost the store."""
    notes: tuple[str, ...] = ()
    """What limits the answer, a sentence each."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The verdicts of the judgements."""
        return tuple(each.finding for each in self.judgements)


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
