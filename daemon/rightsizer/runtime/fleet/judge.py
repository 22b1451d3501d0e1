"""The judge of an estate: probes, reads what is not kept, and lets every rule judge."""

from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Final

import structlog

from rightsizer.advice.harmony import harmonized
from rightsizer.advice.judgement import Judgement
from rightsizer.catalogue.operator_file import read_catalogue
from rightsizer.domain.errors import ConfigurationError
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.edge.clock import Clock
from rightsizer.fleet.cases.batch import Order
from rightsizer.fleet.cases.case import CaseSettings
from rightsizer.fleet.cases.estate_judging import judge_whole, spans_of
from rightsizer.fleet.cases.estate_view import view_of
from rightsizer.fleet.cases.judging import BatchVerdicts, Fault, Judging, Tally, judge_estate
from rightsizer.fleet.cases.measuring import Measuring
from rightsizer.fleet.cases.roster import roster_of
from rightsizer.fleet.collection import paused_collection
from rightsizer.fleet.crew import workers_of
from rightsizer.fleet.kept.kept_days import rows_of
from rightsizer.fleet.kept.shelf import Shelf
from rightsizer.fleet.pools.brokerage import broker
from rightsizer.fleet.prometheus.use import StoreUse
from rightsizer.fleet.reading.gaps import gaps_of
from rightsizer.fleet.reading.harvest import Reading, harvest
from rightsizer.fleet.reading.plan import Plan
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.teams import team_uses
from rightsizer.fleet.view import EstateView
from rightsizer.runtime.fleet.answer import FleetAnswer
from rightsizer.runtime.fleet.estate_rules import estate_rules_of
from rightsizer.runtime.fleet.guidance import EstateGuidance, informed
from rightsizer.runtime.fleet.scene import Progress, Scene, scene_of, store_of
from rightsizer.runtime.fleet.settings import WholeSettings, ledger_path, shelf_path
from rightsizer.runtime.market_rules import market_of, rules_of
from rightsizer.runtime.recommender_run import Verdicts

__all__ = ["FleetJudge"]

_DAY: Final[Nanoseconds] = nanoseconds(86400.0)


def _silent(stage: str, done: int, total: int) -> None:
    del stage, done, total


@dataclass(slots=True)
class _Found:
    """What the rules said."""

    verdicts: BatchVerdicts
    judgements: tuple[Judgement, ...]
    view: EstateView
    order: Order
    faults: list[Fault] = field(default_factory=list)


