"""Tables in `nsys stats` output, recognized by their columns, row by row."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import numpy as np
from msgspec import Struct

from rightsizer.model.profile import CopyKind, HostMemory
from rightsizer.profiles.columns import chosen
from rightsizer.profiles.json_events import JsonWindow
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.names import copy_kind
from rightsizer.profiles.printed_text import (
    LARGEST,
    DecimalMark,
    PrintedText,
    bytes_in,
    decimal_mark,
    printed_number,
    quoted_record,
    seconds_in,
)
from rightsizer.profiles.reader import open_unpacked
from rightsizer.profiles.timeline import Numbers

_COPY: Final = re.compile(r"\[CUDA (Unified Memory )?memcpy ([\w-]+)\]", re.IGNORECASE)
_COLUMN: Final = re.compile(r"(.*?)\s*\(([^()]*)\)")
_FORMER_NAMES: Final[Mapping[str, str]] = {
    "average": "avg",
    "minimum": "min",
    "maximum": "max",
    "operations": "count",
    "calls": "num calls",
}
_NOTICE: Final = re.compile(
    r"\s*$|\s*\*\*|\s+\S|Generating |Processing |NOTICE|SKIPPED|Exporting|Using |WARNING|ERROR|"
    r"Importing|FATAL|The timeunit|Database file|\d+\.\.|\[[=\d]"
)
_PROCESSING: Final = re.compile(r"Processing \[.*\] with \[.*\]")
_SKIPPED: Final = re.compile(r"SKIPPED: .* does not contain")
_TITLE: Final = re.compile(r'"?[A-Za-z]')
"""Rows begin with a number; other lines begin with a letter."""
_HEADING: Final = re.compile(r"\s*\*\* .+ \(\w+\):\s*$")
_RULE: Final = re.compile(r"\s*-{2,}(?: +-{2,}){2,}\s*")
"""Line below the titles of a table in columns."""
_UNIT: Final = re.compile(r"\((?:[num]?s|[KMG]i?B|%)\)$")
_FEWEST_TITLES: Final = 3
_SAMPLED_LINES: Final = 2000
_BEGINNING_BYTES: Final = 2**16
_FILL: Final = 2**18
_TOGETHER: Final = 4096
"""Rows that become columns together."""
_DIGITS: Final = re.compile(r"(?:\d{1,20}\0)*")
"""Whole numbers, a zero after each."""
_NAMED_LAST: Final = frozenset({"name", "operation", "range"})


def copy_of(name: str) -> tuple[CopyKind, HostMemory] | None:
    """Return what an operation copies; `None` if it is no copy."""
    match = _COPY.fullmatch(name.strip())
    if not match:
        return None
    memory = HostMemory.MANAGED if match[1] else HostMemory.UNKNOWN
    return copy_kind(match[2]), memory


class StatsReport(StrEnum):
    """Supported reports, by their names in the vendor's program."""

    KERNELS = "cuda_gpu_kern_sum"
    KERNELS_BY_GRID = "cuda_gpu_kern_gb_sum"
    GPU_SUMS = "cuda_gpu_sum"
    CALLS = "cuda_api_sum"
    COPY_TIMES = "cuda_gpu_mem_time_sum"
    COPY_SIZES = "cuda_gpu_mem_size_sum"
    RANGES = "nvtx_sum"
    GPU_TRACE = "cuda_gpu_trace"
    CALL_TRACE = "cuda_api_trace"
    RANGE_TRACE = "nvtx_pushpop_trace"
    OTHER = "table of another report"


_NEEDED: Final[tuple[tuple[StatsReport, set[str], set[str]], ...]] = (
    (StatsReport.CALL_TRACE, {"start", "duration", "name", "corrid", "tid"}, set()),
    (StatsReport.GPU_TRACE, {"start", "duration", "name", "corrid"}, {"result"}),
    (StatsReport.RANGE_TRACE, {"start", "end", "name", "lvl", "rangeid"}, set()),
    (StatsReport.GPU_SUMS, {"total time", "instances", "category", "operation"}, set()),
    (StatsReport.RANGES, {"total time", "instances", "range"}, set()),
    (StatsReport.KERNELS_BY_GRID, {"total time", "instances", "name", "gridxyz"}, set()),
    (StatsReport.KERNELS, {"total time", "instances", "name"}, {"style"}),
    (StatsReport.CALLS, {"total time", "num calls", "name"}, set()),
    (StatsReport.COPY_TIMES, {"total time", "count", "operation"}, {"category"}),
    (StatsReport.COPY_SIZES, {"total", "count", "operation"}, set()),
)
"""Reports with their required and excluded columns; the first match wins."""
_LONGEST_HEADER: Final = 100


class StatsHeader(Struct, frozen=True):
    """Columns of a table."""

    report: StatsReport
    names: tuple[str, ...]
    units: tuple[str, ...]
    places: Mapping[str, int]


