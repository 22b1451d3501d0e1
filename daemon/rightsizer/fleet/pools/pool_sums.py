"""GPUs of each node at the same moments: how many were there, held and active.

Sums of batches add up to those of the estate. Counts are whole GPUs, however divided.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import add, sub
from typing import Final, NamedTuple

from rightsizer.domain.units import NANOSECONDS_PER_SECOND
from rightsizer.fleet.estate import EstateDevice
from rightsizer.fleet.kept.days import DayOfSubject, Days
from rightsizer.fleet.kept.floats import floats
from rightsizer.fleet.kept.grid import COARSE_STEP, DAY, Grid
from rightsizer.fleet.kept.shelf import HeldRow

__all__ = ["Counts", "NodeSums", "PoolNode"]

_Days = tuple[int, int]
"""The first day since the epoch, and how many there are."""
_EMPTY: Final = "state:idle_empty"
_HELD_IDLE: Final = "state:idle_held"


class PoolNode(NamedTuple):
    """A node's part of a pool."""

    pool: str
    cluster: str
    node: str


@dataclass(slots=True)
class Counts:
    """GPUs by stretch of a day, or of some days."""

    grid: Grid
    present: array[float]
    held: array[float]
    active: array[float]

    def add(self, other: Counts) -> None:
        """Add those of others at the same moments; where one knows hours only, by the hour."""
        if self.grid.step != other.grid.step:
            mine, other = self.by_the_hour(), other.by_the_hour()
            self.grid = mine.grid
            self.present, self.held, self.active = mine.present, mine.held, mine.active
        self.present = floats(map(add, self.present, other.present))
        self.held = floats(map(add, self.held, other.held))
        self.active = floats(map(add, self.active, other.active))

    def by_the_hour(self) -> Counts:
        """Means over the hours."""
        each = COARSE_STEP // self.grid.step
        if each == 1:
            return self
        return Counts(
            self.grid.by(COARSE_STEP),
            *(_means(values, each) for values in (self.present, self.held, self.active)),
        )

    @property
    def each_day(self) -> Iterable[Counts]:
        """The same, day by day."""
        if self.grid.days == 1:
            return (self,)
        each = DAY // self.grid.step
        columns = (self.present, self.held, self.active)
        return [
            Counts(grid, *(values[place * each : (place + 1) * each] for values in columns))
            for place, grid in enumerate(self.grid.each_day)
        ]

    def copy(self) -> Counts:
        """An independent one."""
        return Counts(self.grid, self.present[:], self.held[:], self.active[:])

    def held_peaks(self) -> array[float]:
        """The most that were held at once, by the hour; where only hours are known, their mean."""
        each = COARSE_STEP // self.grid.step
        return array(
            "f",
            [max(self.held[place : place + each]) for place in range(0, len(self.held), each)],
        )


@dataclass(slots=True)
class NodeSums:
    """By node and time."""

    found: dict[PoolNode, dict[_Days, Counts]] = field(default_factory=dict)
    """What is told of the same days stands together."""

    def add_device(self, device: EstateDevice, days: Days, rows: Iterable[HeldRow]) -> None:
        """Count a device in."""
        by_day: dict[int, list[HeldRow]] = {}
        for row in rows:
            by_day.setdefault(row.grid.day, []).append(row)
        place = PoolNode(device.pool, device.cluster, device.node)
        ratio = device.device.capacity_ratio
        mine = self.found.setdefault(place, {})
        for day in days.days:
            _count(mine, _counts(day, ratio, by_day.get(day.sheet.grid.day, ())))

    def merge(self, other: NodeSums) -> None:
        """Add those of other devices."""
        for place, found in other.found.items():
            mine = self.found.setdefault(place, {})
            for counts in found.values():
                _count(mine, counts)

    def days_of(self, pool: str) -> dict[PoolNode, dict[int, Counts]]:
        """By node of a pool, day by day."""
        return {
            place: _by_day(found.values())
            for place, found in sorted(self.found.items())
            if place.pool == pool
        }


def _count(found: dict[_Days, Counts], counts: Counts) -> None:
    days = counts.grid.day, counts.grid.days
    if days in found:
        found[days].add(counts)
    else:
        found[days] = counts


def _by_day(found: Iterable[Counts]) -> dict[int, Counts]:
    days: dict[int, Counts] = {}
    for counts in found:
        for day in counts.each_day:
            if day.grid.day in days:
                days[day.grid.day].add(day)
            else:
                days[day.grid.day] = day.copy()
    return days


def _counts(day: DayOfSubject, ratio: float, rows: Sequence[HeldRow]) -> Counts:
    """Held is who a scheduler gave it to, and who is on it without being told of."""
    sheet, step = day.sheet, day.sheet.grid.step / NANOSECONDS_PER_SECOND
    empty, idle = (_known(sheet.named(state), sheet.grid) for state in (_EMPTY, _HELD_IDLE))
    shares = _shares(rows, sheet.grid)
    if min(shares) < 1.0:
        shares = [
            max(share, (known - unheld) / known) if known > 0 else share
            for share, known, unheld in zip(shares, day.known, empty, strict=True)
        ]
    seconds = map(sub, map(sub, day.known, empty), idle)
    whole = array("f", [ratio]) * sheet.grid.count
    return Counts(
        sheet.grid,
        present=_where(day.heard, whole),
        held=whole if min(shares) >= 1.0 else floats(map(ratio.__mul__, shares)),
        active=floats([each * ratio / step if each > 0 else 0.0 for each in seconds]),
    )


def _where(heard: Sequence[float], whole: array[float]) -> array[float]:
    """All of a device where it was heard of, nothing of it elsewhere."""
    if min(heard) > 0:
        return whole
    return floats(each if time > 0 else 0.0 for each, time in zip(whole, heard, strict=True))


def _known(seconds: array[float] | None, grid: Grid) -> array[float]:
    """Seconds in a state, 0 where that is not known."""
    if seconds is None:
        return array("f", [0.0]) * grid.count
    if math.isnan(sum(seconds)):
        return array("f", [0.0 if math.isnan(each) else each for each in seconds])
    return seconds


def _shares(rows: Sequence[HeldRow], grid: Grid) -> list[float]:
    found = [0.0] * grid.count
    for row in rows:
        first = max(0, (row.start - grid.start) // grid.step)
        last = min(grid.count, -(-(row.end - grid.start) // grid.step))
        if row.share_ratio >= 1.0:
            found[first:last] = [1.0] * (last - first)
        else:
            for place in range(first, last):
                found[place] = min(1.0, found[place] + row.share_ratio)
    return found


def _means(values: array[float], each: int) -> array[float]:
    return floats(
        [sum(values[place : place + each]) / each for place in range(0, len(values), each)]
    )
