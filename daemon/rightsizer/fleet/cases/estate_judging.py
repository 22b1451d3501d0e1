"""Judges an estate as a whole: its own rules, over their own spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, partial
from typing import Any

from rightsizer.advice.judgement import Judgement
from rightsizer.advice.rules.rule import Conduct
from rightsizer.domain.finding import Finding
from rightsizer.domain.units import Nanoseconds, nanoseconds, seconds
from rightsizer.domain.workload import Workload
from rightsizer.fleet.fleet_rule import EstateRule, Verdict
from rightsizer.fleet.view import EstateView

__all__ = ["judge_whole", "spans_of"]

Views = Callable[[Nanoseconds], EstateView]
"""The view of the estate over the last span of time."""

Failed = Callable[[str, str, Exception], None]
"""Is told of a rule that raised: its name, no key, and what it raised."""


def spans_of(rules: Sequence[EstateRule[Any]]) -> tuple[Nanoseconds, ...]:
    """The spans that rules of the estate look back over."""
    conducts = [rule.conduct() for rule in rules]
    found = {
        nanoseconds(each)
        for conduct in conducts
        for each in (conduct.long_seconds, conduct.short_seconds)
    }
    return tuple(sorted(found, reverse=True))


def judge_whole(
    views: Views,
    rules: Sequence[EstateRule[Any]],
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
    rule: EstateRule[Any], views: Views, open_now: AbstractSet[tuple[str, str]]
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


def _matters(verdict: Verdict, rule: str, open_now: AbstractSet[tuple[str, str]]) -> bool:
    return verdict.finding.is_complaint or (verdict.key, rule) in open_now


def _by_key(verdicts: Sequence[Verdict]) -> dict[str, Finding]:
    return {verdict.key: verdict.finding for verdict in verdicts}


def _judgement(
    verdict: Verdict, conduct: Conduct, workloads: Mapping[str, Workload | None]
) -> Judgement:
    return Judgement(
        verdict.finding,
        verdict.key,
        conduct,
        may_open=False,
        still_holds=None,
        workload=workloads.get(verdict.key),
    )