_Record: TypeAlias = tuple[StatsHeader, Sequence[Any]]


class StatsRows(Struct, frozen=True):
    """Rows of a table that follow each other, in columns."""

    header: StatsHeader
    columns: Sequence[Sequence[Any]]
    mark: DecimalMark

    @property
    def report(self) -> StatsReport:
        """The report they belong to."""
        return self.header.report

    def chosen(self, rows: Numbers) -> "StatsRows":
        """Return some of them."""
        return StatsRows(self.header, chosen(rows, *self.columns), self.mark)

    def apart(self) -> "Iterator[StatsRows]":
        """Yield each row."""
        for row in range(len(self.columns[0])):
            yield self.chosen(np.array([row]))

    def texts(self, *names: str) -> Sequence[str]:
        """Return the texts of the first of these columns that exists."""
        values, _ = self._values(*names)
        return [value.strip() if isinstance(value, str) else "" for value in values]

    def numbers(self, *names: str) -> Sequence[float | None]:
        """Return the numbers of the first of these columns that exists, as printed."""
        values, _ = self._values(*names)
        if {*map(type, values)} == {str}:
            joined = "\0".join((*values, ""))
            if joined.count("\0") == len(values) and _DIGITS.fullmatch(joined):
                return [*map(int, values)]
        return [_number(value, self.mark) for value in values]

    def nanoseconds(self, name: str) -> Sequence[int | None]:
        """Return the times of a column in whole nanoseconds, its default unit."""
        factor = seconds_in(self._values(name)[1] or "ns")
        return self._multiplied(name, factor and round(factor * 1e9))

    def bytes(self, name: str) -> Sequence[int | None]:
        """Return the sizes of a column; `None` if the column or its unit is absent."""
        return self._multiplied(name, bytes_in(self._values(name)[1]))

    def _multiplied(self, name: str, factor: float | None) -> Sequence[int | None]:
        numbers = self.numbers(name)
        if factor == 1 and {*map(type, numbers)} == {int}:
            return cast(Sequence[int], numbers)
        return [
            None if value is None or factor is None else round(value * factor) for value in numbers
        ]

    def _values(self, *names: str) -> tuple[Sequence[Any], str]:
        for name in names:
            if (place := self.header.places.get(name)) is not None:
                return self.columns[place], self.header.units[place]
        return [None] * len(self.columns[0]), ""


def _number(value: Any, mark: DecimalMark) -> float | None:
    if isinstance(value, str):
        return printed_number(value, mark)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= LARGEST else None


@lru_cache(maxsize=64)
def header_of(titles: tuple[str, ...]) -> StatsHeader | None:
    """Return the header with these column titles, or `None`."""
    if not 3 <= len(titles) <= _LONGEST_HEADER:  # noqa: PLR2004 - no report has fewer columns.
        return None
    parted = [_COLUMN.fullmatch(title.strip()) or (title, title.strip(), "") for title in titles]
    names = tuple(_FORMER_NAMES.get(match[1].lower(), match[1].lower()) for match in parted)
    units = tuple(match[2].strip() for match in parted)
    places = {name: place for place, name in reversed([*enumerate(names)])}
    there = places.keys()
    for report, needed, absent in _NEEDED:
        if needed <= there and not absent & there:
            return StatsHeader(report, names, units, places)
    timed = {name for name, unit in zip(names, units, strict=True) if seconds_in(unit)}
    is_other = timed & {"start", "duration"} or ("time" in there and "%" in units and timed)
    return StatsHeader(StatsReport.OTHER, names, units, places) if is_other else None


def is_notice(line: str) -> bool:
    """Whether only the vendor's program prints such a line."""
    return bool(_PROCESSING.match(line) or _SKIPPED.match(line))


def titles_in(line: str) -> tuple[str, ...]:
    """Return the fields of a possible header, which contain no commas."""
    return tuple(field.strip().strip('"') for field in line.split(","))


