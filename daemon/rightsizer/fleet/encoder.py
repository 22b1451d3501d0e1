"""Answer of the fleet recommender, encoded as JSON and gauges."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self

from msgspec import Struct
from msgspec.structs import asdict, replace

from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import Judgement
from rightsizer.advice.verdict import names_of
from rightsizer.fleet.answers import completed, ranked
from rightsizer.fleet.cases.evaluation import VerdictKind
from rightsizer.fleet.context import FleetContext
from rightsizer.fleet.documents import (
    FetchDocument,
    FleetAdviceDocument,
    FleetAnswerDocument,
    FleetFindingDocument,
    FleetPoolDocument,
    FleetSourceDocument,
    HeldGpuDocument,
    NodeAdviceDocument,
    OfferDocument,
    ReadingDocument,
    RuleVerdicts,
    StepDocument,
    UsageDocument,
    WaitingDocument,
)
from rightsizer.fleet.fetch import FetchPlan
from rightsizer.fleet.model import (
    FleetPool,
    FleetView,
    FleetWorkload,
    HourlySeries,
    NodeAdvice,
    WaitingWork,
)
from rightsizer.fleet.pools.hourly import mean_of
from rightsizer.fleet.pools.placement import PoolOffer, WaitingOutcome
from rightsizer.fleet.source import SourceReport, StoreUse
from rightsizer.fleet.tables import cluster_rows
from rightsizer.fleet.usage import FREE, HeldGpu, UseRow
from rightsizer.io.codec import plain
from rightsizer.model.values import (
    HOUR_SECONDS,
    Advice,
    Finding,
    FindingKind,
    Nanoseconds,
    optional_seconds,
    seconds,
    series_key,
)
from rightsizer.report.advice_document import advice_document, finding_document
from rightsizer.report.labels import HOURS_A_DAY

_PLACES: Final = 4
"""Of GPU-hours of one GPU."""


def waiting_by_pool(waiting: Iterable[WaitingWork]) -> dict[str, float]:
    """Return the GPUs that work waits for, by pool."""
    gpus_by_pool: defaultdict[str, float] = defaultdict(float)
    for waiting_work in waiting:
        gpus_by_pool[waiting_work.pool] += waiting_work.gpus
    return gpus_by_pool


class FleetAnswer(Struct, frozen=True):
    """Result of one run over a fleet."""

    time: Nanoseconds
    """Wall time of the end of all spans."""
    lookback_seconds: float
    sources: tuple[SourceReport, ...]
    view: FleetView
    judgements: tuple[Judgement, ...] = ()
    """Complaints and judgements on open advice; all on request."""
    tallies: Mapping[VerdictKind, int] = {}
    """Number of judgements by kind."""
    node_advice: tuple[NodeAdvice, ...] = ()
    """Advice of the nodes' own agents; the fleet neither repeats nor annotates it."""
    holdings: tuple[HeldGpu, ...] = ()
    """Present GPUs, or parts of them, by holder."""
    waiting: tuple[WaitingWork, ...] = ()
    served: tuple[WaitingOutcome, ...] = ()
    """What each of these could get, longest waiting first."""
    served_models: tuple[Mapping[str, Any], ...] = ()
    """What engines serve, as the planner answers, in the order in which to act."""
    advice: tuple[Advice, ...] = ()
    """Advice of the ledger, open first."""
    usage: tuple[UseRow, ...] = ()
    """Hours by owner."""
    market: Market = Market()
    """Prices of what is held."""
    use: StoreUse = StoreUse()
    """Cost for the store."""
    notes: tuple[str, ...] = ()
    """Limitations of the answer, a sentence each."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of the judgements."""
        return tuple(judgement.finding for judgement in self.judgements)


def _source(report: SourceReport) -> FleetSourceDocument:
    return FleetSourceDocument(
        source=report.source,
        cluster=report.cluster.name,
        is_found=bool(report.metrics or report.devices or report.oldest is not None),
        devices=report.devices,
        oldest=optional_seconds(report.oldest),
        resolution_seconds=report.resolution_seconds,
        tier=report.tier,
        can=report.can,
        cannot=report.cannot,
        warnings=report.warnings,
    )


