"""Records of one kind in a table of a database, and the cache of one process over it."""

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from rightsizer.io.codec import decode, encode
from rightsizer.io.database import Database


class Record(Protocol):
    """What a table keeps: a frozen dataclass with an id."""

    @property
    def id(self) -> str:
        """What no other record is called."""


_Record = TypeVar("_Record", bound=Record)


class RecordTable(Generic[_Record]):
    """Records as JSON in a table of `id`, a time, and `data`; safe for threads.

    Each method raises a HistoryError where the database cannot be read or written.
    """

    def __init__(self, database: Database, table: str, time: str, kind: type[_Record]) -> None:
        """Over a table that is there.

        `time` is the column, and the record's attribute, that records are ordered by.
        """
        self._database, self._table, self._time, self._kind = database, table, time, kind

    @property
    def is_kept(self) -> bool:
        """Whether a record outlasts the process."""
        return self._database.is_kept

    def records(self) -> Sequence[_Record]:
        """All that are kept, oldest first; a row that cannot be understood is passed over."""
        query = f"SELECT data FROM {self._table} ORDER BY {self._time}, id"  # noqa: S608 - our own names.
        found = []
        for (text,) in self._database.rows(query):
            with contextlib.suppress(ValueError):
                found.append(decode(text, self._kind))
        return found

    def put(self, record: _Record) -> None:
        """Keep one, in place of what it was before; on the disk when this returns."""
        statement = (
            f"INSERT INTO {self._table} VALUES (?, ?, ?) "  # noqa: S608
            "ON CONFLICT (id) DO UPDATE SET data = excluded.data"
        )
        with self._database.transaction() as connection:
            row = (record.id, getattr(record, self._time), encode(record))
            connection.execute(statement, row)

    def forget(self, ids: Iterable[str]) -> None:
        """Drop records; an unknown one does no harm."""
        self._drop(f"DELETE FROM {self._table} WHERE id = ?", ids)  # noqa: S608

    def ordered(self, records: Iterable[_Record]) -> list[_Record]:
        """Records in the order that the table gives them in."""
        return sorted(records, key=lambda each: (getattr(each, self._time), each.id))

    def _drop(self, statement: str, keys: Iterable[str]) -> None:
        if rows := [(each,) for each in keys]:
            with self._database.transaction() as connection:
                connection.executemany(statement, rows)


class RecordCache(Generic[_Record]):
    """Over a table that may break or be full: what this process did, it never forgets.

    Each method raises a HistoryError where the table does. `outlives`: whether a record of an
    earlier process is written again where the table has lost it.
    """

    def __init__(
        self, table: RecordTable[_Record], outlives: Callable[[_Record], bool] = lambda _: False
    ) -> None:
        self._table, self._outlives = table, outlives
        self._lock = threading.Lock()
        self._own: dict[str, _Record] = {}
        self._unwritten: set[str] = set()

    @property
    def is_kept(self) -> bool:
        """Whether a record outlasts the process."""
        return self._table.is_kept

    def records(self) -> Sequence[_Record]:
        """All records, oldest first; nothing is written."""
        kept = {each.id: each for each in self._table.records()}
        with self._lock:
            return self._ordered(kept)

    def mended(self) -> Sequence[_Record]:
        """All records, oldest first; those that the table has lost are written again."""
        with self._lock:
            kept = {each.id: each for each in self._table.records()}
            for key, each in kept.items():
                if self._outlives(each):
                    self._own.setdefault(key, each)
            for key, each in self._own.items():
                if key not in kept or key in self._unwritten:
                    self._table.put(each)
                    self._unwritten.discard(key)
            return self._ordered(kept)

    def begin(self, record: _Record) -> None:
        """Remember what is not done before it is; on the disk when this returns, or forgotten."""
        with self._lock:
            self._table.put(record)
            self._own[record.id] = record

    def keep(self, record: _Record) -> None:
        """Remember what became of one; what cannot be written is when all are next looked at."""
        with self._lock:
            self._own[record.id] = record
            self._unwritten.add(record.id)
            self._table.put(record)
            self._unwritten.discard(record.id)

    def forget(self, ids: Collection[str]) -> None:
        """Drop records."""
        with self._lock:
            for each in ids:
                self._own.pop(each, None)
            self._table.forget(ids)

    def _ordered(self, kept: Mapping[str, _Record]) -> list[_Record]:
        return self._table.ordered({**kept, **self._own}.values())
