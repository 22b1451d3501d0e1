"""A track: what is known of one subject over one day, column by column."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from rightsizer.domain.histogram import Histogram
from rightsizer.domain.state import Resource
from rightsizer.fleet.kept.column import Column
from rightsizer.fleet.kept.grid import Grid

__all__ = ["Track", "empty_column"]


def empty_column(grid: Grid) -> array[float]:
    """A column of which nothing is known yet: `nan` in each stretch.

    Packed numbers know no `None`; no `nan` ever leaves a track.
    """
    return array("f", [math.nan]) * grid.count


@dataclass(frozen=True, slots=True)
class Track:
    """A day of a device, a workload or a pool.

    A column that is missing is not known at all. Columns of seconds that were asked for and had
    nothing to tell are 0 where the subject is known; those of measures are `nan` there.
    """

    subject: str
    """A device's uuid, `workload:KEY` (`domain.window.workload_subject`) or `pool:NAME`."""
    grid: Grid
    columns: Mapping[Column, array[float]]
    demands: Mapping[Resource, Histogram] = field(default_factory=dict)
    """What was used of each resource over the day, where distributions are exported. Weights are
    nanoseconds, idle time included."""
