"""Verification: the ledger compares a workload before and after the advice."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from cases import NOW, after, answers, judgement
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.rules.rule import Judgement
from rightsizer.advice.settings import LedgerSettings
from rightsizer.advice.verification import Measured
from rightsizer.model.advice import AdviceEventKind, AdviceState, Measurement
from rightsizer.model.finding import Action

ID = "aaaaaaaaaaaa"
OPENED = AdviceEventKind.OPENED
CLOSED = AdviceEventKind.CLOSED
YES = judgement()
QUIET = judgement(id="nothing", may_open=False, still_holds=False)
DAY = 24 * 60


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


DAYS_TO_COMPARE = 12 * 60
"""Minutes: twelve spans of an hour."""
WASTEFUL = Measurement(gpus=2.0, waste_ratio=0.9, watts=400.0, harms={"stalled": 0.0})


def measured_as(measurement: Measurement | None) -> Measured:
    """The measurement of the workload over any span."""
    found = {} if measurement is None else {"slurm/llama": measurement}
    return lambda _: found


def try_out(ledger: Ledger, *, claims: bool = True, becomes: Measurement | None) -> None:
    """Open, claim, and fall quiet by minute 20."""
    ledger.update([YES], NOW, measured_as(WASTEFUL))
    if claims:
        ledger.act(ID, AdviceState.CLAIMED, "ada", after(5))
    ledger.update([QUIET], after(10), measured_as(becomes))
    ledger.update([QUIET], after(20), measured_as(becomes))


def test_success_is_verified_and_its_savings_are_counted() -> None:
    """Twelve hours without the 1.8 GPUs that were wasted."""
    ledger = Ledger()
    better = replace(WASTEFUL, waste_ratio=0.0, watts=300.0)
    try_out(ledger, becomes=better)
    assert state(ledger) is AdviceState.SUCCEEDED
    assert ledger.update([QUIET], after(19 + DAYS_TO_COMPARE), measured_as(better)) == []
    assert ledger.track_record.outcomes == {}
    (event,) = ledger.update([QUIET], after(20 + DAYS_TO_COMPARE), measured_as(better))
    assert event.kind is AdviceEventKind.VERIFIED
    (advice,) = ledger.advice()
    assert (advice.state, advice.verified) == (AdviceState.SUCCEEDED, event.time)
    assert advice.realized_gpu_hours == pytest.approx(1.8 * 12)
    (tally,) = ledger.track_record.tallies
    assert tally.realized_gpu_hours == pytest.approx(1.8 * 12)
    assert tally.realized_joules == pytest.approx(100.0 * 12 * 3600)
    assert ledger.track_record.outcomes == {("IdleHeld", "succeeded"): 1}
    assert answers(ledger) == (1, 0)


def test_harm_turns_success_into_failure_and_says_so() -> None:
    """Reported as the same closing with another outcome, at the original closing time."""
    ledger = Ledger()
    worse = replace(WASTEFUL, waste_ratio=0.0, harms={"stalled": 0.2})
    try_out(ledger, becomes=worse)
    (event,) = ledger.update([QUIET], after(20 + DAYS_TO_COMPARE), measured_as(worse))
    assert (event.kind, event.time) == (CLOSED, after(20))
    assert event.advice.state is AdviceState.FAILED
    assert event.advice.why.startswith("stalled 0.0% of the time before, 20.0% after")
    assert ledger.track_record.outcomes == {("IdleHeld", "failed"): 1}
    assert answers(ledger) == (0, 1)


def test_claim_that_changes_nothing_fails_and_is_not_repeated_at_once() -> None:
    """After a week it may open again."""
    ledger = Ledger()
    same = measured_as(WASTEFUL)
    ledger.update([YES], NOW, same)
    ledger.act(ID, AdviceState.CLAIMED, "ada", after(5))
    assert ledger.update([YES], after(4 + DAYS_TO_COMPARE), same) == []
    (event,) = ledger.update([YES], after(5 + DAYS_TO_COMPARE), same)
    assert (event.kind, event.advice.state) == (CLOSED, AdviceState.FAILED)
    assert event.advice.why.startswith("saved 0.00 GPUs where at least")
    assert answers(ledger) == (0, 0)
    assert ledger.update([YES], after(6 * DAY), same) == []
    assert [e.kind for e in ledger.update([YES], after(8 * DAY), same)] == [OPENED]


def test_change_of_the_owner_is_verified_without_a_claim() -> None:
    """Without a claim, one of the GPUs was released."""
    ledger = Ledger()
    fewer = replace(WASTEFUL, gpus=1.0, waste_ratio=0.1)
    try_out(ledger, claims=False, becomes=fewer)
    assert state(ledger) is AdviceState.EXPIRED
    (event,) = ledger.update([QUIET], after(20 + DAYS_TO_COMPARE), measured_as(fewer))
    assert (event.kind, event.advice.actor) == (AdviceEventKind.VERIFIED, None)
    assert state(ledger) is AdviceState.SUCCEEDED


@pytest.mark.parametrize("minutes", [20, 90])
def test_stall_that_ended_by_itself_gets_no_credit(minutes: float) -> None:
    """Nobody claimed it, and nothing of the workload was changed: it expires, unverified."""
    ledger = Ledger()
    better = measured_as(replace(WASTEFUL, waste_ratio=0.0))
    stall = judgement(action=Action.INVESTIGATE_STRAGGLER)
    quiet = judgement(action=Action.INVESTIGATE_STRAGGLER, may_open=False, still_holds=False)
    ledger.update([stall], NOW, measured_as(WASTEFUL))
    for time in (minutes - 10, minutes, minutes + DAYS_TO_COMPARE, minutes + 2 * DAYS_TO_COMPARE):
        events = ledger.update([quiet], after(time), better)
        assert AdviceEventKind.VERIFIED not in {event.kind for event in events}
    (advice,) = ledger.advice()
    assert (advice.state, advice.verified) == (AdviceState.EXPIRED, None)
    assert advice.realized_gpu_hours is None
    assert ledger.track_record.outcomes == {("IdleHeld", "expired"): 1}


def test_idle_gpus_that_are_used_again_at_once_were_no_advice_worth_giving() -> None:
    """It counts against the rule, and there is nothing to verify."""
    ledger = Ledger()
    used = replace(WASTEFUL, waste_ratio=0.1)
    try_out(ledger, claims=False, becomes=used)
    assert state(ledger) is AdviceState.EXPIRED
    assert ledger.update([QUIET], after(20 + DAYS_TO_COMPARE), measured_as(used)) == []
    assert ledger.track_record.outcomes == {("IdleHeld", "expired"): 1}
    assert answers(ledger) == (0, 1)


def test_trouble_that_returns_during_its_trial_has_regressed() -> None:
    """The verification ends, and no savings are counted."""
    ledger = Ledger()
    better = replace(WASTEFUL, waste_ratio=0.0)
    try_out(ledger, becomes=better)
    events = ledger.update([YES], after(60), measured_as(WASTEFUL))
    assert [event.kind for event in events] == [OPENED, AdviceEventKind.REGRESSED]
    assert [tally.realized_gpu_hours for tally in ledger.track_record.tallies] == [0.0]
    assert ledger.update([YES], after(30 + DAYS_TO_COMPARE), measured_as(WASTEFUL)) == []


def test_trouble_that_returns_long_after_is_new() -> None:
    """After a month it counts as new."""
    settings = LedgerSettings(closed_kept_seconds=90 * 86400.0)
    ledger = Ledger((), settings)
    try_out(ledger, becomes=replace(WASTEFUL, waste_ratio=0.0))
    assert run(ledger, [YES], 31 * DAY) == [OPENED]
    assert state(ledger) is AdviceState.ACTIVE


def test_workload_that_was_released_saved_all_that_it_wasted() -> None:
    """It left as claimed, and never came back."""
    ledger = Ledger()
    ledger.update([YES], NOW, measured_as(WASTEFUL))
    ledger.act(ID, AdviceState.CLAIMED, "ada", after(5))
    assert [e.kind for e in ledger.update([], after(70), measured_as(None))] == [CLOSED]
    (event,) = ledger.update([], after(70 + DAYS_TO_COMPARE), measured_as(None))
    assert event.kind is AdviceEventKind.VERIFIED
    assert event.advice.realized_gpu_hours == pytest.approx(1.8 * 12)


def test_finding_held_back_by_another_rule_is_no_success() -> None:
    """It closes because another finding covers it, not because of a change."""
    ledger = opened()
    held = YES.suppressed_by_conflict("idle")
    ledger.act(ID, AdviceState.CLAIMED, "ada", after(5))
    run(ledger, [held], 10)
    assert run(ledger, [held], 20) == [CLOSED]
    assert state(ledger) is AdviceState.EXPIRED
    assert answers(ledger) == (0, 0)
