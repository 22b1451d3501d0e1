"""One run over the accounts: every rule judges every workload, over the spans it asks for."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Any

from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Conduct, Rule
from rightsizer.domain.finding import Case, Finding
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.domain.workload import Workload

__all__ = ["Cases", "Judgement", "findings", "judge_all"]

Cases = Callable[[Nanoseconds | None], Sequence[Case]]
"""The cases of all workloads over the last span of time; `None` for all there is."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A rule's verdict on a workload, with what the ledger needs to act on it."""

    finding: Finding
    key: str
    """The workload's, or the device's."""
    conduct: Conduct
    may_open: bool
    """True long enough, recently, and with enough confidence."""
    still_holds: bool | None
    """Whether recent time still supports it; `None` where that cannot be said."""


def findings(cases: Sequence[Case], rules: Sequence[Rule[Any]] = RULES) -> tuple[Finding, ...]:
    """Every rule's verdict on every case as it stands, abstentions included.

    There is no grace, no minimum duration and no hysteresis.
    """
    return tuple(rule.judge(case) for case in cases for rule in rules)


def judge_all(
    cases: Cases,
    rules: Sequence[Rule[Any]] = RULES,
    open_now: AbstractSet[tuple[str, str]] = frozenset(),
) -> tuple[Judgement, ...]:
    """Every rule's verdict on every workload over the rule's own spans.

    Args:
        cases: Gives the cases of a span. A workload that leaves between two looks is judged by
            those that it was there for.
        rules: Who judges.
        open_now: Workload key and rule of the advice that is open. Recent time is looked at
            only where it matters: for a complaint, and for advice that may close.
    """
    by_key = cache(lambda span: {case.key: case for case in cases(span)})
    judgements = []
    for rule in rules:
        for key, workload in _subjects(by_key(0)):
            conduct = rule.conduct(workload)
            long_case = by_key(nanoseconds(conduct.long_seconds)).get(key)
            if long_case is None:  # The accounts move on between two looks; it has just left.
                continue
            finding = rule.judge(long_case)
            matters = finding.is_complaint or (key, rule.name) in open_now
            short_case = by_key(nanoseconds(conduct.short_seconds)).get(key) if matters else None
            judgements.append(
                Judgement(finding, key, conduct, may_open=False, still_holds=None)
                if short_case is None
                else _judge(rule, finding, long_case, short_case)
            )
    return tuple(judgements)


def _subjects(cases: dict[str, Case]) -> list[tuple[str, Workload | None]]:
    return [(key, case.workload) for key, case in cases.items()]


def _judge(rule: Rule[Any], finding: Finding, long_case: Case, short_case: Case) -> Judgement:
    conduct = rule.conduct(long_case.workload)
    recent = rule.judge(short_case)
    relaxed = rule.relaxed(conduct.close_ratio).judge(short_case)
    known = min((window.known_seconds for window in long_case.windows), default=0.0)
    return Judgement(
        finding=finding,
        key=long_case.key,
        conduct=conduct,
        may_open=(
            finding.is_complaint
            and recent.is_complaint
            and known >= conduct.minimum_known_seconds
            and finding.confidence >= conduct.minimum_confidence_ratio
        ),
        still_holds=None if relaxed.abstained is not None else relaxed.is_complaint,
    )