class FleetJudge:
    """Looks at an estate whenever it is asked to; a `Judge` for the desk that keeps the ledger."""

    def __init__(
        self,
        settings: WholeSettings,
        clock: Clock,
        shelf: Shelf,
        progress: Progress | None = None,
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
        self._rules, self._estate_rules = rules_of(settings), estate_rules_of(settings)
        self._catalogue = read_catalogue(settings.catalogue.boards_path)
        self._log = structlog.get_logger(component="fleet")
        self._answer: FleetAnswer | None = None
        self._devices: frozenset[str] = frozenset()

    @classmethod
    @contextmanager
    def open(
        cls,
        settings: WholeSettings,
        clock: Clock,
        progress: Progress | None = None,
        *,
        keeps_all: bool = False,
    ) -> "Iterator[FleetJudge]":
        """A judge with its shelf, which is given back in the end.

        Raises:
            HistoryError: the shelf is held by another look, or out of reach.
            ConfigurationError: no store is named.
        """
        with Shelf(shelf_path(settings)) as shelf:
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

    def plan(self) -> tuple[tuple[SourceReport, ...], Plan]:
        """What a look would read, after the probe alone.

        Raises:
            StoreError: the store does not answer.
        """
        scene = self._scene()
        return scene.reports, scene.plan

    def run(self, open_now: AbstractSet[tuple[str, str]]) -> Verdicts:
        """What every rule says of the estate now.

        Raises:
            StoreError: the store does not answer, or not wholly; what was read is kept.
        """
        with paused_collection():
            return self._looked(open_now)

    def _looked(self, open_now: AbstractSet[tuple[str, str]]) -> Verdicts:
        scene = self._scene()
        read = self._read(scene)
        found = self._judge(scene, open_now)
        guidance = EstateGuidance.of(self._settings.policies, scene.estate)
        judgements = guidance.withheld(found.judgements, scene.now)
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
            served=broker(found.view, judgements),
            teams=team_uses(found.view.workloads, market_of(self._settings)),
            use=scene.store.use + read,
            notes=_notes(scene, found, self._shelf),
        )
        keys = (key for key, _ in open_now)
        measured = Measuring(self._shelf, found.order, keys, settings=self._case_settings)
        return Verdicts(scene.now, judgements, measured)

    @property
    def _fleet(self) -> FleetSettings:
        return self._settings.fleet

    @property
    def _case_settings(self) -> CaseSettings:
        fleet = self._fleet
        return CaseSettings(self._settings.accounting, fleet.demands, fleet.absent_seconds)

    def _scene(self) -> Scene:
        now = self._clock.wall_time()
        return scene_of(self._settings, self._catalogue, self._shelf, now, self._progress)

    def _read(self, scene: Scene) -> StoreUse:
        workers = workers_of(self._fleet.workers)
        reading = Reading(
            partial(store_of, self._fleet, workers), scene.sources.readers(scene.reports)
        )
        use = harvest(scene.plan, self._shelf, reading, workers, partial(self._progress, "reading"))
        self._shelf.forget(scene.plan.first_day - 1)
        return use

    def _judge(self, scene: Scene, open_now: AbstractSet[tuple[str, str]]) -> _Found:
        order = self._order(scene)
        workers = workers_of(self._fleet.workers)
        judging = Judging(
            shelf=self._shelf.path,
            rules=self._rules,
            tuned=EstateGuidance.of(self._settings.policies, scene.estate).tuned,
            settings=self._case_settings,
            open_now=open_now,
            teams=scene.estate.teams,
            spans=spans_of(self._estate_rules),
            keeps_all=self._keeps_all,
        )
        verdicts = judge_estate(judging, order, workers, partial(self._progress, "judging"))
        faults = list(verdicts.faults)
        views = cache(partial(_view, verdicts, scene))
        whole = judge_whole(
            views,
            self._estate_rules,
            open_now,
            lambda rule, key, error: faults.append(Fault(rule, key, repr(error))),
        )
        verdicts.tallies += Counter(map(Tally.of, whole))
        kept = [
            each
            for each in harmonized(whole)
            if self._keeps_all
            or each.finding.is_complaint
            or (each.key, each.finding.rule) in open_now
        ]
        long_span = max(spans_of(self._estate_rules))
        judgements = (*verdicts.judgements, *kept)
        return _Found(verdicts, judgements, views(long_span), order, faults)

    def _order(self, scene: Scene) -> Order:
        estate, first = scene.estate, scene.plan.first_day
        names = tuple(report.source for report in scene.reports)
        rows = rows_of(self._shelf.holdings(first, scene.now // _DAY), names)
        whole = [uuid for uuid, each in estate.devices.items() if not each.device.has_mig_instances]
        roster = roster_of(whole, rows, scene.now, self._case_settings.gap)
        holders = {key: uuids[0] for key, uuids in roster.present.items()}
        known = replace(estate, workloads={**self._shelf.workloads(), **estate.workloads})
        told = informed(known, holders, self._settings.policies)
        return Order(
            roster=roster,
            devices=estate.devices,
            workloads=told.workloads,
            first_day=first,
            now=scene.now,
            sources=names,
        )


def _view(verdicts: BatchVerdicts, scene: Scene, span: Nanoseconds) -> EstateView:
    return view_of(verdicts.parts, span, scene.now, scene.estate.waiting)


def _notes(scene: Scene, found: _Found, shelf: Shelf) -> tuple[str, ...]:
    notes = list(scene.store.warnings)
    if shelf.set_aside is not None:
        notes.append(
            f"The kept days were broken and are now '{shelf.set_aside}'; all were read anew."
        )
    notes += [gap for report in scene.reports for gap in gaps_of(report, scene.now)]
    if found.faults:
        rules = ", ".join(sorted({fault.rule for fault in found.faults}))
        notes.append(
            f"{len(found.faults)} verdicts are missing, for a fault of this program in {rules}; "
            "its log says more."
        )
    return tuple(notes)
