"""Table parser: cells to values in base units, CSV lines to rows."""

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, repeat
from operator import itemgetter
from string import digits
from typing import Final, TypeAlias

from msgspec.structs import replace

from rightsizer.model.table import table_rows
from rightsizer.model.values import Missing, Signal, convert, impossibility, plausible, scaled
from rightsizer.recordings.heading_words import UNITS, Heading
from rightsizer.recordings.row import NOTHING, RecordingNotes, RecordingRow

_REASONS: Final = {
    row["cell"]: Missing(row["reason"]) for row in table_rows(__file__, "missing.csv")
}
RowValues: TypeAlias = tuple[Mapping[Signal, float], Mapping[Signal, Missing]]
_COLUMNS_SHOWN: Final = 12
_REMEMBERED: Final = 4096
_ROWS_WITH_MARKS: Final = 100
"""Rows whose numbers tell the decimal mark of a file."""
_LEAST_TOTAL_BYTES: Final = 2.0**29
"""No board has less memory."""
_DECIMAL: Final = re.compile(r"[+-]?\d+([.,])\d+")
_GROUPED: Final = re.compile(
    r"(?![+-]?0[.,]\d+$)(?P<whole>[+-]?\d{1,3}(?P<mark>[.,'\u2019\u00a0\u202f])\d{3}(?:(?P=mark)\d{3})*)"
    r"(?:(?!(?P=mark))(?P<decimal>[.,])(?P<part>\d+))?"
)
"""Marks between thousands; a single one of '.,' without a decimal part may be the decimal mark."""
_MARKED: Final = re.compile(r"\d[.,'\s]\d{3}(?!\d)")
_SPACE: Final = re.compile(r"(?<=\d) (?=\d{3}(?!\d))")
_SPACED: Final = re.compile(r"[+-]?\d{1,3}(?: \d{3})+(?:[.,]\d+)? ?[%°A-Za-z]")
"""A number with blanks between thousands; only the unit tells it from several numbers."""
_SPACEABLE: Final = re.compile(rf"{_SPACED.pattern}|[+-]?\d{{1,3}}(?!\d| \d)|(?![+-]?\d)")
"""What else a column of such numbers has."""
_JOINED_UNIT: Final = re.compile(
    r"(?!0[xX])([+-]?\d[\d.,'\u2019\u00a0\u202f]*|[.,]\d+)(%|°?[A-Za-z]+)"
)
"""Values like 97% and 40C of gpustat, nvtop and Grafana."""


