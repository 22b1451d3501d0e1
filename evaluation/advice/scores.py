"""Precision and recall of advice, by rule and over all."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from measured import quantile

HEADINGS: Final = (
    "rule",
    "expected",
    "found",
    "missed",
    "openings",
    "false",
    "precision",
    "recall",
    "found after",
    "flaps a day",
    "silent rightly",
    "answers rightly",
)
_ALL: Final = "all"


class Case(Struct, frozen=True, order=True):
    """Subject of a score, for a list of mistakes."""

    rule: str
    scenario: str
    subject: str
    reason: str


@dataclass
class AdviceScores:
    """Of one kind of stream, over all runs."""

    expected: Counter[Case] = field(default_factory=Counter)
    """Stretches of time in which advice was due."""
    missed: Counter[Case] = field(default_factory=Counter)
    """Those without any."""
    right: Counter[Case] = field(default_factory=Counter)
    """Openings while it was due."""
    false: Counter[Case] = field(default_factory=Counter)
    """Openings while it was not."""
    unjudged: Counter[Case] = field(default_factory=Counter)
    """Openings too near to a threshold, or labeled as neither right nor wrong."""
    flaps: Counter[Case] = field(default_factory=Counter)
    """Openings within two hours of a closing of the same."""
    delays: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from when advice was due, its spans included, to its opening."""
    silences: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Judgements where no one can know, by rule and whether it abstained."""
    answers: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Judgements where it can be known, by rule and whether it answered."""
    entity_days: float = 0.0

    def merge(self, other: "AdviceScores") -> None:
        """Add those of other runs."""
        for name in ("expected", "missed", "right", "false", "unjudged", "flaps"):
            getattr(self, name).update(getattr(other, name))
        for rule, delays in other.delays.items():
            self.delays.setdefault(rule, []).extend(delays)
        self.silences.update(other.silences)
        self.answers.update(other.answers)
        self.entity_days += other.entity_days

    @property
    def precision(self) -> float | None:
        """The share of openings that were right; `None` without any."""
        return _share(self.right.total(), self.false.total())

    @property
    def recall(self) -> float | None:
        """Share of due advice that was given; `None` if none was due."""
        missed = self.missed.total()
        return _share(self.expected.total() - missed, missed)

    @property
    def flaps_per_entity_day(self) -> float:
        """Of all rules together."""
        return self.flaps.total() / self.entity_days if self.entity_days else 0.0

    def rows(self, rules: Iterable[str]) -> Iterator[tuple[str, ...]]:
        """The table's lines, the last of them over all rules."""
        for rule in rules:
            yield self._of(rule).row(rule)
        yield self.row(_ALL)

    def row(self, title: str) -> tuple[str, ...]:
        """One line over everything in it."""
        expected = self.expected.total()
        missed = self.missed.total()
        delays = [delay for each in self.delays.values() for delay in each]
        return (
            title,
            *map(str, (expected, expected - missed, missed)),
            str(self.right.total() + self.false.total()),
            str(self.false.total()),
            _spell(self.precision),
            _spell(self.recall),
            f"{quantile(delays, 0.5) / 60:.0f} min" if delays else "",
            f"{self.flaps_per_entity_day:.3f}",
            _spell(_rightly(self.silences)),
            _spell(_rightly(self.answers)),
        )

    def mistakes(self) -> Iterator[str]:
        """Who was missed and who was blamed, the most frequent first."""
        for title, cases in (("Missed", self.missed), ("False", self.false)):
            names = [
                f"{case.reason} of {case.subject} in {case.scenario} ({times})"
                for case, times in sorted(cases.items(), key=lambda each: (-each[1], each[0]))
                if times
            ]
            yield f"{title}: {', '.join(names) or 'none'}."

    def _of(self, rule: str) -> "AdviceScores":
        found = AdviceScores(entity_days=self.entity_days)
        for name in ("expected", "missed", "right", "false", "unjudged", "flaps"):
            counts: Counter[Case] = getattr(self, name)
            getattr(found, name).update({c: n for c, n in counts.items() if c.rule == rule})
        found.delays = {rule: self.delays.get(rule, [])}
        found.silences.update({key: n for key, n in self.silences.items() if key[0] == rule})
        found.answers.update({key: n for key, n in self.answers.items() if key[0] == rule})
        return found


def _share(these: int, others: int) -> float | None:
    return these / (these + others) if these + others else None


def _rightly(counts: Counter[tuple[str, bool]]) -> float | None:
    right = sum(times for (_, is_right), times in counts.items() if is_right)
    return _share(right, counts.total() - right)


def _spell(share: float | None) -> str:
    return "" if share is None else f"{share:.3f}"
