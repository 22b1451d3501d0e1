"""The database: one writer, atomic changes, and broken files."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest

from rightsizer.io.database import Database
from rightsizer.model.errors import HistoryError

MIGRATIONS: Final = (
    "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)",
    "ALTER TABLE note ADD COLUMN author TEXT; UPDATE note SET author = 'nobody'",
    "CREATE INDEX note_by_author ON note (author)",
)

ENDLESS_WRITER: Final = """
import sys
from pathlib import Path
from rightsizer.io.database import Database

schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, pair INTEGER)"
database = Database(Path(sys.argv[1]), (schema,))
number = 0
while True:
    with database.transaction() as connection:
        connection.execute("INSERT INTO note (pair) VALUES (?)", (number,))
        connection.execute("INSERT INTO note (pair) VALUES (?)", (number,))
    print(number, flush=True)
    number += 1
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Path of the database; its folder does not exist yet."""
    return tmp_path / "state" / "history.db"


@pytest.fixture
def foreign() -> Iterator[Path]:
    """A folder that all may read and one may write."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "history.db"
        Path(folder).chmod(0o755)


@contextmanager
def nobody() -> Iterator[None]:
    """Act as a user without rights."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def write(database: Database, text: str) -> None:
    """Add a note."""
    with database.transaction() as connection:
        connection.execute("INSERT INTO note (text) VALUES (?)", (text,))


def write_twice(database: Database, second: Callable[[], object]) -> None:
    """Add two notes in one change, the second one nested."""
    with database.transaction() as connection:
        connection.execute("INSERT INTO note (text) VALUES ('lost')")
        connection.execute("INSERT INTO note (text) VALUES (?)", (second(),))


def notes(database: Database) -> list[str]:
    """Texts of all notes."""
    with database.transaction() as connection:
        return [text for (text,) in connection.execute("SELECT text FROM note ORDER BY id")]


def test_written_rows_are_there_after_reopening(path: Path) -> None:
    """Folders are created, and a second opening finds the rows of the first."""
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "first")
        assert database.set_aside is None
        assert database.size_bytes > 0
    with closing(Database(path, MIGRATIONS)) as database:
        assert notes(database) == ["first"]


def test_change_is_made_whole_or_not_at_all(path: Path) -> None:
    """Any error within a change undoes all of it."""
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "kept")
        with pytest.raises(ZeroDivisionError):
            write_twice(database, lambda: 1 / 0)
        with pytest.raises(HistoryError, match="NOT NULL"):
            write_twice(database, lambda: None)
        assert notes(database) == ["kept"]


def test_threads_take_turns(path: Path) -> None:
    """One connection serves them all; no change is torn or lost."""
    with closing(Database(path, MIGRATIONS)) as database:
        threads = [
            threading.Thread(target=lambda: [write(database, "x") for _ in range(20)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(notes(database)) == 80


def test_second_writer_is_refused_and_told_who_writes(path: Path) -> None:
    """The error names the process and both remedies; afterward the path is free."""
    with (
        closing(Database(path, MIGRATIONS)),
        pytest.raises(HistoryError, match=f"being written by process {os.getpid()}; stop"),
    ):
        Database(path, MIGRATIONS)
    Database(path, MIGRATIONS).close()


@pytest.mark.parametrize("version", range(len(MIGRATIONS) + 1))
def test_every_older_schema_is_migrated(path: Path, version: int) -> None:
    """A file of any earlier version is migrated with its data."""
    with closing(Database(path, MIGRATIONS[:version])) as database:
        if version:
            write(database, "old")
    with closing(Database(path, MIGRATIONS)) as database, database.transaction() as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        authors = [author for (author,) in connection.execute("SELECT author FROM note")]
        assert len(authors) == (1 if version else 0)
        # Notes from before the second schema get an author.
        assert authors == (["nobody"] if version == 1 else [None] * len(authors))


def test_migration_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    """A half-migrated file would be worse than an old one."""
    with closing(Database(path, MIGRATIONS[:1])) as database:
        write(database, "old")
    broken = (MIGRATIONS[0], "ALTER TABLE note ADD COLUMN a; SELECT * FROM nothing_of_that_name")
    with pytest.raises(HistoryError, match="nothing_of_that_name"):
        Database(path, broken)
    with closing(Database(path, MIGRATIONS)) as database:
        assert notes(database) == ["old"]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_database_of_another_program_is_refused(
    path: Path, version: int, *, read_only: bool
) -> None:
    """It gets no tables and is not set aside; its own version means nothing here."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as other:
        other.executescript(f"CREATE TABLE invoice (id); PRAGMA user_version = {version}")
    with pytest.raises(HistoryError, match=r"database of another program.*; set history\.path"):
        Database(path, MIGRATIONS[:2], read_only=read_only)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("invoice",)]
    assert not list(path.parent.glob("*.corrupt-*"))


@pytest.mark.parametrize("read_only", [False, True])
def test_newer_schema_is_refused(path: Path, read_only: bool) -> None:  # noqa: FBT001 - a case.
    """An older program neither changes nor misreads a newer file."""
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "newer")
    with pytest.raises(HistoryError, match=r"has schema 3, this program knows up to 2; upgrade"):
        Database(path, MIGRATIONS[:2], read_only=read_only)
    with closing(Database(path, MIGRATIONS)) as database:
        assert notes(database) == ["newer"]


