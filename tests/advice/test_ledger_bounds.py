"""The ledger stays small, and the same whatever the order."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from cases import after, judgement
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.rules.rule import Judgement
from rightsizer.advice.settings import LedgerSettings
from rightsizer.advice.verification import Measurement
from rightsizer.model.advice import AdviceEventKind, AdviceState

ID = "aaaaaaaaaaaa"
OPENED, CLOSED = AdviceEventKind.OPENED, AdviceEventKind.CLOSED
YES = judgement()
QUIET = judgement(id="nothing", may_open=False, still_holds=False)
WASTEFUL = {"slurm/llama": Measurement(2.0, 0.9, 400.0), "a": Measurement(1.0, 0.9, None)}


def run(ledger: Ledger, judgements: Sequence[Judgement], minutes: float) -> list[AdviceEventKind]:
    """What a run of the recommender changes."""
    return [event.kind for event in ledger.update(judgements, after(minutes))]


def test_the_longest_closed_give_way() -> None:
    """However much advice a node asks for, only so much is kept."""
    ledger = Ledger((), LedgerSettings(most_records=10))
    for number in range(12):
        run(ledger, [judgement(id=f"{number:02}", key=f"k{number}")], number)
        ledger.act(f"{number:02}", AdviceState.DISMISSED, "ada", after(number))
    assert sorted(record.advice.id for record in ledger.records) == [
        f"{number:02}" for number in range(2, 12)
    ]


def test_no_more_is_open_than_is_kept() -> None:
    """What is open stays until it closes."""
    ledger = Ledger((), LedgerSettings(most_records=10))
    many = [judgement(id=f"{number:02}", key=f"k{number:02}") for number in range(12)]
    assert run(ledger, many, 0) == [OPENED] * 10
    assert run(ledger, many, 10) == []


def test_reason_that_was_wrong_too_often_opens_only_when_surer() -> None:
    """Twenty failures, and 0.9 is not enough any more."""
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
    """The same ledger and the same events, run after run."""
    one, other = Ledger(), Ledger()
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
    """Quiet since tomorrow is quiet since now."""
    ledger = Ledger()
    run(ledger, [YES], 0)
    run(ledger, [QUIET], 1440)
    assert run(ledger, [QUIET], 10) == []
    assert run(ledger, [QUIET], 20) == [CLOSED]


def test_a_clock_that_is_set_back_keeps_nobody_who_left() -> None:
    """An hour after the step it has been gone for an hour."""
    ledger = Ledger()
    run(ledger, [YES], 0)
    run(ledger, [YES], 1440)
    assert run(ledger, [], 10) == []
    assert run(ledger, [], 75) == [CLOSED]
