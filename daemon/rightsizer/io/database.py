"""SQLite database of one writer, safe against kills, power loss and broken files."""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

from rightsizer.io.files import HISTORY, Called, Ownership
from rightsizer.model.errors import HistoryError

DATABASE_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What any call may raise; the second where SQLite's own message quotes an overwritten page."""
_BROKEN: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG})
"""Nothing too big for SQLite is written here: only overwritten pages claim to hold it."""
_PRIMARY: Final = 0xFF
"""The part of an extended result code that tells its kind."""


class UnsoundDatabase(sqlite3.DatabaseError):
    """A file that opens and whose pages contradict one another."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


def is_broken(error: Exception) -> bool:
    """Whether the file is to blame for an error of a call."""
    # Errors of the module itself carry no code.
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    return code in _BROKEN or isinstance(error, UnicodeDecodeError)


def is_unreadable(error: Exception) -> bool:
    """Whether it is to blame while it is opened, when nothing else is asked that could be wrong."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code == sqlite3.SQLITE_ERROR or is_broken(error)


def text_of(raw: bytes) -> str:
    """A text of a row; one that broke is left to its parser."""
    return raw.decode(errors="replace")


_BESIDE: Final = ("-wal", "-shm")
_KEPT_ASIDE: Final = 3
"""Broken files that are kept; a disk that breaks one after the other must not fill up."""
_LOG_BYTES: Final = 4 * 2**20
"""What the log is cut down to once it was folded into the file."""
_BUSY_SECONDS: Final = 5.0


