"""Export of Nsight Systems opened as an untrusted SQLite file, read only."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rightsizer.model.errors import ProfileError
from rightsizer.telemetry.profiles.limits import ReadLimits

MAGIC: Final = b"SQLite format 3\0"
_HARDENING: Final = (
    "PRAGMA trusted_schema=OFF",
    "PRAGMA query_only=ON",
    "PRAGMA cell_size_check=ON",
    "PRAGMA mmap_size=0",
    "PRAGMA cache_size=-8192",
)
_TABLES_MAXIMUM: Final = 2000
_INSTRUCTIONS_ALLOWED: Final = 20_000_000
_INSTRUCTIONS_A_BYTE: Final = 8
"""A row takes some 15 of SQLite's steps and at least 20 bytes. Pages that stand for each other
can make a small file unfold without end; what is allowed grows with the file alone."""
_INSTRUCTIONS_A_LOOK: Final = 10_000

_WHOLE: Final = frozenset({int})
_SECRET: Final = frozenset({"TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE"})
"""The whole environment of the profiled program, and how it was called."""


@contextmanager
def open_export(path: Path, limits: ReadLimits) -> Iterator["ExportDatabase"]:
    """A file for reading; whatever SQLite finds wrong with it names the file.

    Raises:
        ProfileError: it is no database, broken, larger than allowed, or unfolds without end.
    """
    connection = None
    try:
        size = path.stat().st_size
        if size > limits.unpacked_maximum_bytes:
            raise ProfileError(
                f"{path.name}: larger than {limits.unpacked_maximum_bytes} bytes; record a shorter "
                "time, or raise unpacked_maximum"
            )
        # Immutable: no lock, no journal is replayed and nothing is written beside the file.
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        yield ExportDatabase(connection, size, limits)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ProfileError(f"{path.name}: cannot be read: {reason}; name a file that can") from None
    except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
        # What SQLite says of broken names is as broken as they are.
        said = "its names are no text" if isinstance(error, UnicodeError) else str(error)
        raise ProfileError(
            f"{path.name}: not a sound SQLite database: {said}; export it again with "
            "`nsys export --type sqlite`"
        ) from None
    finally:
        if connection is not None:
            connection.close()


class ExportDatabase:
    """Tables by name, columns by name, rows one at a time in the order in which they lie."""

    def __init__(self, connection: sqlite3.Connection, size: int, limits: ReadLimits) -> None:
        self._connection = connection
        self._left = _INSTRUCTIONS_ALLOWED + _INSTRUCTIONS_A_BYTE * size
        self._texts: dict[int, str] = {}
        self._texts_maximum = 2 * limits.kernel_names_maximum
        self.unread: Counter[str] = Counter()
        """Rows that are of no use, by what they are."""
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.event_maximum_bytes)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_progress_handler(self._look, _INSTRUCTIONS_A_LOOK)
        for statement in _HARDENING:
            connection.execute(statement)
        self._tables = self._plain_tables()
        self._columns: dict[str, frozenset[str]] = {}
        connection.set_authorizer(_authorize)

    @property
    def tables(self) -> frozenset[str]:
        """What is a table, and neither a view nor virtual."""
        return self._tables

    def columns(self, table: str) -> frozenset[str]:
        """Of one table, computed ones left out; none where there is no such table."""
        if table not in self._tables:
            return frozenset()
        if table not in self._columns:
            rows = self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
            self._columns[table] = frozenset(row[1] for row in rows)
        return self._columns[table]

    def rows(
        self, table: str, required: Sequence[str], optional: Sequence[str] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a table as far as it has them.

        Rows in which a required column is no whole number are counted as unread, and all rows
        are where such a column is not there.

        Args:
            table: Its name; without such a table there are no rows.
            required: Columns of whole numbers.
            optional: Columns of anything; `None` where they are not there.
        """
        there = self.columns(table)
        if not there:
            return
        if absent := [column for column in required if column not in there]:
            self.unread[f"{table} without {absent[0]}"] += self.count(table)
            return
        named = ", ".join(
            _quoted(column) if column in there else "NULL" for column in (*required, *optional)
        )
        query = f"SELECT {named} FROM {_quoted(table)} NOT INDEXED"  # noqa: S608 - both quoted.
        size = len(required)
        for row in self._connection.execute(query):
            if _WHOLE.issuperset(map(type, row[:size])):
                yield row
            else:
                self.unread[f"{table} row of another form"] += 1

    def count(self, table: str) -> int:
        """Rows in a table."""
        # A plain count(*) walks all pages in one of SQLite's steps, which nothing can stop.
        rows = f"SELECT 1 FROM {_quoted(table)} NOT INDEXED LIMIT -1"  # noqa: S608 - quoted.
        query = f"SELECT count(*) FROM ({rows})"  # noqa: S608 - the same.
        return int(self._connection.execute(query).fetchone()[0])

    def text(self, number: Any) -> str:
        """What stands in the table of texts under a number; nothing where nothing does."""
        if (known := self._texts.get(number)) is not None:
            return known
        if type(number) is not int or not {"id", "value"} <= self.columns("StringIds"):
            return ""
        query = "SELECT value FROM StringIds WHERE id = ?"
        try:
            row = self._connection.execute(query, (number,)).fetchone()
        except sqlite3.DataError:  # Longer than is allowed.
            row = None
        text = row[0] if row and isinstance(row[0], str) else ""
        if len(self._texts) < self._texts_maximum:
            self._texts[number] = text
        return text

    def _plain_tables(self) -> frozenset[str]:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
        rows = self._connection.execute(query).fetchmany(_TABLES_MAXIMUM)
        return frozenset(
            name
            for name, sql in rows
            if isinstance(name, str)
            and isinstance(sql, str)
            and sql.lstrip()[:12].upper() == "CREATE TABLE"
            and name not in _SECRET
        )

    def _look(self) -> bool:
        """Whether SQLite has to stop."""
        self._left -= _INSTRUCTIONS_A_LOOK
        return self._left < 0


def _authorize(
    action: int, first: str | None, second: str | None, _database: str | None, _by: str | None
) -> int:
    """Reading of tables that are no secret, and nothing else: no function, no view, no trigger."""
    if action == sqlite3.SQLITE_SELECT:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ and first not in _SECRET:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second == "count":
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and first == "table_info":
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
