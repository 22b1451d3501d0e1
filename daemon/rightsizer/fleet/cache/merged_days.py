"""Days of a device merged over sources: the first source that knows a value wins."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from rightsizer.fleet.cache.combination import by_the_hour
from rightsizer.fleet.cache.day_cache import CachedFrame, HoldingRow
from rightsizer.fleet.cache.day_frame import DayColumn, DayFrame, FrameLayout
from rightsizer.fleet.cache.grid import DAY, Grid
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Resource


def are_aligned(grids: Iterable[Grid]) -> bool:
    """Whether each day belongs to the same days wherever it is told of."""
    spans = sorted({(grid.day, grid.day + grid.days) for grid in grids})
    return all(end <= start for (_, end), (start, _) in pairwise(spans))


def frames_by_day(sheets: Iterable[DayFrame]) -> list[DayFrame]:
    """Each day with its part of the distributions, by the time that is known of it."""
    return [day for sheet in sheets for day in _days_of(sheet)]


def rows_by_day(rows: Iterable[HoldingRow]) -> list[HoldingRow]:
    """Holdings that end with their day, and go on with the next one."""
    return [day for row in rows for day in _rows_of(row)]


def _days_of(sheet: DayFrame) -> list[DayFrame]:
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
        found.append(DayFrame(grid, sheet.layout, values, demands))
    return found


def _rows_of(row: HoldingRow) -> list[HoldingRow]:
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


def merged_frames(kept: Iterable[CachedFrame], sources: Sequence[str]) -> list[DayFrame]:
    """One sheet for each time, oldest first; by the day where several tell of it.

    Args:
        kept: The days of a device as they were told, oldest first.
        sources: Whom to believe first.
    """
    kept = list(kept)
    if len({each.source for each in kept}) > 1:
        kept = [each._replace(sheet=day) for each in kept for day in frames_by_day([each.sheet])]
        kept.sort(key=lambda each: each.sheet.grid.day)
    found = []
    for _, same in groupby(kept, lambda each: each.sheet.grid.day):
        told = sorted(same, key=lambda each: _rank(each.source, sources))
        first, *others = [each.sheet for each in told]
        found.append(_together(first, others) if others else first)
    return found


def merged_holdings(rows: Iterable[HoldingRow], sources: Sequence[str]) -> list[HoldingRow]:
    """Of each device and day, who held it by the first source that knows."""
    found: list[HoldingRow] = []
    for _, of_device in groupby(rows, lambda row: row.uuid):
        told = list(of_device)
        is_alone = len({row.source for row in told}) == 1
        found += told if is_alone else _best(rows_by_day(told), sources)
    return found


def _best(rows: list[HoldingRow], sources: Sequence[str]) -> list[HoldingRow]:
    found: list[HoldingRow] = []
    rows.sort(key=lambda row: row.grid.day)
    for _, same in groupby(rows, lambda row: row.grid.day):
        told = list(same)
        best = min((row.source for row in told), key=lambda source: _rank(source, sources))
        found += [row for row in told if row.source == best]
    return found


def _rank(source: str, sources: Sequence[str]) -> tuple[int, str]:
    return (sources.index(source) if source in sources else len(sources)), source


def _together(first: DayFrame, others: Sequence[DayFrame]) -> DayFrame:
    sheets = [first, *others]
    if len({sheet.grid.step for sheet in sheets}) > 1:
        sheets = [by_the_hour(sheet) for sheet in sheets]
    columns: dict[DayColumn, array[float]] = {}
    for sheet in reversed(sheets):
        for column in sheet.layout.columns:
            found = sheet.column(column)
            if found is not None:
                columns[column] = found
    layout = FrameLayout.of(columns)
    values = array("f")
    for column in layout.columns:
        values += columns[column]
    demands: dict[Resource, Histogram] = {}
    for sheet in reversed(sheets):
        demands |= sheet.demands
    return DayFrame(sheets[0].grid, layout, values, demands)
