"""Databases whose files break while open, and disks that lose power."""

import errno
import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightsizer.io import database as database_module
from rightsizer.io.database import Database
from rightsizer.model.errors import HistoryError
from spoiled_database import spoil

MIGRATIONS: Final = ("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)",)
FULL: Final = 2
"""SQLite's name of a commit that waits for the disk."""


def write(database: Database, text: str) -> None:
    """Add a note."""
    with database.transaction() as connection:
        connection.execute("INSERT INTO note (text) VALUES (?)", (text,))


def write_many(database: Database, count: int) -> None:
    """Add notes in one change."""
    with database.transaction() as connection:
        rows = [(f"note {number}" * 5,) for number in range(count)]
        connection.executemany("INSERT INTO note (text) VALUES (?)", rows)


def notes(database: Database) -> list[str]:
    """Texts of all notes."""
    with database.transaction() as connection:
        return [text for (text,) in connection.execute("SELECT text FROM note ORDER BY id")]


def asides(path: Path) -> list[Path]:
    """Broken files that were kept."""
    return sorted(
        file for file in path.parent.glob(f"{path.name}.corrupt-*") if file.suffix != ".lock"
    )


def fail(database: Database, code: int) -> None:
    """Let a change fail by one of SQLite's codes."""
    error = sqlite3.DatabaseError("as SQLite says")
    error.sqlite_errorcode = code
    with pytest.raises(HistoryError, match="as SQLite says"), database.transaction():
        raise error


def test_a_sound_file_on_a_failing_disk_is_not_set_aside(tmp_path: Path) -> None:
    """After errors of the disk, SQLite takes pages for corrupt that are not."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "kept")
        fail(database, sqlite3.SQLITE_IOERR_READ)
        fail(database, sqlite3.SQLITE_CORRUPT)
        assert (notes(database), asides(path)) == (["kept"], [])
        fail(database, sqlite3.SQLITE_CORRUPT)
        assert len(asides(path)) == 1


def test_a_file_that_breaks_while_it_is_open_is_set_aside(tmp_path: Path) -> None:
    """The failing change reports the new name; the next one is made in a new file."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        write_many(database, 500)
        spoil(path)
        spoiled = path.read_bytes()
        with pytest.raises(HistoryError, match=r"moved to '.*\.corrupt-\d+' and a new one begun"):
            write(database, "lost")
        assert database.breaks == 1
        assert database.set_aside is not None
        assert database.set_aside.read_bytes() == spoiled
        write(database, "goes on")
        assert notes(database) == ["goes on"]
    with closing(Database(path, MIGRATIONS)) as database:
        assert (notes(database), database.breaks) == (["goes on"], 0)


def test_reading_meets_a_break_too(tmp_path: Path) -> None:
    """The first to detect the damage sets the file aside."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "first")
        spoil(path)
        with pytest.raises(HistoryError, match="a new one begun"):
            notes(database)
        assert notes(database) == []


def test_a_reader_sets_nothing_aside(tmp_path: Path) -> None:
    """Only the writer may move a file."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "first")
    with closing(Database(path, MIGRATIONS, read_only=True)) as reader:
        spoil(path)
        with pytest.raises(HistoryError):
            notes(reader)
    assert asides(path) == []


