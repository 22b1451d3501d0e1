"""A ledger that was lost, and what others remember of it."""

from cases import NOW, after, judgement
from rightsizer.advice.ledger import Ledger
from rightsizer.domain.advice import AdviceEventKind

ID = "aaaaaaaaaaaa"
OTHER = "bbbbbbbbbbbb"
HOUR = 3600 * 10**9
OPENED, CLOSED = AdviceEventKind.OPENED, AdviceEventKind.CLOSED
YES, ELSEWHERE = judgement(), judgement(id=OTHER, key="other")
QUIET = judgement(id="nothing", may_open=False, still_holds=False)


def test_what_was_open_before_keeps_its_age_and_is_not_told_again() -> None:
    """What nobody remembers is new."""
    ledger = Ledger()
    ledger.remember({ID: NOW - 5 * HOUR})
    (event,) = ledger.update([YES, ELSEWHERE], NOW)
    assert (event.kind, event.advice.id) == (OPENED, OTHER)
    opened = {advice.id: advice.opened for advice in ledger.advice()}
    assert opened == {ID: NOW - 5 * HOUR, OTHER: NOW}


def test_its_end_is_told_with_the_time_at_which_it_began() -> None:
    """So that what was marked when it was opened is found again."""
    ledger = Ledger()
    ledger.remember({ID: NOW - 5 * HOUR})
    ledger.update([YES], NOW)
    events = [
        event for minute in range(10, 600, 10) for event in ledger.update([QUIET], after(minute))
    ]
    assert [(event.kind, event.advice.opened) for event in events] == [(CLOSED, NOW - 5 * HOUR)]


def test_what_the_ledger_knows_itself_counts() -> None:
    """Advice that it saw end, and that comes again, is new whatever others say."""
    ledger = Ledger()
    ledger.update([YES], NOW)
    for minute in range(10, 600, 10):
        ledger.update([QUIET], after(minute))
    ledger.remember({ID: NOW - 5 * HOUR})
    (event,) = ledger.update([YES], after(700))
    assert (event.kind, event.advice.opened) == (OPENED, after(700))


def test_a_time_that_is_still_to_come_is_now() -> None:
    """Clocks of others may be ahead."""
    ledger = Ledger()
    ledger.remember({ID: NOW + HOUR})
    ledger.update([YES], NOW)
    (advice,) = ledger.advice()
    assert advice.opened == NOW
