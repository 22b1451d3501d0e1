"""Persistence across a restart, a damaged file and a full disk."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from cases import NOW, after, finding, judgement, window
from readings import DAY, SECOND, gpu, workload
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.advice.settings import LedgerSettings
from rightsizer.advice.storage import MIGRATIONS, Storage
from rightsizer.io.database import Database
from rightsizer.model.advice import Advice, AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.model.errors import HistoryError
from rightsizer.model.state import Resource, State
from spoiled_database import spoil

WINDOW = window({State.PRODUCTIVE: 0.05, State.IDLE_HELD: 0.03}, {Resource.COMPUTE: {0.5: 0.05}})
KNOWN = DeviceRecord(gpu(), workload(), holder_since=NOW)


def test_a_restart_finds_windows_ledger_devices_and_holders(tmp_path: Path) -> None:
    """All are in one file."""
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
    assert second.ledger(LedgerSettings()).advice() == ledger.advice()
    second.close()


def test_the_ledger_goes_on_where_it_was(tmp_path: Path) -> None:
    """A restart opens no advice twice."""
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
    """An agent may run on a node without a disk."""
    storage = Storage("")
    ledger = storage.ledger(LedgerSettings())
    ledger.update([judgement()], NOW)
    storage.save_ledger(ledger)

    assert storage.save_windows([WINDOW], [], [KNOWN]) is False
    assert storage.ledger(LedgerSettings()).advice() == ()
    assert storage.database.set_aside is None
    storage.close()


def test_a_running_window_is_found_once_however_often_it_was_saved(tmp_path: Path) -> None:
    """It is updated in place."""
    storage = Storage(str(tmp_path / "history.db"))
    assert storage.history is not None
    shorter = window({State.PRODUCTIVE: 0.02}, start=WINDOW.start, end=WINDOW.start + 1)
    storage.save_windows([], [shorter], [])
    storage.save_windows([WINDOW], [], [])

    assert list(storage.history.load()) == [WINDOW]
    storage.close()


def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path) -> None:
    """The agent continues with a new file and logs where the old one is."""
    path = tmp_path / "history.db"
    path.write_bytes(b"not a database at all" * 400)
    storage = Storage(str(path))

    assert storage.database.set_aside is not None
    assert storage.database.set_aside.read_bytes().startswith(b"not a database")
    assert storage.history is not None
    assert list(storage.history.load()) == []
    storage.close()


def test_a_second_writer_is_refused_and_the_first_one_named(tmp_path: Path) -> None:
    """Two agents on one file would each overwrite the other's ledger."""
    path = str(tmp_path / "history.db")
    first = Storage(path)
    with pytest.raises(HistoryError, match=r"being written by process \d+; stop that agent"):
        Storage(path)
    first.close()
    Storage(path).close()


def test_a_reader_sees_a_history_that_is_being_written(tmp_path: Path) -> None:
    """`advise` works beside the agent without disturbing it."""
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
    """A temporary fault loses nothing."""
    path = tmp_path / "history.db"
    storage = Storage(str(path))
    assert storage.history is not None
    with closing(sqlite3.connect(path)) as other:
        other.execute("ALTER TABLE window RENAME TO away")
    with pytest.raises(HistoryError, match="no such table"):
        storage.save_windows([WINDOW], [], [])
    with closing(sqlite3.connect(path)) as other:
        other.execute("ALTER TABLE away RENAME TO window")
    storage.save_windows([], [], [])

    assert list(storage.history.load()) == [WINDOW]
    storage.close()


