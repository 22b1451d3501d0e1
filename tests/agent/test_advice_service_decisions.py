"""Decisions, policies and notifications: from any thread and across a crash."""

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from advice_node import AdviceNode, NodeServices, Sink, advice_node
from cases import NOW, judgement
from readings import EPOCH, HOUR, MINUTE
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.policy import Policy
from rightsizer.advice.rules.rule import Exclusion
from rightsizer.advice.service import AdviceService, LedgerUpdate
from rightsizer.advice.settings import LedgerSettings
from rightsizer.model.advice import AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.model.finding import Severity
from rightsizer.model.metric_family import series_key

__all__ = ["advice_node"]


def test_somebody_s_decision_holds_at_once_and_lasts(advice_node: AdviceNode) -> None:
    """Visible, on disk and announced before the response; the next run uses it."""
    advice_node.hold_idle(0, 91)
    advice_node.advice_service.recommend()
    (advice,) = advice_node.advice_service.advice
    answer = advice_node.advice_service.act(
        advice.id, AdviceState.DISMISSED, "ada", "launch", 3600.0
    )

    assert (answer.state, answer.actor, answer.why) == (AdviceState.DISMISSED, "ada", "launch")
    assert answer.expires == EPOCH + 90 * MINUTE + HOUR
    assert advice_node.advice_service.advice == (answer,)
    assert advice_node.sink.on_disk[-1] == (answer,)
    assert [event.kind for event in advice_node.sink.events] == [
        AdviceEventKind.OPENED,
        AdviceEventKind.CLOSED,
    ]
    assert advice_node.advice_service.outcomes == {("IdleHeld", "dismissed"): 1}
    advice_node.advice_service.recommend()
    assert advice_node.advice_service.advice == (answer,)


def test_decision_does_not_wait_for_a_run_and_outlasts_it(
    advice_node: AdviceNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs over many workloads take seconds; a claim is answered and saved meanwhile."""
    advice_node.hold_idle(0, 91)
    advice_node.advice_service.recommend()
    (advice,) = advice_node.advice_service.advice
    is_updating = threading.Event()
    go_on = threading.Event()
    update = Ledger.update

    def slow_update(*arguments: Any) -> list[AdviceEvent]:
        is_updating.set()
        assert go_on.wait(60)
        return update(*arguments)

    monkeypatch.setattr(Ledger, "update", slow_update)
    run = threading.Thread(target=advice_node.advice_service.recommend)
    run.start()
    assert is_updating.wait(60)
    claimed = advice_node.advice_service.act(advice.id, AdviceState.CLAIMED, "ada")
    advice_node.advice_service.change_settings(LedgerSettings(most_records=10))
    assert run.is_alive()
    assert advice_node.sink.on_disk[-1] == (claimed,)
    go_on.set()
    run.join()
    (after_run,) = advice_node.advice_service.advice
    assert (after_run.state, after_run.actor) == (AdviceState.CLAIMED, "ada")
    assert advice_node.storage.ledger(LedgerSettings()).advice() == (after_run,)
    assert [event.kind for event in advice_node.sink.events] == [
        AdviceEventKind.OPENED,
        AdviceEventKind.DECIDED,
    ]


def test_advice_that_a_full_ledger_refuses_is_reported(advice_node: AdviceNode) -> None:
    """As a metric by severity, and in the log with the setting to raise."""
    found = [
        judgement(id=f"{number:02}", key=f"k{number}", severity=severity)
        for number, severity in enumerate([Severity.LOW] * 11 + [Severity.CRITICAL])
    ]
    judge = SimpleNamespace(run=lambda *_: LedgerUpdate(tuple(found), NOW, lambda _: {}))
    ledger = Ledger((), LedgerSettings(most_records=10))
    service = AdviceService(judge, ledger, advice_node.storage, (), advice_node.clock)
    with capture_logs() as logs:
        service.recommend()
    name = "rightsizer_recommender_dropped_findings"
    dropped = {series_key(name, severity=each): 0.0 for each in Severity}
    assert service.metrics() == dropped | {series_key(name, severity="low"): 2.0}
    (warning,) = (entry for entry in logs if entry["event"] == "ledger_full")
    assert warning["dropped_low"] == 2
    assert "most_records" in warning["remedy"]


def test_decisions_may_come_from_many_threads_during_a_run(advice_node: AdviceNode) -> None:
    """The last one wins, and the ledger on disk equals the visible one."""
    advice_node.hold_idle(0, 91)
    advice_node.advice_service.recommend()
    (advice,) = advice_node.advice_service.advice
    threads = [
        threading.Thread(
            target=advice_node.advice_service.act, args=(advice.id, AdviceState.CLAIMED, f"ada-{n}")
        )
        for n in range(8)
    ]
    threads += [threading.Thread(target=advice_node.advice_service.recommend) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (claimed,) = advice_node.advice_service.advice

    assert claimed.state is AdviceState.CLAIMED
    assert (claimed.actor or "").startswith("ada-")
    assert advice_node.storage.ledger(LedgerSettings()).advice() == (claimed,)


def test_event_saved_before_a_crash_is_sent_after_it(advice_node: AdviceNode) -> None:
    """A sink that ends the program leaves the event on disk for the next start."""
    advice_node.hold_idle(0, 91)

    class Crash(Sink):
        def offer(self, _: Sequence[AdviceEvent]) -> None:
            raise KeyboardInterrupt

    dying = NodeServices(
        advice_node.accounting, advice_node.storage, advice_node.clock, (Crash(advice_node.path),)
    ).advice_service
    with pytest.raises(KeyboardInterrupt):
        dying.recommend()
    assert advice_node.sink.events == []
    advice_node.at(advice_node.clock.wall_time())
    advice_node.advice_service.recommend()
    assert [event.kind for event in advice_node.sink.events] == [AdviceEventKind.OPENED]
    advice_node.at(advice_node.clock.wall_time())
    advice_node.advice_service.recommend()
    assert len(advice_node.sink.events) == 1


def test_everybody_who_wants_to_know_is_reported(advice_node: AdviceNode) -> None:
    """Each delivers at its own time."""
    others = (Sink(advice_node.path), Sink(advice_node.path))
    advice_node.hold_idle(0, 91)
    both = NodeServices(
        advice_node.accounting, advice_node.storage, advice_node.clock, others
    ).advice_service
    both.recommend()
    both.deliver()

    assert [len(sink.events) for sink in others] == [1, 1]
    assert [sink.deliveries for sink in others] == [1, 1]


def test_policies_guide_what_is_said(advice_node: AdviceNode) -> None:
    """Excluded findings are judged and never opened."""
    launch = Policy(ignore=(Exclusion(why="launch"),))
    advice_node.hold_idle(0, 91)
    guided = NodeServices(
        advice_node.accounting, advice_node.storage, advice_node.clock, policies=(launch,)
    )
    guided.advice_service.recommend()
    complaints = [
        each.finding for each in guided.recommender.judgements if each.finding.is_actionable
    ]

    assert guided.advice_service.advice == ()
    assert complaints
    assert all(complaint.evidence["excluded"] == "ignored: launch" for complaint in complaints)
