"""What lasts over a restart, over a broken file and over a full disk."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cases import NOW, after, finding, judgement, window
from readings import gpu, workload
from rightsizer.accounting.known import KnownDevice
from rightsizer.advice.ledger import LedgerSettings
from rightsizer.domain.errors import HistoryError
from rightsizer.domain.state import Resource, State
from rightsizer.runtime.storage import Storage

WINDOW = window({State.PRODUCTIVE: 0.05, State.IDLE_HELD: 0.03}, {Resource.COMPUTE: {0.5: 0.05}})
KNOWN = KnownDevice(gpu(), workload(), held_since=NOW)


def test_a_restart_finds_windows_ledger_devices_and_holders(tmp_path: Path) -> None:
    """All in one file."""
    path = str(tmp_path / "state" / "history.db")
    first = Storage(path)
    ledger = first.ledger(LedgerSettings())
    ledger.update([judgement()], NOW)
    first.save_windows([WINDOW], [], [KNOWN])
    first.save_ledger(ledger)
    first.close()

    second = Storage(path)
    assert second.history is not None
    assert list(second.history.load()) == [WINDOW]
    assert second.history.devices() == (KNOWN,)
    assert second.ledger(LedgerSettings()).records == ledger.records
    second.close()


def test_the_ledger_goes_on_where_it_was(tmp_path: Path) -> None:
    """A restart opens nothing a second time."""
    path = str(tmp_path / "history.db")
    first = Storage(path)
    ledger = first.ledger(LedgerSettings())
    ledger.update([judgement()], NOW)
    first.save_ledger(ledger)
    first.close()

    second = Storage(path)
    assert second.ledger(LedgerSettings()).update([judgement()], after(10)) == []
    second.close()


def test_without_a_path_nothing_is_kept_and_nothing_fails() -> None:
    """An agent may run on a node without any disk."""
    storage = Storage("")
    ledger = storage.ledger(LedgerSettings())
    ledger.update([judgement()], NOW)
    storage.save_ledger(ledger)

    assert storage.save_windows([WINDOW], [], [KNOWN]) is False
    assert storage.ledger(LedgerSettings()).records == ()
    assert storage.set_aside is None
    storage.close()


def test_a_running_window_is_found_once_however_often_it_was_saved(tmp_path: Path) -> None:
    """It grows in place."""
    storage = Storage(str(tmp_path / "history.db"))
    assert storage.history is not None
    shorter = window({State.PRODUCTIVE: 0.02}, start=WINDOW.start, end=WINDOW.start + 1)
    storage.save_windows([], [shorter], [])
    storage.save_windows([WINDOW], [], [])

    assert list(storage.history.load()) == [WINDOW]
    storage.close()


def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path) -> None:
    """The agent goes on with a new one and says where the old one is."""
    path = tmp_path / "history.db"
    path.write_bytes(b"not a database at all" * 400)
    storage = Storage(str(path))

    assert storage.set_aside is not None
    assert storage.set_aside.read_bytes().startswith(b"not a database")
    assert storage.history is not None
    assert list(storage.history.load()) == []
    storage.close()


def test_a_second_writer_is_refused_and_the_first_one_named(tmp_path: Path) -> None:
    """Two agents in one file would each undo the other's ledger."""
    path = str(tmp_path / "history.db")
    first = Storage(path)
    with pytest.raises(HistoryError, match=r"being written by process \d+; stop that agent"):
        Storage(path)
    first.close()
    Storage(path).close()


def test_a_reader_sees_a_history_that_is_being_written(tmp_path: Path) -> None:
    """`advise` works beside the agent, and takes nothing from it."""
    path = str(tmp_path / "history.db")
    writer = Storage(path)
    writer.save_windows([WINDOW], [], [KNOWN])
    reader = Storage(path, read_only=True)

    assert reader.history is not None
    assert list(reader.history.load()) == [WINDOW]
    with pytest.raises(HistoryError, match="readonly"):
        reader.save_windows([WINDOW], [], [])
    reader.close()
    writer.save_windows([WINDOW], [], [])
    writer.close()


def test_windows_that_could_not_be_written_are_tried_again(tmp_path: Path) -> None:
    """A fault that passes loses nothing."""
    path = tmp_path / "history.db"
    storage = Storage(str(path))
    assert storage.history is not None
    with sqlite3.connect(path) as other:
        other.execute("ALTER TABLE window RENAME TO away")
    with pytest.raises(HistoryError, match="no such table"):
        storage.save_windows([WINDOW], [], [])
    with sqlite3.connect(path) as other:
        other.execute("ALTER TABLE away RENAME TO window")
    other.close()
    storage.save_windows([], [], [])

    assert list(storage.history.load()) == [WINDOW]
    storage.close()


def test_a_full_disk_is_survived(tmp_path: Path) -> None:
    """What did not fit is kept in memory, and on disk as soon as there is room."""
    script = Path(__file__).parent.parent / "full_disk.py"
    done = subprocess.run(
        [sys.executable, script, tmp_path / "history.db"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    told = json.loads(done.stdout)

    assert "disk" in told["error"] or "full" in told["error"]
    assert told["failures"] >= 2
    assert told["before"] < told["saved"]
    assert told["found"] == told["saved"]


def test_an_acted_upon_ledger_is_restored_with_its_actor(tmp_path: Path) -> None:
    """What a person decided outlives the process."""
    path = str(tmp_path / "history.db")
    first = Storage(path)
    ledger = first.ledger(LedgerSettings())
    ledger.update([judgement(id="bbbbbbbbbbbb")], NOW)
    ledger.act("bbbbbbbbbbbb", ledger.advice()[0].state.CLAIMED, "ana", after(1))
    first.save_ledger(ledger)
    first.close()
    second = Storage(path)
    (advice,) = second.ledger(LedgerSettings()).advice()
    second.close()

    assert (advice.actor, advice.state) == ("ana", "claimed")
    assert advice.finding == finding(id="bbbbbbbbbbbb")
