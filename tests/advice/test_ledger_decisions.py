"""Decisions of users and policies on advice."""

from collections.abc import Sequence

import pytest

from cases import after, answers, judgement
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.rules.rule import Exclusion, Judgement
from rightsizer.model.advice import AdviceEventKind, AdviceState
from rightsizer.model.errors import UsageError
from rightsizer.model.finding import Reason

ID = "aaaaaaaaaaaa"
OPENED = AdviceEventKind.OPENED
CLOSED = AdviceEventKind.CLOSED
YES = judgement()
QUIET = judgement(id="nothing", may_open=False, still_holds=False)
ABSTAINED = judgement(id="unknown", may_open=False, still_holds=None)


def run(ledger: Ledger, judgements: Sequence[Judgement], minutes: float) -> list[AdviceEventKind]:
    """The changes of one run of the recommender."""
    return [event.kind for event in ledger.update(judgements, after(minutes))]


def opened() -> Ledger:
    """A ledger with one open item, opened at minute 0."""
    ledger = Ledger()
    assert run(ledger, [YES], 0) == [OPENED]
    return ledger


def state(ledger: Ledger) -> AdviceState:
    """The state of the item."""
    return next(advice.state for advice in ledger.advice() if advice.id == ID)


@pytest.mark.parametrize("state_by_hand", [AdviceState.DISMISSED, AdviceState.SNOOZED])
def test_somebody_says_why_and_for_how_long(state_by_hand: AdviceState) -> None:
    """They replace the settings' month and week."""
    ledger = opened()
    ledger.act(ID, state_by_hand, "ada", after(5), why="launch on Friday", for_seconds=7200.0)
    (advice,) = ledger.advice()
    assert (advice.why, advice.actor, advice.expires) == ("launch on Friday", "ada", after(125))


@pytest.mark.parametrize(
    ("by_hand", "for_seconds", "message"),
    [
        (AdviceState.SUCCEEDED, None, "cannot be made 'succeeded' by hand; choose one of claimed"),
        (AdviceState.CLAIMED, 60.0, "advice is not claimed for a time"),
        (AdviceState.SNOOZED, 0.0, "0 s is no time"),
        (AdviceState.SNOOZED, float("nan"), "nan s is no time"),
    ],
)
def test_invalid_decision_is_refused(
    by_hand: AdviceState, for_seconds: float | None, message: str
) -> None:
    """It changes nothing."""
    ledger = opened()
    before = ledger.advice()
    with pytest.raises(UsageError, match=message):
        ledger.act(ID, by_hand, "ada", after(5), for_seconds=for_seconds)
    assert ledger.advice() == before


def test_claim_can_be_taken_back() -> None:
    """The item is active again; each decision is an event of its own."""
    ledger = opened()
    claimed = ledger.act(ID, AdviceState.CLAIMED, "ada", after(5))
    taken_back = ledger.act(ID, AdviceState.ACTIVE, "ada", after(6))
    assert {claimed.kind, taken_back.kind} == {AdviceEventKind.DECIDED}
    assert taken_back.advice.state is AdviceState.ACTIVE
    run(ledger, [QUIET], 10)
    run(ledger, [QUIET], 20)
    assert state(ledger) is AdviceState.EXPIRED


def test_policy_dismisses_what_is_open_and_lets_nothing_open() -> None:
    """With author, reason and end; after the end, advice opens again."""
    ledger = opened()
    launch = Exclusion((Reason.IDLE_HELD,), until="2026-02-01", why="launch", actor="ada")
    ignored = YES.with_exclusions((launch,), after(5))
    assert run(ledger, [ignored], 5) == [CLOSED]
    (advice,) = ledger.advice()
    assert (advice.state, advice.actor) == (AdviceState.DISMISSED, "ada")
    assert advice.why == "ignored until 2026-02-01: launch (ada)"
    assert run(ledger, [ignored], 10) == []
    assert answers(ledger) == (0, 0)
    expires = launch.expires
    assert expires is not None
    assert ledger.update([YES.with_exclusions((launch,), expires)], expires) != []


def test_quiet_advice_falls_under_an_exclusion_too() -> None:
    """Whatever its rule says now: the exclusion covers the finding it was opened for."""
    ledger = opened()
    launch = Exclusion((Reason.IDLE_HELD,), why="launch")
    assert run(ledger, [ABSTAINED.with_exclusions((launch,), after(5))], 5) == [CLOSED]
    assert state(ledger) is AdviceState.DISMISSED
