"""SQLite database of one writer, safe against kills, power loss and broken files."""

import contextlib
import os
import sqlite3
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rightsizer.io.files import HISTORY, Called, Ownership, private_file, private_folder
from rightsizer.model.errors import HistoryError

DATABASE_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What any call may raise; the second where SQLite's own message quotes an overwritten page."""
_BROKEN: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG})
"""Nothing too big for SQLite is written here: only overwritten pages claim to hold it."""
_PRIMARY: Final = 0xFF
"""The part of an extended result code that tells its kind."""
_HEADER: Final = struct.Struct(">16s12xI4xII16xI")
_HEADER_PRAGMAS: Final = ("page_count", "freelist_count", "schema_version", "user_version")
_MAGIC: Final = b"SQLite format 3\0"
_BESIDE: Final = ("-wal", "-shm")
_KEPT_ASIDE: Final = 3
"""Broken files that are kept; a disk that breaks one after the other must not fill up."""
_LOG_BYTES: Final = 4 * 2**20
"""What the log is cut down to once it was folded into the file."""
_BUSY_SECONDS: Final = 5.0
"""How long to wait while another process has the file locked."""


class UnsoundDatabase(sqlite3.DatabaseError):
    """A file that opens and whose pages contradict one another."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


class LostDatabase(UnsoundDatabase):
    """A file that was deleted, replaced or overwritten under its connection."""


def is_broken(error: Exception) -> bool:
    """Whether the file is to blame for an error of a call."""
    # Errors of the module itself carry no code.
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    return code in _BROKEN or isinstance(error, UnicodeDecodeError)


def text_of(raw: bytes) -> str:
    """A text of a row; one that broke is left to its parser."""
    return raw.decode(errors="replace")


class Database:
    """An open database file. One connection, for any thread that holds `transaction()`."""

    def __init__(
        self,
        path: Path | None,
        migrations: Sequence[str],
        *,
        read_only: bool = False,
        is_durable: bool = True,
        called: Called = HISTORY,
    ) -> None:
        """Open, check and migrate the file; create it where it does not exist.

        Its folder is created; without a path it is in memory. The n-th migration is the SQL that
        leads from version n-1 to n. `read_only`: no lock, no new file, and what is old is migrated
        in memory. `is_durable`: whether a change is on the disk itself when it is made; without it,
        a power loss may undo the latest ones, though never by half.

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
        """How many files were broken or lost."""
        self.break_reason = ""
        """Why the last of them was given up."""
        self.size_bytes = 0
        """What the file and its log took on disk after the last change; asks no disk."""
        self._migrations = migrations
        self._is_durable = is_durable
        self._lock = threading.RLock()
        self._owner: Ownership | None = None
        self._connection: sqlite3.Connection | None = None
        self._file: _ConnectedFile | None = None
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
            else:
                if self._file is not None:
                    self._file.note_header()
            finally:
                self._measure()

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query, in a transaction."""
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
            self._disconnect()
            if self._owner is None:
                return
            if is_unused:
                self.path.unlink(missing_ok=True)
            self._owner.release(remove=is_unused)
            self._owner = None

    def _open_owned(self) -> sqlite3.Connection:
        try:
            return self._open()
        except (OSError, *DATABASE_ERRORS) as error:
            self._release()
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise HistoryError(
                f"{self._name} cannot be written: {reason}; make the folder writable for this user "
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
        private_folder(self.path.parent)
        self._own()
        is_new = not self.path.exists()
        try:
            connection = self._connect()
        except DATABASE_ERRORS as error:
            # While it is opened nothing else is asked that could be wrong.
            is_refused = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR
            if not (is_refused or is_broken(error)):
                raise
            self._put_aside(str(error))
            connection, is_new = self._connect(), True
        with _closed_on_error(connection):
            self._migrate(connection)
            self._file = _ConnectedFile(self.path)
        self._unused_changes = connection.total_changes if is_new else None
        return connection

    def _own(self) -> None:
        """Take the right to write, also where the lock was deleted with all that was beside it."""
        if self._owner is None or not self._owner.holds:
            former, self._owner = self._owner, Ownership(self.path, self._called)
            if former is not None:
                former.release()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        file, self._file = self._file, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        if file is not None:
            file.close()

    def _opened(self) -> sqlite3.Connection:
        """The connection; a new one where the last file broke and no other could be begun."""
        if self._connection is None:
            if self._owner is None:
                raise sqlite3.ProgrammingError("it is closed")
            try:
                self._connection = self._open()
            except OSError as error:  # The broken file cannot be moved away.
                raise HistoryError(f"{self._name}: {error}") from None
        elif self._file is not None:
            self._file.check(self._connection)
        return self._connection

    def _verdict(self, error: Exception) -> str:
        """What went wrong; a file that turns out to be broken is set aside."""
        if self._owner is None or self._connection is None or not is_broken(error):
            return str(error)
        try:
            if isinstance(error, LostDatabase) and self._file is not None:
                # Moved before it is closed: SQLite folds no log into a file that was moved.
                self._file.drop_log()
            else:
                self._disconnect()
            self._put_aside(str(error))
            self._disconnect()
            self._connection = self._open()
        except (OSError, HistoryError, *DATABASE_ERRORS) as trouble:
            self._disconnect()
            return f"{error}; a new one cannot be begun: {trouble}"
        moved = f"it was moved to '{self.set_aside}' and " if self.set_aside else ""
        return f"{error}; {moved}a new one begun"

    def _put_aside(self, reason: str) -> None:
        aside = Path(f"{self.path}.corrupt-{time.time_ns()}")
        is_there = _moved(self.path, aside)
        for suffix in _BESIDE:
            beside = Path(f"{self.path}{suffix}")
            if is_there:
                _moved(beside, Path(f"{aside}{suffix}"))
            else:
                # The log of a file that is gone would be taken for the next one's.
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    beside.unlink()
        self.set_aside = aside if is_there else None
        self.break_reason = reason
        self.breaks += 1
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
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(self._migrations):
            raise HistoryError(
                f"{self._name} has schema {version}, this program knows up to "
                f"{len(self._migrations)}; upgrade rightsizer or set {self._called.setting} to "
                "another file"
            )
        return int(version)

    def _connect(self) -> sqlite3.Connection:
        private_file(self.path)
        connection = sqlite3.connect(self.path, check_same_thread=False, timeout=_BUSY_SECONDS)
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
        copy.text_factory = text_of
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


class _ConnectedFile:
    """The file of a connection, to see that it is still there and what we left.

    Its descriptor is closed after the connection: closing it frees the locks of the process.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._log = path, Path(f"{path}{_BESIDE[0]}")
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._log_inode = _inode(self._log)
        self._header = self._read_header()

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)

    def drop_log(self) -> None:
        """Delete our log, which the next to open the file would fold into it."""
        if self._log_inode is not None and _inode(self._log) == self._log_inode:
            for suffix in _BESIDE:
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def note_header(self) -> None:
        """Remember how our last change left it."""
        with contextlib.suppress(OSError):
            self._header = self._read_header()

    def check(self, connection: sqlite3.Connection) -> None:
        """See that the connection writes where the next start will read.

        Raises:
            LostDatabase: it does not.
        """
        try:
            found, own = _inode(self._path), os.fstat(self._descriptor)
            header = self._read_header()
            is_log_in_place = _inode(self._log) == self._log_inode
        except OSError:
            return  # A disk that does not answer has lost nothing yet.
        if found is None:
            raise LostDatabase("it was deleted or moved away while it was open")
        if found != (own.st_dev, own.st_ino):
            raise LostDatabase("another file was put in its place while it was open")
        if not is_log_in_place:
            raise LostDatabase("its write-ahead log was deleted while it was open")
        if header != self._header and not _agrees(header, connection):
            raise LostDatabase("it was overwritten while it was open")

    def _read_header(self) -> bytes:
        return os.pread(self._descriptor, _HEADER.size, 0)


def _agrees(header: bytes, connection: sqlite3.Connection) -> bool:
    """Whether it is of the database that is open: another program may have folded its log in."""
    if len(header) < _HEADER.size:
        return False
    magic, *stored = _HEADER.unpack(header)
    seen = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _HEADER_PRAGMAS]
    return magic == _MAGIC and stored == seen


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _moved(path: Path, target: Path) -> bool:
    try:
        path.rename(target)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


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
    uri = f"{path.resolve().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
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