def _holdings(answer: FleetAnswer) -> tuple[HeldGpuDocument, ...]:
    """Encode who has which GPU now, and what became of its hours."""
    devices = {
        fleet_device.device.uuid: fleet_device
        for pool in answer.view.pools
        for fleet_device in pool.devices
    }
    cost_of = cache(answer.market.cost_near)
    rows = []
    for held in sorted(answer.holdings, key=lambda held: (held.uuid, held.workload)):
        device = devices[held.uuid]
        cost = cost_of(device.provider, device.device.board)
        price = None if cost is None else cost.dollars_per_hour.value
        headroom = held.held - held.used - held.idle - held.stalled - held.lost - held.free
        row = HeldGpuDocument(
            cluster=device.cluster,
            team=held.team,
            pool=device.pool,
            node=device.node,
            uuid=held.uuid,
            name=names_of([replace(device.device, host="")]),
            board=device.device.board,
            workload=held.workload,
            gpus=held.gpus,
            held_gpu_hours=round(held.held, _PLACES),
            unknown_gpu_hours=round(held.unknown, _PLACES),
            used_gpu_hours=round(held.used, _PLACES),
            headroom_gpu_hours=round(max(0.0, headroom), _PLACES),
            idle_gpu_hours=round(held.idle, _PLACES),
            stalled_gpu_hours=round(held.stalled, _PLACES),
            lost_gpu_hours=round(held.lost, _PLACES),
            free_gpu_hours=round(held.free, _PLACES),
            dollars_per_day=None if price is None else price * held.gpus * HOURS_A_DAY,
        )
        rows.append(row)
    return tuple(rows)


class _Places(Struct, frozen=True):
    """Clusters and teams of workloads and GPUs, by key and by uuid."""

    workloads: Mapping[str, FleetWorkload]
    clusters: Mapping[str, str]
    teams: Mapping[str, set[str]]

    @classmethod
    def of(cls, answer: FleetAnswer) -> Self:
        """Return those of present and lost GPUs."""
        present = chain.from_iterable(pool.devices for pool in answer.view.pools)
        devices = chain(present, (device.device for device in answer.view.lost))
        teams = defaultdict[str, set[str]](set)
        for held in answer.holdings:
            teams[held.uuid].add(held.team)
        return cls(
            workloads={workload.case.key: workload for workload in answer.view.workloads},
            clusters={device.device.uuid: device.cluster for device in devices},
            teams=teams,
        )

    def of_finding(self, finding: Finding) -> dict[str, Any]:
        """Return key, cluster and team of a finding; empty if unknown."""
        key = finding.key or finding.workload
        workload = self.workloads.get(key or "")
        if workload is None:
            return {"key": key, **self.of_devices(finding.devices)}
        return {"key": key, "cluster": workload.cluster, "team": workload.team}

    def of_devices(self, uuids: Iterable[str]) -> dict[str, Any]:
        """Return the first known cluster of some GPUs, and their team."""
        cluster = next((self.clusters[uuid] for uuid in uuids if uuid in self.clusters), "")
        return {"cluster": cluster, "team": self.team(uuids)}

    def team(self, uuids: Iterable[str]) -> str:
        """Return the team that has all of some GPUs; empty if there is no such one."""
        names = {team for uuid in uuids for team in self.teams.get(uuid, ("",))}
        return names.pop() if len(names) == 1 else ""


def encode_answer(answer: FleetAnswer) -> dict[str, Any]:
    """Encode the answer; judgements that were not kept appear as counts."""
    places = _Places.of(answer)
    document = plain(_document(answer, places))
    names = (source["cluster"] for source in document["sources"])
    rows = (document[name] for name in ("pools", "holdings", "waiting"))
    document["clusters"] = cluster_rows(names, *rows)
    document["advice"] = ranked(document["advice"])
    # The planner says more of a served model than a fleet reads.
    document["served_models"] = [
        {**places.of_devices(served["load"]["devices"]), **served}
        for served in answer.served_models
    ]
    return completed(document)


