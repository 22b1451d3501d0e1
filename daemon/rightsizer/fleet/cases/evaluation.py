"""Evaluation of the node's rules batch by batch, then of the fleet's rules over all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from msgspec import Struct

from rightsizer.advice.engine import Failed, Tuned, judge_left, reraise
from rightsizer.advice.incident import watched_places, with_incidents
from rightsizer.advice.market import Market
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Judgement, Rule
from rightsizer.advice.screen import Settled
from rightsizer.fleet.cache.day_cache import DayCache
from rightsizer.fleet.cases.case import (
    BatchRequest,
    CaseSettings,
    FleetCases,
    batches_of,
    read_batch,
)
from rightsizer.fleet.cases.occupancy import place_of
from rightsizer.fleet.cases.subject_table import BatchTable
from rightsizer.fleet.cases.view_builder import BatchContribution, contribution_of
from rightsizer.fleet.model import FleetView
from rightsizer.fleet.process_pool import ProcessPool
from rightsizer.fleet.rules.rule import FleetRule
from rightsizer.fleet.usage import WorkloadOwner
from rightsizer.model.values import (
    Advice,
    Case,
    Device,
    Finding,
    FindingKind,
    Nanoseconds,
    Reason,
    nanoseconds,
    seconds,
)


class VerdictKind(NamedTuple):
    """A kind of finding."""

    rule: str
    finding: FindingKind
    abstained: Reason | None
    """Why the rule abstained, or `None`."""
    missing: str = ""
    """Missing telemetry as text; empty for other reasons."""

    @classmethod
    def of(cls, finding: Finding) -> Self:
        """Return the kind of a finding."""
        why = finding.reasons[0] if finding.abstained is not None else None
        missing = finding.abstained or "" if why is Reason.UNSUPPORTED_TELEMETRY else ""
        return cls(finding.rule, finding.kind, why, missing)

    @classmethod
    def settled(cls, rule: str, settled: Settled) -> Self:
        """Return the kind of a verdict that a screen settled."""
        kind = FindingKind.OPTIMIZED if settled.reason is None else FindingKind.UNKNOWN
        return cls(rule, kind, settled.reason, settled.why)


class RuleFault(NamedTuple):
    """A rule that raised."""

    rule: str
    key: str
    error: str


@dataclass(slots=True)
class BatchVerdicts:
    """Judgements on some workloads."""

    judgements: list[Judgement] = field(default_factory=list)
    """Complaints, and judgements on open advice; others only on request."""
    tallies: Counter[VerdictKind] = field(default_factory=Counter)
    """Number of judgements by kind, including those not kept."""
    faults: list[RuleFault] = field(default_factory=list)
    parts: BatchContribution = field(default_factory=BatchContribution)
    first_key: str = ""

    def merge(self, other: BatchVerdicts) -> None:
        """Add the judgements on other workloads."""
        self.judgements += other.judgements
        self.tallies.update(other.tallies)
        self.faults += other.faults
        self.parts.merge(other.parts)


def _as_configured(rule: Rule[Any], _: object) -> Rule[Any]:
    return rule


class BatchEvaluation(Struct, frozen=True):
    """Judge of batches; picklable for worker processes."""

    path: Path
    """Path of the day cache."""
    rules: Sequence[Rule[Any]] = RULES
    tuned: Tuned = _as_configured
    market: Market = Market()
    """Boards that can be had anywhere, at usual prices."""
    settings: CaseSettings = CaseSettings()
    open_now: AbstractSet[tuple[str, str]] = frozenset()
    """Key and rule of open advice."""
    incidents: tuple[Advice, ...] = ()
    """Open incidents."""
    suppressed: Callable[[Iterable[Judgement]], tuple[Judgement, ...]] = tuple
    """Marks judgements that policies exclude from becoming advice."""
    owners: Mapping[str, WorkloadOwner] = {}
    """Owners of all workloads that held a device, by key."""
    lookback: Nanoseconds = 0
    """Span over which usage is summed, and of the main fleet view."""
    spans: tuple[Nanoseconds, ...] = ()
    """Spans of further views."""
    keeps_all: bool = False
    """Keep every judgement; a fleet has very many without consequence."""

    @contextmanager
    def begin(self) -> Iterator[Callable[[BatchRequest], BatchVerdicts]]:
        """Judge of batches in a worker process."""
        with DayCache(self.path, read_only=True) as day_cache:
            yield partial(self.judge, day_cache)

    def judge(self, day_cache: DayCache, request: BatchRequest) -> BatchVerdicts:
        """Judge one batch."""
        batch = read_batch(day_cache, request, self.settings)
        alone = cache(batch.case)
        case_of = cache(partial(batch.with_node, alone))
        verdicts = BatchVerdicts(first_key=min(request.occupancy.present))

        def failed(rule: str, key: str, error: Exception) -> None:
            verdicts.faults.append(RuleFault(rule, key, f"{type(error).__name__}: {error}"))

        def count(finding: Finding) -> None:
            verdicts.tallies[VerdictKind.of(finding)] += 1

        near = cache(self.market.near)

        @cache
        def market_of(devices: tuple[Device, ...]) -> Market:
            providers = {request.devices[device.uuid].provider for device in devices}
            return near(providers.pop() if len(providers) == 1 else "")

        def tuned(rule: Rule[Any], case: Case) -> Rule[Any]:
            return self.tuned(rule, case).in_market(market_of(case.devices))

        open_now = self.open_now | watched_places(self.incidents, batch.present.values())
        left = partial(self._left, batch, batch.table(), open_now, verdicts.tallies)
        judgements = judge_left(
            case_of,
            left,
            self.rules,
            open_now,
            tuned,
            failed,
            count=count,
            keeps_all=self.keeps_all,
        )
        judgements = with_incidents(
            self.suppressed(judgements),
            self.rules,
            lambda rule: [
                case_of(key, nanoseconds(rule.conduct().long_seconds)) for key in batch.present
            ],
            tuned,
            self.incidents,
            failed,
            lambda device: place_of(request.devices[device.uuid]),
        )
        verdicts.judgements += [
            judgement for judgement in judgements if self.keeps_all or matters(judgement, open_now)
        ]
        named = {judgement.key for judgement in verdicts.judgements} | {key for key, _ in open_now}
        judged = batch.present.keys() if self.keeps_all else named
        verdicts.parts = contribution_of(
            batch, alone, self.spans, self.owners, self.lookback, judged
        )
        return verdicts

    def _left(
        self,
        batch: FleetCases,
        table: BatchTable,
        open_now: AbstractSet[tuple[str, str]],
        tallies: Counter[VerdictKind],
        general: Rule[Any],
    ) -> Iterable[Case]:
        """Count the verdicts that a rule's screen settles; return the other cases."""
        if self.keeps_all or general.screen_with is None:
            return batch.present.values()
        groups = defaultdict[tuple[int, float], list[int]](list)
        rules: dict[int, Rule[Any]] = {}
        is_open = np.zeros(len(table.keys), bool)
        for number, key in enumerate(table.keys):
            case = batch.present[key]
            rule = self.tuned(general, case)
            rules[id(rule)] = rule
            groups[id(rule), rule.conduct(case.workload).long_seconds].append(number)
            is_open[number] = (key, general.name) in open_now
        settled, numbers = table.settled(
            (cases, nanoseconds(long_seconds), rules[rule_id])
            for (rule_id, long_seconds), cases in groups.items()
        )
        numbers[is_open] = 0
        counts = np.bincount(numbers, minlength=len(settled) + 1)
        for verdict, count in zip(settled, counts[1:].tolist(), strict=True):
            if count:
                tallies[VerdictKind.settled(general.name, verdict)] += count
        return [
            batch.present[table.keys[number]] for number in np.flatnonzero(numbers == 0).tolist()
        ]


