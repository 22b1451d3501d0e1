"""Flushing to a slow, failing or full disk: reported once, never waited for."""

import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from readings import EPOCH, HELD, SECOND, gpu, snapshot, workload
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings, HistorySettings
from rightsizer.advice.storage import Storage
from rightsizer.agent.coordinator import Coordinator
from rightsizer.agent.history_service import HistoryService
from rightsizer.io.clock import FastClock
from rightsizer.model.errors import HistoryError
from rightsizer.model.report import AgentReport
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import Nanoseconds
from spoiled_database import spoil

AGENT: Final = AgentReport("0", "test", EPOCH, 1.0)


class SteppedClock:
    """A clock that advances only while it is waited for."""

    speed = 1.0

    def __init__(self) -> None:
        self._now: Nanoseconds = 0

    def time(self) -> Nanoseconds:
        """Time since the start."""
        return self._now

    def wall_time(self) -> Nanoseconds:
        """Time since the epoch."""
        return EPOCH + self._now

    def wait_until(self, time: Nanoseconds, stop: threading.Event) -> bool:
        """Jump to the moment."""
        self._now = max(self._now, time)
        return stop.is_set()


class Seconds:
    """A source of an idle GPU, a reading a second."""

    name = "seconds"

    def __init__(self, first: int, last: int) -> None:
        self._seconds = iter(range(first, last))

    def read(self) -> Snapshot | None:
        """Read the next second."""
        second = next(self._seconds, None)
        if second is None:
            return None
        return snapshot(float(second), [gpu()], {gpu(): HELD}, holders={gpu(): workload()})

    def close(self) -> None:
        """Nothing is held."""


class HistoryNode:
    """A coordinator and a history writer on a database of their own."""

    def __init__(self, path: Path, maximum_bytes: int | None = None) -> None:
        self.path = path
        self.storage = Storage(str(path), is_durable=False, maximum_bytes=maximum_bytes)
        self.accounting = AccountingService(AccountingSettings())
        self.history_service = HistoryService(
            self.accounting, self.storage, FastClock(EPOCH), HistorySettings()
        )

    def tick(self, first: int, last: int) -> Coordinator:
        """Sample for some seconds, and report the size of the history with each."""

        def report() -> AgentReport:
            assert self.storage.history is not None
            size = float(self.storage.history.size_bytes)
            return replace(AGENT, metrics={"rightsizer_history_size_bytes": size})

        coordinator = Coordinator(
            Seconds(first, last),
            SteppedClock(),
            SECOND,
            lambda seen: self.accounting.post(seen, (), report),
        )
        coordinator.run(threading.Event())
        return coordinator

    def accounted(self) -> Nanoseconds:
        """Time held by the history."""
        assert self.storage.history is not None
        windows = self.storage.history.load()
        return sum(window.accounted for window in windows if window.workload_key is None)


@pytest.fixture
def history_node(tmp_path: Path) -> Iterator[HistoryNode]:
    """An empty node."""
    made = HistoryNode(tmp_path / "history.db")
    yield made
    made.storage.close()


def test_a_disk_that_blocks_makes_no_sample_late(history_node: HistoryNode) -> None:
    """A flush waits for its disk, and ticks continue meanwhile."""
    history_node.tick(0, 10)
    history_node.history_service.flush()
    disk = sqlite3.connect(history_node.path, isolation_level=None)
    disk.execute("BEGIN IMMEDIATE")
    flush = threading.Thread(target=history_node.history_service.flush)
    history_node.tick(10, 20)
    flush.start()
    ticking = history_node.tick(20, 320)
    is_blocked = flush.is_alive()
    disk.execute("ROLLBACK")
    disk.close()
    flush.join()

    assert is_blocked
    assert (ticking.samples, ticking.late_samples, ticking.failed_ticks) == (300, 0, 0)
    history_node.history_service.flush()
    assert history_node.accounted() == 319 * SECOND
    assert history_node.history_service.counts["history_write_failures"] == 0


def test_a_history_that_breaks_is_reported_once_and_counted(history_node: HistoryNode) -> None:
    """With its new path, and that a new history was begun."""
    history_node.tick(0, 100)
    history_node.history_service.flush()
    spoil(history_node.path)
    history_node.tick(100, 400)
    with capture_logs() as logs:
        history_node.history_service.flush()
        history_node.history_service.flush()

    (error,) = (entry for entry in logs if entry["event"] == "history_set_aside")
    assert error["log_level"] == "error"
    assert Path(error["moved_to"]).exists()
    assert history_node.history_service.counts == {
        "history_writes": 3,
        "history_write_failures": 0,
        "history_breaks": 1,
        "history_slow_writes": 0,
        "history_windows_forgotten": 0,
        "history_windows_damaged": 0,
    }
    assert history_node.accounted() > 0


