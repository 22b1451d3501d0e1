"""Cells of a table into values in base units, or the reason why there is none."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.plausible import plausible, scaled
from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import SIGNALS, Signal
from rightsizer.domain.units import convert
from rightsizer.telemetry.recorded.row import Notes

__all__ = ["Column", "Table", "missing_cell"]

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


class Column(dict[str, float | Missing]):
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
            if kind is not SIGNALS[self.signal].unit:
                return Missing.INVALID
        if _DECIMAL_COMMA.fullmatch(text):
            text = text.replace(",", ".")
        try:
            number = float(int(text, 16)) if text.startswith(("0x", "0X")) else float(text)
        except (ValueError, OverflowError):
            return Missing.INVALID
        return plausible(self.signal, scaled(number, factor))


@dataclass(frozen=True, slots=True)
class Table:
    """The columns that hold signals, the least preferred of two alike first."""

    columns: tuple[Column, ...]
    has_rivals: bool

    @classmethod
    def of(cls, columns: Iterable[Column]) -> "Table":
        """A table of columns in the order of their preference, the best last."""
        kept = tuple(columns)
        return cls(kept, len({column.signal for column in kept}) < len(kept))

    def read(
        self, cells: Sequence[str], line: int, notes: Notes
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
