"""DayFrame: days of a device or workload as flat columns, on a grid of days and steps."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from math import isnan
from operator import add
from typing import Final, Self

from rightsizer.model.block import BLOCK_SPAN
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Resource, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

DAY: Final[Nanoseconds] = 86400 * NANOSECONDS_PER_SECOND
FINE_STEP: Final[Nanoseconds] = BLOCK_SPAN
COARSE_STEP: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Grid:
    """The intervals of some days. A sample at a time stands for the interval that ends there."""

    day: int
    """The first, in days since the epoch."""
    step: Nanoseconds
    """Five minutes, or an hour."""
    days: int = 1
    """How many there are, one after the other."""
    clipped: int = 0
    """Intervals that are read, from the beginning; 0 for all. The frame has the whole grid."""

    @property
    def start(self) -> Nanoseconds:
        """Wall time at which the first day begins."""
        return self.day * DAY

    @property
    def end(self) -> Nanoseconds:
        """Wall time at which the last interval is over."""
        return self.time(self.count)

    @property
    def count(self) -> int:
        """Number of intervals."""
        return self.clipped or self.days * (DAY // self.step)

    def time(self, place: int) -> Nanoseconds:
        """Wall time at which an interval begins."""
        return self.start + place * self.step

    def parts(self, days: int = 1) -> tuple[Grid, ...]:
        """The same in grids of so many days, oldest first; the last one may have fewer."""
        return tuple(
            Grid(self.day + first, self.step, min(days, self.days - first))
            for first in range(0, self.days, days)
        )

    def by(self, step: Nanoseconds) -> Grid:
        """The same days by another step."""
        return Grid(self.day, step, self.days)

    def place(self, time: Nanoseconds) -> int | None:
        """Index of the interval that a sample of this time stands for; `None` for other days.

        Stores answer to the millisecond, so that what is off by less is the same interval.
        """
        found = (time - self.start + self.step // 2) // self.step - 1
        return found if 0 <= found < self.count else None


def floats(values: Iterable[float]) -> array[float]:
    """What `array("f", values)` is, in half the time: an array parses each as an argument."""
    numbers = tuple(values)
    found = array("f")
    try:
        found.frombytes(struct.pack(f"{len(numbers)}f", *numbers))
    except OverflowError:  # A store may say anything; to an array what is too large is infinite.
        return array("f", numbers)
    return found


class ColumnKind(StrEnum):
    """What the values of a column are, and so how those of several subjects add up."""

    STATE = "state"
    """Seconds of the interval in a state; `unknown` is what the others leave of it."""
    CONDITION = "condition"
    """Seconds during which a condition held."""
    TIER = "tier"
    """Seconds that were read with a telemetry tier."""
    SATURATED = "saturated"
    """Seconds at a resource's limit."""
    PRESSED = "pressed"
    """Seconds at a resource's limit while the application was short of it."""
    WASTE = "waste"
    """Seconds' worth that a cause took."""
    WASTE_JOULES = "waste_joules"
    USED = "used"
    """Name `seconds` or `joules`."""
    ENERGY = "energy"
    """Name `joules`."""
    MEAN = "mean"
    """Of a measure over the known time, idle time included: a share of a device, or bytes."""
    PEAK = "peak"
    """The largest reading of a measure."""
    COUNT = "count"
    """Name `devices`: whole GPUs, as a mean over the interval."""

    def column(self, name: str) -> str:
        """The name of a column of this kind, `kind:name`, by which it is stored."""
        return f"{self}:{name}"


@lru_cache(maxsize=1024)
def kind_of(column: str) -> ColumnKind:
    """The kind in a column's name.

    Raises:
        ValueError: it is not the name of a column.
    """
    return ColumnKind(column.partition(":")[0])


DEVICES: Final = ColumnKind.COUNT.column("devices")
"""How many devices a workload had; a device has one of itself."""
_UNKNOWN: Final = ColumnKind.STATE.column(State.UNKNOWN)
_LAST: Final = {ColumnKind.MEAN: 1, ColumnKind.PEAK: 2}
_LAYOUTS_KEPT: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class FrameLayout:
    """Which column stands where: what adds up first, then means, then peaks.

    The same columns have the same layout object, so that layouts are compared by identity.
    """

    columns: tuple[str, ...]
    places: Mapping[str, int]
    """By a column's name."""
    additive: int
    """How many of the first columns add up."""
    means: int
    """How many means follow."""
    states: tuple[int, ...]
    """Places of the states that are known."""

    @classmethod
    def of(cls, columns: Iterable[str]) -> FrameLayout:
        """The layout of some columns, in whatever order.

        Raises:
            ValueError: one is not the name of a column.
        """
        return _layout(tuple(columns))


@dataclass(frozen=True, slots=True)
class DayFrame:
    """Days of a device or workload.

    A column that is missing is not known at all. Columns of seconds that were asked for and had
    no samples are 0 where the subject is known; those of measures are `nan` there.
    """

    grid: Grid
    layout: FrameLayout
    values: array[float]
    """Column after column, a number for each interval, `nan` where unknown."""
    demands: Mapping[Resource, Histogram] = field(default_factory=dict)
    """What was used of each resource, where distributions are exported. Weights are nanoseconds,
    idle time included."""

    @classmethod
    def of(
        cls,
        grid: Grid,
        columns: Mapping[str, Iterable[float]],
        demands: Mapping[Resource, Histogram] | None = None,
    ) -> Self:
        """A frame of columns by name, each with a number for each interval."""
        layout = FrameLayout.of(columns)
        values = array("f")
        for column in layout.columns:
            values.extend(columns[column])
        return cls(grid, layout, values, demands or {})

    @property
    def columns(self) -> dict[str, array[float]]:
        """The columns by name."""
        return {column: self.at(place) for place, column in enumerate(self.layout.columns)}

    def column(self, name: str) -> array[float] | None:
        """One column, `None` where it is not known at all."""
        place = self.layout.places.get(name)
        return None if place is None else self.at(place)

    def at(self, place: int) -> array[float]:
        """The column at a place of the layout."""
        count = self.grid.count
        return self.values[place * count : (place + 1) * count]

    def known_seconds(self) -> list[float]:
        """By interval, seconds whose state is known; 0 where nothing is."""
        parts = [self.at(place) for place in self.layout.states]
        found = [0.0] * self.grid.count
        for part in filter(any, parts):  # Most states are never there.
            found = list(map(add, found, part))
        return [0.0 if isnan(each) else each for each in found] if isnan(sum(found)) else found


@lru_cache(maxsize=_LAYOUTS_KEPT)
def _layout(columns: tuple[str, ...]) -> FrameLayout:
    """Layout by columns in a source's order, which hardly changes: sorting them takes time."""
    ordered = sorted(columns, key=lambda column: (_LAST.get(kind_of(column), 0), column))
    return _sorted_layout(tuple(ordered))


@lru_cache(maxsize=_LAYOUTS_KEPT)
def _sorted_layout(columns: tuple[str, ...]) -> FrameLayout:
    kinds = [kind_of(column) for column in columns]
    means, peaks = kinds.count(ColumnKind.MEAN), kinds.count(ColumnKind.PEAK)
    states = (at for at, kind in enumerate(kinds) if kind is ColumnKind.STATE)
    return FrameLayout(
        columns=columns,
        places={column: place for place, column in enumerate(columns)},
        additive=len(columns) - means - peaks,
        means=means,
        states=tuple(at for at in states if columns[at] != _UNKNOWN),
    )
