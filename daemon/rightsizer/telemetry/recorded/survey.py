"""The first pass over a recording: what is in it, in which order, and how often."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import Final

from rightsizer.domain.errors import RecordingError
from rightsizer.domain.signal import Signal
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.recorded.format import Format
from rightsizer.telemetry.recorded.gaps import Gaps
from rightsizer.telemetry.recorded.row import Facts, Notes, Row
from rightsizer.telemetry.recorded.sorting import SortedRows
from rightsizer.telemetry.recorded.text import TextFile

__all__ = ["RowFile", "Survey", "merged", "survey"]

_READINGS: Final = "readings"
_SETTLE_EVERY: Final = 1 << 16


class RowFile:
    """A file of rows, which comes in order of time from the moment it is found not to be."""

    def __init__(self, text: TextFile, format: Format) -> None:  # noqa: A002 - what it is.
        """A file and its format."""
        self.text = text
        self.notes = Notes(text.name)
        self._format = format
        self._sorted: SortedRows | None = None

    def rows(self) -> Iterator[Row]:
        """All rows; each call starts anew."""
        if self._sorted is not None:
            return iter(self._sorted)
        self.notes = Notes(self.text.name)
        return self._format.rows(self.text, self.notes)

    def sort(self) -> None:
        """Put the rows in order, once and for all."""
        self._sorted = SortedRows(self.rows())

    def close(self) -> None:
        """Remove temporary files."""
        self.text.close()
        if self._sorted is not None:
            self._sorted.close()


@dataclass(frozen=True, slots=True)
class Survey:
    """What the first pass found."""

    interval: Nanoseconds
    """The exact median of the times between readings of a device."""
    intervals: dict[tuple[str, str], Nanoseconds]
    """The same by device and stream; 0 for one that was read only once."""
    facts: dict[str, Facts]
    """By device, in the order of their first row."""
    start: Nanoseconds
    end: Nanoseconds
    assumed: bool
    """Whether the interval is a guess, because no device was read twice."""


class _OutOfOrderError(Exception):
    def __init__(self, file: RowFile) -> None:
        super().__init__(file.text.name)
        self.file = file


def merged(files: Sequence[RowFile]) -> Iterator[Row]:
    """The rows of all files by time; those of one time in the order of the files."""
    streams = [file.rows() for file in files]
    if len(streams) == 1:
        return streams[0]
    return merge(*streams, key=attrgetter("time"))


def survey(files: Sequence[RowFile]) -> Survey:
    """Read everything once; a file that is out of order is sorted on the way.

    Raises:
        RecordingError: there is not a single row.
    """
    while True:
        gaps = Gaps()
        with contextlib.closing(gaps):
            try:
                return _Pass(gaps).over(files)
            except _OutOfOrderError as error:
                error.file.sort()


class _Pass:
    def __init__(self, gaps: Gaps) -> None:
        self._gaps = gaps
        self._last: dict[tuple[str, str], Nanoseconds] = {}
        self._seen: dict[str, Nanoseconds] = {}
        self._facts: dict[str, Facts] = {}
        self._start: Nanoseconds = 0

    def over(self, files: Sequence[RowFile]) -> Survey:
        rows = (
            _in_order(files[0])
            if len(files) == 1
            else merge(*map(_in_order, files), key=attrgetter("time"))
        )
        first = next(rows, None)
        if first is None:
            names = ", ".join(file.text.name for file in files)
            raise RecordingError(f"{names}: there is no reading of any device in it{_why(files)}")
        self._start = first.time
        self._read(chain((first,), rows))
        for file in files:
            for device, facts in file.notes.facts.items():
                self._facts.setdefault(device, Facts()).learn(facts)
        interval = self._gaps.median(_READINGS)
        return Survey(
            interval=NANOSECONDS_PER_SECOND if interval is None else interval,
            intervals={key: self._gaps.median(key) or 0 for key in self._last},
            facts=self._facts,
            start=self._start,
            end=max(self._seen.values()),
            assumed=interval is None,
        )

    def _read(self, rows: Iterator[Row]) -> None:
        last, seen = self._last, self._seen
        between_readings = self._gaps.of(_READINGS)
        for count, row in enumerate(rows, 1):
            time, device = row.time, row.device
            key = (device, row.stream)
            before = last.get(key)
            last[key] = time
            if before is None:
                self._meet(row)
            elif time > before:
                self._gaps.of(key)[time - before] += 1
            before = seen.get(device)
            if before is None or time > before:
                seen[device] = time
                if before is not None:
                    between_readings[time - before] += 1
            if not count % _SETTLE_EVERY:
                self._gaps.settle()

    def _meet(self, row: Row) -> None:
        self._facts.setdefault(row.device, Facts()).learn(
            Facts(
                memory_total_bytes=row.values.get(Signal.MEMORY_TOTAL_BYTES),
                sm_clock_maximum_hertz=row.values.get(Signal.SM_CLOCK_MAXIMUM_HERTZ),
            )
        )


def _in_order(file: RowFile) -> Iterator[Row]:
    last = None
    for row in file.rows():
        if last is not None and row.time < last:
            raise _OutOfOrderError(file)
        last = row.time
        yield row


def _why(files: Sequence[RowFile]) -> str:
    warnings = [warning for file in files for warning in file.notes.warnings]
    return f" ({'; '.join(warnings)})" if warnings else "; was it recorded with GPUs present?"
