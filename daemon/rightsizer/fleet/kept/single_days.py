"""Sheets and holdings of several days, a day at a time: for what only stands beside such ones."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import pairwise

from rightsizer.fleet.kept.grid import DAY, Grid
from rightsizer.fleet.kept.sheet import Sheet
from rightsizer.fleet.kept.shelf import HeldRow

__all__ = ["are_aligned", "rows_by_day", "sheets_by_day"]


def are_aligned(grids: Iterable[Grid]) -> bool:
    """Whether each day belongs to the same days wherever it is told of."""
    spans = sorted({(grid.day, grid.day + grid.days) for grid in grids})
    return all(end <= start for (_, end), (start, _) in pairwise(spans))


def sheets_by_day(sheets: Iterable[Sheet]) -> list[Sheet]:
    """Each day with its part of the distributions, by the time that is known of it."""
    return [day for sheet in sheets for day in _days_of(sheet)]


def rows_by_day(rows: Iterable[HeldRow]) -> list[HeldRow]:
    """Holdings that end with their day, and go on with the next one."""
    return [day for row in rows for day in _rows_of(row)]


def _days_of(sheet: Sheet) -> list[Sheet]:
    if sheet.grid.days == 1:
        return [sheet]
    count, each = sheet.grid.count, DAY // sheet.grid.step
    known = sheet.known_seconds()
    total = sum(known)
    found = []
    for place, grid in enumerate(sheet.grid.each_day):
        values = array("f")
        for first in range(place * each, len(sheet.values), count):
            values += sheet.values[first : first + each]
        part = sum(known[place * each : (place + 1) * each]) / total if total > 0 else 0.0
        demands = {resource: each.scaled(part) for resource, each in sheet.demands.items()}
        found.append(Sheet(grid, sheet.layout, values, demands))
    return found


def _rows_of(row: HeldRow) -> list[HeldRow]:
    if row.grid.days == 1:
        return [row]
    each = DAY // row.grid.step
    days = enumerate(row.grid.each_day)
    return [
        row._replace(
            grid=grid,
            first=max(0, row.first - place * each),
            last=min(each - 1, row.last - place * each),
        )
        for place, grid in days
        if row.first < (place + 1) * each and row.last >= place * each
    ]
