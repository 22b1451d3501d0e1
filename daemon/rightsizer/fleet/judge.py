"""FleetJudge: probes the store, fetches missing days.

And evaluates every rule under the operator's policies.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import structlog

from rightsizer.advice.engine import without_conflicts
from rightsizer.advice.policy import Policy, PolicySet, policies_of_pool, with_policy
from rightsizer.advice.rules.rule import Judgement, Rule
from rightsizer.advice.service import RecommenderResult, configured_market, configured_rules
from rightsizer.catalogue.operator_file import read_catalogue
from rightsizer.fleet.cache.day_cache import DayCache
from rightsizer.fleet.cases.batch import CaseMeasurement
from rightsizer.fleet.cases.case import BatchRequest, CaseSettings, merged_holdings
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
from rightsizer.fleet.context import FleetContext, ProgressCallback, fleet_context, store_of
from rightsizer.fleet.encoder import FleetAnswer, team_uses
from rightsizer.fleet.fetch import FetchTask, fetch
from rightsizer.fleet.fetch_plan import FetchPlan, gaps_of
from rightsizer.fleet.model import FleetInventory, FleetView
from rightsizer.fleet.pools.placement import place_waiting
from rightsizer.fleet.process_pool import paused_collection, worker_count
from rightsizer.fleet.rules import FLEET_RULES
from rightsizer.fleet.rules.rule import FleetRule
from rightsizer.fleet.settings import FleetConfig, FleetSettings, day_cache_path, ledger_path
from rightsizer.fleet.source import SourceReport, StoreUse
from rightsizer.io.clock import Clock
from rightsizer.model.advice import Advice
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.finding import Case
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.units import Nanoseconds, nanoseconds


def estate_rules_of(settings: FleetConfig) -> tuple[FleetRule[Any], ...]:
    """The rules with an operator's settings.

    Raises:
        ConfigurationError: his files of boards or prices have faults.
    """
    tree, market = settings.fleet.rules, configured_market(settings)
    return tuple(
        rule.with_settings(getattr(tree, rule.name)).in_market(market) for rule in FLEET_RULES
    )


@dataclass(frozen=True, slots=True)
class FleetGuidance:
    """Policies over an estate; it goes to the processes that judge."""

    pools: Mapping[str, str]
    """Of each device, by uuid."""
    by_pool: Mapping[str, PolicySet]

    @classmethod
    def of(cls, policies: Sequence[Policy], estate: FleetInventory) -> "FleetGuidance":
        """What policies say of an estate."""
        if not policies:
            return cls({}, {})
        pools = {uuid: each.pool for uuid, each in estate.devices.items()}
        return cls(
            pools,
            {pool: PolicySet(policies_of_pool(policies, pool)) for pool in set(pools.values())},
        )

    def with_thresholds(self, rule: Rule[Any], case: Case) -> Rule[Any]:
        """The rule with the thresholds that hold for a workload."""
        guidance = self._of(device.uuid for device in case.devices)
        return rule if guidance is None else guidance.with_thresholds(rule, case)

    def suppressed(
        self, judgements: Iterable[Judgement], now: Nanoseconds
    ) -> tuple[Judgement, ...]:
        """The judgements, where what is to be ignored may not become advice."""
        return tuple(self._under(judgement, now) for judgement in judgements)

    def _under(self, judgement: Judgement, now: Nanoseconds) -> Judgement:
        guidance = self._of(judgement.finding.devices)
        return judgement if guidance is None else guidance.suppressed((judgement,), now)[0]

    def _of(self, uuids: Iterable[str]) -> PolicySet | None:
        """Of the pool of the first device that is known; a workload stands in one."""
        pools = (self.pools[uuid] for uuid in uuids if uuid in self.pools)
        return self.by_pool.get(next(pools, ""))


def informed(
    estate: FleetInventory, holders: Mapping[str, str], policies: Sequence[Policy]
) -> FleetInventory:
    """The estate with the classes and allocators that policies state.

    Args:
        estate: As the sources describe it.
        holders: A device of each workload, by the workload's key.
        policies: What operators know.
    """
    if not policies:
        return estate
    pools = {uuid: each.pool for uuid, each in estate.devices.items()}
    by_pool = {pool: policies_of_pool(policies, pool) for pool in {"", *pools.values()}}
    workloads = {
        key: with_policy(
            workload, holders.get(key, ""), by_pool[pools.get(holders.get(key, ""), "")]
        )
        for key, workload in estate.workloads.items()
    }
    return replace(estate, workloads=workloads)


_DAY: Final[Nanoseconds] = nanoseconds(86400.0)


def _silent(stage: str, done: int, total: int) -> None:
    del stage, done, total


@dataclass(slots=True)
class _Evaluation:
    """What the rules said."""

    verdicts: BatchVerdicts
    judgements: tuple[Judgement, ...]
    view: FleetView
    order: BatchRequest
    faults: list[RuleFault] = field(default_factory=list)


class FleetJudge:
    """Looks at an estate whenever it is asked to; a `Judge` for the desk that keeps the ledger."""

    def __init__(
        self,
        settings: FleetConfig,
        clock: Clock,
        shelf: DayCache,
        progress: ProgressCallback | None = None,
        *,
        keeps_all: bool = False,
    ) -> None:
        """Nothing is asked yet.

        Args:
            settings: Everything that an operator may set.
            clock: Whose present is looked back from.
            shelf: Where days are kept.
            progress: Is told how far it has come.
            keeps_all: Keep every verdict, those that ask for nothing too.

        Raises:
            ConfigurationError: no store is named, or an operator's file has faults.
        """
        if not settings.fleet.store.url:
            raise ConfigurationError(
                "fleet.store.url: no store is named; set it, or give --store.url http://..."
            )
        self._settings, self._clock, self._shelf = settings, clock, shelf
        self._progress, self._keeps_all = progress or _silent, keeps_all
        self._rules, self._estate_rules = configured_rules(settings), estate_rules_of(settings)
        self._catalogue = read_catalogue(settings.catalogue.boards_path)
        self._log = structlog.get_logger(component="fleet")
        self._answer: FleetAnswer | None = None
        self._devices: frozenset[str] = frozenset()

    @classmethod
    @contextmanager
    def open(
        cls,
        settings: FleetConfig,
        clock: Clock,
        progress: ProgressCallback | None = None,
        *,
        keeps_all: bool = False,
    ) -> "Iterator[FleetJudge]":
        """A judge with its shelf, which is given back in the end.

        Raises:
            HistoryError: the shelf is held by another look, or out of reach.
            ConfigurationError: no store is named.
        """
        with DayCache(day_cache_path(settings)) as shelf:
            yield cls(settings, clock, shelf, progress, keeps_all=keeps_all)

    @property
    def answer(self) -> FleetAnswer:
        """What the last look came to.

        Raises:
            LookupError: there was none.
        """
        if self._answer is None:
            raise LookupError("nothing was looked at yet")
        return self._answer

    @property
    def ledger_path(self) -> Path:
        """Where the ledger is kept: beside the days, which may be thrown away without it."""
        return ledger_path(self._settings)

    @property
    def told_by_nodes(self) -> frozenset[str]:
        """Ids of advice that the nodes' own agents export."""
        found = () if self._answer is None else self._answer.node_advice
        return frozenset(each.id for each in found)

    @property
    def devices(self) -> frozenset[str]:
        """UUIDs of what the last look was about."""
        return self._devices

    def plan(self) -> tuple[tuple[SourceReport, ...], FetchPlan]:
        """What a look would read, after the probe alone.

        Raises:
            StoreError: the store does not answer.
        """
        scene = self._scene()
        return scene.reports, scene.plan

    def run(
        self, open_now: AbstractSet[tuple[str, str]], advice: Sequence[Advice] = ()
    ) -> RecommenderResult:
        """What every rule says of the estate now.

        Raises:
            StoreError: the store does not answer, or not wholly; what was read is kept.
        """
        del advice
        with paused_collection():
            return self._looked(open_now)

    def _looked(self, open_now: AbstractSet[tuple[str, str]]) -> RecommenderResult:
        scene = self._scene()
        read = self._read(scene)
        found = self._judge(scene, open_now)
        guidance = FleetGuidance.of(self._settings.policies, scene.estate)
        judgements = guidance.suppressed(found.judgements, scene.now)
        for fault in found.faults:
            self._log.error("rule_failed", **fault._asdict())
        self._devices = frozenset(scene.estate.devices)
        self._answer = FleetAnswer(
            time=scene.now,
            lookback_seconds=self._fleet.lookback_seconds,
            sources=scene.reports,
            view=found.view,
            judgements=judgements,
            tallies=found.verdicts.tallies,
            node_advice=scene.estate.advice,
            waiting=found.view.waiting,
            served=place_waiting(found.view, judgements),
            teams=team_uses(found.view.workloads, configured_market(self._settings)),
            use=scene.store.use + read,
            notes=_notes(scene, found, self._shelf),
        )
        keys = (key for key, _ in open_now)
        measured = CaseMeasurement(self._shelf, found.order, keys, settings=self._case_settings)
        return RecommenderResult(scene.now, judgements, measured)

    @property
    def _fleet(self) -> FleetSettings:
        return self._settings.fleet

    @property
    def _case_settings(self) -> CaseSettings:
        fleet = self._fleet
        return CaseSettings(self._settings.accounting, fleet.demands, fleet.absent_seconds)

    def _scene(self) -> FleetContext:
        now = self._clock.wall_time()
        return fleet_context(self._settings, self._catalogue, self._shelf, now, self._progress)

    def _read(self, scene: FleetContext) -> StoreUse:
        workers = worker_count(self._fleet.workers)
        reading = FetchTask(
            partial(store_of, self._fleet, workers), scene.sources.readers(scene.reports)
        )
        use = fetch(scene.plan, self._shelf, reading, workers, partial(self._progress, "reading"))
        self._shelf.forget(scene.plan.first_day - 1)
        return use

    def _judge(self, scene: FleetContext, open_now: AbstractSet[tuple[str, str]]) -> _Evaluation:
        order = self._order(scene)
        workers = worker_count(self._fleet.workers)
        judging = BatchEvaluation(
            path=self._shelf.database.path,
            rules=self._rules,
            tuned=FleetGuidance.of(self._settings.policies, scene.estate).with_thresholds,
            settings=self._case_settings,
            open_now=open_now,
            teams=scene.estate.teams,
            spans=spans_of(self._estate_rules),
            keeps_all=self._keeps_all,
        )
        verdicts = evaluate_batches(judging, order, workers, partial(self._progress, "judging"))
        faults = list(verdicts.faults)
        views = cache(partial(_view, verdicts, scene))
        whole = evaluate_fleet(
            views,
            self._estate_rules,
            open_now,
            lambda rule, key, error: faults.append(RuleFault(rule, key, repr(error))),
        )
        verdicts.tallies += Counter(map(VerdictKind.of, whole))
        kept = [
            each for each in without_conflicts(whole) if self._keeps_all or matters(each, open_now)
        ]
        long_span = max(spans_of(self._estate_rules))
        judgements = (*verdicts.judgements, *kept)
        return _Evaluation(verdicts, judgements, views(long_span), order, faults)

    def _order(self, scene: FleetContext) -> BatchRequest:
        estate, first = scene.estate, scene.plan.first_day
        names = tuple(report.source for report in scene.reports)
        rows = merged_holdings(self._shelf.holdings(first, scene.now // _DAY), names)
        whole = [uuid for uuid, each in estate.devices.items() if not each.device.has_mig_instances]
        occupancy = occupancy_of(whole, rows, scene.now, self._case_settings.gap)
        holders = {key: uuids[0] for key, uuids in occupancy.present.items()}
        known = replace(estate, workloads={**self._shelf.workloads(), **estate.workloads})
        told = informed(known, holders, self._settings.policies)
        return BatchRequest(
            occupancy=occupancy,
            devices=estate.devices,
            workloads=told.workloads,
            first_day=first,
            now=scene.now,
            sources=names,
        )


def _view(verdicts: BatchVerdicts, scene: FleetContext, span: Nanoseconds) -> FleetView:
    return view_of(verdicts.parts, span, scene.now, scene.estate.waiting)


def _notes(scene: FleetContext, found: _Evaluation, shelf: DayCache) -> tuple[str, ...]:
    notes = list(scene.store.warnings)
    aside = shelf.database.set_aside
    if aside is not None:
        notes.append(f"The kept days were broken and are now '{aside}'; all were read anew.")
    notes += [gap for report in scene.reports for gap in gaps_of(report, scene.now)]
    if found.faults:
        rules = ", ".join(sorted({fault.rule for fault in found.faults}))
        notes.append(
            f"{len(found.faults)} verdicts are missing, for a fault of this program in {rules}; "
            "its log says more."
        )
    return tuple(notes)