class Database:
    """An open database file. One connection, for any thread that holds `transaction()`."""

    def __init__(  # noqa: PLR0913 - what an operator may choose, and how he calls it.
        self,
        path: Path | None,
        migrations: Sequence[str],
        *,
        read_only: bool = False,
        is_durable: bool = True,
        busy_seconds: float = _BUSY_SECONDS,
        called: Called = HISTORY,
    ) -> None:
        """Open, check and migrate the file; create it where it does not exist.

        Its folder is created; without a path it is in memory. The n-th migration is the SQL that
        leads from version n-1 to n. `read_only`: no lock, no new file, and what is old is migrated
        in memory. `is_durable`: whether a change is on the disk itself when it is made; without it,
        a power loss may undo the latest ones, though never by half. `busy_seconds`: how long to
        wait while another process has the file locked.

        Raises:
            HistoryError: another process writes it, a newer program wrote it, or the place
                cannot be read or written.
        """
        self.is_kept = path is not None
        """Whether what is written outlasts the process."""
        self.path, self._called = path or Path(), called
        self._name = f"{called.what} '{path}'" if path else f"{called.what} in memory"
        self.set_aside: Path | None = None
        """Where the last file went that was broken."""
        self.breaks = 0
        """How many files were broken."""
        self.size_bytes = 0
        """What the file and its log took on disk after the last change; asks no disk."""
        self._migrations = migrations
        self._is_durable, self._busy_seconds = is_durable, busy_seconds
        self._lock = threading.RLock()
        self._owner: Ownership | None = None
        self._connection: sqlite3.Connection | None = None
        self._unused_changes: int | None = None
        """Changes that a file made here has seen before its first row, `None` for other files."""
        if path is None:
            self._connection = sqlite3.connect(":memory:", check_same_thread=False)
            self._migrate(self._connection)
        elif read_only:
            self._connection = self._open_read_only()
        else:
            self._connection = self._open_owned()
        self._measure()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection for one change, which is made whole or not at all.

        Raises:
            HistoryError: the disk is full, or the file broke and a new one was begun.
        """
        with self._lock:
            try:
                connection = self._opened()
                with connection:
                    yield connection
            except DATABASE_ERRORS as error:
                raise HistoryError(f"{self._name}: {self._verdict(error)}") from None
            finally:
                self._measure()

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query.

        Raises:
            HistoryError: they cannot be read.
        """
        with self.transaction() as connection:
            return connection.execute(query, parameters).fetchall()

    def close(self) -> None:
        """Fold the log into the file and let others write.

        A file that was made here and holds nothing is taken away again.
        """
        with self._lock:
            if self._connection is None:
                return
            is_unused = self._unused_changes == self._connection.total_changes
            self._connection.close()
            self._connection = None
            if self._owner is None:
                return
            if is_unused:
                self.path.unlink(missing_ok=True)
            self._owner.release(remove=is_unused)
            self._owner = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_owned(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._owner = Ownership(self.path, self._called)
            return self._open()
        except (OSError, *DATABASE_ERRORS) as error:
            self._release()
            raise HistoryError(
                f"{self._name} cannot be written: {error}; make the folder writable for this user "
                f"or set {self._called.setting}"
            ) from None
        except HistoryError:
            self._release()
            raise

    def _release(self) -> None:
        if self._owner is not None:
            self._owner.release()
            self._owner = None

    def _open(self) -> sqlite3.Connection:
        is_new = not self.path.exists()
        try:
            connection = self._connect()
        except DATABASE_ERRORS as error:
            if not is_unreadable(error):
                raise
            self._put_aside()
            connection, is_new = self._connect(), True
        with _closed_on_error(connection):
            self._migrate(connection)
        self._unused_changes = connection.total_changes if is_new else None
        return connection

    def _opened(self) -> sqlite3.Connection:
        """The connection; a new one where the last file broke and no other could be begun."""
        if self._connection is None:
            if self._owner is None:
                raise sqlite3.ProgrammingError("it is closed")
            try:
                self._connection = self._open()
            except OSError as error:  # The broken file cannot be moved away.
                raise HistoryError(f"{self._name}: {error}") from None
        return self._connection

    def _verdict(self, error: Exception) -> str:
        """What went wrong; a file that turns out to be broken is set aside."""
        if self._owner is None or self._connection is None or not is_broken(error):
            return str(error)
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        self._connection = None
        try:
            self._put_aside()
            self._connection = self._open()
        except (OSError, *DATABASE_ERRORS) as trouble:
            return f"{error}; a new one cannot be begun: {trouble}"
        return f"{error}; it was moved to '{self.set_aside}' and a new one begun"

    def _put_aside(self) -> None:
        aside = Path(f"{self.path}.corrupt-{time.time_ns()}")
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(aside)
        for suffix in _BESIDE:
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
        self.set_aside = aside
        self.breaks += 1
        self._forget_oldest_aside()

    def _forget_oldest_aside(self) -> None:
        found = self.path.parent.glob(f"{self.path.name}.corrupt-*")
        kept = [file for file in found if not file.name.endswith(_BESIDE)]
        for file in sorted(kept, key=lambda file: file.name)[:-_KEPT_ASIDE]:
            for suffix in ("", *_BESIDE):
                Path(f"{file}{suffix}").unlink(missing_ok=True)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        version = self._version(connection)
        for number, script in enumerate(self._migrations[version:], start=version + 1):
            connection.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;")

    def _version(self, connection: sqlite3.Connection) -> int:
        """The file's schema, which this program knows."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(self._migrations):
            raise HistoryError(
                f"{self._name} has schema {version}, this program knows up to "
                f"{len(self._migrations)}; upgrade rightsizer or set {self._called.setting} to "
                "another file"
            )
        return int(version)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, check_same_thread=False, timeout=self._busy_seconds)
        connection.text_factory = text_of
        with _closed_on_error(connection):
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._is_durable else 'NORMAL'}")
            connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
            connection.execute("PRAGMA cache_size = -2048")
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise UnsoundDatabase(verdict)
        return connection

    def _open_read_only(self) -> sqlite3.Connection:
        try:
            if not self.path.exists():
                raise HistoryError(
                    f"{self._name} does not exist; run the {self._called.writer} first, or name "
                    "another file"
                )
            connection = _connect_read_only(self.path)
            with _closed_on_error(connection):
                if self._version(connection) == len(self._migrations):
                    return connection
                return self._migrated_copy(connection)
        except (OSError, *DATABASE_ERRORS) as error:
            raise HistoryError(
                f"{self._name} cannot be read: {error}; run this as a user who may "
                "read it, or name another file"
            ) from None

    def _migrated_copy(self, old: sqlite3.Connection) -> sqlite3.Connection:
        """What an older program wrote, in memory and up to date."""
        copy = sqlite3.connect(":memory:", check_same_thread=False)
        with _closed_on_error(copy):
            old.backup(copy)
            old.close()
            self._migrate(copy)
            copy.execute("PRAGMA query_only = ON")
        return copy

    def _measure(self) -> None:
        if not self.is_kept:
            return
        files = (self.path, Path(f"{self.path}-wal"))
        with contextlib.suppress(OSError):
            self.size_bytes = sum(file.stat().st_size for file in files if file.exists())


def _connect_read_only(path: Path) -> sqlite3.Connection:
    try:
        return _connect_in_mode(path, "mode=ro")
    except sqlite3.OperationalError:
        if Path(f"{path}-wal").exists():
            raise
        # Reading a log's index writes to the folder. Where there is no log, no process writes the
        # file, and it can be read without.
        return _connect_in_mode(path, "mode=ro&immutable=1")


def _connect_in_mode(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?{mode}", uri=True, check_same_thread=False
    )
    connection.text_factory = text_of
    with _closed_on_error(connection):
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return connection


@contextlib.contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    """Close a connection that is not handed out, before its file is moved away from under it."""
    try:
        yield
    except BaseException:
        connection.close()
        raise