HARM: Final = {
    "deleted": ("history_lost", Path.unlink),
    "overwritten": ("history_set_aside", lambda path: path.write_bytes(b"another program's")),
    "left alone": ("", lambda _: None),
}


def lived_after(path: Path, how: str) -> Counter[str]:
    """Data found by a start after two days with a damaged history, by subject."""
    history_node = HistoryNode(path)
    for hour in range(55):
        history_node.tick(hour * 3600, hour * 3600 + 2)
    history_node.history_service.flush()
    history_node.tick(55 * 3600, 55 * 3600 + 10)
    event, harm = HARM[how]
    harm(path)
    with capture_logs() as logs:
        history_node.history_service.flush()
    entries = [entry for entry in logs if entry["event"] == event]
    assert len(entries) == history_node.history_service.counts["history_breaks"] == bool(event)
    assert all("while it was open" in entry["reason"] for entry in entries)
    assert history_node.history_service.counts["history_write_failures"] == 0
    for second in range(310, 330, 10):
        history_node.tick(55 * 3600 + second, 55 * 3600 + second + 10)
        history_node.history_service.flush()
    history_node.storage.close()

    found: Counter[str] = Counter()
    reader = Storage(str(path), read_only=True)
    assert reader.history is not None
    for window in reader.history.load():
        found[window.uuid] += window.accounted
        found[f"{window.uuid} blocks"] += len(window.blocks.data)
    reader.close()
    return found


def test_a_history_that_is_lost_is_written_again_from_memory(tmp_path: Path) -> None:
    """The next start finds the same data, each second once; the loss is logged and counted."""
    lives = [lived_after(tmp_path / how / "history.db", how) for how in HARM]
    assert lives[0] == lives[1] == lives[2]
    assert len(lives[0]) == 4  # The GPU and its workload.


def test_writing_that_works_again_is_reported(
    history_node: HistoryNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once after a full disk, with the number of failed flushes."""
    history_node.tick(0, 10)
    with monkeypatch.context() as full, capture_logs() as logs:
        full.setattr(Storage, "save_windows", _refuse)
        for _ in range(2):
            with pytest.raises(HistoryError):
                history_node.history_service.flush()
        assert logs == []
    with capture_logs() as logs:
        history_node.history_service.flush()
        history_node.history_service.flush()
    (entry,) = logs
    assert (entry["event"], entry["failed_flushes"]) == ("history_writes_recovered", 2)
    assert entry["log_level"] == "info"


def _refuse(*_: object) -> bool:
    raise HistoryError("database or disk is full")


def test_history_broken_at_the_start_is_counted(tmp_path: Path) -> None:
    """A history set aside on opening counts as damaged."""
    (tmp_path / "history.db").write_bytes(b"no database" * 500)
    history_node = HistoryNode(tmp_path / "history.db")
    with capture_logs() as logs:
        history_node.history_service.flush()
    history_node.storage.close()

    assert history_node.history_service.counts["history_breaks"] == 1
    assert logs == []  # The agent logged it at its start.


def test_a_history_that_is_full_is_reported_once(tmp_path: Path) -> None:
    """With the remedy, and the number of windows removed."""
    history_node = HistoryNode(tmp_path / "history.db", maximum_bytes=2**17)
    with capture_logs() as logs:
        for hour in range(60):
            history_node.tick(hour * 3600, hour * 3600 + 1)
            history_node.tick(hour * 3600 + 3599, hour * 3600 + 3600)
            history_node.history_service.flush()
    kept = history_node.accounted()
    history_node.storage.close()

    (warning,) = (entry for entry in logs if entry["event"] == "history_full")
    assert "history.maximum_size" in warning["remedy"]
    assert history_node.history_service.counts["history_windows_forgotten"] > 0
    assert kept > 0


def test_damaged_windows_are_counted_and_said_once(tmp_path: Path) -> None:
    """A restart says what is lost, and restores the rest."""
    path = tmp_path / "history.db"
    before = HistoryNode(path)
    for hour in range(4):
        before.tick(hour * 3600, hour * 3600 + 600)
    before.history_service.flush()
    before.storage.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT id FROM window ORDER BY start").fetchall()
        for (row,) in rows[:2]:
            connection.execute("UPDATE window SET data = x'00ff' WHERE id = ?", (row,))
    after = HistoryNode(path)
    with capture_logs() as logs:
        restored, _ = after.history_service.restore()
        after.history_service.flush()
        after.history_service.restore()
    metrics = after.history_service.metrics()
    after.storage.close()

    assert restored == len(rows) - 2
    assert metrics["rightsizer_history_windows_damaged_total"] == 2.0
    (warning,) = (entry for entry in logs if entry["event"] == "history_windows_damaged")
    assert (warning["windows"], warning["devices_and_workloads"]) == (2, 2)
    assert warning["lost_hours"] > 0.0
    assert warning["first"] < warning["last"]
