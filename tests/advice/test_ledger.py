"""The ledger: advice opens once, does not flap, and its outcome is remembered."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import NOW, after, judgement
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.rules.rule import Judgement
from rightsizer.advice.settings import LedgerSettings
from rightsizer.model.advice import AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.model.errors import UsageError
from rightsizer.model.finding import Action, Severity

ID = "aaaaaaaaaaaa"
OTHER = "bbbbbbbbbbbb"
OPENED = AdviceEventKind.OPENED
CLOSED = AdviceEventKind.CLOSED
YES = judgement()
QUIET = judgement(id="nothing", may_open=False, still_holds=False)
BETWEEN = judgement(id="nothing", may_open=False, still_holds=True)
"""Below the threshold to open, above the one to close."""
ABSTAINED = judgement(id="unknown", may_open=False, still_holds=None)
DAY = 24 * 60


def run(ledger: Ledger, judgements: Sequence[Judgement], minutes: float) -> list[AdviceEventKind]:
    """The changes of one run of the recommender."""
    return [event.kind for event in ledger.update(judgements, after(minutes))]


def opened() -> Ledger:
    """A ledger with one open item, opened at minute 0."""
    ledger = Ledger()
    assert run(ledger, [YES], 0) == [OPENED]
    return ledger


def state(ledger: Ledger, advice_id: str = ID) -> AdviceState:
    """The state of an item."""
    return next(advice.state for advice in ledger.advice() if advice.id == advice_id)


def test_finding_opens_once() -> None:
    """It is refreshed as long as it holds, and never opened again."""
    ledger = opened()
    for minute in range(10, 200, 10):
        assert run(ledger, [judgement(confidence=0.95)], minute) == []
    (advice,) = ledger.advice()
    assert advice.state is AdviceState.ACTIVE
    assert (advice.opened, advice.updated) == (NOW, after(190))
    assert advice.finding.confidence == 0.95


@pytest.mark.parametrize("verdict", [QUIET, BETWEEN, ABSTAINED])
def test_finding_that_may_not_open_opens_no_advice(verdict: Judgement) -> None:
    """Neither a healthy verdict nor a doubtful one becomes advice."""
    ledger = Ledger()
    assert run(ledger, [verdict], 0) == []
    assert ledger.advice() == ()


def test_advice_closes_only_after_it_was_quiet_for_a_while() -> None:
    """After ten minutes by its policy, counted from the first quiet run."""
    ledger = opened()
    assert run(ledger, [QUIET], 10) == []
    assert run(ledger, [QUIET], 19.9) == []
    assert run(ledger, [QUIET], 20) == [CLOSED]
    (advice,) = ledger.advice()
    assert (advice.state, advice.closed) == (AdviceState.EXPIRED, after(20))
    assert run(ledger, [QUIET], 30) == []


@pytest.mark.parametrize("interruption", [YES, BETWEEN, ABSTAINED])
def test_quiet_time_begins_again_after_an_interruption(interruption: Judgement) -> None:
    """A supporting run, a doubtful run and an abstention each end the quiet time."""
    ledger = opened()
    run(ledger, [QUIET], 10)
    assert run(ledger, [interruption], 19) == []
    assert run(ledger, [QUIET], 20) == []
    assert run(ledger, [QUIET], 29) == []
    assert run(ledger, [QUIET], 30) == [CLOSED]


@pytest.mark.parametrize(
    "verdicts",
    [
        (YES, QUIET),
        (YES, BETWEEN),
        (judgement(id=OTHER), YES),
        (YES, ABSTAINED, QUIET),
    ],
)
def test_alternating_verdicts_do_not_flap(verdicts: Sequence[Judgement]) -> None:
    """A load at the threshold, or between two targets, is a single item all day long."""
    ledger = opened()
    events = [
        kind
        for number in range(288)
        for kind in run(ledger, [verdicts[number % len(verdicts)]], 5 + 5 * number)
    ]
    assert events == []
    assert [advice.id for advice in ledger.advice()] == [ID]


def test_verdict_that_has_changed_for_good_replaces_the_advice() -> None:
    """A rule has one verdict on a workload at a time: the old closes before the new opens."""
    ledger = opened()
    assert run(ledger, [judgement(id=OTHER)], 10) == []
    assert run(ledger, [judgement(id=OTHER)], 20) == [CLOSED, OPENED]
    assert state(ledger) is AdviceState.EXPIRED
    assert state(ledger, OTHER) is AdviceState.ACTIVE


def test_advice_reopens_when_it_is_true_again() -> None:
    """With a new opening time."""
    ledger = opened()
    run(ledger, [QUIET], 10)
    assert run(ledger, [QUIET], 30) == [CLOSED]
    assert run(ledger, [YES], 40) == [OPENED]
    (advice,) = ledger.advice()
    assert (advice.state, advice.opened, advice.closed) == (AdviceState.ACTIVE, after(40), None)


def test_rules_and_workloads_do_not_mix() -> None:
    """The quiet of one rule or workload closes nothing of another."""
    ledger = opened()
    others = [
        judgement(id=OTHER, rule="hidden_stall"),
        judgement(id="cccccccccccc", key="slurm/other"),
    ]
    assert run(ledger, [YES, *others], 10) == [OPENED, OPENED]
    assert run(ledger, [YES, *others], 20) == []
    quiet = judgement(id="nothing", may_open=False, still_holds=False, rule="hidden_stall")
    assert run(ledger, [YES, quiet], 30) == []
    assert run(ledger, [YES, quiet], 40) == [CLOSED]
    assert state(ledger, OTHER) is AdviceState.EXPIRED
    assert state(ledger) is AdviceState.ACTIVE


def test_open_advice_is_listed_first_the_oldest_of_it_first() -> None:
    """Then closed advice, the latest first."""
    ledger = Ledger()
    run(ledger, [judgement(id=name, key=name) for name in "ab"], 0)
    run(ledger, [judgement(id=name, key=name) for name in "abcd"], 10)
    for name, minute in (("a", 11), ("c", 12)):
        ledger.act(name, AdviceState.DISMISSED, "ada", after(minute))
    assert [advice.id for advice in ledger.advice()] == ["b", "d", "c", "a"]


def test_dismissal_lasts_thirty_days() -> None:
    """It is not shown meanwhile; afterwards it may open again."""
    ledger = opened()
    event = ledger.act(ID, AdviceState.DISMISSED, "ada", after(5))
    assert event is not None
    assert event.kind is CLOSED
    assert (event.advice.actor, event.advice.expires) == ("ada", after(5 + 30 * DAY))
    for day in range(30):
        assert run(ledger, [YES], 10 + day * DAY) == []
    assert run(ledger, [YES], 5 + 30 * DAY) == [OPENED]


def test_long_dismissal_is_not_forgotten_with_the_rest() -> None:
    """It outlives the retention of closed advice."""
    settings = LedgerSettings(dismissed_seconds=90 * 86400.0, closed_kept_seconds=86400.0)
    ledger = Ledger((), settings)
    run(ledger, [YES], 0)
    ledger.act(ID, AdviceState.DISMISSED, "ada", after(5))
    assert run(ledger, [YES], 60 * DAY) == []
    assert run(ledger, [], 89 * DAY) == []
    assert state(ledger) is AdviceState.DISMISSED
    run(ledger, [], 91 * DAY)
    assert ledger.advice() == ()


def test_snoozed_advice_wakes_again() -> None:
    """After a week it is active again without another opening; until then it is unchanged."""
    ledger = opened()
    ledger.act(ID, AdviceState.SNOOZED, "ada", after(5))
    run(ledger, [YES], 6 * DAY)
    assert state(ledger) is AdviceState.SNOOZED
    assert run(ledger, [YES], 5 + 7 * DAY) == []
    assert state(ledger) is AdviceState.ACTIVE
    assert ledger.advice()[0].expires is None


def test_claimed_advice_that_falls_quiet_has_succeeded() -> None:
    """Someone acted on it and it helped."""
    ledger = opened()
    ledger.act(ID, AdviceState.CLAIMED, "ada", after(5))
    run(ledger, [QUIET], 10)
    assert run(ledger, [QUIET], 20) == [CLOSED]
    (advice,) = ledger.advice()
    assert (advice.state, advice.actor) == (AdviceState.SUCCEEDED, "ada")


def test_succeeded_advice_that_recurs_has_regressed() -> None:
    """It is open again and marked as regressed."""
    ledger = opened()
    ledger.act(ID, AdviceState.CLAIMED, "ada", after(5))
    run(ledger, [QUIET], 10)
    run(ledger, [QUIET], 20)
    assert run(ledger, [YES], 100) == [OPENED, AdviceEventKind.REGRESSED]
    (advice,) = ledger.advice()
    assert advice.state is AdviceState.REGRESSED
    assert advice.is_open


def test_claimed_advice_whose_verdict_changed_has_not_succeeded() -> None:
    """Another target for the same trouble is no success."""
    ledger = opened()
    ledger.act(ID, AdviceState.CLAIMED, "ada", after(5))
    run(ledger, [judgement(id=OTHER)], 10)
    assert run(ledger, [judgement(id=OTHER)], 20) == [CLOSED, OPENED]
    assert state(ledger) is AdviceState.EXPIRED


def test_advice_of_a_gone_workload_expires() -> None:
    """After an hour of absence; a restart or a reschedule is not the end."""
    ledger = opened()
    assert run(ledger, [], 59) == []
    assert run(ledger, [YES], 60) == []
    assert run(ledger, [], 120) == []
    assert run(ledger, [], 120.1) == [CLOSED]
    assert state(ledger) is AdviceState.EXPIRED


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Action.RELEASE, AdviceState.SUCCEEDED),
        (Action.SCALE_TO_ZERO, AdviceState.SUCCEEDED),
        (Action.INVESTIGATE_STRAGGLER, AdviceState.EXPIRED),
    ],
)
def test_workload_that_goes_away_did_what_was_claimed_or_just_ended(
    action: Action, expected: AdviceState
) -> None:
    """Absence is what a release asks for, and proves nothing about a straggler."""
    ledger = Ledger()
    run(ledger, [judgement(action=action)], 0)
    ledger.act(ID, AdviceState.CLAIMED, "ada", after(5))
    run(ledger, [], 70)
    assert state(ledger) is expected


def test_closed_advice_is_forgotten_after_thirty_days() -> None:
    """The ledger does not grow without bound."""
    ledger = opened()
    run(ledger, [QUIET], 10)
    run(ledger, [QUIET], 20)
    run(ledger, [], 20 + 30 * DAY)
    assert len(ledger.advice()) == 1
    run(ledger, [], 21 + 30 * DAY)
    assert ledger.advice() == ()


@pytest.mark.parametrize(
    ("advice_id", "fault"),
    [
        ("zzz", f"there is no advice 'zzz'; open is {ID} "),
        ("closed", "advice 'closed' is closed already: dismissed by ada; see `rightsizer explain"),
    ],
)
def test_only_open_advice_can_be_acted_on(advice_id: str, fault: str) -> None:
    """The error lists open ids, or who closed it."""
    ledger = opened()
    run(ledger, [YES, judgement(id="closed", key="k")], 1)
    ledger.act("closed", AdviceState.DISMISSED, "ada", after(2))
    with pytest.raises(UsageError, match=fault):
        ledger.act(advice_id, AdviceState.CLAIMED, "ada", after(3))
    assert state(ledger) is AdviceState.ACTIVE


VERDICTS = st.sampled_from([YES, QUIET, BETWEEN, ABSTAINED, judgement(id=OTHER)])


@given(st.lists(st.tuples(VERDICTS, st.integers(1, 30)), max_size=60))
def test_openings_and_closings_take_turns(steps: list[tuple[Judgement, int]]) -> None:
    """For any verdicts: at most one item is open, and none closes before its quiet time."""
    ledger = Ledger()
    minute = 0
    last_events: dict[str, AdviceEvent] = {}
    for verdict, pause in steps:
        minute += pause
        for event in ledger.update([verdict], after(minute)):
            before = last_events.get(event.advice.id)
            if event.kind is CLOSED:
                assert before is not None
                assert before.kind is OPENED
                assert event.time - before.time >= after(10) - after(0)
            else:
                assert before is None or before.kind is CLOSED
            last_events[event.advice.id] = event
        assert sum(advice.is_open for advice in ledger.advice()) <= 1


def test_severity_rises_once_in_a_short_span() -> None:
    """A load at the threshold sends no repeated notices, and a decrease sends none."""
    ledger = Ledger()
    run(ledger, [judgement(severity=Severity.LOW)], 0)
    high = judgement(severity=Severity.HIGH)
    low = judgement(severity=Severity.LOW)
    assert run(ledger, [high], 5) == []
    assert ledger.advice()[0].finding.severity is Severity.LOW
    assert run(ledger, [high], 10) == [AdviceEventKind.SEVERITY_UP]
    assert ledger.advice()[0].finding.severity is Severity.HIGH
    assert run(ledger, [low], 20) == []
    assert ledger.advice()[0].finding.severity is Severity.LOW
    assert run(ledger, [high], 30) == []
    critical = judgement(severity=Severity.CRITICAL)
    assert run(ledger, [critical], 40) == [AdviceEventKind.SEVERITY_UP]
