"""Judge of a fleet: probes the store, fetches missing days, runs every rule under policies."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import Final, Self

from msgspec.structs import replace

from rightsizer.advice.engine import without_conflicts
from rightsizer.advice.incident import open_incidents
from rightsizer.advice.lookup import open_places
from rightsizer.advice.market import Market
from rightsizer.advice.rules.idle import RULE as IDLE
from rightsizer.advice.rules.rule import Judgement
from rightsizer.advice.served import RULE_NAME as SERVED_RULE
from rightsizer.advice.served import EngineAnswer, served_judgements, unplanned_judgements
from rightsizer.advice.service import LedgerUpdate, configured_market, configured_rules
from rightsizer.catalogue.catalogue import read_catalogue
from rightsizer.fleet.cache.day_cache import DayCache, merged_holdings
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.cases.case import BatchRequest, CaseSettings, case_measurement, cases_of
from rightsizer.fleet.cases.evaluation import (
    BatchEvaluation,
    BatchVerdicts,
    RuleFault,
    VerdictKind,
    evaluate_batches,
    evaluate_fleet,
    matters,
    spans_of,
)
from rightsizer.fleet.cases.occupancy import occupancy_of
from rightsizer.fleet.cases.view_builder import view_of
from rightsizer.fleet.context import (
    FleetContext,
    ProgressCallback,
    fleet_context,
    store_of,
    teams_of_ended,
    waiting_for_store,
)
from rightsizer.fleet.encoder import FleetAnswer
from rightsizer.fleet.fetch import FetchPlan, FetchTask, fetch, gaps_of, plan_of
from rightsizer.fleet.losses import Losses
from rightsizer.fleet.model import Cluster, FleetInventory, FleetView, WaitingWork
from rightsizer.fleet.policies import FleetPolicies, with_stated
from rightsizer.fleet.pools.placement import place_waiting
from rightsizer.fleet.process_pool import ProcessPool, paused_collection, tell, worker_count
from rightsizer.fleet.rules import FLEET_RULES
from rightsizer.fleet.served import ServedModels, served_models
from rightsizer.fleet.settings import FleetConfig, FleetSettings, day_cache_path, ledger_path
from rightsizer.fleet.source import SourceReport, StoreUse
from rightsizer.fleet.sources.kubernetes import namespace_key
from rightsizer.fleet.usage import WorkloadOwner, usage_of
from rightsizer.io.clock import Clock
from rightsizer.io.codec import convert
from rightsizer.io.log import logger
from rightsizer.model.values import (
    Action,
    Advice,
    Allocator,
    ConfigurationError,
    Nanoseconds,
    Reason,
    Workload,
    format_duration,
    nanoseconds,
    seconds,
)


def with_workloads(inventory: FleetInventory, cached: Mapping[str, Workload]) -> FleetInventory:
    """Add workloads that have ended, and allocators, which engines only show by the day."""
    workloads = {**cached, **inventory.workloads}
    for key in cached.keys() & inventory.workloads.keys():
        if workloads[key].allocator is Allocator.UNKNOWN:
            workloads[key] = replace(workloads[key], allocator=cached[key].allocator)
    return replace(inventory, workloads=workloads)


def owners_of(
    context: FleetContext, request: BatchRequest, settings: FleetSettings
) -> dict[str, WorkloadOwner]:
    """Return the owner of each workload that held a GPU, ended ones included."""
    teams = teams_of_ended(context, settings, request.workloads) | dict(context.inventory.teams)
    clusters = {report.cluster for report in context.reports}
    return {
        key: WorkloadOwner(_team(key, workload.namespace, teams, clusters), workload.kind)
        for key, workload in request.workloads.items()
    }


def _team(
    key: str, namespace: str, teams: Mapping[str, str], clusters: AbstractSet[Cluster]
) -> str:
    """Return the team of a workload, or of its namespace, or else the namespace's name."""
    team = teams.get(key, "")
    for cluster in clusters if namespace and not team else ():
        if not cluster.prefix or key.startswith(f"{cluster.prefix}/"):
            team = team or teams.get(cluster.named(namespace_key(namespace)), "")
    return team or namespace


def _waiting(context: FleetContext) -> tuple[WaitingWork, ...]:
    """Return the waiting work with its teams."""
    clusters = {report.cluster for report in context.reports}
    teams = context.inventory.teams
    return tuple(
        replace(waiting_work, team=_team(waiting_work.key, waiting_work.namespace, teams, clusters))
        for waiting_work in context.inventory.waiting
    )


