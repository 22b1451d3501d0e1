"""Fleet rules over two spans: findings of both may open, finished ones close."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import Struct
from msgspec.structs import replace

from cases import finding
from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import Judgement, OpeningPolicy
from rightsizer.fleet.cases.evaluation import evaluate_fleet, spans_of
from rightsizer.fleet.model import FleetView
from rightsizer.fleet.rules.rule import FleetRule
from rightsizer.model.finding import Finding, FindingKind
from rightsizer.model.units import Nanoseconds, nanoseconds

LONG = nanoseconds(3600.0)
SHORT = nanoseconds(600.0)
KEY = "pool/h100"


class Threshold(Struct, frozen=True):
    """Rule with a finding from a coverage on; a test sets the value by span."""

    on_ratio: float = 0.8
    minimum_known_seconds: float = 0.0
    conduct: OpeningPolicy = OpeningPolicy()


def judge(view: FleetView, settings: Threshold, market: Market) -> tuple[Finding, ...]:
    """Find a problem where much of the fleet is known, abstain where nothing is."""
    del market
    usual = replace(finding(workload=None, confidence=0.9, key=KEY), rule="coverage")
    if view.coverage_ratio >= settings.on_ratio:
        return (usual,)
    well = replace(usual, kind=FindingKind.OPTIMIZED)
    nothing = "nothing is known" if view.coverage_ratio == 0.0 else None
    return (replace(well, abstained=nothing),)


RULE = FleetRule("coverage", Threshold(), judge)


def judged(
    coverage: Mapping[Nanoseconds, float], open_now: frozenset[tuple[str, str]] = frozenset()
) -> Judgement:
    """The only verdict."""

    def view(span: Nanoseconds) -> FleetView:
        return FleetView(0, span, (), (), coverage_ratio=coverage[span])

    (found,) = evaluate_fleet(view, (RULE,), open_now)
    return found


def test_finding_of_both_spans_may_open() -> None:
    """The problem has lasted long enough and still exists."""
    found = judged({LONG: 0.9, SHORT: 0.9})
    assert (found.may_open, found.still_holds) == (True, True)


def test_finding_that_is_over_opens_nothing() -> None:
    """The problem existed, but is over."""
    found = judged({LONG: 0.9, SHORT: 0.2})
    assert (found.may_open, found.still_holds) == (False, False)


def test_a_lower_threshold_keeps_it_open() -> None:
    """Recommendations do not open and close around a threshold."""
    found = judged({LONG: 0.9, SHORT: 0.6})
    assert (found.may_open, found.still_holds) == (False, True)


def test_a_short_span_of_which_nothing_is_known_closes_nothing() -> None:
    """Whether the problem is over is unknown."""
    found = judged({LONG: 0.9, SHORT: 0.0})
    assert (found.may_open, found.still_holds) == (False, None)


def test_recent_time_is_looked_at_only_where_it_matters() -> None:
    """It is evaluated for findings and for open recommendations."""
    assert judged({LONG: 0.5}).still_holds is None
    opened = frozenset({(KEY, "coverage")})
    assert judged({LONG: 0.5, SHORT: 0.2}, opened).still_holds is False


def test_too_little_that_is_known_opens_nothing() -> None:
    """The value does not matter."""
    rule = replace(RULE, settings=Threshold(conduct=OpeningPolicy(minimum_known_seconds=3500.0)))
    view = FleetView(0, LONG, (), (), coverage_ratio=0.9)
    (found,) = evaluate_fleet(lambda _: view, (rule,))
    assert (found.may_open, found.still_holds) == (False, True)


def test_a_rule_that_raises_costs_its_own_verdicts_alone() -> None:
    """The error goes to the callback; without one it is raised."""

    def fails(view: FleetView, settings: Threshold, market: Market) -> tuple[Finding, ...]:
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


def test_each_view_is_built_once() -> None:
    """Rules of a span share its view; judgements stay in the order of the rules."""
    day = replace(RULE, name="day", settings=Threshold(conduct=OpeningPolicy(86400.0)))
    asked: list[Nanoseconds] = []

    def view(span: Nanoseconds) -> FleetView:
        asked.append(span)
        return FleetView(0, span, (), (), coverage_ratio=0.9)

    rules = (replace(day, name="first"), RULE, day)
    found = evaluate_fleet(view, rules)
    assert asked == [LONG, nanoseconds(86400.0), SHORT]
    assert [each.conduct.long_seconds for each in found] == [86400.0, 3600.0, 86400.0]
    assert all(each.may_open for each in found)


def test_a_rule_that_raises_over_the_short_span_loses_its_verdicts() -> None:
    """They are undecided, and count neither as open nor as closed."""

    def fails(view: FleetView, settings: Threshold, market: Market) -> tuple[Finding, ...]:
        if view.end == SHORT:
            raise ZeroDivisionError("pools")
        return judge(view, settings, market)

    broken = replace(RULE, name="broken", judge_with=fails)
    failures = list[str]()
    found = evaluate_fleet(
        lambda span: FleetView(0, span, (), (), coverage_ratio=0.9),
        (broken, RULE),
        failed=lambda rule, *_: failures.append(rule),
    )
    assert failures == ["broken"]
    assert [each.still_holds for each in found] == [True]


def test_spans_are_those_of_the_conducts() -> None:
    """Each span is listed once, the longest first, and none beyond what is read."""
    assert spans_of((RULE, RULE), LONG) == (LONG, SHORT)
    assert spans_of((RULE,), LONG - 1) == (LONG - 1, SHORT)
