"""Days by five minutes told by the hour, for what must stand beside hours."""

from __future__ import annotations

from array import array
from math import isnan, nan

from rightsizer.fleet.kept.column import Column, Kind
from rightsizer.fleet.kept.grid import COARSE_STEP
from rightsizer.fleet.kept.sheet import Sheet

__all__ = ["by_the_hour"]


def by_the_hour(sheet: Sheet) -> Sheet:
    """The same days by the hour: seconds and joules summed, means by known time, largest peaks."""
    if sheet.grid.step == COARSE_STEP:
        return sheet
    grid = sheet.grid.by(COARSE_STEP)
    each = sheet.grid.count // grid.count
    known = sheet.known_seconds()
    values = array("f")
    for column in sheet.layout.columns:
        found = sheet.column(column) or array("f")
        values.extend(
            _hour(column, found[place : place + each], known[place : place + each])
            for place in range(0, sheet.grid.count, each)
        )
    return Sheet(grid, sheet.layout, values, sheet.demands)


def _hour(column: Column, part: array[float], known: list[float]) -> float:
    pairs = [(value, time) for value, time in zip(part, known, strict=True) if not isnan(value)]
    if not pairs:
        return nan
    if column.kind is Kind.PEAK:
        return max(value for value, _ in pairs)
    if column.kind is Kind.COUNT:
        return sum(value for value, _ in pairs) / len(part)
    if column.kind is Kind.MEAN:
        weight = sum(time for _, time in pairs)
        if weight <= 0:
            return sum(value for value, _ in pairs) / len(pairs)
        return sum(value * time for value, time in pairs) / weight
    return sum(value for value, _ in pairs)