def matters(judgement: Judgement, open_now: AbstractSet[tuple[str, str]]) -> bool:
    """Whether a judgement is a complaint, or about open advice."""
    finding = judgement.finding
    return finding.is_actionable or (judgement.key, finding.rule) in open_now


def evaluate_batches(
    judging: BatchEvaluation,
    request: BatchRequest,
    pool: ProcessPool,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> BatchVerdicts:
    """Judge all workloads of a fleet, in the order of their keys."""
    batches = list(batches_of(request))
    batch_verdicts = BatchVerdicts()
    progress(0, len(batches))
    by_key: dict[str, BatchVerdicts] = {}
    for done, verdicts in enumerate(pool.run(judging.begin, batches), start=1):
        by_key[verdicts.first_key] = verdicts
        progress(done, len(batches))
    # Fixed order: sums depend on it in the last digit.
    for batch in batches:
        batch_verdicts.merge(by_key.pop(min(batch.occupancy.present)))
    places = {rule.name: place for place, rule in enumerate(judging.rules)}
    batch_verdicts.judgements.sort(
        key=lambda judgement: (judgement.key, places.get(judgement.finding.rule, 0))
    )
    batch_verdicts.faults.sort()
    return batch_verdicts


Views = Callable[[Nanoseconds], FleetView]
"""Returns the view of the fleet over the latest span of a length."""


def spans_of(rules: Sequence[FleetRule[Any]], lookback: Nanoseconds) -> tuple[Nanoseconds, ...]:
    """Return the spans that the fleet's rules look back over: none beyond what is read."""
    spans = {min(lookback, span(rule)) for rule in rules for span in (_long_span, _short_span)}
    return tuple(sorted(spans, reverse=True))


def evaluate_fleet(
    views: Views,
    rules: Sequence[FleetRule[Any]],
    open_now: AbstractSet[tuple[str, str]] = frozenset(),
    failed: Failed = reraise,
) -> tuple[Judgement, ...]:
    """Judge the fleet by every rule, over its long span and the short one at its end.

    Rules of one span are judged together, since views take most of the memory of a large fleet.
    `open_now` are key and rule of open advice; `failed` is called with a rule that raises, which
    only loses its judgements.
    """
    verdicts: dict[str, list[Judgement]] = {}

    @contextmanager
    def reported(rule: FleetRule[Any]) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - any fault is the rule's.
            verdicts.pop(rule.name, None)
            failed(rule.name, "", error)

    def judge(span: Nanoseconds, of_span: Iterable[FleetRule[Any]]) -> None:
        view = views(span)
        for rule in of_span:
            with reported(rule):
                verdicts[rule.name] = _judged(rule, view)

    def settle(span: Nanoseconds, of_span: Iterable[FleetRule[Any]]) -> None:
        asking = [
            rule
            for rule in of_span
            if rule.name in verdicts
            and any(matters(judgement, open_now) for judgement in verdicts[rule.name])
        ]
        if not asking:
            return
        view = views(span)
        for rule in asking:
            with reported(rule):
                verdicts[rule.name] = _settled(rule, verdicts[rule.name], view, open_now)

    for step, span_of in ((judge, _long_span), (settle, _short_span)):
        for span, of_span in groupby(sorted(rules, key=span_of), span_of):
            step(span, of_span)
    names = (rule.name for rule in rules if rule.name in verdicts)
    return tuple(judgement for name in names for judgement in verdicts[name])


def _long_span(rule: FleetRule[Any]) -> Nanoseconds:
    return nanoseconds(rule.conduct().long_seconds)


def _short_span(rule: FleetRule[Any]) -> Nanoseconds:
    return nanoseconds(rule.conduct().short_seconds)


def _judged(rule: FleetRule[Any], view: FleetView) -> list[Judgement]:
    workloads = {workload.case.key: workload.case.workload for workload in view.workloads}
    known_seconds = view.coverage_ratio * seconds(view.end - view.start)
    return [
        Judgement(finding, rule.conduct(), workloads.get(finding.key), known_seconds)
        for finding in rule.judge(view)
    ]


def _settled(
    rule: FleetRule[Any],
    judgements: Iterable[Judgement],
    view: FleetView,
    open_now: AbstractSet[tuple[str, str]],
) -> list[Judgement]:
    strict, relaxed = (
        {finding.key: finding for finding in fleet_rule.judge(view)}
        for fleet_rule in (rule, rule.relaxed(rule.conduct().close_ratio))
    )
    return [
        judgement.settled(strict.get(judgement.key), partial(relaxed.get, judgement.key))
        if matters(judgement, open_now)
        else judgement
        for judgement in judgements
    ]
