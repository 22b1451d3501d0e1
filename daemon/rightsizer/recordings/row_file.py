"""Files of rows: read in each pass, sorted on disk if out of order, merged by time."""

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from heapq import merge
from operator import attrgetter
from typing import Any, Final

from msgspec.structs import replace

from rightsizer.model.values import HOUR, Nanoseconds, Signal, format_duration, seconds
from rightsizer.recordings.row import RecordingNotes, RecordingRow
from rightsizer.recordings.text_file import RecordingFormat, TextFile

_BATCH: Final = 1000
_SUNDAY: Final = 6
_SUMMER_TIME_ENDS: Final = 4
"""Hour of the day before which it ends anywhere."""
_LONGEST_GAP: Final[Nanoseconds] = HOUR // 4
_ROWS_BETWEEN_STEPS: Final = 20
"""Minimum mean for a clock that was set back; other files are simply unordered."""


class SortedRows:
    """Rows sorted by time, in a temporary file.

    A row is stored as its time, its values as doubles, and the number of its shape: all else, which
    rarely changes and is kept in memory once.
    """

    def __init__(self, rows: Iterable[RecordingRow]) -> None:
        self._shapes: dict[tuple[Any, ...], int] = {}
        self._by_number: list[tuple[Any, ...]] = []
        self._database = sqlite3.connect("", check_same_thread=False)
        try:
            self._database.execute("CREATE TABLE row (time INTEGER, shape INTEGER, numbers BLOB)")
            self._database.executemany("INSERT INTO row VALUES (?, ?, ?)", map(self._encode, rows))
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[RecordingRow]:
        """Yield the rows by time, stable."""
        cursor = self._database.cursor()
        cursor.arraysize = _BATCH
        cursor.execute("SELECT time, shape, numbers FROM row ORDER BY time, rowid")
        return map(self._decode, cursor)

    def close(self) -> None:
        """Delete the temporary file."""
        self._database.close()

    def _encode(self, row: RecordingRow) -> tuple[int, int, bytes]:
        shape = (
            row.device,
            tuple(row.values),
            tuple(row.missing.items()),
            row.stream,
            row.rank,
            row.holdings,
            row.processes,
        )
        number = self._shapes.get(shape)
        if number is None:
            number = self._shapes[shape] = len(self._by_number)
            self._by_number.append(shape)
        return row.time, number, array("d", row.values.values()).tobytes()

    def _decode(self, row: tuple[int, int, bytes]) -> RecordingRow:
        time, number, numbers = row
        device, signals, missing, *rest = self._by_number[number]
        values = dict(zip(signals, array("d", numbers), strict=True))
        return RecordingRow(time, device, values, dict(missing), *rest)


def _ends_summer_time(back: Nanoseconds, time: Nanoseconds) -> bool:
    """Whether a clock went back by an hour at a full one, in the night to a Sunday."""
    moment = datetime.fromtimestamp(seconds(time), UTC)
    return (
        time % HOUR <= HOUR - back <= _LONGEST_GAP
        and moment.weekday() == _SUNDAY
        and moment.hour < _SUMMER_TIME_ENDS
    )


class RowFile:
    """A file of rows, sorted once it is found to be out of order."""

    def __init__(self, text: TextFile, format: RecordingFormat) -> None:  # noqa: A002 - what it is.
        self.text = text
        self.notes = RecordingNotes(text.name)
        self.names: dict[str, str] = {}
        """Devices by their other names."""
        self.since: Nanoseconds = 0
        """Time at which the clock was set; earlier rows are skipped."""
        self._format = format
        self._sorted: SortedRows | None = None

    def rows(self) -> Iterator[RecordingRow]:
        """Yield all rows; each call starts over."""
        rows = self._own_rows() if self._sorted is None else iter(self._sorted)
        if self.since:
            rows = self._of_set_clock(rows)
        if not self.names:
            return rows
        names = self.names
        return (
            row if (name := names.get(row.device)) is None else replace(row, device=name)
            for row in rows
        )

    def _of_set_clock(self, rows: Iterator[RecordingRow]) -> Iterator[RecordingRow]:
        for row in rows:
            if row.time >= self.since:
                yield row
            else:
                self.notes.remark("readings of a clock that was not set are left out")

    def sort(self) -> None:
        """Sort the rows once."""
        if self._sorted is None:
            self._sorted = SortedRows(self._own_rows())

    def _own_rows(self) -> Iterator[RecordingRow]:
        """Yield the rows in file order; report where times go back.

        Where summer time ends, and local clocks show an hour twice, times are counted on.
        """
        self.notes = RecordingNotes(self.text.name)
        # Exporters write one signal after another, each from its first time.
        last: dict[tuple[str, Signal | None], Nanoseconds] = {}
        ahead = read = steps = longest = 0
        for row in self._format.rows(self.text, self.notes):
            key = (row.device, next(iter(row.values), None))
            time = row.time + ahead
            back = last.get(key, time) - time
            if back > 0 and _ends_summer_time(back, row.time):
                ahead = ahead + HOUR
                time = time + HOUR
                moment = datetime.fromtimestamp(seconds(row.time), UTC)
                self.notes.remark(
                    f"summer time ends on {moment:%Y-%m-%d}: its times from {moment:%H:%M:%S} on "
                    "are counted on, an hour ahead"
                )
            elif back > 0:
                steps = steps + 1
                longest = max(longest, back)
            last[key] = time
            read += 1
            yield replace(row, time=time) if ahead else row
        if steps and steps * _ROWS_BETWEEN_STEPS <= read:
            self.notes.remark(
                f"times go back by up to {format_duration(seconds(longest))}, as where a clock is "
                "set or logs are joined: readings are put in order, and those of "
                "one time are of one poll"
            )

    def close(self) -> None:
        """Delete temporary files."""
        self.text.close()
        if self._sorted is not None:
            self._sorted.close()


def merge_rows(streams: Sequence[Iterator[RecordingRow]]) -> Iterator[RecordingRow]:
    """Merge the rows of all files by time, then in file order."""
    return streams[0] if len(streams) == 1 else merge(*streams, key=attrgetter("time"))
