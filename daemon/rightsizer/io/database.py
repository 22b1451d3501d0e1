"""SQLite database with a single writer, safe against kills, power loss and corrupt files."""

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rightsizer.io.connected_file import BESIDE, ConnectedFile, LostDatabase, UnsoundDatabase
from rightsizer.io.disk_errors import (
    DATABASE_ERRORS,
    disk_remedy_of,
    is_broken,
    is_of_disk,
    reason_of,
)
from rightsizer.io.files import (
    HISTORY,
    Called,
    Ownership,
    is_there,
    private_file,
    private_folder,
)
from rightsizer.io.schema import is_foreign
from rightsizer.model.errors import HistoryError

_KEPT_ASIDE: Final = 3
"""Corrupt files to keep; bounded, since a failing disk may produce many."""
_LOG_BYTES: Final = 4 * 2**20
"""Size to which the log is truncated after a checkpoint."""
_BUSY_SECONDS: Final = 5.0
"""Maximum wait for a lock of another process."""
SLOW_SECONDS: Final = 5.0
"""Time for a change from which the disk is slow. Source: a hundred times a sync of a slow disk."""


def text_of(raw: bytes) -> str:
    """Decode a text column; leave invalid UTF-8 to its parser."""
    return raw.decode(errors="replace")


class Database:
    """Open database file. One connection, for any thread within `transaction()`."""

    def __init__(  # noqa: PLR0913 - how a file may be opened.
        self,
        path: Path | None,
        migrations: Sequence[str],
        *,
        read_only: bool = False,
        is_durable: bool = True,
        waits_for_disk: bool = False,
        called: Called = HISTORY,
    ) -> None:
        """Open, check and migrate the file; create it if missing.

        Creates the directory; without a path the database is in memory. Migration n is the SQL from
        version n-1 to n. `read_only` takes no lock, creates no file, and migrates an old one in
        memory. `is_durable` syncs every change to disk; without it, a power loss may revert the
        latest ones, though never partially. With `waits_for_disk`, a file on a full or failing
        disk is only read, until it can be opened for writing.

        Raises:
            HistoryError: the file is locked by another process, of a newer version, or cannot be
                read or written.
        """
        self.is_kept = path is not None
        """Whether changes outlast the process."""
        self.path = path or Path()
        self._called = called
        self._migrations = migrations
        self._is_durable = is_durable
        self._name = f"{called.what} '{path}'" if path else f"{called.what} in memory"
        self.set_aside: Path | None = None
        """Path that the last corrupt file was moved to."""
        self.breaks = 0
        """Number of corrupt or lost files."""
        self.break_reason = ""
        """Why the last of them was abandoned."""
        self.disk_trouble: str | None = None
        """Why the file is only read, or `None`."""
        self.disk_remedy = ""
        """What an operator can do about it."""
        self._is_unread = False
        self._has_disk_failed = False  # By the last change: sound pages may then look corrupt.
        self.slow_writes = 0
        """Number of changes for which the disk took seconds; the last took `last_slow_seconds`."""
        self.last_slow_seconds = 0.0
        self._write_began: float | None = None
        self.size_bytes = 0
        """Size of file and log after the last change, without a system call."""
        self._lock = threading.RLock()
        self._owner: Ownership | None = None
        self._connection: sqlite3.Connection | None = None
        self._file: ConnectedFile | None = None
        self._unused_changes: int | None = None
        """Change count of a file created here, before its first row; `None` for other files."""
        self._begin(is_in_memory=path is None, read_only=read_only, waits_for_disk=waits_for_disk)
        self._measure()

    def _begin(self, *, is_in_memory: bool, read_only: bool, waits_for_disk: bool) -> None:
        if is_in_memory:
            self._connection = self._open_in_memory()
            # It has no file to release, so it may end with its object, without `close`.
            weakref.finalize(self, self._connection.close)
        elif read_only:
            self._connection = self._open_read_only()
        else:
            self._connection = self._open_owned(waits_for_disk=waits_for_disk)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Provide the connection for one atomic change.

        Raises:
            HistoryError: the disk is full, or the file was corrupt and replaced.
        """
        with self._lock:
            try:
                connection = self._opened()
                with connection:
                    yield connection
                    self._write_began = time.monotonic()
            except DATABASE_ERRORS as error:
                raise HistoryError(f"{self._name}: {self._verdict(error)}") from None
            else:
                self._has_disk_failed = False
                if self._file is not None:
                    self._file.note_header()
            finally:
                self._note_write()
                self._measure()

    @property
    def write_seconds(self) -> float:
        """How long the disk has been at the change under way; 0 where there is none."""
        # Without the lock, which that change holds.
        began = self._write_began
        return 0.0 if began is None else time.monotonic() - began

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query, in a transaction."""
        with self.transaction() as connection:
            return connection.execute(query, parameters).fetchall()

    def stream(self, query: str, parameters: Sequence[Any] = ()) -> Iterator[Any]:
        """Yield the rows of a query one by one, in a transaction."""
        with self.transaction() as connection:
            yield from connection.execute(query, parameters)

    def close(self) -> None:
        """Checkpoint the log and release the file.

        Deletes a file that was created here and is still empty.
        """
        with self._lock:
            if self._connection is None:
                return
            is_unused = self._unused_changes == self._connection.total_changes
            self._disconnect()
            if self._owner is None:
                return
            if is_unused:
                self.path.unlink(missing_ok=True)
            self._owner.release(remove=is_unused)
            self._owner = None

    def _open_owned(self, *, waits_for_disk: bool) -> sqlite3.Connection:
        try:
            return self._open()
        except (OSError, *DATABASE_ERRORS) as error:
            self._release()
            reason = reason_of(error)
            if waits_for_disk and is_of_disk(error):
                self._note_disk(error)
                return self._open_unwritten()
            remedy = (
                disk_remedy_of(error, self.path, self._called.setting)
                if is_of_disk(error)
                else f"make the folder writable for this user or set {self._called.setting}"
            )
            raise HistoryError(f"{self._name} cannot be written: {reason}; {remedy}") from None
        except HistoryError:
            self._release()
            raise

    def _note_disk(self, error: Exception) -> None:
        self.disk_trouble = reason_of(error)
        self.disk_remedy = disk_remedy_of(error, self.path, self._called.setting)

    def _open_unwritten(self) -> sqlite3.Connection:
        """Open what is in the file until it can be written.

        One that cannot be read, either, is left as it is: changes would replace what is in it.
        """
        if is_there(self.path) and self.path.stat().st_size:
            with contextlib.suppress(HistoryError):
                connection = self._open_read_only(busy_seconds=0.0)
                # Where the log's index is only read, no other connection could write it, either.
                return (
                    connection if os.access(self.path, os.W_OK) else self._migrated_copy(connection)
                )
            with contextlib.suppress(*DATABASE_ERRORS):
                return self._migrated_copy(_connect_without_locks(self.path))
            self._is_unread = True
            self.disk_trouble = f"{self.disk_trouble}; it cannot be read, either, until a restart"
        empty = self._open_in_memory()
        empty.execute("PRAGMA query_only = ON")
        return empty

    def _open_in_memory(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        self._migrate(connection)
        return connection

    def _open_again(self) -> None:
        """Open the file for writing if its disk allows it by now."""
        if self._is_unread:
            return
        before = self._connection
        try:
            self._connection = self._open(busy_seconds=0.0)
        except (OSError, HistoryError, *DATABASE_ERRORS) as error:
            self._note_disk(error)
        else:
            self.disk_trouble = None
            if before is not None:
                before.close()

    def _release(self) -> None:
        if self._owner is not None:
            self._owner.release()
            self._owner = None

    def _open(self, busy_seconds: float = _BUSY_SECONDS) -> sqlite3.Connection:
        private_folder(self.path.parent)
        self._own()
        is_new = not self.path.exists()
        try:
            connection = self._connect(busy_seconds)
        except DATABASE_ERRORS as error:
            # SQLITE_ERROR while opening also means a corrupt file, since only fixed statements run.
            is_refused = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR
            if not (is_refused or is_broken(error)):
                raise
            self._put_aside(str(error))
            connection = self._connect(busy_seconds)
            is_new = True
        with _closed_on_error(connection):
            self._migrate(connection)
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000:.0f}")
            self._file = ConnectedFile(self.path)
        self._unused_changes = connection.total_changes if is_new else None
        return connection

    def _own(self) -> None:
        """Take the write lock, again if it was deleted together with the file."""
        if self._owner is None or not self._owner.holds:
            former = self._owner
            self._owner = Ownership(self.path, self._called)
            if former is not None:
                former.release()

    def _disconnect(self) -> None:
        connection = self._connection
        self._connection = None
        file = self._file
        self._file = None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        if file is not None:
            file.close()

    def _opened(self) -> sqlite3.Connection:
        """Connection, reopened if replacing the last corrupt file had failed, or if it waits."""
        if self.disk_trouble is not None:
            self._open_again()
        if self._connection is None:
            if self._owner is None:
                raise sqlite3.ProgrammingError("it is closed")
            try:
                self._connection = self._open()
            except OSError as error:  # The corrupt file cannot be moved away.
                raise HistoryError(f"{self._name}: {error}") from None
        elif self._file is not None:
            self._file.check(self._connection)
        return self._connection

    def _verdict(self, error: Exception) -> str:
        """Describe an error; moves a corrupt file aside and starts a new one."""
        if self.disk_trouble is not None:
            return self.disk_trouble
        self._has_disk_failed |= is_of_disk(error)
        if self._owner is None or self._connection is None or not is_broken(error):
            return str(error)
        breaks = self.breaks
        try:
            if isinstance(error, LostDatabase) and self._file is not None:
                # Drop the log before closing, since SQLite skips the checkpoint of a moved file.
                self._file.drop_log()
            else:
                self._disconnect()
            if isinstance(error, LostDatabase) or not self._has_disk_failed:
                self._put_aside(str(error))
            self._disconnect()
            self._connection = self._open()
        except (OSError, HistoryError, *DATABASE_ERRORS) as trouble:
            self._disconnect()
            return f"{error}; a new one cannot be begun: {trouble}"
        if self.breaks == breaks:
            return f"{error}; it is sound, and was opened again"
        moved = f"it was moved to '{self.set_aside}' and " if self.set_aside else ""
        return f"{error}; {moved}a new one begun"

    def _put_aside(self, reason: str) -> None:
        aside = Path(f"{self.path}.corrupt-{time.time_ns()}")
        is_there = _moved(self.path, aside)
        for suffix in BESIDE:
            beside = Path(f"{self.path}{suffix}")
            if is_there:
                _moved(beside, Path(f"{aside}{suffix}"))
            else:
                # The log of a lost file would be applied to the next one.
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    beside.unlink()
        self.set_aside = aside if is_there else None
        self.break_reason = reason
        self.breaks += 1
        files = self.path.parent.glob(f"{self.path.name}.corrupt-*")
        kept = [file for file in files if not file.name.endswith(BESIDE)]
        for file in sorted(kept, key=lambda file: file.name)[:-_KEPT_ASIDE]:
            for suffix in ("", *BESIDE):
                Path(f"{file}{suffix}").unlink(missing_ok=True)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        version = self._version(connection)
        for number, script in enumerate(self._migrations[version:], start=version + 1):
            connection.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;")

    def _version(self, connection: sqlite3.Connection) -> int:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(self._migrations):
            raise HistoryError(
                f"{self._name} has schema {version}, this program knows up to "
                f"{len(self._migrations)}; upgrade rightsizer or set {self._called.setting} to "
                "another file"
            )
        if is_foreign(connection, self._migrations[:version]):
            raise HistoryError(
                f"{self._name} is the database of another program, or lacks tables; set "
                f"{self._called.setting} to another file, or restore this one"
            )
        return int(version)

    def _connect(self, busy_seconds: float) -> sqlite3.Connection:
        private_file(self.path)
        connection = sqlite3.connect(self.path, check_same_thread=False, timeout=busy_seconds)
        connection.text_factory = text_of
        with _closed_on_error(connection):
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._is_durable else 'NORMAL'}")
            connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
            connection.execute("PRAGMA cache_size = -512")
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise UnsoundDatabase(verdict)
        return connection

    def _open_read_only(self, busy_seconds: float = _BUSY_SECONDS) -> sqlite3.Connection:
        try:
            if not is_there(self.path):
                raise HistoryError(
                    f"{self._name} does not exist; run the {self._called.writer} first, or name "
                    "another file"
                )
            connection = _connect_read_only(self.path, busy_seconds)
            with _closed_on_error(connection):
                if self._version(connection) == len(self._migrations):
                    return connection
                return self._migrated_copy(connection)
        except (OSError, *DATABASE_ERRORS) as error:
            is_other = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB
            remedy = "" if is_other else "run this as a user who may read it, or "
            raise HistoryError(
                f"{self._name} cannot be read: {error}; {remedy}name another file"
            ) from None

    def _migrated_copy(self, old: sqlite3.Connection) -> sqlite3.Connection:
        """Copy of an older version's database, migrated in memory."""
        copy = sqlite3.connect(":memory:", check_same_thread=False)
        copy.text_factory = text_of
        with _closed_on_error(copy):
            old.backup(copy)
            old.close()
            self._migrate(copy)
            copy.execute("PRAGMA query_only = ON")
        return copy

    def _note_write(self) -> None:
        seconds = self.write_seconds
        self._write_began = None
        if seconds > SLOW_SECONDS:
            self.slow_writes += 1
            self.last_slow_seconds = seconds

    def _measure(self) -> None:
        if not self.is_kept:
            return
        files = (self.path, Path(f"{self.path}-wal"))
        with contextlib.suppress(OSError):
            self.size_bytes = sum(file.stat().st_size for file in files if file.exists())


def _moved(path: Path, target: Path) -> bool:
    try:
        path.rename(target)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _connect_read_only(path: Path, busy_seconds: float) -> sqlite3.Connection:
    try:
        return _connect_in_mode(path, "mode=ro", busy_seconds)
    except sqlite3.OperationalError:
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            raise
        # Reading the index of a log writes to the directory. Without anything in a log no process
        # is writing, and the file can be read as immutable.
        return _connect_in_mode(path, "mode=ro&immutable=1", busy_seconds)


def _connect_without_locks(path: Path) -> sqlite3.Connection:
    """Read where no lock can be taken, or a killed process's log needs an index without room."""
    # Exclusive: SQLite then keeps the index of a log in memory.
    return _connect_in_mode(path, "mode=ro&vfs=unix-none", 0.0, "EXCLUSIVE")


def _connect_in_mode(
    path: Path, mode: str, busy_seconds: float, locking: str = "NORMAL"
) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=busy_seconds)
    connection.text_factory = text_of
    with _closed_on_error(connection):
        connection.execute(f"PRAGMA locking_mode = {locking}")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return connection


@contextlib.contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    """Close a connection on error, before its file is moved away."""
    try:
        yield
    except BaseException:
        connection.close()
        raise
