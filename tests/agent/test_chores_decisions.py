"""Decisions, policies, and who is told: from any thread and over a crash."""

import threading
from collections.abc import Sequence

import pytest

from chores_desk import Desk, NodeServices, Sink, desk
from readings import EPOCH, HOUR, MINUTE
from rightsizer.advice.policy import Policy
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Exclusion
from rightsizer.advice.settings import LedgerSettings
from rightsizer.model.advice import AdviceEvent, AdviceEventKind, AdviceState

__all__ = ["desk"]


def test_somebody_s_decision_holds_at_once_and_lasts(desk: Desk) -> None:
    """Shown, on disk and told before the answer; the next run knows of it."""
    desk.hold_idle(0, 91)
    desk.advice_service.recommend()
    (advice,) = desk.advice_service.advice
    answer = desk.advice_service.act(advice.id, AdviceState.DISMISSED, "ada", "launch", 3600.0)

    assert (answer.state, answer.actor, answer.why) == (AdviceState.DISMISSED, "ada", "launch")
    assert answer.expires == EPOCH + 90 * MINUTE + HOUR
    assert desk.advice_service.advice == (answer,)
    assert desk.sink.on_disk[-1] == (answer,)
    assert [event.kind for event in desk.sink.events] == [
        AdviceEventKind.OPENED,
        AdviceEventKind.CLOSED,
    ]
    assert desk.advice_service.outcomes == {("IdleHeld", "dismissed"): 1}
    desk.advice_service.recommend()
    assert desk.advice_service.advice == (answer,)


def test_decisions_may_come_from_many_threads_during_a_run(desk: Desk) -> None:
    """One of them is the last, and the ledger on disk is the one that is shown."""
    desk.hold_idle(0, 91)
    desk.advice_service.recommend()
    (advice,) = desk.advice_service.advice
    threads = [
        threading.Thread(
            target=desk.advice_service.act, args=(advice.id, AdviceState.CLAIMED, f"ada-{n}")
        )
        for n in range(8)
    ]
    threads += [threading.Thread(target=desk.advice_service.recommend) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (claimed,) = desk.advice_service.advice

    assert claimed.state is AdviceState.CLAIMED
    assert (claimed.actor or "").startswith("ada-")
    assert desk.storage.ledger(LedgerSettings()).advice() == (claimed,)


def test_what_was_saved_and_not_told_is_told_after_a_crash(desk: Desk) -> None:
    """A sink that ends the program leaves the event on disk, and the next program tells it."""
    desk.hold_idle(0, 91)

    class Crash(Sink):
        def offer(self, _: Sequence[AdviceEvent]) -> None:
            raise KeyboardInterrupt

    dying = NodeServices(
        desk.accountant, desk.storage, desk.clock, (Crash(desk.path),)
    ).advice_service
    with pytest.raises(KeyboardInterrupt):
        dying.recommend()
    assert desk.sink.events == []
    desk.at(desk.clock.wall_time())
    desk.advice_service.recommend()
    assert [event.kind for event in desk.sink.events] == [AdviceEventKind.OPENED]
    desk.at(desk.clock.wall_time())
    desk.advice_service.recommend()
    assert len(desk.sink.events) == 1


def test_everybody_who_wants_to_know_is_told(desk: Desk) -> None:
    """And each delivers when it is time to."""
    others = (Sink(desk.path), Sink(desk.path))
    desk.hold_idle(0, 91)
    both = NodeServices(desk.accountant, desk.storage, desk.clock, others).advice_service
    both.recommend()
    both.deliver()

    assert [len(sink.events) for sink in others] == [1, 1]
    assert [sink.deliveries for sink in others] == [1, 1]


def test_a_run_leaves_its_figures(desk: Desk) -> None:
    """When, how long, how many judgements of each rule, and why some would not say."""
    assert desk.recommender.last_run is None
    desk.hold_idle(0, 91)
    desk.advice_service.recommend()
    run = desk.recommender.last_run
    assert run is not None

    assert run.time == EPOCH + 90 * MINUTE
    assert run.duration_seconds >= 0.0
    assert run.judgements == {rule.name: 1 for rule in RULES}
    judged = desk.recommender.judgements
    assert sum(run.abstentions.values()) == sum(
        each.finding.abstained is not None for each in judged
    )


def test_policies_guide_what_is_said(desk: Desk) -> None:
    """What an operator ignores is judged and never opened."""
    launch = Policy(ignore=(Exclusion(why="launch"),))
    desk.hold_idle(0, 91)
    guided = NodeServices(desk.accountant, desk.storage, desk.clock, policies=(launch,))
    guided.advice_service.recommend()
    complaints = [
        each.finding for each in guided.recommender.judgements if each.finding.is_complaint
    ]

    assert guided.advice_service.advice == ()
    assert complaints
    assert all(each.evidence["excluded"] == "ignored: launch" for each in complaints)
