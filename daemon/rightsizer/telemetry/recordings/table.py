"""Table parser: cells into values in base units, lines of CSV into rows."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.model.reading import Missing, plausible, scaled
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds, convert
from rightsizer.model.workload import Holding, Workload, WorkloadKind
from rightsizer.telemetry.recordings.row import RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.text_file import TextFile

_REASONS: Final[dict[str, Missing]] = {
    "": Missing.NO_SAMPLE,
    "-": Missing.NO_SAMPLE,
    "n/a": Missing.NOT_SUPPORTED,
    "none": Missing.NO_SAMPLE,
    "no data": Missing.NO_SAMPLE,
    "not found": Missing.NO_SAMPLE,
    "not supported": Missing.NOT_SUPPORTED,
    "not available": Missing.NOT_SUPPORTED,
    "not active on display": Missing.NOT_SUPPORTED,
    "function not found": Missing.NOT_SUPPORTED,
    "requested functionality has been deprecated": Missing.NOT_SUPPORTED,
    "insufficient permissions": Missing.NO_PERMISSION,
    "no permission": Missing.NO_PERMISSION,
    "timeout": Missing.TIMED_OUT,
    "gpu is lost": Missing.LOST,
    "gpu requires reset": Missing.FAILED,
    "reset required": Missing.FAILED,
    "unknown error": Missing.FAILED,
    "err!": Missing.FAILED,
    "error": Missing.FAILED,
}
_REMEMBERED: Final = 4096
# Three digits behind the comma may be thousands.
_DECIMAL_COMMA: Final = re.compile(r"[+-]?\d+,(?!\d{3}$)\d+")


def missing_cell(cell: str) -> Missing | None:
    """Why a cell has no value, `None` where it should have one."""
    return _REASONS.get(cell.strip().strip("[]").strip().lower())


class CellColumn(dict[str, float | Missing]):
    """The values of the cells of one column, by their text.

    Readings repeat, so that nearly every cell is one look-up and no conversion.
    """

    def __init__(self, index: int, name: str, signal: Signal, unit: str) -> None:
        """The column at an index, whose cells are in a unit unless they say otherwise."""
        super().__init__()
        self.index = index
        self.name = name
        self.signal = signal
        self._factor = convert(unit)[1]

    def __missing__(self, cell: str) -> float | Missing:
        """Convert a cell that was not seen lately."""
        if len(self) >= _REMEMBERED:
            self.clear()
        value = self[cell] = self._convert(cell)
        return value

    def _convert(self, cell: str) -> float | Missing:
        reason = missing_cell(cell)
        if reason is not None:
            return reason
        text, _, unit = cell.strip().partition(" ")
        factor = self._factor
        if unit:
            try:
                kind, factor = convert(unit)
            except KeyError:
                return Missing.INVALID
            if kind is not self.signal.unit:
                return Missing.INVALID
        if _DECIMAL_COMMA.fullmatch(text):
            text = text.replace(",", ".")
        try:
            number = float(int(text, 16)) if text.startswith(("0x", "0X")) else float(text)
        except (ValueError, OverflowError):
            return Missing.INVALID
        return plausible(self.signal, scaled(number, factor))


@dataclass(frozen=True, slots=True)
class CellTable:
    """The columns that hold signals, the least preferred of two alike first."""

    columns: tuple[CellColumn, ...]
    has_rivals: bool

    @classmethod
    def of(cls, columns: Iterable[CellColumn]) -> "CellTable":
        """A table of columns in the order of their preference, the best last."""
        kept = tuple(columns)
        return cls(kept, len({column.signal for column in kept}) < len(kept))

    def read(
        self, cells: Sequence[str], line: int, notes: RecordingNotes
    ) -> tuple[dict[Signal, float], dict[Signal, Missing]]:
        """The values of a row, and why the others are not there."""
        values: dict[Signal, float] = {}
        missing: dict[Signal, Missing] = {}
        for column in self.columns:
            value = column[cells[column.index]]
            if isinstance(value, float):
                values[column.signal] = value
            else:
                missing[column.signal] = value
                if value is Missing.INVALID:
                    notes.count(
                        f"unreadable cell in '{column.name}'", line, cells[column.index].strip()
                    )
        if self.has_rivals and missing:
            missing = {signal: why for signal, why in missing.items() if signal not in values}
        return values, missing


class CsvRowParser:
    """The columns of a CSV file with one line a device and time."""

    def __init__(
        self,
        *,
        time: int,
        parse_time: Callable[[str], Nanoseconds],
        device: int,
        workload: int | None,
        columns: Sequence[CellColumn],
    ) -> None:
        """The places of the columns, from 0."""
        self._time = time
        self._parse_time = parse_time
        self._device = device
        self._workload = workload
        self._table = CellTable.of(columns)

    def read(self, text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
        """The rows below the heading; headings that come again are passed over."""
        lines = text.lines(notes)
        heading = next((line for _, line in lines if line.strip()), "")
        width = len(split_csv_line(heading))
        for number, line in lines:
            cells = split_csv_line(line)
            if len(cells) != width:
                notes.skip(number, line)
                continue
            try:
                time = self._parse_time(cells[self._time].strip())
            except ValueError:
                if line.strip() != heading.strip():
                    notes.count("unreadable timestamp", number, cells[self._time].strip())
                continue
            device = cells[self._device].strip()
            if not device:
                notes.count("row without a device", number)
                continue
            values, missing = self._table.read(cells, number, notes)
            holdings = None
            if self._workload is not None:
                holdings = _holdings(cells[self._workload].strip())
            yield RecordingRow(time, device, values, missing, text.name, holdings=holdings)


def split_csv_line(line: str, delimiter: str = ",") -> list[str]:
    """The cells of a line; quoted ones cost more and are rare."""
    if '"' not in line:
        return line.rstrip("\r\n").split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return [line]


def _holdings(name: str) -> tuple[Holding, ...]:
    if not name:
        return ()
    workload = Workload(f"recorded:{name}", WorkloadKind.RECORDED, name)
    return (Holding(workload, 1.0),)