def comma_separated(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as CSV: of tables in columns, to the next blank line, and in tabs."""
    above: str | None = None
    columns: list[slice] = []
    for line in lines:
        # Most lines are rows, which begin with a number; no rule follows them.
        if not columns and line[:1].isdigit() and line.count("\t") < 2:  # noqa: PLR2004 - tabs.
            if above is not None:
                yield above
                above = None
            yield line
            continue
        if above is not None and _RULE.fullmatch(line):
            columns = [slice(*match.span()) for match in re.finditer("-+", line)]
            columns[-1] = slice(columns[-1].start, None)
            above = quoted_record(above[column] for column in columns)
            continue
        if above is not None:
            yield above
        columns = columns if line.strip() else []
        cells = [line[column] for column in columns] or _tabbed(line)
        above = quoted_record(cells) if cells else line
    if above is not None:
        yield above


def _tabbed(line: str) -> Sequence[str]:
    """Return the cells between tabs, of which there are several; none of what is no table."""
    try:
        return next(csv.reader([line], delimiter="\t")) if line.count("\t") > 1 else ()
    except csv.Error:
        return ()


def is_json(beginning: str) -> bool:
    """Whether JSON objects precede any table."""
    for line in beginning.splitlines():
        plain = line.strip().lstrip("\ufeff")
        if plain.startswith(("[{", "{")) or plain in {"[", "[]"}:
            return True
        if header_of(titles_in(plain)):
            return False
    return False


def _begins_another(line: str) -> bool:
    """Whether an unknown table begins: its rows would have numbers."""
    if not _TITLE.match(line):
        return _HEADING.match(line) is not None
    titles = titles_in(line)
    return bool(_PROCESSING.match(line)) or (
        len(titles) >= _FEWEST_TITLES
        and any(map(_UNIT.search, titles))
        and all(printed_number(title) is None for title in titles)
    )


class StatsTables:
    """Rows of a file, in order."""

    def __init__(self, path: Path, limits: ReadLimits) -> None:
        self._path = path
        self._limits = limits
        self._text = PrintedText(path, limits)
        self.unread: Counter[str] = self._text.unread
        """Skipped lines by reason."""
        self.tables = 0
        """Number of headers found."""
        self.skipped = 0
        """Reports without data."""

    def rows(self) -> Iterator[StatsRows]:
        """Yield the rows of all tables; raises `ProfileError` if the file is unreadable."""
        with open_unpacked(self._path, self._limits) as file:
            beginning = file.read(_BEGINNING_BYTES)
        is_of_json = is_json(beginning.decode("utf-8", "replace"))
        mark = "." if is_of_json else self._decimal_mark()
        records = self._json_records() if is_of_json else self._csv_records()
        for _, of_table in groupby(records, key=lambda record: id(record[0])):
            while together := [*islice(of_table, _TOGETHER)]:
                columns = [*zip(*(cells for _, cells in together), strict=True)]
                yield StatsRows(together[0][0], columns, mark)

    def _decimal_mark(self) -> DecimalMark:
        lines = self._text.lines(comma_separated)
        records = (self._text.record(line, lines) for line in islice(lines, _SAMPLED_LINES))
        mark = decimal_mark(chain.from_iterable(record or () for record in records))
        self.unread.clear()
        return mark

    def _csv_records(self) -> Iterator[_Record]:
        header: StatsHeader | None = None
        lines = self._text.lines(comma_separated)
        for line in lines:
            # Most lines are rows, which begin with a number.
            if not line[:1].isdigit():
                self.skipped += bool(_SKIPPED.match(line))
                stats_header = header_of(titles_in(line)) if _TITLE.match(line) else None
                if stats_header or _begins_another(line):
                    header = stats_header
                    self.tables += header is not None
                    self.unread["table of another report"] += not (header or _NOTICE.match(line))
                    continue
            if not _NOTICE.match(line) and header:
                if cells := self._cells(line, lines, header):
                    yield header, cells
            elif line.strip() and not _NOTICE.match(line):
                self.unread["line outside of a table"] += 1

    def _cells(self, line: str, lines: Iterator[str], header: StatsHeader) -> list[str] | None:
        if (cells := self._text.record(line, lines)) is None:
            return None
        columns = len(header.names)
        if len(cells) > columns and header.names[-1] in _NAMED_LAST:
            # An unquoted name with commas.
            cells[columns - 1 :] = [",".join(cells[columns - 1 :])]
        if len(cells) != columns:
            self.unread["line that is no row of its table"] += 1
            return None
        return cells

    def _json_records(self) -> Iterator[_Record]:
        """Yield the rows of tables; text between objects is skipped."""
        decode = json.JSONDecoder().raw_decode
        last = None
        with open_unpacked(self._path, self._limits) as file:
            window = JsonWindow(file.read)
            while self._to_object(window):
                try:
                    value, window.at = decode(window.text, window.at)
                except RecursionError:
                    self.unread["object nested too deep"] += 1
                    if not window.skip_value():
                        return
                except ValueError as error:
                    is_bounded = window.ahead <= self._limits.event_maximum_bytes
                    if is_bounded and window.fill(max(window.ahead, _FILL)):
                        continue
                    self.unread["object that is no JSON"] += 1
                    place = getattr(error, "pos", 0)
                    window.at = max(window.at + 1, min(place, len(window.text)))
                else:
                    if (header := header_of(tuple(map(str, value)))) is None:
                        self.unread["object that is no row of a table"] += 1
                        continue
                    self.tables += header != last
                    last = header
                    yield header, [*value.values()]

    def _to_object(self, window: JsonWindow) -> bool:
        while (place := window.text.find("{", window.at)) < 0:
            self.skipped += window.text.count("SKIPPED", window.at)
            window.at = len(window.text)
            if not window.fill():
                return False
        self.skipped += window.text.count("SKIPPED", window.at, place)
        window.at = place
        return True
