"""Rules of the estate: what is true of both spans may open, and what is over closes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from cases import finding
from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import Judgement, OpeningPolicy
from rightsizer.fleet.cases.evaluation import evaluate_fleet, spans_of
from rightsizer.fleet.model import FleetView
from rightsizer.fleet.rules.rule import FleetRule, FleetVerdict
from rightsizer.model.finding import FindingKind
from rightsizer.model.units import Nanoseconds, nanoseconds

LONG, SHORT = nanoseconds(3600.0), nanoseconds(600.0)
KEY = "pool/h100"


@dataclass(frozen=True)
class Threshold:
    """From which coverage on the rule complains; a figure that a test can choose by span."""

    on_ratio: float = 0.8
    minimum_known_seconds: float = 0.0
    conduct: OpeningPolicy = field(default_factory=OpeningPolicy)


def judge(view: FleetView, settings: Threshold, market: Market) -> tuple[FleetVerdict, ...]:
    """Complain where much of the estate is known, abstain where nothing is."""
    del market
    usual = replace(finding(workload=None, confidence=0.9), rule="coverage")
    if view.coverage_ratio >= settings.on_ratio:
        return (FleetVerdict(KEY, usual),)
    well = replace(usual, kind=FindingKind.OPTIMIZED)
    nothing = "nothing is known" if view.coverage_ratio == 0.0 else None
    return (FleetVerdict(KEY, replace(well, abstained=nothing)),)


RULE = FleetRule("coverage", Threshold(), judge)


def judged(
    coverage: Mapping[Nanoseconds, float], open_now: frozenset[tuple[str, str]] = frozenset()
) -> Judgement:
    """The only judgement."""

    def view(span: Nanoseconds) -> FleetView:
        return FleetView(0, span, (), (), coverage_ratio=coverage[span])

    (found,) = evaluate_fleet(view, (RULE,), open_now)
    return found


def test_finding_of_both_spans_may_open() -> None:
    """Long enough, and still."""
    found = judged({LONG: 0.9, SHORT: 0.9})
    assert (found.may_open, found.still_holds) == (True, True)


def test_finding_that_is_over_opens_nothing() -> None:
    """It was true, and is not any more."""
    found = judged({LONG: 0.9, SHORT: 0.2})
    assert (found.may_open, found.still_holds) == (False, False)


def test_a_lower_threshold_keeps_it_open() -> None:
    """Advice does not come and go around a threshold."""
    found = judged({LONG: 0.9, SHORT: 0.6})
    assert (found.may_open, found.still_holds) == (False, True)


def test_a_short_span_of_which_nothing_is_known_closes_nothing() -> None:
    """That cannot be said."""
    found = judged({LONG: 0.9, SHORT: 0.0})
    assert (found.may_open, found.still_holds) == (False, None)


def test_recent_time_is_looked_at_only_where_it_matters() -> None:
    """For a complaint, and for advice that is open."""
    assert judged({LONG: 0.5}).still_holds is None
    opened = frozenset({(KEY, "coverage")})
    assert judged({LONG: 0.5, SHORT: 0.2}, opened).still_holds is False


def test_too_little_that_is_known_opens_nothing() -> None:
    """Whatever it shows."""
    rule = replace(RULE, settings=Threshold(conduct=OpeningPolicy(minimum_known_seconds=3500.0)))
    view = FleetView(0, LONG, (), (), coverage_ratio=0.9)
    (found,) = evaluate_fleet(lambda _: view, (rule,))
    assert (found.may_open, found.still_holds) == (False, True)


def test_a_rule_that_raises_costs_its_own_verdicts_alone() -> None:
    """Where someone is told; otherwise it raises."""

    def fails(view: FleetView, settings: Threshold, market: Market) -> tuple[FleetVerdict, ...]:
        raise ZeroDivisionError("pools")

    broken = replace(RULE, name="broken", judge_with=fails)
    view = FleetView(0, LONG, (), (), coverage_ratio=0.9)
    failures: list[tuple[str, str, str]] = []
    found: tuple[Judgement, ...] = evaluate_fleet(
        lambda _: view,
        (broken, RULE),
        failed=lambda rule, key, error: failures.append((rule, key, str(error))),
    )
    assert failures == [("broken", "", "pools")]
    assert [each.key for each in found] == [KEY]
    with pytest.raises(ZeroDivisionError):
        evaluate_fleet(lambda _: view, (broken,))


def test_spans_are_those_of_the_conducts() -> None:
    """Each once, the longest first."""
    assert spans_of((RULE, RULE)) == (LONG, SHORT)