def columns_text(names: Sequence[str]) -> str:
    """Return the columns of a file for an error, the first ones of many."""
    rest = len(names) - _COLUMNS_SHOWN
    return ", ".join(names[:_COLUMNS_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def missing_cell(cell: str) -> Missing | None:
    """Return why a cell has no value, or `None` if it should have one."""
    return _REASONS.get(cell.strip().strip("[]").strip().lower())


def _is_open(grouped: re.Match[str]) -> bool:
    """Whether the mark before three digits may as well be the decimal mark."""
    mark = grouped["mark"]
    return mark in ".," and not grouped["decimal"] and grouped["whole"].count(mark) == 1


def local_number(text: str, decimal: str = "") -> float:
    """Parse a number, also with a decimal comma or marks between thousands, or in hexadecimal.

    `decimal` is the file's decimal mark, where known.

    Raises:
        ValueError: it is none.
        OverflowError: it is too large.
    """
    grouped = _GROUPED.fullmatch(text)
    if grouped and (not _is_open(grouped) or decimal not in ("", grouped["mark"])):
        return float(f"{grouped['whole'].replace(grouped['mark'], '')}.{grouped['part'] or 0}")
    if _DECIMAL.fullmatch(text) and (grouped is None or decimal == ","):
        return float(text.replace(",", "."))
    return float(int(text, 16)) if text.startswith(("0x", "0X")) else float(text)


def spaced_places(
    rows: Callable[[], Iterable[Sequence[str]]], places: Iterable[int]
) -> frozenset[int]:
    """Return the columns with blanks between thousands, as all of their cells allow."""
    spaced = {
        at
        for cells in islice(rows(), _ROWS_WITH_MARKS)
        for at in places
        if _SPACED.match(cells[at].strip())
    }
    for cells in rows() if spaced else ():
        spaced = {at for at in spaced if _SPACEABLE.match(cells[at].strip())}
    return frozenset(spaced)


def joined_thousands(cell: str) -> str:
    """Return a cell of such a column with a mark that is no blank."""
    return _SPACE.sub("\u00a0", cell)


def number_and_unit(cell: str) -> tuple[str, str]:
    """Return the number of a cell as written, and its unit or an empty text."""
    text, _, unit = cell.strip().partition(" ")
    if not unit and (joined := _JOINED_UNIT.fullmatch(text)):
        return joined[1].strip(), joined[2]
    return text, unit


class CellColumn(dict[str, float | Missing]):
    """Values of a column's cells by text.

    Readings repeat, so nearly every cell is a look-up without conversion.
    """

    def __init__(self, index: int, name: str, signal: Signal, unit: str, decimal: str = "") -> None:
        super().__init__()
        self.is_spaced = False
        """Whether its numbers have blanks between thousands."""
        self.has_missing = False
        """Whether any cell so far had no value."""
        self.index = index
        self.name = name
        self.signal = signal
        self._unit = unit
        self._decimal = decimal
        self._read = partial(local_number, decimal=",") if decimal == "," else float
        self._factors: dict[str, float | None] = {}

    def __missing__(self, cell: str) -> float | Missing:
        if len(self) >= _REMEMBERED:
            self.clear()
        value = self[cell] = self._convert(cell)
        if not isinstance(value, float):
            self.has_missing = True
        return value

    def fault(self, cell: str) -> str:
        """Return what is wrong with a cell without a plausible value."""
        number = self._number(cell)
        why = impossibility(self.signal, number) if isinstance(number, float) else ""
        is_marked = number is Missing.INVALID and _MARKED.search(cell)
        remedy = "; write numbers without marks between thousands" if is_marked else ""
        return f"{why or 'unreadable cell'} in '{self.name}'{remedy}"

    def _convert(self, cell: str) -> float | Missing:
        number = self._number(cell)
        return plausible(self.signal, number) if isinstance(number, float) else number

    def _number(self, cell: str) -> float | Missing:
        """Return the number of a cell in the base unit."""
        text, _, unit = cell.strip().partition(" ")
        try:
            number = self._read(text)
            factor = self._factors[unit]
        except (ValueError, OverflowError, KeyError):
            text, unit = number_and_unit(joined_thousands(cell) if self.is_spaced else cell)
            try:
                number = local_number(text, self._decimal)
            except (ValueError, OverflowError):
                return missing_cell(cell) or Missing.INVALID
            factor = self._factors[unit] = self._factor(unit)
        if math.isnan(number):
            return Missing.NO_SAMPLE  # As pandas and Prometheus write it.
        return Missing.INVALID if factor is None else scaled(number, factor)

    def _factor(self, spelling: str) -> float | None:
        """Return the factor from a cell's unit to the base unit; `None` for an unrelated one."""
        # A degree sign is lost in other encodings.
        word = spelling.lstrip("°\ufffd") or self._unit
        try:
            # As in headings, only a column that is told to be decimal is.
            kind, factor = convert(word if word == self._unit else UNITS.get(word.lower(), word))
        except KeyError:
            return None
        return factor if kind is self.signal.unit else None


def decimal_mark(rows: Iterable[Sequence[str]], headings: Mapping[int, Heading]) -> str:
    """Return the decimal mark of the numbers of signals; empty if none or both are told."""
    marks = {
        _decimal_mark(cells[at], heading)
        for cells in islice(rows, _ROWS_WITH_MARKS)
        for at, heading in headings.items()
    } - {""}
    return marks.pop() if len(marks) == 1 else ""


def _decimal_mark(cell: str, heading: Heading) -> str:
    """Return the decimal mark that a cell tells; one between thousands is not it."""
    text, _ = number_and_unit(cell)
    if (grouped := _GROUPED.fullmatch(text)) is None:
        decimal = _DECIMAL.fullmatch(text)
        return decimal[1] if decimal else ""
    mark = grouped["mark"]
    other = ".,".replace(mark, "") if mark in ".," else ""
    if not _is_open(grouped):
        return grouped["decimal"] or other
    if heading.signal is not Signal.MEMORY_TOTAL_BYTES or not heading.unit:
        return ""
    total = CellColumn(0, "", heading.signal, heading.unit)[cell.replace(",", ".")]
    return other if isinstance(total, float) and total < _LEAST_TOTAL_BYTES else ""


def cells_at(places: Sequence[int]) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """Return a getter of cells at positions."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda cells: tuple([cells[place] for place in places])


class CellTable:
    """Columns with signals; of two alike, the less preferred first."""

    def __init__(self, columns: Iterable[CellColumn]) -> None:
        self.columns = tuple(columns)
        self._signals = tuple(column.signal for column in self.columns)
        self._cells = cells_at([column.index for column in self.columns])
        self.has_rivals = len({*self._signals}) < len(self.columns)
        """Whether a fault of a column may be hidden by another one's value."""

    def read(self, rows: Sequence[Sequence[str]]) -> Iterator[RowValues]:
        """Yield the values of rows, and reasons for missing ones; each column is read at once."""
        cells = zip(*map(self._cells, rows), strict=True)
        columns = [
            [*map(column.__getitem__, of_column)]
            for column, of_column in zip(self.columns, cells, strict=True)
        ]
        read = zip(*columns, strict=True) if columns else repeat((), len(rows))
        if any(column.has_missing for column in self.columns):
            return map(self._parted, read)
        return ((dict(zip(self._signals, row, strict=True)), NOTHING) for row in read)

    def _parted(self, row: Sequence[float | Missing]) -> RowValues:
        values: dict[Signal, float] = {}
        missing: dict[Signal, Missing] = {}
        for signal, value in zip(self._signals, row, strict=True):
            if isinstance(value, float):
                values[signal] = value
            else:
                missing[signal] = value
        return values, {signal: why for signal, why in missing.items() if signal not in values}

    def note(self, row: Sequence[str], line: int, notes: RecordingNotes, device: str) -> None:
        """Note the faults of a row of a device."""
        for column, cell in zip(self.columns, self._cells(row), strict=True):
            value = column[cell]
            if value is Missing.INVALID:
                notes.count(column.fault(cell), line, cell.strip())
            elif value is Missing.FAILED and device:
                notes.fault(device, cell.strip(" []"), line)


def with_clock_events(row: RecordingRow, states: Mapping[int, str]) -> RecordingRow:
    """Return a row with the mask of clock event reasons, given 'Active' or not by its bits."""
    by_bit = {bit: state.strip().lower() for bit, state in states.items()}
    signal = Signal.CLOCK_EVENT_REASONS
    if {"active", "not active"}.isdisjoint(by_bit.values()):
        reason = missing_cell(next(iter(by_bit.values()), "")) or Missing.INVALID
        return replace(row, missing={**row.missing, signal: reason})
    mask = sum(bit for bit, state in by_bit.items() if state == "active")
    return replace(row, values={**row.values, signal: float(mask)})


def number_in(cell: str) -> float | None:
    """Return the finite number that a cell begins with, or `None`."""
    with contextlib.suppress(ValueError, IndexError):
        number = float(cell.split(maxsplit=1)[0])
        return number if math.isfinite(number) else None
    return None


def untorn(cells: Sequence[str], line: str, number: int, notes: RecordingNotes) -> Sequence[str]:
    """Return a line's cells; without an end, its last number may lack digits and is left out."""
    if line.endswith("\n") or not cells[-1].endswith((*digits, ".")):
        return cells
    notes.count("torn last line, whose last number is left out", number, line.strip())
    return [*cells[:-1], ""]