def test_a_disk_that_breaks_every_file_does_not_fill_up(tmp_path: Path) -> None:
    """The last three broken files are kept."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        for number in range(5):
            write(database, f"life {number}")
            spoil(path)
            with pytest.raises(HistoryError):
                notes(database)
        assert (database.breaks, len(asides(path))) == (5, 3)
        assert database.set_aside in asides(path)


def test_creation_of_a_new_file_is_retried(tmp_path: Path) -> None:
    """An unusable path costs only the time that it is unusable."""
    path = tmp_path / "state" / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "first")
        path.parent.rename(tmp_path / "away")
        path.parent.write_text("in the way")
        with pytest.raises(HistoryError, match="a new one cannot be begun"):
            write(database, "lost")
        with pytest.raises(HistoryError, match=r"Not a directory|File exists"):
            write(database, "lost")
        path.parent.unlink()
        write(database, "goes on")
        assert notes(database) == ["goes on"]
        with pytest.raises(HistoryError, match="being written by process"):
            Database(path, MIGRATIONS)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ESTALE])
def test_file_system_without_locks_is_waited_for_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """NFS whose lock service is away: what is there is read, and written once it is back."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "before")

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as kernel:
        kernel.setattr(fcntl, "flock", refuse)
        with pytest.raises(HistoryError, match=r"no working locks .* set history\.path"):
            Database(path, MIGRATIONS)
        waiting = Database(path, MIGRATIONS, waits_for_disk=True)
        assert notes(waiting) == ["before"]
        assert waiting.disk_trouble == os.strerror(code).lower()
        assert "start rpc.statd" in waiting.disk_remedy
        with pytest.raises(HistoryError, match=waiting.disk_trouble):
            write(waiting, "too early")
    with closing(waiting):
        write(waiting, "after")
        assert notes(waiting) == ["before", "after"]