@pytest.mark.parametrize(
    "content", [b"this is no database at all" * 100, b"SQLite format 3\0" * 99]
)
def test_file_that_is_no_database_is_set_aside(path: Path, content: bytes) -> None:
    """It is kept under another name, and a new one is created."""
    path.parent.mkdir()
    path.write_bytes(content)
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "new")
        assert database.set_aside is not None
        assert database.set_aside.read_bytes() == content
        assert notes(database) == ["new"]


def test_database_with_broken_pages_is_set_aside(path: Path) -> None:
    """Damage in the middle is found on opening, not a week later."""
    with closing(Database(path, MIGRATIONS, is_durable=False)) as database:
        for number in range(2000):
            write(database, f"note {number}" * 5)
    content = bytearray(path.read_bytes())
    content[8192:16384] = os.urandom(8192)
    path.write_bytes(content)
    with closing(Database(path, MIGRATIONS)) as database:
        assert database.set_aside is not None
        assert notes(database) == []
        write(database, "goes on")
    with closing(Database(path, MIGRATIONS)) as database:
        assert notes(database) == ["goes on"]


def test_place_that_cannot_be_written_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """Covers a file in place of a folder, and a folder in place of the file."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.db").mkdir()
    for place in (tmp_path / "file" / "history.db", tmp_path / "folder.db"):
        with pytest.raises(HistoryError, match=r"cannot be written: .*set history\.path"):
            Database(place, MIGRATIONS)


def test_folder_of_another_user_is_refused_with_the_remedy(foreign: Path) -> None:
    """The error says that the daemon may not write there."""
    with nobody(), pytest.raises(HistoryError, match="make the folder writable for this user"):
        Database(foreign, MIGRATIONS)


def test_reader_may_read_where_it_may_not_write(foreign: Path) -> None:
    """A report needs no write permission, whether the agent runs or has stopped."""
    with closing(Database(foreign, MIGRATIONS)) as writer:
        write(writer, "seen")
        for file in foreign.parent.iterdir():
            file.chmod(0o644)
        with nobody(), closing(Database(foreign, MIGRATIONS, read_only=True)) as reader:
            assert notes(reader) == ["seen"]
    with nobody(), closing(Database(foreign, MIGRATIONS, read_only=True)) as reader:
        assert notes(reader) == ["seen"]


def test_reader_without_permission_gets_a_clear_error(foreign: Path) -> None:
    """Unreadable files and folders give an error, not a traceback."""
    with closing(Database(foreign, MIGRATIONS)) as writer:
        write(writer, "secret")
    for closed in (foreign, foreign.parent):
        closed.chmod(0)
        with nobody(), pytest.raises(HistoryError, match=r"cannot be read: .*; run this as a user"):
            Database(foreign, MIGRATIONS, read_only=True)


def test_reader_looks_beside_a_writer(path: Path) -> None:
    """A report can be made while the agent runs, and changes nothing."""
    with closing(Database(path, MIGRATIONS)) as writer:
        write(writer, "seen")
        with closing(Database(path, MIGRATIONS, read_only=True)) as reader:
            assert notes(reader) == ["seen"]
            with pytest.raises(HistoryError, match="readonly"):
                write(reader, "never")
        write(writer, "after")
        assert notes(writer) == ["seen", "after"]


def test_reader_needs_something_to_read(path: Path) -> None:
    """Reading creates no file, and leaves a file that is no database."""
    with pytest.raises(HistoryError, match="does not exist; run the agent first"):
        Database(path, MIGRATIONS, read_only=True)
    assert not path.parent.exists()
    path.parent.mkdir()
    path.write_bytes(b"no database" * 100)
    with pytest.raises(HistoryError, match="cannot be read: file is not a database"):
        Database(path, MIGRATIONS, read_only=True)
    assert [file.name for file in path.parent.iterdir()] == ["history.db"]


def test_killed_writer_loses_nothing_that_was_committed(path: Path) -> None:
    """After kill -9 during a write every confirmed change is there, and none in part."""
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS_WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        written = [int(writer.stdout.readline()) for _ in range(50)][-1]
        writer.send_signal(signal.SIGKILL)
        written = max(
            [written, *(int(line) for line in writer.stdout.read().split("\n")[:-1] if line)]
        )
    with closing(Database(path, ("",))) as database, database.transaction() as connection:
        pairs = [pair for (pair,) in connection.execute("SELECT pair FROM note ORDER BY id")]
    whole = len(pairs) // 2
    assert pairs == [number for number in range(whole) for _ in range(2)]
    assert whole in (written + 1, written + 2)


def test_log_is_folded_into_the_file_on_closing(path: Path) -> None:
    """After the agent has stopped, a copy of the one file is a complete backup."""
    with closing(Database(path, MIGRATIONS)) as database:
        write(database, "kept")
    assert not Path(f"{path}-wal").exists()
    copy = sqlite3.connect(path)
    assert copy.execute("SELECT text FROM note").fetchall() == [("kept",)]
    copy.close()
