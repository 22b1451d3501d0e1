"""Judges an estate batch by batch, and then as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from rightsizer.advice.judgement import Judgement
from rightsizer.advice.recommender import Tuned, judge_all
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Rule
from rightsizer.domain.finding import FindingKind, Reason
from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.cases.batch import Order, batches_of, read_batch
from rightsizer.fleet.cases.case import CaseSettings, FleetCases
from rightsizer.fleet.cases.estate_parts import EstateParts, parts_of
from rightsizer.fleet.crew import Crew
from rightsizer.fleet.kept.shelf import Shelf

__all__ = ["BatchVerdicts", "Fault", "Judging", "Tally", "judge_estate", "untuned"]


class Tally(NamedTuple):
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
        return cls(finding.rule, finding.finding, why)


class Fault(NamedTuple):
    """A rule that raised."""

    rule: str
    key: str
    error: str


@dataclass(slots=True)
class BatchVerdicts:
    """What the rules say of some workloads."""

    judgements: list[Judgement] = field(default_factory=list)
    """Complaints and what is open; all others only where they are asked for."""
    tallies: Counter[Tally] = field(default_factory=Counter)
    """How many verdicts there were of each kind, those that are not kept included."""
    faults: list[Fault] = field(default_factory=list)
    parts: EstateParts = field(default_factory=EstateParts)

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
class Judging:
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

    def begin(self) -> Callable[[Order], BatchVerdicts]:
        """Who judges one batch after the other."""
        shelf = Shelf(self.shelf, read_only=True)
        return lambda order: self.judge(shelf, order)

    def judge(self, shelf: Shelf, order: Order) -> BatchVerdicts:
        """The verdicts on one batch."""
        batch = FleetCases(read_batch(shelf, order), order.now, self.settings)
        cases = cache(batch.cases)
        found = BatchVerdicts()

        def failed(rule: str, key: str, error: Exception) -> None:
            found.faults.append(Fault(rule, key, f"{type(error).__name__}: {error}"))

        judgements = judge_all(cases, self.rules, self.open_now, self.tuned, failed)
        found.tallies.update(map(Tally.of, judgements))
        found.judgements += [each for each in judgements if self._is_kept(each)]
        found.parts = parts_of(batch, {span: cases(span) for span in self.spans}, self.teams)
        return found

    def _is_kept(self, judgement: Judgement) -> bool:
        finding = judgement.finding
        is_open = (judgement.key, finding.rule) in self.open_now
        return self.keeps_all or finding.is_complaint or is_open


def judge_estate(
    judging: Judging,
    order: Order,
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
    crew: Crew[Order, BatchVerdicts] = Crew(judging.begin, min(workers, len(orders)))
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