_HOLDER: Final = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA locking_mode = EXCLUSIVE")
connection.execute("INSERT INTO note (text) VALUES ('of the holder')")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def locks_taken(path: Path) -> Iterator[None]:
    """A process that keeps all of SQLite's locks, as a lock service without its table does."""
    command = [sys.executable, "-c", _HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            holder.kill()


@pytest.mark.parametrize("is_killed", [False, True])
def test_file_whose_locks_stay_taken_is_read_and_waited_for(
    tmp_path: Path, *, is_killed: bool
) -> None:
    """Where an agent was killed, its log is read, too; what could not be locked is not changed."""
    path = tmp_path / "history.db"
    source = tmp_path / "source" / "history.db"
    with closing(Database(source, MIGRATIONS)) as database:
        write(database, "before")
        if is_killed:
            for file in source.parent.glob("history.db*"):
                shutil.copy(file, tmp_path)
    if not is_killed:
        shutil.copy(source, path)
    with locks_taken(path):
        with pytest.raises(HistoryError, match=r"`fuser .*history\.db'`.* set history\.path"):
            Database(path, MIGRATIONS)
        waiting = Database(path, MIGRATIONS, waits_for_disk=True)
        assert notes(waiting) == ["before"]
        assert waiting.disk_trouble == "database is locked"
        with pytest.raises(HistoryError, match=waiting.disk_trouble):
            write(waiting, "too early")
    with closing(waiting):
        write(waiting, "after")
        assert notes(waiting) == ["before", "after"]


def test_a_file_that_a_failing_disk_cannot_read_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows would be replaced by those of a process that never saw them."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "before")

    def failing(*_: object, **__: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    with monkeypatch.context() as disk:
        disk.setattr(Database, "_connect", failing)
        for name in ("_connect_read_only", "_connect_without_locks"):
            disk.setattr(database_module, name, failing)
        waiting = Database(path, MIGRATIONS, waits_for_disk=True)
    with closing(waiting):
        assert notes(waiting) == []
        with pytest.raises(HistoryError, match=r"disk i/o error; .* until a restart"):
            write(waiting, "lost")
    with closing(Database(path, MIGRATIONS)) as database:
        assert notes(database) == ["before"]


def other_database(path: Path) -> Path:
    """A valid database of the same program, in another place."""
    made = path.with_name("backup.db")
    with closing(Database(made, MIGRATIONS)) as database:
        write_many(database, 200)
    return made


def replaced(path: Path) -> None:
    """Move another file into its place."""
    other_database(path).rename(path)


def overwritten(path: Path) -> None:
    """Copy another file over it, as `cp` does."""
    path.write_bytes(other_database(path).read_bytes())


def cleared(path: Path) -> None:
    """Delete everything in its folder."""
    for file in path.parent.iterdir():
        file.unlink()


LOSSES: Final = {
    "deleted": Path.unlink,
    "moved away": lambda path: path.rename(path.with_name("elsewhere.db")),
    "folder cleared": cleared,
    "folder deleted": lambda path: shutil.rmtree(path.parent),
    "log deleted": lambda path: Path(f"{path}-wal").unlink(),
    "replaced": replaced,
    "overwritten": overwritten,
    "garbage": lambda path: path.write_bytes(b"no database" * 500),
    "emptied": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("how", LOSSES)
def test_a_file_that_is_lost_while_it_is_open_is_noticed(tmp_path: Path, how: str) -> None:
    """The next change reports it, and those after it exist at the next start."""
    path = tmp_path / "state" / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "first")
        LOSSES[how](path)
        with pytest.raises(HistoryError, match=r"while it was open; .*a new one begun"):
            write(database, "lost")
        assert (database.breaks, notes(database)) == (1, [])
        assert "while it was open" in database.break_reason
        write(database, "goes on")
        with pytest.raises(HistoryError, match="being written by process"):
            Database(path, MIGRATIONS)
    with closing(Database(path, MIGRATIONS)) as database:
        assert notes(database) == ["goes on"]


@pytest.mark.parametrize("how", ["replaced", "overwritten"])
def test_a_file_in_its_place_is_set_aside_as_it_is(tmp_path: Path, how: str) -> None:
    """It may be a backup to be restored; a deleted file leaves nothing aside."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "first")
        LOSSES[how](path)
        put_there = path.read_bytes()
        with pytest.raises(HistoryError, match=r"moved to '.*\.corrupt-\d+' and a new one begun"):
            notes(database)
        assert database.set_aside is not None
        assert database.set_aside.read_bytes() == put_there
        path.unlink()
        with pytest.raises(HistoryError, match="it was deleted"):
            notes(database)
        assert database.set_aside is None
        # Our log would corrupt it when it is opened.
        assert len(asides(path)) == 1


def test_other_programs_may_read_and_fold_the_log_in(tmp_path: Path) -> None:
    """Using `sqlite3` on a database that is open elsewhere loses nothing."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        for step in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "SELECT * FROM note"):
            write_many(database, 50)
            other = sqlite3.connect(path)
            other.execute(step).fetchall()
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            other.close()
            os.utime(path)
        assert len(notes(database)) == 150
        assert database.breaks == 0


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_created_files_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    """The umask does not matter: the file has users' work. A systemd unit states its readers."""
    former = os.umask(umask)
    try:
        for state, folder_mode, file_mode in (("", 0o700, 0o600), ("/state", 0o750, 0o640)):
            monkeypatch.setenv("STATE_DIRECTORY", state)
            path = tmp_path / f"of{state.replace('/', '-')}" / "history.db"
            with closing(Database(path, MIGRATIONS)) as database:
                write(database, "kept")
                modes = {file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
            assert path.parent.stat().st_mode & 0o777 == folder_mode & ~umask
            assert modes == {file_mode & ~umask}
    finally:
        os.umask(former)


def test_a_broken_file_that_cannot_be_moved_away_is_reported_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer can keep its data until the path is repaired."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "first")
        spoil(path)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", _refuse)
            for _ in range(2):
                with pytest.raises(HistoryError, match="Read-only"):
                    write(database, "lost")
        write(database, "goes on")
        assert notes(database) == ["goes on"]


def _refuse(*_: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize("is_read_only", [False, True], ids=["writer", "reader"])
def test_closed_database_stays_closed(tmp_path: Path, is_read_only: bool) -> None:  # noqa: FBT001
    """A late call gets an error; closing twice is allowed."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "kept")
    late = Database(path, MIGRATIONS, read_only=is_read_only)
    late.close()
    late.close()
    with pytest.raises(HistoryError, match="it is closed"):
        notes(late)


@settings(max_examples=30)
@given(part=st.floats(0.0, 1.0), garbage=st.binary(max_size=64))
def test_a_log_that_is_torn_loses_its_tail_only(
    tmp_path_factory: pytest.TempPathFactory, part: float, garbage: bytes
) -> None:
    """After a power loss the file opens with the first changes, each of them complete."""
    folder = tmp_path_factory.mktemp("torn")
    path = folder / "history.db"
    torn = folder / "torn.db"
    with closing(Database(path, MIGRATIONS, is_durable=False)) as database:
        for number in range(30):
            with database.transaction() as connection:
                pair = [(f"{number}",), (f"{number}",)]
                connection.executemany("INSERT INTO note (text) VALUES (?)", pair)
        shutil.copy(path, torn)
        log = Path(f"{path}-wal").read_bytes()
    Path(f"{torn}-wal").write_bytes(log[: round(part * len(log))] + garbage)
    with closing(Database(torn, MIGRATIONS, is_durable=False)) as database:
        found = notes(database)
        write(database, "goes on")
        assert database.set_aside is None
    whole = len(found) // 2
    assert found == [f"{number}" for number in range(whole) for _ in range(2)]
    assert whole == 30 or part < 1.0


def test_a_change_is_on_the_disk_itself_when_it_is_made(tmp_path: Path) -> None:
    """Durability is optional: a log without synchronization is much faster."""
    for is_durable, level in ((True, FULL), (False, FULL - 1)):
        with (
            closing(
                Database(tmp_path / f"{level}.db", MIGRATIONS, is_durable=is_durable)
            ) as database,
            database.transaction() as connection,
        ):
            assert connection.execute("PRAGMA synchronous").fetchone() == (level,)


def test_a_file_in_which_nothing_was_written_is_taken_away(tmp_path: Path) -> None:
    """A failed start leaves no file; an existing file stays."""
    path = tmp_path / "history.db"
    Database(path, MIGRATIONS).close()
    assert list(tmp_path.iterdir()) == []
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "kept")
    Database(path, MIGRATIONS).close()
    with closing(Database(path, MIGRATIONS)) as database:
        assert notes(database) == ["kept"]


def test_two_writers_never_meet_while_files_come_and_go(tmp_path: Path) -> None:
    """A removed lock file belongs to no process."""
    path = tmp_path / "history.db"
    inside = 0
    met = 0
    opened = 0
    counting = threading.Lock()

    def open_and_close() -> None:
        nonlocal inside, met, opened
        for _ in range(40):
            try:
                database = Database(path, MIGRATIONS, is_durable=False)
            except HistoryError:
                continue
            with counting:
                inside = inside + 1
                opened = opened + 1
                met += inside > 1
            with counting:
                inside -= 1
            database.close()

    threads = [threading.Thread(target=open_and_close) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened
    assert not met


def test_the_size_is_reported_without_asking_the_disk(tmp_path: Path) -> None:
    """It is exported every second, and a disk may be slow."""
    path = tmp_path / "state" / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        before = database.size_bytes
        write_many(database, 500)
        size = database.size_bytes
        files = sum(file.stat().st_size for file in (path, Path(f"{path}-wal")))
        path.parent.rename(tmp_path / "away")
        assert before < size == files == database.size_bytes
        (tmp_path / "away").rename(path.parent)


def test_a_reader_of_an_older_schema_sees_it_as_it_is_now(tmp_path: Path) -> None:
    """It is migrated in memory; the file stays readable for the older program."""
    path = tmp_path / "history.db"
    newer = (*MIGRATIONS, "ALTER TABLE note ADD COLUMN author TEXT DEFAULT 'nobody'")
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "old")
    before = path.read_bytes()
    with closing(Database(path, newer, read_only=True)) as reader:
        with reader.transaction() as connection:
            assert connection.execute("SELECT text, author FROM note").fetchall() == [
                ("old", "nobody")
            ]
        with pytest.raises(HistoryError, match="readonly"):
            write(reader, "never")
    assert path.read_bytes() == before
    with closing(Database(path, MIGRATIONS)) as database:
        assert notes(database) == ["old"]


def test_a_reader_of_an_older_schema_passes_over_a_damaged_text(tmp_path: Path) -> None:
    """So does a reader of the latest schema: the text's parser handles the damage."""
    path = tmp_path / "history.db"
    newer = (*MIGRATIONS, "ALTER TABLE note ADD COLUMN author TEXT DEFAULT 'nobody'")
    with closing(Database(path, MIGRATIONS)) as database, database.transaction() as connection:
        connection.execute("INSERT INTO note (text) VALUES (CAST(x'41ff42' AS TEXT)), ('sound')")
    for migrations in (MIGRATIONS, newer):
        with closing(Database(path, migrations, read_only=True)) as reader:
            assert notes(reader) == ["A\ufffdB", "sound"]
