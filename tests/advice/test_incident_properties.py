"""Folding of faults into incidents: invariants for any faults and holders."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from faulty_node import FAULTY, faulty, judged, run
from rightsizer.advice.engine import judge_all
from rightsizer.advice.incident import with_incidents
from rightsizer.advice.ledger import Ledger

FAULTS: Final = st.dictionaries(
    st.integers(0, 7),
    st.sampled_from(["fabric", "bus", "rows", "both", "down"]),
)
GROUPS: Final = st.lists(st.integers(0, 3), min_size=8, max_size=8)


@given(FAULTS, GROUPS, st.randoms())
@settings(max_examples=25)
def test_folding_loses_no_device_and_raises_nothing(
    faults: Mapping[int, str], groups: Sequence[int], random: Random
) -> None:
    """Whatever fails: each sick GPU is in one finding, no surer than before; order is no matter."""
    cases = faulty(faults, groups)
    before = judge_all(lambda _: cases, FAULTY)
    after_folding = judged(cases)
    alone = {each.finding.id: each.finding for each in before}
    left = [
        each.finding
        for each in after_folding
        if each.may_open and not each.incidents and each.finding.rule == "hardware_unhealthy"
    ]
    named = [uuid for finding in left for uuid in finding.culprits]
    assert sorted(named) == sorted(f"GPU-{index}" for index in faults)
    for judgement in after_folding:
        for advice_id in judgement.folds:
            assert judgement.finding.confidence <= alone[advice_id].confidence
            assert judgement.finding.savings == alone[advice_id].savings
    shuffled = [*before]
    random.shuffle(shuffled)
    again = with_incidents(shuffled, FAULTY, lambda _: tuple(reversed(cases)), lambda rule, _: rule)
    assert {each.finding.id: each for each in again} == {
        each.finding.id: each for each in after_folding
    }


@given(st.lists(FAULTS, min_size=1, max_size=8), GROUPS)
@settings(max_examples=10)
def test_every_sick_gpu_is_in_an_open_recommendation(
    history: Sequence[Mapping[int, str]], groups: Sequence[int]
) -> None:
    """After any history of faults."""
    ledger = Ledger()
    for step, faults in enumerate(history):
        run(ledger, faulty(faults, groups), 10.0 * step)
        now = [each.finding for each in ledger.advice() if each.is_open]
        sick = {f"GPU-{index}" for index in faults}
        assert sick <= {uuid for finding in now for uuid in finding.devices}
