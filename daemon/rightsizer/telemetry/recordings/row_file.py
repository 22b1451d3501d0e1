"""Files of rows: read again for each pass, sorted on disk where they are out of order."""

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import Any, Final

from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds, format_duration, seconds
from rightsizer.telemetry.recordings.row import RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.text_file import RecordingFormat, TextFile

_BATCH: Final = 1000
_ROWS_BETWEEN_STEPS: Final = 20
"""At least, on average, where a clock goes back; other files are simply in no order."""


class SortedRows:
    """Rows by time, in a temporary file: each its time, its values, and the number of its shape.

    The shape is everything else of a row, which hardly changes and is kept in memory once.
    """

    def __init__(self, rows: Iterable[RecordingRow]) -> None:
        self._shapes: dict[tuple[Any, ...], int] = {}
        self._by_number: list[tuple[Any, ...]] = []
        self._database = sqlite3.connect("", check_same_thread=False)
        self._database.execute("CREATE TABLE row (time INTEGER, shape INTEGER, numbers BLOB)")
        self._database.executemany("INSERT INTO row VALUES (?, ?, ?)", map(self._encode, rows))

    def __iter__(self) -> Iterator[RecordingRow]:
        """The rows by time; those of one time as they came."""
        found = self._database.cursor()
        found.arraysize = _BATCH
        found.execute("SELECT time, shape, numbers FROM row ORDER BY time, rowid")
        return map(self._decode, found)

    def close(self) -> None:
        """Remove the temporary file."""
        self._database.close()

    def _encode(self, row: RecordingRow) -> tuple[int, int, bytes]:
        shape = (row.device, tuple(row.values), tuple(row.missing.items()), *row[4:])
        number = self._shapes.get(shape)
        if number is None:
            number = self._shapes[shape] = len(self._by_number)
            self._by_number.append(shape)
        return row.time, number, array("d", row.values.values()).tobytes()

    def _decode(self, found: tuple[int, int, bytes]) -> RecordingRow:
        time, number, numbers = found
        device, signals, missing, *rest = self._by_number[number]
        values = dict(zip(signals, array("d", numbers), strict=True))
        return RecordingRow(time, device, values, dict(missing), *rest)


class RowFile:
    """A file of rows, which comes in order of time from the moment it is found not to be."""

    def __init__(self, text: TextFile, format: RecordingFormat) -> None:  # noqa: A002 - what it is.
        self.text = text
        self.notes = RecordingNotes(text.name)
        self.names: dict[str, str] = {}
        """Devices by another name of theirs."""
        self.since: Nanoseconds = 0
        """When the clock was set: what seems to be before is left out."""
        self._format = format
        self._sorted: SortedRows | None = None

    def rows(self) -> Iterator[RecordingRow]:
        """All rows; each call starts again."""
        rows = self._own_rows() if self._sorted is None else iter(self._sorted)
        if self.since:
            rows = self._of_set_clock(rows)
        if not self.names:
            return rows
        names = self.names
        return (
            row if (name := names.get(row.device)) is None else row._replace(device=name)
            for row in rows
        )

    def _of_set_clock(self, rows: Iterator[RecordingRow]) -> Iterator[RecordingRow]:
        for row in rows:
            if row.time >= self.since:
                yield row
            else:
                self.notes.remark("readings of a clock that was not set are left out")

    def sort(self) -> None:
        """Put the rows in order, once and for all; tell by how much the clock went back."""
        if self._sorted is None:
            self._sorted = SortedRows(self._watched(self._own_rows()))

    def _own_rows(self) -> Iterator[RecordingRow]:
        self.notes = RecordingNotes(self.text.name)
        return self._format.rows(self.text, self.notes)

    def _watched(self, rows: Iterator[RecordingRow]) -> Iterator[RecordingRow]:
        # Exporters write one signal after the other, each from its first time on.
        last: dict[tuple[str, Signal | None], Nanoseconds] = {}
        read = steps = longest = 0
        for row in rows:
            key = row.device, next(iter(row.values), None)
            if row.time < (before := last.get(key, row.time)):
                steps, longest = steps + 1, max(longest, before - row.time)
            last[key] = row.time
            read += 1
            yield row
        if steps and steps * _ROWS_BETWEEN_STEPS <= read:
            self.notes.remark(
                f"times go back by up to {format_duration(seconds(longest))}, as where a clock is "
                "set, summer time ends or logs are joined: readings are put in order, and those of "
                "one time are of one poll"
            )

    def close(self) -> None:
        """Remove temporary files."""
        self.text.close()
        if self._sorted is not None:
            self._sorted.close()


def merge_rows(streams: Sequence[Iterator[RecordingRow]]) -> Iterator[RecordingRow]:
    """The rows of all files by time; those of one time in the order of the files."""
    return streams[0] if len(streams) == 1 else merge(*streams, key=attrgetter("time"))
