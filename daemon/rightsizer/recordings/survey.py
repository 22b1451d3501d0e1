"""First pass over a recording: contents, order, interval, loads."""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate
from operator import add
from typing import Final

from msgspec import Struct, field

from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Missing,
    Nanoseconds,
    Process,
    ProcessKind,
    RecordingError,
    Signal,
)
from rightsizer.recordings.node_check import RepeatedTimes, of_one_node, other_names
from rightsizer.recordings.row import RecordingRow
from rightsizer.recordings.row_file import RowFile, merge_rows
from rightsizer.recordings.text_file import Progress, show_read
from rightsizer.recordings.timestamps import CLOCKS_SET
from rightsizer.telemetry.device_description import DeviceDescription

_MOST_MOMENTS: Final = 2048
_GAP_BITS: Final = 11
_MOST_PROCESSES: Final = 4096
"""Limit per device; later processes do not identify jobs."""
_STRETCH_GAPS: Final = 7
"""Gaps by whose median a stretch of another interval is told. Source: assumed."""
_READINGS: Final = "readings"
_SHOWN_EVERY: Final = 1 << 12
_SPREADSHEET_DAYS: Final = range(36_526 * NANOSECONDS_PER_SECOND, 73_050 * NANOSECONDS_PER_SECOND)
"""Years 2000 to 2099 as a spreadsheet numbers days, read as seconds."""
_SPREADSHEET_INTERVAL: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 100
"""A quarter of an hour in days; what counts seconds for ten hours is read less often."""


class Load(StrEnum):
    """Load signals kept per device."""

    BUSY = "busy"
    """0 to 1."""
    WATTS = "watts"
    MEMORY = "memory"
    """In the recording's unit."""


_SIGNALS: Final = (
    (Load.BUSY, (Signal.GPU_BUSY, Signal.SM_ACTIVE)),
    (Load.WATTS, (Signal.POWER_WATTS,)),
    (Load.MEMORY, (Signal.MEMORY_USED_BYTES, Signal.MEMORY_USED)),
)
_LOADS: Final = tuple(load for load, _ in _SIGNALS)
_WIDTH: Final = 2 * len(_LOADS)


class LoadSeries(Struct, frozen=True):
    """Mean loads of a device over moments of equal length."""

    start: Nanoseconds
    """Wall time of the first moment; the same for all devices of a recording."""
    step: Nanoseconds
    values: dict[Load, list[float]]
    """`nan` where a load is unknown."""
    processes: Mapping[int, tuple[Nanoseconds, Nanoseconds]] = {}
    """First and last time of each compute process by pid."""

    def known(self, load: Load) -> bool:
        """Whether a load was ever read."""
        return any(not math.isnan(value) for value in self.values[load])


