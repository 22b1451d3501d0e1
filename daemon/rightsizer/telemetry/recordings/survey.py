"""First pass over a recording: contents, order, interval, loads; rows are sorted on disk."""

import contextlib
import math
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from heapq import merge
from operator import attrgetter
from typing import Any, Final

from rightsizer.model.errors import RecordingError
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.reading import Missing, Process, ProcessKind
from rightsizer.model.signal import Signal
from rightsizer.model.units import (
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    format_duration,
    seconds,
)
from rightsizer.telemetry.recordings.row import (
    RecordingDeviceFacts,
    RecordingNotes,
    RecordingRow,
)
from rightsizer.telemetry.recordings.text_file import (
    Progress,
    RecordingFormat,
    TextFile,
    no_progress,
    show_read,
)

_MOST_MOMENTS: Final = 2048
_MOST_IN_MEMORY: Final = 100_000
_MOST_PROCESSES: Final = 4096
"""Of one device; later ones tell no job."""
_BATCH: Final = 1000
_READINGS: Final = "readings"
_SETTLE_EVERY: Final = 1 << 12
_ROWS_BETWEEN_STEPS: Final = 20
"""At least, on average, where a clock goes back; other files are simply in no order."""


class Load(StrEnum):
    """What is kept of a device."""

    BUSY = "busy"
    """0 to 1."""
    WATTS = "watts"
    MEMORY = "memory"
    """In whatever unit the recording has; one for all of it."""


_SIGNALS: Final = (
    (Load.BUSY, (Signal.GPU_BUSY, Signal.SM_ACTIVE)),
    (Load.WATTS, (Signal.POWER_WATTS,)),
    (Load.MEMORY, (Signal.MEMORY_USED_BYTES, Signal.MEMORY_USED)),
)
_LOADS: Final = tuple(load for load, _ in _SIGNALS)
_WIDTH: Final = 2 * len(_LOADS)


@dataclass(frozen=True, slots=True)
class LoadSeries:
    """Means of one device's loads over moments of equal length."""

    start: Nanoseconds
    """Wall time of the first moment; the same for all devices of a recording."""
    step: Nanoseconds
    values: dict[Load, list[float]]
    """`nan` where a load is not known at a moment."""
    processes: Mapping[int, tuple[Nanoseconds, Nanoseconds]] = field(default_factory=dict)
    """By pid, from when to when each that computes is there."""

    def known(self, load: Load) -> bool:
        """Whether a load was ever read."""
        return any(not math.isnan(value) for value in self.values[load])


