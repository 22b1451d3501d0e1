"""The jobs on real accounts and a real database: recommend, flush, prune, annotate."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from advice_node import AGENT, NOTEBOOK, AdviceNode, NodeServices, advice_node
from readings import DAY, EMPTY, EPOCH, HOUR, MINUTE, gpu, snapshot
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.rules import RULES
from rightsizer.advice.storage import Storage
from rightsizer.io.clock import FastClock
from rightsizer.model.advice import AdviceEventKind, AdviceState
from rightsizer.model.errors import HistoryError
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window

__all__ = ["advice_node"]


def of_devices(windows: Iterable[Window]) -> Nanoseconds:
    """Total time accounted for by the devices' own windows."""
    return sum(window.accounted for window in windows if window.workload_key is None)


def break_table(path: Path, name: str, other: str) -> None:
    """Rename a table while the agent uses it, or restore it."""
    connection = sqlite3.connect(path)
    connection.execute(f"ALTER TABLE {name} RENAME TO {other}")
    connection.close()


def test_a_run_opens_advice_and_shows_it(advice_node: AdviceNode) -> None:
    """An hour of a held and idle GPU gives advice; one log line summarizes the run."""
    advice_node.hold_idle(0, 91)
    with capture_logs() as logs:
        advice_node.advice_service.recommend()
    (advice,) = advice_node.advice_service.advice

    assert (advice.finding.rule, advice.state) == ("idle", AdviceState.ACTIVE)
    assert advice.finding.workload == NOTEBOOK.key
    assert len(advice_node.recommender.judgements) == len(RULES)
    assert [entry["event"] for entry in logs] == ["advice_opened", "recommender_ran"]
    assert (logs[1]["complaints"], logs[1]["opened"], logs[1]["closed"]) == (1, 1, 0)


def test_the_ledger_is_on_disk_before_anybody_is_reported(advice_node: AdviceNode) -> None:
    """A crash between the two must not create a second region after the restart."""
    advice_node.hold_idle(0, 91)
    advice_node.advice_service.recommend()

    assert [event.kind for event in advice_node.sink.events] == [AdviceEventKind.OPENED]
    assert advice_node.sink.on_disk == [advice_node.advice_service.advice]


def test_event_that_could_not_be_saved_is_sent_after_the_next_save(advice_node: AdviceNode) -> None:
    """A full disk neither loses nor duplicates events."""
    advice_node.hold_idle(0, 91)
    break_table(advice_node.path, "advice", "away")
    with pytest.raises(HistoryError):
        advice_node.advice_service.recommend()
    assert advice_node.sink.events == []
    assert len(advice_node.advice_service.advice) == 1

    break_table(advice_node.path, "away", "advice")
    advice_node.advice_service.recommend()
    advice_node.advice_service.recommend()

    assert [event.kind for event in advice_node.sink.events] == [AdviceEventKind.OPENED]


def test_a_restart_tells_nothing_again(advice_node: AdviceNode) -> None:
    """The ledger remembers what was opened; the same hour gives no second event."""
    advice_node.hold_idle(0, 91)
    advice_node.advice_service.recommend()
    advice_node.at(advice_node.clock.wall_time())
    assert len(advice_node.advice_service.advice) == 1
    advice_node.advice_service.recommend()

    assert len(advice_node.sink.events) == 1


def test_advice_that_ends_is_counted_by_its_reason_and_its_end(advice_node: AdviceNode) -> None:
    """Open advice has no outcome yet, and closed advice counts once."""
    advice_node.hold_idle(0, 91)
    advice_node.advice_service.recommend()
    while_open = dict(advice_node.advice_service.outcomes)
    advice_node.leave_empty(91, 211)
    advice_node.advice_service.recommend()
    advice_node.advice_service.recommend()
    (notebook,) = (
        each for each in advice_node.advice_service.advice if each.finding.workload == NOTEBOOK.key
    )

    assert while_open == {}
    assert notebook.state is AdviceState.EXPIRED
    assert advice_node.advice_service.outcomes == {("IdleHeld", "expired"): 1}


