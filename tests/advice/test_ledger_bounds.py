"""Bounds of the ledger's size, and independence from the order of judgements."""

import sys
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cases import after, judgement
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.rules.rule import Judgement
from rightsizer.advice.settings import LedgerSettings
from rightsizer.model.advice import AdviceEventKind, AdviceState, Measurement
from rightsizer.model.finding import Savings, Severity

ID = "aaaaaaaaaaaa"
OPENED = AdviceEventKind.OPENED
CLOSED = AdviceEventKind.CLOSED
YES = judgement()
QUIET = judgement(id="nothing", may_open=False, still_holds=False)
WASTEFUL = {"slurm/llama": Measurement(2.0, 0.9, 400.0), "a": Measurement(1.0, 0.9, None)}


def run(ledger: Ledger, judgements: Sequence[Judgement], minutes: float) -> list[AdviceEventKind]:
    """The changes of one run of the recommender."""
    return [event.kind for event in ledger.update(judgements, after(minutes))]


def test_the_longest_closed_give_way() -> None:
    """However much advice a node produces, the number kept is limited."""
    ledger = Ledger((), LedgerSettings(most_records=10))
    for number in range(12):
        run(ledger, [judgement(id=f"{number:02}", key=f"k{number}")], number)
        ledger.act(f"{number:02}", AdviceState.DISMISSED, "ada", after(number))
    assert sorted(advice.id for advice in ledger.advice()) == [
        f"{number:02}" for number in range(2, 12)
    ]


def test_no_more_is_open_than_is_kept() -> None:
    """Open advice stays until it closes."""
    ledger = Ledger((), LedgerSettings(most_records=10))
    many = [judgement(id=f"{number:02}", key=f"k{number:02}") for number in range(12)]
    assert run(ledger, many, 0) == [OPENED] * 10
    assert run(ledger, many, 10) == []


def severe(number: int, severity: Severity, dollars: float = 0.0, **facts: Any) -> Judgement:
    """Advice on a workload of its own, with the given savings."""
    savings = Savings(dollars_per_hour_low=dollars)
    name = f"{number:02}"
    return judgement(id=name, key=f"k{name}", severity=severity, savings=savings, **facts)


def open_ids(ledger: Ledger) -> list[str]:
    """Ids of the open advice."""
    return sorted(advice.id for advice in ledger.advice() if advice.is_open)


def test_full_ledger_opens_the_severe_then_the_largest_saving() -> None:
    """Items left out are counted by severity in each run."""
    ledger = Ledger((), LedgerSettings(most_records=10))
    many = [severe(number, Severity.LOW, number) for number in range(12)]
    many += [severe(number, Severity.CRITICAL) for number in range(20, 26)]
    assert run(ledger, many, 0) == [OPENED] * 10
    assert open_ids(ledger) == ["08", "09", "10", "11", *(f"{n}" for n in range(20, 26))]
    assert ledger.dropped == {Severity.LOW: 8}
    assert run(ledger, many, 10) == []
    assert ledger.dropped == {Severity.LOW: 8}
    assert run(ledger, many[:1], 20) == []
    assert ledger.dropped == {Severity.LOW: 1}


def test_more_severe_advice_replaces_the_undecided() -> None:
    """The last critical item opens in a full ledger, and the replaced one gives the reason."""
    ledger = Ledger((), LedgerSettings(most_records=10))
    low = [severe(number, Severity.LOW, number) for number in range(10)]
    run(ledger, low, 0)
    ledger.act("00", AdviceState.CLAIMED, "ada", after(1))
    ledger.act("01", AdviceState.SNOOZED, "ada", after(1))
    high = [severe(number, Severity.HIGH) for number in range(20, 30)]
    events = ledger.update([*low, *high], after(10))
    assert [event.kind for event in events] == [CLOSED] * 8 + [OPENED] * 8
    assert {event.advice.finding.severity for event in events[:8]} == {Severity.LOW}
    assert "more severe" in events[0].advice.why
    assert open_ids(ledger) == ["00", "01", *(f"{n}" for n in range(20, 28))]
    assert ledger.dropped == {Severity.HIGH: 2}
    assert run(ledger, [*low, *high], 20) == []
    assert ledger.dropped == {Severity.LOW: 8, Severity.HIGH: 2}


def calls_of_update(workloads: int) -> int:
    """Calls of two updates with many open findings, and with an abstention for each."""
    found = [
        judgement(id=f"{key}-{rule}", key=f"k{key}", rule=f"rule{rule}", may_open=rule < 3)
        for key in range(workloads)
        for rule in range(6)
    ]
    measured = {f"k{key}": Measurement(1.0, 0.9, 100.0) for key in range(workloads)}
    ledger = Ledger((), LedgerSettings(most_records=100_000))
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    former = sys.getprofile()
    sys.setprofile(note)
    try:
        for minutes in (0, 10):
            ledger.update(found, after(minutes), lambda _: measured)
    finally:
        sys.setprofile(former)
    assert len(open_ids(ledger)) == 3 * workloads
    assert all(len(advice.baseline.peers) <= 30 for advice in ledger.advice() if advice.baseline)
    return count


def test_the_work_of_an_update_grows_with_the_judgements() -> None:
    """Four times the workloads take four times the calls, not sixteen."""
    assert calls_of_update(800) < 5 * calls_of_update(200)


def test_reason_that_was_wrong_too_often_opens_only_when_surer() -> None:
    """After twenty failures a confidence of 0.9 is no longer enough."""
    ledger = Ledger()
    for minute in range(0, 2000, 100):
        assert run(ledger, [YES], minute) == [OPENED]
        run(ledger, [QUIET], minute + 10)
        run(ledger, [QUIET], minute + 20)
    assert run(ledger, [YES], 2000) == []
    assert run(ledger, [judgement(confidence=0.96)], 2010) == [OPENED]


OF_MANY = [
    judgement(id=f"{key}{rule}{number}", key=key, rule=rule, **facts)  # type: ignore[arg-type]
    for key in "ab"
    for rule in ("idle", "host_bound")
    for number, facts in enumerate(({}, {"may_open": False, "still_holds": False}))
]


@given(st.data())
def test_the_order_of_judgements_makes_no_difference(data: st.DataObject) -> None:
    """The ledger and its events are the same in each run."""
    one = Ledger()
    other = Ledger()
    for step in range(5):
        chosen = data.draw(
            st.lists(
                st.sampled_from(OF_MANY),
                unique_by=lambda each: (each.key, each.finding.rule),
            )
        )
        shuffled = data.draw(st.permutations(chosen))
        now = after(15 * step)
        assert one.update(chosen, now, lambda _: WASTEFUL) == other.update(
            shuffled, now, lambda _: WASTEFUL
        )
    assert one.advice() == other.advice()


def test_a_clock_that_is_set_back_holds_up_no_closing() -> None:
    """Quiet since a future time counts as quiet since now."""
    ledger = Ledger()
    run(ledger, [YES], 0)
    run(ledger, [QUIET], 1440)
    assert run(ledger, [QUIET], 10) == []
    assert run(ledger, [QUIET], 20) == [CLOSED]


def test_a_clock_that_is_set_back_keeps_nobody_who_left() -> None:
    """An hour after the step it has been absent for an hour."""
    ledger = Ledger()
    run(ledger, [YES], 0)
    run(ledger, [YES], 1440)
    assert run(ledger, [], 10) == []
    assert run(ledger, [], 75) == [CLOSED]