class LoadSeriesBuilder:
    """Sums of rows in the order of time; moments become longer as the recording does."""

    def __init__(self) -> None:
        self._start: Nanoseconds | None = None
        self._step: Nanoseconds = NANOSECONDS_PER_SECOND
        self._sums: dict[str, array[float]] = {}
        """Of each moment the number and the sum of the values of each load."""
        self._processes: dict[str, dict[int, tuple[Nanoseconds, Nanoseconds]]] = {}
        self.has_owners = False
        """Whether any row says who holds its device."""
        self.lost: dict[str, Nanoseconds] = {}
        """When a device was first said to be lost."""

    def see(self, row: RecordingRow) -> None:
        """Add a row."""
        if self._start is None:
            self._start = row.time
        if row.holdings:
            self.has_owners = True
        if not row.values and Missing.LOST in row.missing.values():
            self.lost.setdefault(row.device, row.time)
        if row.processes:
            self._see_processes(row.device, row.processes, row.time)
        moment = (row.time - self._start) // self._step
        while moment >= _MOST_MOMENTS:
            self._widen()
            moment //= 2
        sums, values = self._sums.setdefault(row.device, array("d")), row.values
        place = moment * _WIDTH
        if place >= len(sums):
            sums.extend([0.0] * (place + _WIDTH - len(sums)))
        for _, signals in _SIGNALS:
            for signal in signals:
                if signal in values:
                    sums[place] += 1.0
                    sums[place + 1] += values[signal]
                    break
            place += 2

    def series(self, interval: Nanoseconds) -> dict[str, LoadSeries]:
        """Those of all devices, with moments that hold a reading each."""
        while self._step < interval:
            self._widen()
        count = max(map(len, self._sums.values()), default=0) // _WIDTH
        return {
            device: LoadSeries(
                self._start or 0, self._step, _means(sums, count), self._processes.get(device, {})
            )
            for device, sums in self._sums.items()
        }

    def _see_processes(self, device: str, processes: Iterable[Process], time: Nanoseconds) -> None:
        known = self._processes.setdefault(device, {})
        for process in processes:
            if process.kind is ProcessKind.COMPUTE and len(known) < _MOST_PROCESSES:
                first, _ = known.get(process.pid, (time, time))
                known[process.pid] = first, time

    def _widen(self) -> None:
        self._step *= 2
        for device, sums in self._sums.items():
            count = -(-len(sums) // (2 * _WIDTH))
            sums.extend([0.0] * (2 * _WIDTH * count - len(sums)))
            places = (2 * _WIDTH * at + place for at in range(count) for place in range(_WIDTH))
            self._sums[device] = array("d", (sums[at] + sums[at + _WIDTH] for at in places))


def _means(sums: "array[float]", count: int) -> dict[Load, list[float]]:
    found = {load: [math.nan] * count for load in _LOADS}
    for moment in range(len(sums) // _WIDTH):
        for place, load in enumerate(_LOADS):
            if times := sums[moment * _WIDTH + 2 * place]:
                found[load][moment] = sums[moment * _WIDTH + 2 * place + 1] / times
    return found


class IntervalMedian:
    """How often each gap occurred, by whatever has gaps of its own.

    Logs repeat a few gaps for ever, so that counting them is cheap; clocks that jitter by the
    nanosecond do not, and what is too much for the memory goes to a temporary file.
    """

    def __init__(self, most_in_memory: int = _MOST_IN_MEMORY) -> None:
        self._most = most_in_memory
        self._counts: dict[Hashable, defaultdict[Nanoseconds, int]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._spilled: sqlite3.Connection | None = None

    def of(self, key: Hashable) -> defaultdict[Nanoseconds, int]:
        """The counter of one key, for the caller to add to until the next `settle`."""
        return self._counts.setdefault(key, defaultdict(int))

    def settle(self) -> None:
        """Move the counts to the temporary file if they have become too many."""
        if sum(map(len, self._counts.values())) > self._most:
            self._spill()

    def median(self, key: Hashable) -> Nanoseconds | None:
        """The median of a key's gaps, `None` where there are none."""
        if self._spilled is not None:
            self._spill()
        total = sum(count for _, count in self._sorted(key))
        if not total:
            return None
        low = _nth(self._sorted(key), (total - 1) // 2)
        return (low + _nth(self._sorted(key), total // 2)) // 2

    def close(self) -> None:
        """Remove the temporary file."""
        if self._spilled is not None:
            self._spilled.close()

    def _sorted(self, key: Hashable) -> Iterable[tuple[Nanoseconds, int]]:
        if self._spilled is None:
            return sorted(self._counts.get(key, {}).items())
        return self._spilled.execute(
            "SELECT gap, count FROM gap WHERE key = ? ORDER BY gap", (self._numbers.get(key),)
        )

    def _spill(self) -> None:
        if self._spilled is None:
            self._spilled = sqlite3.connect("", check_same_thread=False)
            self._spilled.execute(
                "CREATE TABLE gap (key INTEGER, gap INTEGER, count INTEGER, "
                "PRIMARY KEY (key, gap)) WITHOUT ROWID"
            )
        self._spilled.executemany(
            "INSERT INTO gap VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET count = count + excluded.count",
            (
                (self._numbers.setdefault(key, len(self._numbers)), gap, count)
                for key, counts in self._counts.items()
                for gap, count in sorted(counts.items())
            ),
        )
        for counts in self._counts.values():
            counts.clear()


def _nth(counts: Iterable[tuple[Nanoseconds, int]], n: int) -> Nanoseconds:
    for gap, count in counts:
        if n < count:
            return gap
        n -= count
    raise IndexError(n)


class SortedRows:
    """Rows by time, in a temporary file that goes when it is closed.

    A row is its time, its values as doubles, and the number of its shape: everything else of it,
    which hardly changes from row to row and is kept in memory once.
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
        self._format = format
        self._sorted: SortedRows | None = None

    def rows(self) -> Iterator[RecordingRow]:
        """All rows; each call starts again."""
        rows = self._own_rows() if self._sorted is None else iter(self._sorted)
        if not self.names:
            return rows
        names = self.names
        return (
            row if (name := names.get(row.device)) is None else row._replace(device=name)
            for row in rows
        )

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


@dataclass(frozen=True, slots=True)
class RecordingSurvey:
    """What the first pass found."""

    interval: Nanoseconds | None
    """The exact median of the times between readings of a device; `None` where none was read
    twice."""
    intervals: dict[tuple[str, str], Nanoseconds]
    """The same by device and stream; 0 for one that was read only once."""
    facts: dict[str, RecordingDeviceFacts]
    end: Nanoseconds = 0
    """The time of the last reading."""
    loads: LoadSeriesBuilder = field(default_factory=LoadSeriesBuilder)


class _OutOfOrderError(Exception):
    pass


def merge_rows(streams: Sequence[Iterator[RecordingRow]]) -> Iterator[RecordingRow]:
    """The rows of all files by time; those of one time in the order of the files."""
    return streams[0] if len(streams) == 1 else merge(*streams, key=attrgetter("time"))


def survey_files(files: Sequence[RowFile], progress: Progress = no_progress) -> RecordingSurvey:
    """Read everything once, again with devices that have two names under one, or out of order.

    Files that are out of order are sorted; without a row they are refused.
    """
    while True:
        with contextlib.closing(IntervalMedian()) as gaps:
            try:
                found = _surveyed(files, gaps, progress)
            except _OutOfOrderError:
                # Files of one recording are alike, and each try reads what comes before.
                for file in files:
                    file.sort()
                continue
        names = _other_names(found.facts)
        if not names:
            return found
        for file in files:
            file.names = names


def _other_names(facts: Mapping[str, RecordingDeviceFacts]) -> dict[str, str]:
    """The uuids of devices that other rows call by their index, where but one device has it."""
    named: dict[int, list[str]] = {}
    for device, fact in facts.items():
        if fact.index is not None and fact.mig_profile is None:
            named.setdefault(fact.index, []).append(device)
    return {
        by_index: uuid
        for index, (uuid, *others) in ((at, sorted(each)) for at, each in named.items())
        if others == [by_index := f"index:{index}"]
    }


def _surveyed(
    files: Sequence[RowFile], gaps: IntervalMedian, progress: Progress
) -> RecordingSurvey:
    last: dict[tuple[str, str], Nanoseconds] = {}
    seen: dict[str, Nanoseconds] = {}
    learned: defaultdict[str, RecordingDeviceFacts] = defaultdict(RecordingDeviceFacts)
    loads = LoadSeriesBuilder()
    between_readings = gaps.of(_READINGS)
    for count, row in enumerate(merge_rows([_in_order(file) for file in files]), 1):
        time, device = row.time, row.device
        key = (device, row.stream)
        before = last.get(key)
        last[key] = time
        loads.see(row)
        if before is None:
            learned[device].learn(
                RecordingDeviceFacts(
                    memory_total_bytes=row.values.get(Signal.MEMORY_TOTAL_BYTES),
                    sm_clock_maximum_hertz=row.values.get(Signal.SM_CLOCK_MAXIMUM_HERTZ),
                )
            )
        elif time > before:
            gaps.of(key)[time - before] += 1
        before = seen.get(device)
        if before is None or time > before:
            seen[device] = time
            if before is not None:
                between_readings[time - before] += 1
        if not count % _SETTLE_EVERY:
            gaps.settle()
            show_read(progress, [file.text for file in files])
    if not last:
        raise _nothing_read(files)
    for file in files:
        for device, facts in file.notes.facts.items():
            learned[file.names.get(device, device)].learn(facts)
    return RecordingSurvey(
        interval=gaps.median(_READINGS),
        intervals={key: gaps.median(key) or 0 for key in last},
        facts=learned,
        end=max(last.values()),
        loads=loads,
    )


def _nothing_read(files: Sequence[RowFile]) -> RecordingError:
    names = ", ".join(file.text.name for file in files)
    warnings = "; ".join(each for file in files for each in file.notes.warnings)
    why = f" ({warnings})" if warnings else "; was it recorded with GPUs present?"
    if "unreadable timestamp" in warnings:
        why += "; write times as 2026-01-31 12:34:56, or as seconds since the epoch"
    return RecordingError(f"{names}: there is no reading of any device in it{why}")


def _in_order(file: RowFile) -> Iterator[RecordingRow]:
    last = None
    for row in file.rows():
        if last is not None and row.time < last:
            raise _OutOfOrderError
        last = row.time
        yield row
