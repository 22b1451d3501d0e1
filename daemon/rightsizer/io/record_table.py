"""Records of one kind in a database table, and a process's cache over it."""

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from rightsizer.io.codec import decode, stored
from rightsizer.io.database import Database


class Record(Protocol):
    """Value with an id, as stored in a table."""

    @property
    def id(self) -> str:
        """Unique id."""


_Record = TypeVar("_Record", bound=Record)


class RecordTable(Generic[_Record]):
    """Records as JSON in a table of `id`, a time, and `data`; thread-safe.

    Every method raises a HistoryError if the database cannot be read or written.
    """

    def __init__(self, database: Database, table: str, time: str, kind: type[_Record]) -> None:
        """Use an existing table.

        `time` is the column and record attribute that orders the records.
        """
        self._database = database
        self._table = table
        self._time = time
        self._kind = kind

    @property
    def is_kept(self) -> bool:
        """Whether records outlast the process."""
        return self._database.is_kept

    def records(self) -> Sequence[_Record]:
        """All records, oldest first; skips undecodable rows."""
        query = f"SELECT data FROM {self._table} ORDER BY {self._time}, id"  # noqa: S608 - our own names.
        records = []
        for (text,) in self._database.rows(query):
            with contextlib.suppress(ValueError):
                records.append(decode(text, self._kind))
        return records

    def put(self, record: _Record) -> None:
        """Insert or update a record; durable on return."""
        statement = (
            f"INSERT INTO {self._table} VALUES (?, ?, ?) "  # noqa: S608
            "ON CONFLICT (id) DO UPDATE SET data = excluded.data"
        )
        with self._database.transaction() as connection:
            row = (record.id, getattr(record, self._time), stored(record))
            connection.execute(statement, row)

    def forget(self, ids: Iterable[str]) -> None:
        """Delete records; ignores unknown ids."""
        self._drop(f"DELETE FROM {self._table} WHERE id = ?", ids)  # noqa: S608

    def ordered(self, records: Iterable[_Record]) -> list[_Record]:
        """Sort records in the table's order."""
        return sorted(records, key=lambda record: (getattr(record, self._time), record.id))

    def _drop(self, statement: str, keys: Iterable[str]) -> None:
        if rows := [(key,) for key in keys]:
            with self._database.transaction() as connection:
                connection.executemany(statement, rows)


class RecordCache(Generic[_Record]):
    """Cache over a table that may break or be full; never loses records of this process.

    Every method raises a HistoryError if the table does. `outlives` selects records of earlier
    processes that are rewritten if the table has lost them.
    """

    def __init__(
        self, table: RecordTable[_Record], outlives: Callable[[_Record], bool] = lambda _: False
    ) -> None:
        self._table = table
        self._outlives = outlives
        self._lock = threading.Lock()
        self._own: dict[str, _Record] = {}
        self._unwritten: set[str] = set()

    @property
    def is_kept(self) -> bool:
        """Whether records outlast the process."""
        return self._table.is_kept

    def records(self) -> Sequence[_Record]:
        """All records, oldest first, without writing."""
        kept = {record.id: record for record in self._table.records()}
        with self._lock:
            return self._ordered(kept)

    def mended(self) -> Sequence[_Record]:
        """All records, oldest first; rewrites those lost by the table."""
        with self._lock:
            kept = {record.id: record for record in self._table.records()}
            for key, record in kept.items():
                if self._outlives(record):
                    self._own.setdefault(key, record)
            for key, record in self._own.items():
                if key not in kept or key in self._unwritten:
                    self._table.put(record)
                    self._unwritten.discard(key)
            return self._ordered(kept)

    def begin(self, record: _Record) -> None:
        """Record an intent before its action; durable on return, or dropped on error."""
        with self._lock:
            self._table.put(record)
            self._own[record.id] = record

    def keep(self, record: _Record) -> None:
        """Record a result; on failure, the next `mended` writes it."""
        with self._lock:
            self._own[record.id] = record
            self._unwritten.add(record.id)
            self._table.put(record)
            self._unwritten.discard(record.id)

    def forget(self, ids: Collection[str]) -> None:
        """Delete records."""
        with self._lock:
            for identifier in ids:
                self._own.pop(identifier, None)
            self._table.forget(ids)

    def _ordered(self, kept: Mapping[str, _Record]) -> list[_Record]:
        return self._table.ordered({**kept, **self._own}.values())