def test_a_run_without_anywhere_to_tell_is_a_run(tmp_path: Path) -> None:
    """Advice needs neither Grafana nor a disk."""
    service = AccountingService(AccountingSettings())
    storage = Storage("")
    empty = NodeServices(service, storage, FastClock(EPOCH))
    empty.advice_service.recommend()
    empty.advice_service.deliver()
    empty.history_service.prune()
    empty.history_service.flush()

    assert empty.advice_service.advice == ()
    assert set(empty.history_service.counts.values()) == {0}


def test_a_flush_keeps_what_is_closed_and_what_runs(advice_node: AdviceNode) -> None:
    """The whole hour is on disk."""
    advice_node.hold_idle(0, 61)
    advice_node.history_service.flush()
    assert advice_node.storage.history is not None
    stored = list(advice_node.storage.history.load())

    assert of_devices(stored) == 60 * MINUTE
    assert [device.holder for device in advice_node.storage.history.devices()] == [NOTEBOOK]
    assert {name: count for name, count in advice_node.history_service.counts.items() if count} == {
        "history_writes": 1
    }


def test_a_flush_that_fails_loses_nothing(advice_node: AdviceNode) -> None:
    """It is counted and raised for the scheduler's log; the next flush writes everything."""
    advice_node.hold_idle(0, 31)
    break_table(advice_node.path, "window", "away")
    with pytest.raises(HistoryError):
        advice_node.history_service.flush()
    assert advice_node.history_service.counts["history_write_failures"] == 1
    break_table(advice_node.path, "away", "window")
    advice_node.accounting.post(
        snapshot(31 * 60.0, [gpu()], {gpu(): EMPTY}, interval_seconds=60.0), (), lambda: AGENT
    )
    advice_node.history_service.flush()
    assert advice_node.storage.history is not None

    assert of_devices(advice_node.storage.history.load()) == 31 * MINUTE
    assert advice_node.history_service.counts["history_writes"] == 1


def test_old_windows_become_hourly_and_then_nothing(advice_node: AdviceNode) -> None:
    """Their accounted time stays the same until the retention ends."""
    advice_node.hold_idle(0, 121)
    advice_node.history_service.flush()
    assert advice_node.storage.history is not None
    fine = [w for w in advice_node.storage.history.load() if w.workload_key is None]
    advice_node.at(EPOCH + 3 * DAY)
    advice_node.history_service.prune()
    hourly = [w for w in advice_node.storage.history.load() if w.workload_key is None]
    advice_node.at(EPOCH + 31 * DAY)
    advice_node.history_service.prune()

    assert len(fine) == 24
    assert len(hourly) == 2
    assert sum(w.accounted for w in hourly) == sum(w.accounted for w in fine) == 120 * MINUTE
    assert list(advice_node.storage.history.load()) == []
    assert advice_node.storage.history.devices() == ()


class SetClock(FastClock):
    """A clock with a settable wall time."""

    ahead: Nanoseconds = 0

    def wall_time(self) -> Nanoseconds:
        """The wall time that was set."""
        return super().wall_time() + self.ahead


def test_a_clock_that_leaps_ahead_costs_no_history_at_once(advice_node: AdviceNode) -> None:
    """A brief leap may be corrected; a lasting one is accepted."""
    advice_node.hold_idle(0, 121)
    advice_node.history_service.flush()
    history = advice_node.storage.history
    clock = SetClock(EPOCH + 2 * HOUR)
    assert history is not None
    stored = list(history.load())
    advice_node.take(
        NodeServices(advice_node.accounting, advice_node.storage, clock, (advice_node.sink,))
    )
    clock.ahead = 400 * DAY
    advice_node.history_service.prune()
    assert list(history.load()) == stored
    clock.ahead = 0
    advice_node.history_service.prune()
    assert list(history.load()) == stored
    clock.ahead = 400 * DAY
    advice_node.history_service.prune()
    advice_node.history_service.prune()
    assert list(history.load()) == []


def test_annotating_is_delivering(advice_node: AdviceNode) -> None:
    """Events offered earlier are sent in a job of their own."""
    advice_node.advice_service.deliver()

    assert advice_node.sink.deliveries == 1
