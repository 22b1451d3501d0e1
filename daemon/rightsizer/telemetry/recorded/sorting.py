"""Rows of a file that is not in the order of time, put in order on disk."""

import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Final

from rightsizer.telemetry.recorded.row import Row

__all__ = ["SortedRows"]

_BATCH: Final = 1000


class SortedRows:
    """Rows by time, in a temporary file that goes when it is closed.

    A row is its time, its values as doubles, and the number of its shape: everything else of it,
    which hardly changes from row to row and is kept in memory once.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        """Take in all rows."""
        self._shapes: dict[tuple[Any, ...], int] = {}
        self._by_number: list[tuple[Any, ...]] = []
        self._database = sqlite3.connect("", check_same_thread=False)
        self._database.execute("CREATE TABLE row (time INTEGER, shape INTEGER, numbers BLOB)")
        self._database.executemany("INSERT INTO row VALUES (?, ?, ?)", map(self._encode, rows))

    def __iter__(self) -> Iterator[Row]:
        """The rows by time; those of one time as they came."""
        found = self._database.cursor()
        found.arraysize = _BATCH
        found.execute("SELECT time, shape, numbers FROM row ORDER BY time, rowid")
        return map(self._decode, found)

    def close(self) -> None:
        """Remove the temporary file."""
        self._database.close()

    def _encode(self, row: Row) -> tuple[int, int, bytes]:
        shape = (row.device, tuple(row.values), tuple(row.missing.items()), *row[4:])
        number = self._shapes.get(shape)
        if number is None:
            number = self._shapes[shape] = len(self._by_number)
            self._by_number.append(shape)
        return row.time, number, array("d", row.values.values()).tobytes()

    def _decode(self, found: tuple[int, int, bytes]) -> Row:
        time, number, numbers = found
        device, signals, missing, *rest = self._by_number[number]
        values = dict(zip(signals, array("d", numbers), strict=True))
        return Row(time, device, values, dict(missing), *rest)
