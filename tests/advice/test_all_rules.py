"""Invariants of every rule for any input."""

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from any_cases import Load, cases, hazier, loads, reordered, turned
from cases import case, findings, window
from printed_manifests import homeless
from readings import workload
from rightsizer.advice.market import Market, MarketSettings
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Rule
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.io.codec import plain
from rightsizer.model.finding import Case, Finding, FindingKind
from rightsizer.model.state import State
from rightsizer.model.workload import WorkloadClass
from rightsizer.report.advice_document import finding_document

MARKET: Final = Market(prices=built_in_prices())
ALL: Final[tuple[Rule[Any], ...]] = tuple(rule.in_market(MARKET) for rule in RULES)
ROOMY: Final = replace(MARKET, settings=MarketSettings(most_options=20))
SIZING: Final = tuple(
    rule.in_market(ROOMY)
    for rule in RULES
    if rule.name
    in {"overprovisioned", "sharing", "gpu_count", "memory_overprovisioned", "diurnal_autoscale"}
)

pytestmark = pytest.mark.timeout(240)
FEW: Final = settings(max_examples=15)


def text_of(found: Finding) -> str:
    """The complete output, byte for byte."""
    return json.dumps(plain(finding_document(found)), sort_keys=True, allow_nan=False)


@given(cases())
@FEW
def test_every_rule_has_a_verdict_on_anything(judged: Case) -> None:
    """Numbers are finite, summaries present, savings only if certain and priced."""
    for rule in ALL:
        found = rule.judge(judged)
        assert text_of(found)
        assert 0.0 <= found.confidence <= 1.0
        assert found.summary.strip()
        assert found.devices == tuple(device.uuid for device in judged.devices)
        assert set(found.culprits) <= set(found.devices)
        for savings in (
            found.savings,
            *(option.savings for option in found.options if option.savings),
        ):
            assert savings.gpus_low is None or found.confidence >= 0.5, rule.name
            assert savings.dollars_per_hour_low is None or (
                savings.price_source and savings.price_date
            )


@given(cases())
@FEW
def test_every_manifest_is_whole_or_says_where_it_goes(judged: Case) -> None:
    """It can be applied as printed, or its first line says where it goes."""
    for rule in ALL:
        assert homeless(rule.judge(judged).instructions) == [], rule.name


@given(cases())
@FEW
def test_the_order_of_what_is_known_does_not_matter(judged: Case) -> None:
    """The same input gives the same ids and text, byte for byte."""
    other = reordered(judged)
    for rule in ALL:
        first = text_of(rule.judge(judged))
        assert first == text_of(rule.judge(judged))
        assert first == text_of(rule.judge(other)), rule.name


@given(cases())
@FEW
def test_permuting_gpus_permutes_the_advice(judged: Case) -> None:
    """The same GPUs get the same findings."""
    other = turned(judged)
    for rule in ALL:
        one = rule.judge(judged)
        two = rule.judge(other)
        assert (one.id, one.action, one.severity, one.risk) == (
            two.id,
            two.action,
            two.severity,
            two.risk,
        ), rule.name
        assert one.confidence == pytest.approx(two.confidence, abs=0.0011)
        assert set(one.culprits) == set(two.culprits), rule.name
        assert len(one.instructions) == len(two.instructions)


@given(cases(), st.floats(0.1, 500.0))
@FEW
def test_unknown_time_never_creates_advice(judged: Case, hours: float) -> None:
    """Unobserved time proves nothing, and raises no confidence."""
    hazy = hazier(judged, hours)
    for rule in ALL:
        clear = rule.judge(judged)
        unclear = rule.judge(hazy)
        assert clear.is_actionable or not unclear.is_actionable, rule.name
        if unclear.is_actionable:
            assert unclear.confidence <= clear.confidence, rule.name


@given(loads(), st.floats(1.0, 4.0))
@FEW
def test_more_load_never_yields_a_smaller_proposal(load: Load, factor: float) -> None:
    """An option sufficient for more load is offered for less load as well."""
    less = load.case(3.0)
    more = load.times(factor).case(3.0)
    of_less = {rule.name: rule.judge(less) for rule in SIZING}
    for rule in SIZING:
        few = of_less[rule.name]
        many = rule.judge(more)
        if many.kind is FindingKind.OVERPROVISIONED and many.options:
            # If the whole GPU is too large, the memory rule leaves the finding to the other rule.
            whole = of_less["overprovisioned"]
            says_more = rule.name == "memory_overprovisioned" and whole.is_actionable
            is_said = few.is_actionable or few.abstained or says_more
            assert is_said, (rule.name, few.summary, many.summary)
            if few.is_actionable:
                assert proposals(many) <= proposals(few) | larger(many, few), rule.name


def proposals(found: Finding) -> set[str]:
    """Boards and slices by name, numbers as they are."""
    return {option.target for option in found.options}


def larger(more: Finding, less: Finding) -> set[str]:
    """Values under more load that are not below those under less."""
    least = min((int(proposal) for proposal in proposals(less) if proposal.isdecimal()), default=0)
    return {
        proposal for proposal in proposals(more) if proposal.isdecimal() and int(proposal) >= least
    }


def test_only_of_services_the_shape_of_a_month_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer to read than the rest of a case, and is not used for other classes."""
    asked: list[str] = []

    def note(case: Case, *_: object) -> None:
        asked.append(case.workload_class)

    monkeypatch.setattr(Case, "shape", note)
    spent = [window({State.PRODUCTIVE: 24.0}), window({State.IDLE_HELD: 24.0})]
    for workload_class in WorkloadClass:
        for each in spent:
            findings([case([each], workload("job", workload_class))])
    assert set(asked) <= {WorkloadClass.SERVING}