def _worth_advice(judgement: Judgement) -> Judgement:
    """Keep a judgement from becoming advice if it is redundant or nothing can be done."""
    finding = judgement.finding
    if not finding.is_actionable:
        return judgement
    is_empty_gpu = finding.workload is None and finding.reasons[0] is Reason.IDLE_EMPTY
    if finding.rule == IDLE.name and is_empty_gpu:
        return judgement.suppressed_by_conflict("empty_gpus (node by node)")
    if finding.action is Action.NONE and not finding.instructions and not finding.options:
        return judgement.suppressed_by_conflict("there is nothing to do")
    return judgement


_LATELY: Final = 2
"""Intervals: shards need most of one to read, and the merge comes after them."""


class FleetJudge:
    """Runs the rules over a fleet, as the `Judge` of the service with the ledger.

    As a context manager, it holds the day cache until exit.
    """

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        settings: FleetConfig,
        clock: Clock,
        progress: ProgressCallback = lambda *_: None,
        *,
        keeps_all: bool = False,
        parts: Sequence[Path] = (),
        config_file: Path | None = None,
        learns: bool = False,
    ) -> None:
        """Read the files of the settings and open the day cache; the store is not queried yet.

        `parts` are the caches of shards, whose days each run takes over; `config_file` is for
        the planner of served models, which keeps what it learns with `learns`.

        Raises:
            ConfigurationError: no store is set, or an operator's file has faults.
                HistoryError: the cache is held by another process, or inaccessible.
        """
        fleet = settings.fleet
        if not fleet.store.url:
            raise ConfigurationError(
                "fleet.store.url: no store is named; set it, or give --store.url http://..."
            )
        self._settings = settings
        self._clock = clock
        self._progress = progress
        self._keeps_all = keeps_all
        self._parts = parts
        self._config_file = config_file
        self._learns = learns
        self._rules = configured_rules(settings)
        self._market = configured_market(settings)
        self._fleet_rules = [
            rule.with_settings(getattr(fleet.rules, rule.name)).in_market(self._market)
            for rule in FLEET_RULES
        ]
        self._catalogue = read_catalogue(settings.catalogue.boards_path)
        self._case_settings = CaseSettings(settings.accounting, fleet.demands, fleet.absent_seconds)
        self._log = logger("fleet")
        self._answer: FleetAnswer | None = None
        self._is_waiting = False
        self._read_until: Nanoseconds = 0
        """When a shard last read; 0 if none did."""
        self.devices: frozenset[str] = frozenset()
        """UUIDs of the last run's devices."""
        self.ledger_path = ledger_path(settings)
        self.days_path = day_cache_path(settings)
        self._cache = DayCache(self.days_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cache.close()

    @property
    def answer(self) -> FleetAnswer:
        """Answer of the last run.

        Raises:
            LookupError: there was none.
        """
        if self._answer is None:
            raise LookupError("nothing was looked at yet")
        return self._answer

    @property
    def node_advice_ids(self) -> frozenset[str]:
        """Ids of the node agents' advice, and of the fleet's corresponding advice."""
        if self._answer is None:
            return frozenset()
        advice = self._answer.node_advice
        # Ids differ if workload names include clusters, which agents do not know.
        of_clusters = {
            (node_advice.workload, node_advice.reason, node_advice.action)
            for node_advice in advice
            if node_advice.workload.startswith(f"{node_advice.cluster}/")
        }
        faulty: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for node_advice in advice:
            faulty[node_advice.reason, node_advice.action].update(node_advice.devices)
        return frozenset(node_advice.id for node_advice in advice) | {
            finding.id
            for finding in self._answer.findings
            if finding.reasons
            and (
                (finding.workload, finding.reasons[0], finding.action) in of_clusters
                # Agents fold faults by links that a store does not know.
                or (
                    finding.shared_by
                    and faulty[finding.reasons[0], finding.action].issuperset(finding.culprits)
                )
            )
        }

    def plan(self) -> tuple[tuple[SourceReport, ...], FetchPlan, int]:
        """Return what a run would read and the number of its queries, after the probe only.

        Raises:
            StoreError: the store does not answer.
        """
        context = self._context()
        return context.reports, context.plan, context.queries

    def read(self) -> tuple[FleetContext, StoreUse]:
        """Read what a run would read, without judging it; return the cost for the store.

        Raises:
            StoreError: the store does not answer, or not completely; what was read is kept.
        """
        with paused_collection():
            context = self._context()
            with self._pool(context) as pool:
                return context, context.store.use + self._fetched(context, pool)

    def run(self, advice: Sequence[Advice] = ()) -> LedgerUpdate:
        """Judge the fleet by every rule.

        Raises:
            StoreError: the store does not answer, or not completely; what was read is kept.
        """
        fleet = self._settings.fleet
        open_now = open_places(advice)
        with paused_collection():
            context = self._context()
            policies = FleetPolicies.of(self._settings.policies, context.inventory)
            with self._pool(context) as pool:
                used = self._fetched(context, pool)
                request = self._request(context)
                verdicts = self._evaluated(context, request, policies, open_now, pool, advice)
            # Views take the memory that the worker processes had.
            view = self._add_fleet_rules(verdicts, context, open_now)
            judgements = policies.suppressed(verdicts.judgements, context.now)
            losses = Losses(verdicts.parts.holdings, request.devices, self._market)
            judgements = tuple(map(losses.limited, judgements))
            lookback = nanoseconds(fleet.lookback_seconds)
            self._progress("planning", 0, 1)
            served = served_models(
                context, request, lookback, self._config_file, learns=self._learns
            )
            of_served = policies.suppressed(
                self._judged_served(served, request, lookback, open_now), context.now
            )
            verdicts.tallies += Counter(VerdictKind.of(judged.finding) for judged in of_served)
            kept = [judged for judged in of_served if self._keeps_all or matters(judged, open_now)]
            if kept:
                judgements = without_conflicts((*judgements, *kept))
            for fault in verdicts.faults:
                self._log.error("rule_failed", **fault._asdict())
            self.devices = frozenset(context.inventory.devices)
            self._answer = FleetAnswer(
                time=context.now,
                lookback_seconds=fleet.lookback_seconds,
                sources=context.reports,
                view=view,
                judgements=judgements,
                tallies=verdicts.tallies,
                node_advice=context.inventory.advice,
                holdings=tuple(verdicts.parts.holdings),
                market=self._market,
                waiting=view.waiting,
                served=place_waiting(view, judgements),
                served_models=served.answers,
                usage=usage_of(verdicts.parts.uses, self._market),
                use=context.store.use + used,
                notes=tuple(filter(None, (*self._notes(context, verdicts.faults), *served.notes))),
            )
            keys = (key for key, _ in open_now)
            measured = case_measurement(self._cache, request, keys, settings=self._case_settings)
            return LedgerUpdate(judgements, context.now, measured)

    def _judged_served(
        self,
        served: ServedModels,
        request: BatchRequest,
        lookback: Nanoseconds,
        open_now: AbstractSet[tuple[str, str]],
    ) -> Iterator[Judgement]:
        """Yield the judgements of what engines need, at what a plan would cost."""
        engines = convert(served.answers, tuple[EngineAnswer, ...])
        uuids = {uuid for engine in engines for uuid in engine.load.devices}
        present = request.occupancy.present
        planned = [key for key in present if not uuids.isdisjoint(present[key])]
        unplanned = [
            key
            for key in present
            if served.fault and key not in planned and (key, SERVED_RULE) in open_now
        ]
        cases = partial(cases_of, self._cache, request, settings=self._case_settings)
        yield from served_judgements(engines, cases(planned)(lookback))
        yield from unplanned_judgements(served.fault, cases(unplanned)(lookback))

    def _pool(self, context: FleetContext) -> ProcessPool:
        return ProcessPool(
            worker_count(self._settings.fleet.workers, len(context.inventory.devices))
        )

    def _fetched(self, context: FleetContext, pool: ProcessPool) -> StoreUse:
        """Fetch missing days and delete old ones; return the cost for the store."""
        store = partial(
            store_of, self._settings.fleet, pool.workers, waiting=tell, has_answered=True
        )
        task = FetchTask(store, context.readers)
        reading = partial(self._progress_and_log, "reading")
        waiting = partial(waiting_for_store, self._progress_and_log)
        used = fetch(context.plan, self._cache, task, pool, reading, waiting)
        self._cache.forget(context.plan.first_day - 1)
        return used

    def _notes(self, context: FleetContext, faults: Sequence[RuleFault]) -> Iterator[str]:
        yield from context.notes
        yield from context.store.warnings
        if (aside := self._cache.database.set_aside) is not None:
            yield f"The day cache was broken and is now '{aside}'; all days were read again."
        if (age := context.now - self._read_until) > 0 and self._read_until:
            ago = format_duration(seconds(age))
            yield f"Shards last read {ago} ago; days since then were read here."
        for report in context.reports:
            yield from gaps_of(report, context.now)
        if faults:
            rules = ", ".join(sorted({fault.rule for fault in faults}))
            yield (
                f"{len(faults)} verdicts are missing, for a fault of this program in {rules}; "
                "its log says more."
            )

    def _context(self) -> FleetContext:
        settings = self._settings
        now = self._time()
        progress = self._progress_and_log
        plan = partial(
            plan_of,
            done=self._cache.done,
            now=now,
            settings=settings.fleet,
            is_read=bool(self._parts),
        )
        return fleet_context(settings, self._catalogue, plan, now, progress)

    def _time(self) -> Nanoseconds:
        """Return now, or the earliest time at which one of the shards last read.

        Shards that have not read since the last run do not count: their days are read here.
        So are the newest days if no shard has read lately.
        """
        now = self._clock.wall_time()
        times = [0]
        fleet = self._settings.fleet
        interval = nanoseconds(fleet.interval_seconds)
        for path in self._parts:
            with DayCache(path, read_only=True) as part:
                times.append(self._cache.take_over(part, nanoseconds(fleet.late_seconds)))
        self._read_until = max(times)
        if now - self._read_until > _LATELY * interval:
            return now
        return min(now, *(time for time in times if time > self._read_until - interval))

    def _progress_and_log(self, stage: str, done: int, total: int) -> None:
        """Report progress, and log when waiting for the store begins."""
        if stage == "waiting" and not self._is_waiting:
            self._log.warning("store_waited_for", patience_seconds=total)
        self._is_waiting = stage == "waiting"
        self._progress(stage, done, total)

    def _request(self, context: FleetContext) -> BatchRequest:
        inventory = context.inventory
        first = context.plan.first_day
        names = tuple(report.key for report in context.reports)
        rows = merged_holdings(self._cache.holdings(first, context.now // DAY), names)
        occupancy = occupancy_of(inventory.devices, rows, context.now, self._case_settings.gap)
        holders = {key: uuids[0] for key, uuids in occupancy.present.items()}
        fleet_inventory = with_workloads(inventory, self._cache.workloads())
        return BatchRequest(
            occupancy=occupancy,
            devices=inventory.devices,
            workloads=with_stated(fleet_inventory, holders, self._settings.policies).workloads,
            first_day=first,
            now=context.now,
            sources=names,
        )

    def _evaluated(  # noqa: PLR0913, PLR0917 - what is judged, by whose policies, beside what.
        self,
        context: FleetContext,
        request: BatchRequest,
        policies: FleetPolicies,
        open_now: AbstractSet[tuple[str, str]],
        pool: ProcessPool,
        advice: Sequence[Advice],
    ) -> BatchVerdicts:
        """Return the judgements of a node's rules on every workload."""
        lookback = nanoseconds(self._settings.fleet.lookback_seconds)
        evaluation = BatchEvaluation(
            path=self._cache.database.path,
            rules=self._rules,
            tuned=policies.with_thresholds,
            market=self._market_of(context),
            settings=self._case_settings,
            open_now=open_now,
            incidents=open_incidents(advice),
            suppressed=partial(policies.suppressed, now=context.now),
            owners=owners_of(context, request, self._settings.fleet),
            lookback=lookback,
            spans=spans_of(self._fleet_rules, lookback),
            keeps_all=self._keeps_all,
        )
        progress = partial(self._progress, "judging")
        verdicts = evaluate_batches(evaluation, request, pool, progress)
        verdicts.judgements = list(map(_worth_advice, verdicts.judgements))
        return verdicts

    def _market_of(self, context: FleetContext) -> Market:
        """Return the market of boards that pools have; clouds add what they rent out."""
        boards = (device.device.board for device in context.inventory.devices.values())
        return replace(self._market, offered=frozenset(filter(None, boards)))

    def _add_fleet_rules(
        self,
        verdicts: BatchVerdicts,
        context: FleetContext,
        open_now: AbstractSet[tuple[str, str]],
    ) -> FleetView:
        """Add the judgements of the fleet's rules; return the view over the lookback."""
        lookback = nanoseconds(self._settings.fleet.lookback_seconds)
        waiting = _waiting(context)
        view = view_of(verdicts.parts, lookback, context.now, waiting)

        def views(span: Nanoseconds) -> FleetView:
            # A rule's span may be longer than what is read.
            if span >= lookback:
                return view
            return view_of(verdicts.parts, span, context.now, waiting)

        def failed(rule: str, key: str, error: Exception) -> None:
            verdicts.faults.append(RuleFault(rule, key, repr(error)))

        whole = evaluate_fleet(views, self._fleet_rules, open_now, failed)
        verdicts.tallies += Counter(VerdictKind.of(judgement.finding) for judgement in whole)
        verdicts.judgements += [
            _worth_advice(conflict)
            for conflict in without_conflicts(whole)
            if self._keeps_all or matters(conflict, open_now)
        ]
        return view
