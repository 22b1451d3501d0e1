"""A node's own accounts as the tracks returned by a store."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from itertools import chain
from typing import cast

from cases import window_over
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.fleet.cache.day_frame import ColumnKind, DayFrame, kind_of
from rightsizer.fleet.cache.grid import Grid
from rightsizer.model.block import Measure
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Cause, Condition, Resource, State, Tier
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.model.window import Window

__all__ = ["frame_of"]

_COLUMNS = tuple(
    chain(
        map(ColumnKind.STATE.column, State),
        (ColumnKind.SECOND_CAUSE.column(state) for state in State),
        (ColumnKind.CONDITION.column(condition) for condition in Condition),
        (ColumnKind.TIER.column(tier) for tier in Tier),
        (ColumnKind.SATURATED.column(resource) for resource in Resource),
        (ColumnKind.PRESSED.column(resource) for resource in Resource),
        (ColumnKind.WASTE.column(cause) for cause in Cause),
        (ColumnKind.WASTE_JOULES.column(cause) for cause in Cause),
        (ColumnKind.USED.column(each) for each in ("seconds", "joules")),
        (ColumnKind.ENERGY.column("joules"),),
    )
)


def frame_of(accounts: NodeAccounts, uuid: str, grid: Grid, now: Nanoseconds) -> DayFrame:
    """A day of a device, up to now."""
    columns = {column: array("f") for column in _COLUMNS}
    measures = [*map(ColumnKind.MEAN.column, Measure), *map(ColumnKind.PEAK.column, Measure)]
    columns |= {column: array("f") for column in measures}
    for start in range(grid.start, grid.end, grid.step):
        if start + grid.step > now:
            for column in columns:
                columns[column].append(math.nan)
            continue
        window = window_over(accounts.device(uuid).windows, start, start + grid.step)
        for column in _COLUMNS:
            columns[column].append(_value(window, column) if window.states else math.nan)
        for measure in Measure:
            blocks = window.blocks.of(measure)
            known = sum(block.known_seconds for block in blocks)
            mean = sum(block.mean * block.known_seconds for block in blocks) / known if known else 0
            columns[ColumnKind.MEAN.column(measure)].append(mean if known else math.nan)
            peak = max((block.peak for block in blocks), default=math.nan)
            columns[ColumnKind.PEAK.column(measure)].append(peak)
    demands = dict(
        _exported(window_over(accounts.device(uuid).windows, grid.start, min(now, grid.end)))
    )
    return DayFrame.of(grid, columns, demands)


def _value(window: Window, column: str) -> float:
    kind = kind_of(column)
    name = column.partition(":")[2]
    times = {
        ColumnKind.STATE: window.states,
        ColumnKind.SECOND_CAUSE: window.second_causes,
        ColumnKind.CONDITION: window.conditions,
        ColumnKind.TIER: window.tiers,
        ColumnKind.SATURATED: window.saturated,
        ColumnKind.PRESSED: window.pressed,
    }
    amounts = {ColumnKind.WASTE: window.waste_seconds, ColumnKind.WASTE_JOULES: window.waste_joules}
    if kind in times:
        found = {str(key): time for key, time in times[kind].items()}  # type: ignore[attr-defined]
        return seconds(found.get(name, 0))
    if kind in amounts:
        return {str(key): each for key, each in amounts[kind].items()}.get(name, 0.0)
    if kind is ColumnKind.ENERGY:
        return window.energy_joules
    return window.used_seconds if name == "seconds" else window.used_joules


def _exported(window: Window) -> Iterator[tuple[Resource, Histogram]]:
    """Distributions over all known time, as exported: idle time uses nothing."""
    for resource, histogram in window.demands.items():
        found = cast(Histogram, histogram).copy()
        found.add(0.0, max(0.0, window.known - found.total))
        yield resource, found