def test_a_full_disk_is_survived(tmp_path: Path) -> None:
    """Unsaved data stays in memory, and is saved once there is room."""
    script = Path(__file__).parents[1] / "support" / "full_disk.py"
    done = subprocess.run(
        [sys.executable, script, tmp_path / "history.db"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    result = json.loads(done.stdout)

    assert "disk" in result["error"] or "full" in result["error"]
    assert result["failures"] >= 2
    assert result["before"] < result["saved"]
    assert result["found"] == result["saved"]


@pytest.mark.parametrize("disk", ["full", "read-only"])
@pytest.mark.parametrize("left", ["nothing", "closed", "killed"])
def test_a_disk_that_cannot_be_written_at_the_start_is_survived(
    tmp_path: Path, left: str, disk: str
) -> None:
    """A history there is read, also from a killed agent's log, and written once it can be."""
    path = tmp_path / "history.db"
    own = tmp_path / "own.db"
    with closing(Storage(str(own))) as storage:
        storage.save_windows([window({State.PRODUCTIVE: 1 / 12})], [], [])
        if left == "killed":
            shutil.copyfile(own, path)
            shutil.copyfile(f"{own}-wal", f"{path}-wal")
            if disk == "read-only":
                shutil.copyfile(f"{own}-shm", f"{path}-shm")
    if left == "closed":
        own.rename(path)
    windows = int(left != "nothing")
    script = Path(__file__).parents[1] / "support" / "full_disk_at_start.py"
    apart = ("unshare", "--mount", "--map-root-user") if disk == "read-only" else ()
    if apart and subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine admits no mount namespace")
    command = [*apart, sys.executable, script, path, disk]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    result = json.loads(done.stdout)

    trouble = "file too large" if disk == "full" else "read-only file system"
    assert result["trouble"] == trouble
    assert ("make room" if disk == "full" else "writable volume") in result["remedy"]
    assert result["before"] == windows
    assert result["error"] == f"history '{path}': {trouble}"
    assert (result["after"], result["left"]) == (windows + 1, None)


def test_a_history_that_breaks_while_it_is_written_is_begun_again(tmp_path: Path) -> None:
    """The windows of that flush are in the new file, and the ledger is unchanged."""
    path = tmp_path / "history.db"
    storage = Storage(str(path))
    ledger = storage.ledger(LedgerSettings())
    ledger.update([judgement()], NOW)
    storage.save_ledger(ledger)
    storage.save_windows([WINDOW], [], [KNOWN])
    spoil(path)
    later = replace(WINDOW, start=WINDOW.end, end=WINDOW.end + 1)
    running = replace(WINDOW, start=WINDOW.end + 1, end=WINDOW.end + 2)
    assert storage.save_windows([later], [running], [KNOWN]) is True

    assert storage.database.breaks == 1
    assert storage.database.set_aside is not None
    assert storage.database.set_aside.exists()
    storage.close()
    again = Storage(str(path))
    assert again.history is not None
    assert list(again.history.load()) == [later, running]
    assert again.history.devices() == (KNOWN,)
    assert again.ledger(LedgerSettings()).advice() == ledger.advice()
    assert again.database.breaks == 0
    again.close()


def test_a_ledger_meets_a_break_too(tmp_path: Path) -> None:
    """It is saved in the new history; open advice is not opened again."""
    path = tmp_path / "history.db"
    storage = Storage(str(path))
    ledger = storage.ledger(LedgerSettings())
    ledger.update([judgement()], NOW)
    storage.save_ledger(ledger)
    spoil(path)
    storage.save_ledger(ledger)

    assert storage.database.breaks == 1
    assert storage.ledger(LedgerSettings()).advice() == ledger.advice()
    storage.close()


FIRST_SCHEMA = Path(__file__).parent / "data" / "history_of_schema_1.sql"


@pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
def test_a_history_of_the_first_schema_is_read(tmp_path: Path, read_only: bool) -> None:  # noqa: FBT001
    """Windows, devices and ledger are read, and a writer continues in it."""
    path = tmp_path / "history.db"
    old = sqlite3.connect(path)
    old.executescript(FIRST_SCHEMA.read_text(encoding="utf-8"))
    rows = old.execute("SELECT uuid, start, finish FROM window ORDER BY start, uuid").fetchall()
    old.close()
    storage = Storage(str(path), read_only=read_only)
    assert storage.history is not None
    windows = list(storage.history.load())

    assert [(window.uuid, window.start, window.end) for window in windows] == rows
    assert sum(window.accounted for window in windows) == 10_780 * SECOND
    assert [device.device.name for device in storage.history.devices()] == ["Tesla T4"] * 2
    assert [advice.finding.rule for advice in storage.ledger(LedgerSettings()).advice()] == ["idle"]
    if not read_only:
        storage.save_windows([WINDOW], [], [KNOWN])
        assert storage.history.roll_up(rows[-1][1] + DAY) == 10
        assert sum(window.accounted for window in storage.history.load()) == (
            10_780 * SECOND + WINDOW.accounted
        )
    storage.close()


def test_the_bound_on_its_size_reaches_the_history(tmp_path: Path) -> None:
    """The oldest windows are removed."""
    path = tmp_path / "history.db"
    most = 2**17
    storage = Storage(str(path), is_durable=False, maximum_bytes=most)
    assert storage.history is not None
    for number in range(3000):
        at = number * 300 * SECOND
        storage.save_windows([replace(WINDOW, start=at, end=at + 300 * SECOND)], [], [])

    assert next(iter(storage.history.load())).start > 0
    assert storage.history.forgotten > 0
    storage.close()
    assert path.stat().st_size <= most + 2**14


def test_an_acted_upon_ledger_is_restored_with_its_actor(tmp_path: Path) -> None:
    """Decisions outlive the process."""
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


def test_a_ledger_of_a_former_program_is_taken_over(tmp_path: Path) -> None:
    """It has neither track record nor pending events; its advice is kept."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS[:2])) as former, former.transaction() as connection:
        advice = to_builtins(Advice(finding(), AdviceState.ACTIVE, NOW, NOW))
        said = advice["finding"]
        key = said.pop("key")
        public = {name: advice[name] for name in ("finding", "state", "opened", "updated")}
        document = {"advice": public, "key": key, "quiet_since": None, "seen": NOW}
        connection.execute("INSERT INTO advice VALUES (?, ?)", (said["id"], json.dumps(document)))

    storage = Storage(str(path))
    ledger = storage.ledger(LedgerSettings())
    assert [(each.state, each.finding.key) for each in ledger.advice()] == [
        (AdviceState.ACTIVE, "slurm/llama")
    ]
    assert storage.pending_events == ()
    storage.save_ledger(ledger, [AdviceEvent(AdviceEventKind.OPENED, ledger.advice()[0], NOW)])
    storage.close()
    again = Storage(str(path))
    assert again.ledger(LedgerSettings()).advice() == ledger.advice()
    assert [event.kind for event in again.pending_events] == [AdviceEventKind.OPENED]
    again.clear_pending()
    assert again.pending_events == ()
    again.close()
