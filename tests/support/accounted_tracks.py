"""A node's own accounts as the tracks that a store would tell of them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from itertools import chain

from rightsizer.accounting.accounts import Accounts
from rightsizer.domain.block import Measure
from rightsizer.domain.histogram import Histogram
from rightsizer.domain.state import Cause, Condition, Resource, State, Tier
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.domain.window import Window
from rightsizer.fleet.kept.column import Column, Kind
from rightsizer.fleet.kept.grid import Grid
from rightsizer.fleet.kept.track import Track

__all__ = ["track_of"]

_COLUMNS = tuple(
    chain(
        map(Column.state, State),
        (Column.condition(each) for each in Condition),
        (Column.tier(each) for each in Tier),
        (Column.saturated(each) for each in Resource),
        (Column.pressed(each) for each in Resource),
        (Column.waste(each) for each in Cause),
        (Column(Kind.WASTE_JOULES, each) for each in Cause),
        (Column(Kind.USED, each) for each in ("seconds", "joules")),
        (Column(Kind.ENERGY, "joules"),),
    )
)


def track_of(accounts: Accounts, uuid: str, grid: Grid, now: Nanoseconds) -> Track:
    """A day of a device, up to now."""
    columns = {column: array("f") for column in _COLUMNS}
    measures = [*map(Column.mean, Measure), *map(Column.peak, Measure)]
    columns |= {column: array("f") for column in measures}
    for start in range(grid.start, grid.end, grid.step):
        if start + grid.step > now:
            for column in columns:
                columns[column].append(math.nan)
            continue
        window = accounts.window(uuid, start, start + grid.step)
        for column in _COLUMNS:
            columns[column].append(_value(window, column) if window.states else math.nan)
        for measure in Measure:
            blocks = window.blocks.of(measure)
            known = sum(block.known_seconds for block in blocks)
            mean = sum(block.mean * block.known_seconds for block in blocks) / known if known else 0
            columns[Column.mean(measure)].append(mean if known else math.nan)
            peak = max((block.peak for block in blocks), default=math.nan)
            columns[Column.peak(measure)].append(peak)
    demands = dict(_exported(accounts.window(uuid, grid.start, min(now, grid.end))))
    return Track(uuid, grid, columns, demands)


def _value(window: Window, column: Column) -> float:
    times = {
        Kind.STATE: window.states,
        Kind.CONDITION: window.conditions,
        Kind.TIER: window.tiers,
        Kind.SATURATED: window.saturated,
        Kind.PRESSED: window.pressed,
    }
    amounts = {Kind.WASTE: window.waste_seconds, Kind.WASTE_JOULES: window.waste_joules}
    if column.kind in times:
        found = {str(name): time for name, time in times[column.kind].items()}  # type: ignore[attr-defined]
        return seconds(found.get(column.name, 0))
    if column.kind in amounts:
        return {str(name): each for name, each in amounts[column.kind].items()}.get(
            column.name, 0.0
        )
    if column.kind is Kind.ENERGY:
        return window.energy_joules
    return window.used_seconds if column.name == "seconds" else window.used_joules


def _exported(window: Window) -> Iterator[tuple[Resource, Histogram]]:
    """Distributions over all known time, as they are exported: idle time uses nothing."""
    for resource, histogram in window.demands.items():
        found = histogram.copy()
        found.add(0.0, max(0.0, window.known - found.total))
        yield resource, found
