"""Evaluates the node's rules batch by batch, then the fleet's rules over the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from rightsizer.advice.engine import Tuned, judge_all
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Judgement, OpeningPolicy, Rule
from rightsizer.fleet.cache.day_cache import DayCache
from rightsizer.fleet.cases.batch import BatchRequest, batches_of, read_batch
from rightsizer.fleet.cases.case import CaseSettings, FleetCases
from rightsizer.fleet.cases.view_builder import BatchContribution, contribution_of
from rightsizer.fleet.model import FleetView
from rightsizer.fleet.process_pool import ProcessPool
from rightsizer.fleet.rules.rule import FleetRule, FleetVerdict
from rightsizer.model.finding import Finding, FindingKind, Reason
from rightsizer.model.units import Nanoseconds, nanoseconds, seconds
from rightsizer.model.workload import Workload


class VerdictKind(NamedTuple):
    """A kind of verdict."""

    rule: str
    finding: FindingKind
    abstained: Reason | None
    """Why the rule would not say, `None` where it did."""

    @classmethod
    def of(cls, judgement: Judgement) -> Self:
        """The kind of a verdict."""
        finding = judgement.finding
        why = finding.reasons[0] if finding.abstained is not None else None
        return cls(finding.rule, finding.kind, why)


class RuleFault(NamedTuple):
    """A rule that raised."""

    rule: str
    key: str
    error: str


@dataclass(slots=True)
class BatchVerdicts:
    """What the rules say of some workloads."""

    judgements: list[Judgement] = field(default_factory=list)
    """Complaints and what is open; all others only where they are asked for."""
    tallies: Counter[VerdictKind] = field(default_factory=Counter)
    """How many verdicts there were of each kind, those that are not kept included."""
    faults: list[RuleFault] = field(default_factory=list)
    parts: BatchContribution = field(default_factory=BatchContribution)

    def merge(self, other: BatchVerdicts) -> None:
        """Add those on other workloads."""
        self.judgements += other.judgements
        self.tallies.update(other.tallies)
        self.faults += other.faults
        self.parts.merge(other.parts)


def untuned(rule: Rule[Any], case: object) -> Rule[Any]:
    """A rule as it is, for every workload."""
    del case
    return rule


@dataclass(frozen=True, slots=True)
class BatchEvaluation:
    """How batches are judged; it goes to other processes."""

    shelf: Path
    rules: Sequence[Rule[Any]] = RULES
    tuned: Tuned = untuned
    settings: CaseSettings = field(default_factory=CaseSettings)
    open_now: AbstractSet[tuple[str, str]] = frozenset()
    """Key and rule of the advice that is open."""
    teams: Mapping[str, str] = field(default_factory=dict)
    spans: tuple[Nanoseconds, ...] = ()
    """That views of the estate are made of."""
    keeps_all: bool = False
    """Keep every verdict; an estate has very many that ask for nothing."""

    def begin(self) -> Callable[[BatchRequest], BatchVerdicts]:
        """Who judges one batch after the other."""
        shelf = DayCache(self.shelf, read_only=True)
        return lambda order: self.judge(shelf, order)

    def judge(self, shelf: DayCache, order: BatchRequest) -> BatchVerdicts:
        """The verdicts on one batch."""
        batch = FleetCases(read_batch(shelf, order), order.now, self.settings)
        cases = cache(batch.cases)
        found = BatchVerdicts()

        def failed(rule: str, key: str, error: Exception) -> None:
            found.faults.append(RuleFault(rule, key, f"{type(error).__name__}: {error}"))

        judgements = judge_all(cases, self.rules, self.open_now, self.tuned, failed)
        found.tallies.update(map(VerdictKind.of, judgements))
        found.judgements += [each for each in judgements if self._is_kept(each)]
        found.parts = contribution_of(batch, {span: cases(span) for span in self.spans}, self.teams)
        return found

    def _is_kept(self, judgement: Judgement) -> bool:
        finding = judgement.finding
        is_open = (judgement.key, finding.rule) in self.open_now
        return self.keeps_all or finding.is_complaint or is_open


def evaluate_batches(
    judging: BatchEvaluation,
    order: BatchRequest,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> BatchVerdicts:
    """What the rules say of all workloads of an estate, in the order of their keys.

    Args:
        judging: How.
        order: Of the whole estate.
        workers: How many processes judge.
        progress: Is told how many batches are done, and of how many.
    """
    orders = list(batches_of(order))
    crew: ProcessPool[BatchRequest, BatchVerdicts] = ProcessPool(
        judging.begin, min(workers, len(orders))
    )
    found = BatchVerdicts()
    progress(0, len(orders))
    for done, verdicts in enumerate(crew.results(orders), start=1):
        found.merge(verdicts)
        progress(done, len(orders))
    found.judgements = _in_order(found.judgements, judging.rules)
    found.faults.sort()
    return found


def _in_order(judgements: Iterable[Judgement], rules: Sequence[Rule[Any]]) -> list[Judgement]:
    places = {rule.name: place for place, rule in enumerate(rules)}
    return sorted(judgements, key=lambda each: (each.key, places.get(each.finding.rule, 0)))


Views = Callable[[Nanoseconds], FleetView]
"""The view of the estate over the last span of time."""

Failed = Callable[[str, str, Exception], None]
"""Is told of a rule that raised: its name, no key, and what it raised."""


def spans_of(rules: Sequence[FleetRule[Any]]) -> tuple[Nanoseconds, ...]:
    """The spans that rules of the estate look back over."""
    conducts = [rule.conduct() for rule in rules]
    found = {
        nanoseconds(each)
        for conduct in conducts
        for each in (conduct.long_seconds, conduct.short_seconds)
    }
    return tuple(sorted(found, reverse=True))


def evaluate_fleet(
    views: Views,
    rules: Sequence[FleetRule[Any]],
    open_now: AbstractSet[tuple[str, str]] = frozenset(),
    failed: Failed | None = None,
) -> tuple[Judgement, ...]:
    """Every rule's verdicts on the estate, over its long span and the short one at its end.

    Args:
        views: Gives the view of a span.
        rules: Who judges.
        open_now: Key and rule of the advice that is open.
        failed: Is told of a rule that raises, which costs it its verdicts and nothing else;
            where nothing is given, it raises.
    """
    seen = cache(views)
    found: list[Judgement] = []
    for rule in rules:
        try:
            found += _judged(rule, seen, open_now)
        except Exception as error:
            if failed is None:
                raise
            failed(rule.name, "", error)
    return tuple(found)


def _judged(
    rule: FleetRule[Any], views: Views, open_now: AbstractSet[tuple[str, str]]
) -> Iterator[Judgement]:
    conduct = rule.conduct()
    long_view = views(nanoseconds(conduct.long_seconds))
    verdicts = rule.judge(long_view)
    workloads = {each.case.key: each.case.workload for each in long_view.workloads}
    if not any(_matters(verdict, rule.name, open_now) for verdict in verdicts):
        yield from (_judgement(verdict, conduct, workloads) for verdict in verdicts)
        return
    short_view = views(nanoseconds(conduct.short_seconds))
    strict = _by_key(rule.judge(short_view))
    relaxed = _by_key(rule.relaxed(conduct.close_ratio).judge(short_view))
    known = long_view.coverage_ratio * seconds(long_view.end - long_view.start)
    for verdict in verdicts:
        judgement = _judgement(verdict, conduct, workloads)
        if _matters(verdict, rule.name, open_now):
            judgement = judgement.settled(
                strict.get(verdict.key), partial(relaxed.get, verdict.key), known
            )
        yield judgement


def _matters(verdict: FleetVerdict, rule: str, open_now: AbstractSet[tuple[str, str]]) -> bool:
    return verdict.finding.is_complaint or (verdict.key, rule) in open_now


def _by_key(verdicts: Sequence[FleetVerdict]) -> dict[str, Finding]:
    return {verdict.key: verdict.finding for verdict in verdicts}


def _judgement(
    verdict: FleetVerdict, conduct: OpeningPolicy, workloads: Mapping[str, Workload | None]
) -> Judgement:
    return Judgement(
        verdict.finding,
        verdict.key,
        conduct,
        may_open=False,
        still_holds=None,
        workload=workloads.get(verdict.key),
    )