def _document(answer: FleetAnswer, places: _Places) -> FleetAnswerDocument:
    """Return the rows of an answer, its clusters and served models apart."""
    holdings = _holdings(answer)
    pools = answer.view.pools
    waiting = waiting_by_pool(answer.waiting)
    return FleetAnswerDocument(
        time=seconds(answer.time),
        lookback_seconds=answer.lookback_seconds,
        coverage_ratio=answer.view.coverage_ratio,
        devices=sum(len(pool.devices) for pool in pools),
        gpus=sum(pool.gpus for pool in pools),
        workloads=len({(held.cluster, held.workload) for held in holdings if held.workload}),
        clusters=(),
        sources=tuple(map(_source, answer.sources)),
        pools=tuple(_pool(pool, waiting.get(pool.name)) for pool in pools),
        holdings=holdings,
        findings=tuple(
            FleetFindingDocument(**asdict(finding_document(finding)), **places.of_finding(finding))
            for finding in answer.findings
        ),
        verdicts=_verdicts(answer),
        advice=tuple(
            FleetAdviceDocument(
                **asdict(advice_document(advice)), **places.of_finding(advice.finding)
            )
            for advice in answer.advice
        ),
        node_advice=tuple(
            NodeAdviceDocument(**asdict(advice), team=places.team(advice.devices))
            for advice in answer.node_advice
        ),
        waiting=answer.waiting,
        waiting_work=tuple(map(_served, answer.served)),
        served_models=(),
        usage=UsageDocument(answer.usage),
        use=answer.use,
        notes=answer.notes,
    )


def fetch_document(
    reports: Sequence[SourceReport], plan: FetchPlan, queries: int, now: Nanoseconds
) -> FetchDocument:
    """Return what a run would query."""
    return FetchDocument(
        time=seconds(now),
        sources=tuple(map(_source, reports)),
        fine_days=len(plan.fine_days),
        coarse_days=len(plan.coarse_days),
        kept_device_days=plan.kept,
        device_days=plan.wanted,
        shards=len(plan.shards),
        queries=queries,
        samples=plan.samples,
    )


def reading_document(context: FleetContext, use: StoreUse, days: Path) -> ReadingDocument:
    """Return what a shard of the nodes has read into its cache."""
    document = fetch_document(context.reports, context.plan, context.queries, context.now)
    return ReadingDocument(**asdict(document), days=str(days), use=use, notes=context.notes)


def _verdicts(answer: FleetAnswer) -> dict[str, RuleVerdicts]:
    """Encode verdicts by rule."""
    verdicts: dict[str, RuleVerdicts] = {}
    ordered = sorted(answer.tallies.items(), key=lambda item: (item[0].rule, -item[1], item[0][1:]))
    for tally, count in ordered:
        rule = verdicts.setdefault(tally.rule, RuleVerdicts())
        if tally.abstained is not None:
            rule.abstained[tally.abstained] = rule.abstained.get(tally.abstained, 0) + count
            if tally.missing:
                rule.missing[tally.missing] = rule.missing.get(tally.missing, 0) + count
        elif tally.finding is FindingKind.OPTIMIZED:
            rule.well += count
        else:
            rule.complaints += count
    return verdicts


def _served(served: WaitingOutcome) -> WaitingDocument:
    waiting = served.waiting
    return WaitingDocument(
        key=waiting.key,
        cluster=waiting.cluster,
        pool=waiting.pool,
        namespace=waiting.namespace,
        team=waiting.team,
        gpus=waiting.gpus,
        waiting_seconds=waiting.since_seconds,
        memory_bytes=served.memory_bytes,
        now_gpus=served.now_gpus,
        after_gpus=served.after_gpus,
        left_gpus=served.left_gpus,
        why_left=served.why_left or None,
        offers=tuple(map(_offer, served.offers)),
    )


def _offer(offer: PoolOffer) -> OfferDocument:
    steps = (
        StepDocument(
            step.action,
            step.advice or None,
            step.workloads,
            dict(step.frees),
            step.target or None,
        )
        for step in offer.steps
    )
    return OfferDocument(offer.pool, offer.gpus, offer.is_now, dict(offer.nodes), tuple(steps))


def _mean_now(pool: FleetPool, part: HourlySeries) -> float | None:
    """Return the mean over hours, scaled to the pool's present size: nodes come and go."""
    mean = mean_of(part)
    there = mean_of(pool.present)
    if mean is None or not there:
        return mean
    return pool.gpus * min(1.0, mean / there)


def _peak_now(pool: FleetPool) -> float | None:
    """Return the peak share held at once, scaled to the pool's present size."""
    pairs = zip(pool.held_peak.values, pool.present.values, strict=False)
    shares = [min(1.0, held / there) for held, there in pairs if held is not None and there]
    return pool.gpus * max(shares) if shares else None


