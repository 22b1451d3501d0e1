"""What several sources tell of a device, as one: the first that knows a thing is believed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import groupby

from rightsizer.domain.histogram import Histogram
from rightsizer.domain.state import Resource
from rightsizer.fleet.kept.coarse import by_the_hour
from rightsizer.fleet.kept.column import Column
from rightsizer.fleet.kept.sheet import Layout, Sheet
from rightsizer.fleet.kept.shelf import HeldRow, KeptSheet
from rightsizer.fleet.kept.single_days import rows_by_day, sheets_by_day

__all__ = ["rows_of", "sheets_of"]


def sheets_of(kept: Iterable[KeptSheet], sources: Sequence[str]) -> list[Sheet]:
    """One sheet for each time, oldest first; by the day where several tell of it.

    Args:
        kept: The days of a device as they were told, oldest first.
        sources: Whom to believe first.
    """
    kept = list(kept)
    if len({each.source for each in kept}) > 1:
        kept = [each._replace(sheet=day) for each in kept for day in sheets_by_day([each.sheet])]
        kept.sort(key=lambda each: each.sheet.grid.day)
    found = []
    for _, same in groupby(kept, lambda each: each.sheet.grid.day):
        told = sorted(same, key=lambda each: _rank(each.source, sources))
        first, *others = [each.sheet for each in told]
        found.append(_together(first, others) if others else first)
    return found


def rows_of(rows: Iterable[HeldRow], sources: Sequence[str]) -> list[HeldRow]:
    """Of each device and day, who held it by the first source that knows."""
    found: list[HeldRow] = []
    for _, of_device in groupby(rows, lambda row: row.uuid):
        told = list(of_device)
        is_alone = len({row.source for row in told}) == 1
        found += told if is_alone else _best(rows_by_day(told), sources)
    return found


def _best(rows: list[HeldRow], sources: Sequence[str]) -> list[HeldRow]:
    found: list[HeldRow] = []
    rows.sort(key=lambda row: row.grid.day)
    for _, same in groupby(rows, lambda row: row.grid.day):
        told = list(same)
        best = min((row.source for row in told), key=lambda source: _rank(source, sources))
        found += [row for row in told if row.source == best]
    return found


def _rank(source: str, sources: Sequence[str]) -> tuple[int, str]:
    return (sources.index(source) if source in sources else len(sources)), source


def _together(first: Sheet, others: Sequence[Sheet]) -> Sheet:
    sheets = [first, *others]
    if len({sheet.grid.step for sheet in sheets}) > 1:
        sheets = [by_the_hour(sheet) for sheet in sheets]
    columns: dict[Column, array[float]] = {}
    for sheet in reversed(sheets):
        for column in sheet.layout.columns:
            found = sheet.column(column)
            if found is not None:
                columns[column] = found
    layout = Layout.of(columns)
    values = array("f")
    for column in layout.columns:
        values += columns[column]
    demands: dict[Resource, Histogram] = {}
    for sheet in reversed(sheets):
        demands |= sheet.demands
    return Sheet(sheets[0].grid, layout, values, demands)
