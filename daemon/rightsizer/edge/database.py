"""A SQLite database that one writer owns and that a power loss does not hurt.

Write-ahead log, one writer by a lock file, migrations by `user_version`. A file that is no
database is set aside and a new one begun; one of a newer program is refused.
"""

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Self

from rightsizer.domain.errors import HistoryError

__all__ = ["Database"]


class Database:
    """An open database file. One connection, for any thread that holds `transaction()`."""

    def __init__(self, path: Path, migrations: Sequence[str], *, read_only: bool = False) -> None:
        """Open, check and migrate the file; create it where it does not exist.

        Args:
            path: The file; its folder is created.
            migrations: SQL scripts, the n-th of which leads from version n-1 to n.
            read_only: Look only: no lock, no migration, no new file.

        Raises:
            HistoryError: another process writes it, a newer program wrote it, or the place
                cannot be read or written.
        """
        self.path = path
        self.set_aside: Path | None = None
        """Where a file went that was no database."""
        self._lock = threading.RLock()
        self._owner: IO[str] | None = None
        if read_only:
            self._connection = self._open_read_only(len(migrations))
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._owner = self._take_ownership()
            self._connection = self._open(migrations)
        except (OSError, sqlite3.Error) as error:
            self._release()
            raise HistoryError(
                f"history '{path}' cannot be written: {error}; make the folder writable for "
                "this user or set history.path"
            ) from None
        except HistoryError:
            self._release()
            raise

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection for one change, which is made whole or not at all.

        Raises:
            HistoryError: the disk is full or the file broke.
        """
        with self._lock:
            try:
                with self._connection:
                    yield self._connection
            except sqlite3.Error as error:
                raise HistoryError(f"history '{self.path}': {error}") from None

    @property
    def size_bytes(self) -> int:
        """What the file and its log take on disk."""
        files = (self.path, Path(f"{self.path}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Fold the log into the file and let others write."""
        with self._lock:
            self._connection.close()
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_ownership(self) -> IO[str]:
        lock_path = Path(f"{self.path}.lock")
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        file = os.fdopen(descriptor, "r+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = file.read().strip() or "unknown"
            file.close()
            raise HistoryError(
                f"history '{self.path}' is being written by process {owner}; stop that agent, "
                "or give this one another history.path"
            ) from None
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        return file

    def _release(self) -> None:
        if self._owner is not None:
            self._owner.close()
            self._owner = None

    def _open(self, migrations: Sequence[str]) -> sqlite3.Connection:
        try:
            connection = _connect(self.path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            self._set_aside()
            connection = _connect(self.path)
        with _closed_on_error(connection):
            self._migrate(connection, migrations)
        return connection

    def _set_aside(self) -> None:
        aside = Path(f"{self.path}.corrupt-{int(time.time())}")
        self.path.rename(aside)
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
        self.set_aside = aside

    def _migrate(self, connection: sqlite3.Connection, migrations: Sequence[str]) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        self._refuse_newer(version, len(migrations))
        for number, script in enumerate(migrations[version:], start=version + 1):
            connection.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;")

    def _refuse_newer(self, version: int, known: int) -> None:
        if version > known:
            raise HistoryError(
                f"history '{self.path}' has schema {version}, this program knows up to {known}; "
                "upgrade rightsizer or set history.path to another file"
            )

    def _open_read_only(self, known: int) -> sqlite3.Connection:
        try:
            if not self.path.exists():
                raise HistoryError(
                    f"history '{self.path}' does not exist; run the agent first, or name "
                    "another file"
                )
            connection = _connect_read_only(self.path)
            with _closed_on_error(connection):
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                self._refuse_newer(version, known)
        except (OSError, sqlite3.Error) as error:
            raise HistoryError(
                f"history '{self.path}' cannot be read: {error}; run this as a user who may "
                "read it, or name another file"
            ) from None
        return connection


def _connect_read_only(path: Path) -> sqlite3.Connection:
    try:
        return _connect_in_mode(path, "mode=ro")
    except sqlite3.OperationalError:
        if Path(f"{path}-wal").exists():
            raise
        # Reading a log's index writes to the folder. Where there is no log, nobody writes the
        # file, and it can be read without.
        return _connect_in_mode(path, "mode=ro&immutable=1")


def _connect_in_mode(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?{mode}", uri=True, check_same_thread=False
    )
    with _closed_on_error(connection):
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, timeout=5.0)
    with _closed_on_error(connection):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -2048")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
    return connection


@contextlib.contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    """Close a connection that nobody gets, before its file is moved away from under it."""
    try:
        yield
    except BaseException:
        connection.close()
        raise