def _pool(pool: FleetPool, waiting_gpus: float | None) -> FleetPoolDocument:
    return FleetPoolDocument(
        name=pool.name,
        cluster=pool.cluster,
        board=pool.board,
        gpus=pool.gpus,
        nodes=len(pool.size_by_node),
        held_mean=_mean_now(pool, pool.held),
        held_peak=_peak_now(pool),
        active_mean=_mean_now(pool, pool.active),
        free_now=pool.free,
        waiting_gpus=waiting_gpus,
    )


USED: Final = {
    "queries": "rightsizer_fleet_queries_total",
    "retries": "rightsizer_fleet_query_retries_total",
    "halvings": "rightsizer_fleet_query_halvings_total",
    "received_bytes": "rightsizer_fleet_query_bytes_total",
    "store_seconds": "rightsizer_fleet_query_seconds_total",
}
"""Reported uses of the store, with the counters they add to."""


def fleet_gauges(answer: FleetAnswer, limit: int) -> dict[str, float]:
    """Return gauges of the largest pools, teams and sources; unknown values have no series."""
    gauges: dict[str, float] = {}

    def add(name: str, value: float | None, **labels: str) -> None:
        if value is not None:
            # User-defined names may contain quotes.
            safe = {label: text.replace('"', "'") for label, text in labels.items()}
            gauges[series_key(f"rightsizer_{name}", **safe)] = float(value)

    for (name, reason), count in _verdicts_by_reason(answer).items():
        add(f"recommender_{name}", count, reason=reason)
    add("fleet_coverage_ratio", answer.view.coverage_ratio)
    for source in dict.fromkeys(source_report.source for source_report in answer.sources):
        devices = sum(
            source_report.devices
            for source_report in answer.sources
            if source_report.source == source
        )
        add("fleet_source_devices", devices, source=source)
    for name, count in Counter(advice.finding for advice in answer.node_advice).items():
        add("fleet_node_advice", count, finding=name)
    for pool, figures in _pool_figures(answer, limit).items():
        for name, value in figures.items():
            add(f"fleet_pool_{name}", value, pool=pool)
    for team, gpus in _wasted_gpus(answer, limit).items():
        add("fleet_team_wasted_gpus", gpus, team=team)
    return gauges


def _wasted_gpus(answer: FleetAnswer, limit: int) -> dict[str, float]:
    """Return the GPUs that the largest teams waste, on average."""
    hours = answer.lookback_seconds / HOUR_SECONDS
    is_several = any(source.cluster.prefix for source in answer.sources)
    wasted = defaultdict[str, float](float)
    held = defaultdict[str, float](float)
    for row in answer.usage:
        if row.kind != FREE:
            name = f"{row.cluster}/{row.team}" if is_several else row.team
            wasted[name] += row.wasted_gpu_hours / hours
            held[name] += row.held_gpu_hours
    largest = sorted(held, key=lambda name: (-held[name], name))[:limit]
    return {name: wasted[name] for name in largest}


def _verdicts_by_reason(answer: FleetAnswer) -> Counter[tuple[str, str]]:
    """Count complaints and abstentions by their first reason, which bounds their number."""
    counts = Counter(
        ("findings", str(finding.reasons[0]))
        for finding in answer.findings
        if finding.is_actionable and finding.reasons
    )
    for tally, count in answer.tallies.items():
        if tally.abstained is not None:
            counts["abstentions", str(tally.abstained)] += count
    return counts


def _pool_figures(answer: FleetAnswer, limit: int) -> dict[str, dict[str, float | None]]:
    waiting = waiting_by_pool(answer.waiting)
    given: dict[tuple[str, bool], float] = defaultdict(float)
    for offer in (offer for outcome in answer.served for offer in outcome.offers):
        given[offer.pool, offer.is_now] += offer.gpus
    figures: dict[str, dict[str, float | None]] = {}
    for pool in sorted(answer.view.pools, key=lambda pool: (-pool.gpus, pool.name))[:limit]:
        figures[pool.name] = {
            "gpus": pool.gpus,
            "held_gpus": _mean_now(pool, pool.held),
            "active_gpus": _mean_now(pool, pool.active),
            "free_gpus": pool.free,
            "waiting_gpus": waiting.get(pool.name),
        }
        if answer.served:
            figures[pool.name] |= {
                "servable_gpus": given[pool.name, True],
                "servable_after_gpus": given[pool.name, False],
            }
    return figures
