"""Recovery of a lost ledger from other stores."""

import pytest
from msgspec.structs import replace

from cases import NOW, after, finding, judgement
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.restoration import Restoration, RestoredAdvice
from rightsizer.model.advice import Advice, AdviceEventKind, AdviceState

ID = "aaaaaaaaaaaa"
OTHER = "bbbbbbbbbbbb"
HOUR = 3600 * 10**9
OPEN_BEFORE = Restoration({ID: RestoredAdvice(NOW - 5 * HOUR)})
OPENED = AdviceEventKind.OPENED
CLOSED = AdviceEventKind.CLOSED
YES = judgement()
ELSEWHERE = judgement(id=OTHER, key="other")
QUIET = judgement(id="nothing", may_open=False, still_holds=False)


def test_advice_open_before_keeps_its_age_and_is_not_sent_again() -> None:
    """Advice unknown to other stores is new."""
    ledger = Ledger()
    ledger.restore(OPEN_BEFORE)
    (event,) = ledger.update([YES, ELSEWHERE], NOW)
    assert (event.kind, event.advice.id) == (OPENED, OTHER)
    opened = {advice.id: advice.opened for advice in ledger.advice()}
    assert opened == {ID: NOW - 5 * HOUR, OTHER: NOW}


def test_restored_advice_closes_with_its_first_opening_time() -> None:
    """So that the mark of its opening is found again."""
    ledger = Ledger()
    ledger.restore(OPEN_BEFORE)
    ledger.update([YES], NOW)
    events = [
        event for minute in range(10, 600, 10) for event in ledger.update([QUIET], after(minute))
    ]
    assert [(event.kind, event.advice.opened) for event in events] == [(CLOSED, NOW - 5 * HOUR)]


def test_ledger_takes_precedence_over_remembered_advice() -> None:
    """Advice that ended in the ledger and recurs is new, whatever other stores hold."""
    ledger = Ledger()
    ledger.update([YES], NOW)
    for minute in range(10, 600, 10):
        ledger.update([QUIET], after(minute))
    ledger.restore(OPEN_BEFORE)
    (event,) = ledger.update([YES], after(700))
    assert (event.kind, event.advice.opened) == (OPENED, after(700))


def test_a_time_that_is_still_to_come_is_now() -> None:
    """Clocks of other hosts may be ahead."""
    ledger = Ledger()
    ledger.restore(Restoration({ID: RestoredAdvice(NOW + HOUR)}))
    ledger.update([YES], NOW)
    (advice,) = ledger.advice()
    assert advice.opened == NOW


@pytest.mark.parametrize("state", [AdviceState.CLAIMED, AdviceState.SNOOZED, AdviceState.REGRESSED])
def test_remembered_decision_stays_in_force(state: AdviceState) -> None:
    """With its author, reason and end, and without a notice."""
    expires = NOW + HOUR if state is AdviceState.SNOOZED else None
    standing = RestoredAdvice(NOW - 5 * HOUR, state, expires, "ana", "mine")
    ledger = Ledger()
    ledger.restore(Restoration({ID: standing}))
    assert ledger.update([YES], NOW) == []
    (advice,) = ledger.advice()
    assert standing == RestoredAdvice(
        advice.opened, advice.state, advice.expires, advice.actor, advice.why
    )
    assert bool(ledger.advice()[0].trial_since) == (state is AdviceState.CLAIMED)


def test_a_restored_snooze_ends() -> None:
    """At its original end."""
    ledger = Ledger()
    snoozed = RestoredAdvice(NOW - HOUR, AdviceState.SNOOZED, after(30), "ana")
    ledger.restore(Restoration({ID: snoozed}))
    for minute in (0, 10, 20):
        ledger.update([YES], after(minute))
        assert ledger.advice()[0].state is AdviceState.SNOOZED
    assert ledger.update([YES], after(30)) == []
    assert ledger.advice()[0].state is AdviceState.ACTIVE


def test_a_restored_dismissal_keeps_quiet_until_its_end() -> None:
    """Also if its finding returns only later; after the end it opens, and is announced."""
    dismissed = Advice(
        replace(finding(), id=ID),
        AdviceState.DISMISSED,
        NOW - 5 * HOUR,
        updated=NOW - HOUR,
        expires=after(120),
        closed=NOW - HOUR,
        actor="ana",
    )
    ledger = Ledger()
    ledger.restore(Restoration({}, (dismissed,)))
    assert ledger.update([], NOW) == []
    ledger.restore(Restoration())
    assert ledger.update([YES], after(60)) == []
    assert [advice.state for advice in ledger.advice()] == [AdviceState.DISMISSED]
    assert [event.kind for event in ledger.update([YES], after(120))] == [OPENED]
