"""Samples onto a grid: one number for each stretch of a day."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable

from rightsizer.fleet.kept.grid import Grid
from rightsizer.fleet.store import Sampled

__all__ = ["by_label", "placed"]


def placed(series: Sampled, grid: Grid, blank: float = math.nan) -> array[float]:
    """The values of a series, each where its time belongs; `blank` where it has none."""
    times, values = series.times, series.values
    if not times:
        return array("d", [blank]) * grid.count
    if len(values) == grid.count and times[0] == grid.start + grid.step and times[-1] == grid.end:
        return values
    first, last = grid.place(times[0]), grid.place(times[-1])
    if first is not None and last is not None and last - first + 1 == len(values):
        before, after = array("d", [blank]) * first, array("d", [blank]) * (grid.count - last - 1)
        return before + array("d", values) + after
    found = array("d", [blank]) * grid.count
    for time, value in zip(times, values, strict=True):
        place = grid.place(time)
        if place is not None:
            found[place] = value
    return found


def by_label(
    answer: Iterable[Sampled], grid: Grid, label: str, blank: float = math.nan
) -> dict[str, dict[str, array[float]]]:
    """The series of an answer on a grid, by uuid and by the value of a label."""
    found: dict[str, dict[str, array[float]]] = {}
    for series in answer:
        labels = series.labels
        uuid, value = labels.get("uuid", ""), labels.get(label, "")
        found.setdefault(uuid, {})[value] = placed(series, grid, blank)
    return found