class LoadSeriesBuilder:
    """Sums of rows in time order; moments grow with the length of the recording."""

    def __init__(self) -> None:
        self.start: Nanoseconds | None = None
        """Time of the first row."""
        self._step: Nanoseconds = NANOSECONDS_PER_SECOND
        self._sums: dict[str, array[float]] = {}
        """Per moment, count and sum of the values of each load."""
        self._processes: dict[str, dict[int, tuple[Nanoseconds, Nanoseconds]]] = {}
        self.has_owners = False
        """Whether any row names a holder."""
        self.lost: dict[str, Nanoseconds] = {}
        """Time at which a device was first reported lost."""
        self.maxima: dict[tuple[str, Signal], float] = {}
        """Largest value of each device's signal, of those with loads."""

    def add(self, row: RecordingRow) -> None:
        """Add a row."""
        if self.start is None:
            self.start = row.time
        if row.holdings:
            self.has_owners = True
        if not row.values and Missing.LOST in row.missing.values():
            self.lost.setdefault(row.device, row.time)
        if row.processes:
            self._add_processes(row.device, row.processes, row.time)
        place = self._moment(row.time - self.start) * _WIDTH
        sums = self._sums.setdefault(row.device, array("d"))
        values = row.values
        maxima = self.maxima
        if place >= len(sums):
            sums.extend([0.0] * (place + _WIDTH - len(sums)))
        for _, signals in _SIGNALS:
            for signal in signals:
                if signal in values:
                    sums[place] += 1.0
                    value = values[signal]
                    sums[place + 1] += value
                    if value > maxima.get((row.device, signal), 0.0):
                        maxima[row.device, signal] = value
                    break
            place += 2

    def series(self, interval: Nanoseconds) -> dict[str, LoadSeries]:
        """Return the series of all devices, with moments of at least the interval."""
        while self._step < interval:
            self._widen()
        count = max(map(len, self._sums.values()), default=0) // _WIDTH
        return {
            device: LoadSeries(
                self.start or 0, self._step, _means(sums, count), self._processes.get(device, {})
            )
            for device, sums in self._sums.items()
        }

    def _moment(self, elapsed: Nanoseconds) -> int:
        moment = elapsed // self._step
        while moment >= _MOST_MOMENTS:
            self._widen()
            moment //= 2
        return moment

    def _add_processes(self, device: str, processes: Iterable[Process], time: Nanoseconds) -> None:
        device_processes = self._processes.setdefault(device, {})
        for process in processes:
            if process.kind is ProcessKind.COMPUTE and len(device_processes) < _MOST_PROCESSES:
                first, _ = device_processes.get(process.pid, (time, time))
                device_processes[process.pid] = first, time

    def _widen(self) -> None:
        self._step *= 2
        for device, sums in self._sums.items():
            count = -(-len(sums) // (2 * _WIDTH))
            sums.extend([0.0] * (2 * _WIDTH * count - len(sums)))
            wider = self._sums[device] = array("d", bytes(sums.itemsize * _WIDTH * count))
            for place in range(_WIDTH):
                halves = (sums[at :: 2 * _WIDTH] for at in (place, place + _WIDTH))
                wider[place::_WIDTH] = array("d", map(add, *halves))


def _means(sums: "array[float]", count: int) -> dict[Load, list[float]]:
    means = {load: [math.nan] * count for load in _LOADS}
    for moment in range(len(sums) // _WIDTH):
        for place, load in enumerate(_LOADS):
            if times := sums[moment * _WIDTH + 2 * place]:
                means[load][moment] = sums[moment * _WIDTH + 2 * place + 1] / times
    return means


class IntervalMedian:
    """Medians of gaps by key, to a thousandth.

    Logs repeat a few gaps; those with the same first bits count as the first of them.
    """

    def __init__(self) -> None:
        self._counts: defaultdict[Hashable, dict[int, list[int]]] = defaultdict(dict)
        """Of each rounded gap, the first one and the number."""

    def add(self, key: Hashable, gap: Nanoseconds) -> None:
        """Add a gap."""
        below = max(0, gap.bit_length() - _GAP_BITS)
        self._counts[key].setdefault(gap >> below << below, [gap, 0])[1] += 1

    def total(self, key: Hashable) -> int:
        """Return the number of gaps of a key."""
        return sum(count for _, count in self._counts[key].values())

    def median(self, key: Hashable) -> Nanoseconds | None:
        """Return the median gap of a key, or `None`."""
        counts = sorted(self._counts[key].values())
        if not (ends := [*accumulate(count for _, count in counts)]):
            return None
        low, high = (counts[bisect_right(ends, n)][0] for n in ((ends[-1] - 1) // 2, ends[-1] // 2))
        return (low + high) // 2


class DeviceIntervals:
    """Intervals of a device's readings by stretches of time, as its log was restarted."""

    def __init__(self) -> None:
        self._recent: deque[tuple[Nanoseconds, Nanoseconds]] = deque(maxlen=_STRETCH_GAPS)
        """Last gaps, and the times of their starts."""
        self._starts = array("q")
        self._intervals = array("q")

    def add(self, start: Nanoseconds, gap: Nanoseconds) -> None:
        """Add a gap; a stretch begins with the first of most recent ones of another length."""
        self._recent.append((gap, start))
        if self._is_usual(gap) or len(self._recent) < _STRETCH_GAPS:
            return
        median, _ = sorted(self._recent)[_STRETCH_GAPS // 2]
        if not self._is_usual(median):
            self._starts.append(self._recent[_STRETCH_GAPS // 2][1] if self._starts else 0)
            self._intervals.append(median)

    def at(self, time: Nanoseconds, otherwise: Nanoseconds) -> Nanoseconds:
        """Return the interval before a reading, or another one where there are too few gaps."""
        stretch = bisect_left(self._starts, time) - 1
        return self._intervals[stretch] if stretch >= 0 else otherwise

    def _is_usual(self, gap: Nanoseconds) -> bool:
        """Whether a gap is within a factor of two of the present interval."""
        return bool(self._intervals) and gap <= 2 * self._intervals[-1] <= 4 * gap


class RecordingSurvey(Struct, frozen=True):
    """Results of the first pass."""

    interval: Nanoseconds | None
    """Median between readings of a device; `None` if none was read twice."""
    intervals: dict[tuple[str, str], Nanoseconds]
    """Medians by device and stream; 0 for a single reading."""
    facts: dict[str, DeviceDescription]
    start: Nanoseconds = 0
    """Time of the first reading."""
    end: Nanoseconds = 0
    """Time of the last reading."""
    loads: LoadSeriesBuilder = field(default_factory=LoadSeriesBuilder)
    ends: Mapping[str, Nanoseconds] = {}
    """Time of the last reading of each device."""
    stretches: Mapping[str, DeviceIntervals] = {}
    """By device."""


class _OutOfOrderError(Exception):
    pass


def survey_files(files: Sequence[RowFile], progress: Progress) -> RecordingSurvey:
    """Read everything once; again if devices have two names or files are out of order."""
    while True:
        try:
            survey = _surveyed(files, progress)
        except _OutOfOrderError:
            # Files of a recording are alike, and each attempt rereads everything.
            for file in files:
                file.sort()
            continue
        if survey.start in _SPREADSHEET_DAYS and (survey.interval or 0) < _SPREADSHEET_INTERVAL:
            raise RecordingError(
                f"{files[0].text.name}: its times are days of a spreadsheet, not seconds; format "
                "that column as yyyy-mm-dd hh:mm:ss there, and save it again"
            )
        names = other_names(survey.facts)
        since = CLOCKS_SET if survey.start < CLOCKS_SET <= survey.end else 0
        if not names and not since:
            return survey
        for file in files:
            file.names = {**file.names, **names}
            file.since = max(file.since, since)


def _surveyed(files: Sequence[RowFile], progress: Progress) -> RecordingSurvey:
    last: dict[tuple[str, str], RecordingRow] = {}
    repeated = RepeatedTimes()
    seen: dict[str, Nanoseconds] = {}
    learned: defaultdict[str, DeviceDescription] = defaultdict(DeviceDescription)
    loads = LoadSeriesBuilder()
    gaps = IntervalMedian()
    stretches: defaultdict[str, DeviceIntervals] = defaultdict(DeviceIntervals)
    rows = merge_rows([_in_order(file) for file in files])
    if len(files) > 1:
        rows = of_one_node(rows, files[0])
    for count, row in enumerate(rows, 1):
        time = row.time
        device = row.device
        key = (device, row.stream)
        before = last.get(key)
        last[key] = row
        loads.add(row)
        if before is None:
            learned[device].learn(
                DeviceDescription(
                    memory_total_bytes=row.values.get(Signal.MEMORY_TOTAL_BYTES),
                    sm_clock_maximum_hertz=row.values.get(Signal.SM_CLOCK_MAXIMUM_HERTZ),
                )
            )
        elif time > before.time:
            gaps.add(key, time - before.time)
        else:
            repeated.add(before, row)
        if time > (earlier := seen.setdefault(device, time)):
            seen[device] = time
            gaps.add(_READINGS, time - earlier)
            stretches[device].add(earlier, time - earlier)
        if not count % _SHOWN_EVERY:
            show_read(progress, [file.text for file in files])
    if not last:
        raise _nothing_read(files)
    repeated.check({key: gaps.total(key) for key in last}, files[0].notes)
    for file in files:
        for device, facts in file.notes.facts.items():
            learned[file.names.get(device, device)].learn(facts)
    return RecordingSurvey(
        interval=gaps.median(_READINGS),
        intervals={key: gaps.median(key) or 0 for key in last},
        facts=learned,
        start=loads.start or 0,
        end=max(seen.values()),
        loads=loads,
        ends=seen,
        stretches=stretches,
    )


def _nothing_read(files: Sequence[RowFile]) -> RecordingError:
    names = ", ".join(file.text.name for file in files)
    warnings = "; ".join(warning for file in files for warning in file.notes.warnings({}))
    why = f" ({warnings})" if warnings else "; was it recorded with GPUs present?"
    if "line of another length" in warnings:
        why += (
            "; where its numbers have decimal commas, separate the columns by semicolons, and "
            "where a comma ends its rows, end the heading with one too"
        )
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
