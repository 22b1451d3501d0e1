"""DayFrame: one device's day as flat columns, on a grid of days and steps."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from math import isnan
from operator import add
from typing import Final, Self

from rightsizer.model.block import BLOCK_SPAN, Measure
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Cause, Condition, Resource, State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

DAY: Final[Nanoseconds] = 86400 * NANOSECONDS_PER_SECOND
FINE_STEP: Final[Nanoseconds] = BLOCK_SPAN
COARSE_STEP: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Grid:
    """The stretches of some days. A sample at a time stands for the stretch that ends there."""

    day: int
    """The first, in days since the epoch."""
    step: Nanoseconds
    """Five minutes, or an hour."""
    days: int = 1
    """How many there are, one after the other."""

    @property
    def start(self) -> Nanoseconds:
        """Wall time at which the first day begins."""
        return self.day * DAY

    @property
    def end(self) -> Nanoseconds:
        """Wall time at which the last day is over."""
        return self.start + self.days * DAY

    @property
    def count(self) -> int:
        """How many stretches there are."""
        return self.days * (DAY // self.step)

    @property
    def each_day(self) -> tuple[Grid, ...]:
        """The same, a grid for each day."""
        return tuple(Grid(self.day + place, self.step) for place in range(self.days))

    def parts(self, days: int) -> tuple[Grid, ...]:
        """The same in grids of so many days, oldest first; the last one may have fewer."""
        return tuple(
            Grid(self.day + first, self.step, min(days, self.days - first))
            for first in range(0, self.days, days)
        )

    def by(self, step: Nanoseconds) -> Grid:
        """The same days by another step."""
        return Grid(self.day, step, self.days)

    def place(self, time: Nanoseconds) -> int | None:
        """Which stretch a sample of this time stands for; `None` for one of other days.

        Stores answer to the millisecond, so that what is off by less is no other stretch.
        """
        found = (time - self.start + self.step // 2) // self.step - 1
        return found if 0 <= found < self.count else None


@dataclass(frozen=True, slots=True)
class ClippedGrid(Grid):
    """A grid that ends before its days do. What is read with it is kept with the whole grid."""

    first: int = 0
    """So many stretches from the beginning are looked at."""

    @property
    def end(self) -> Nanoseconds:
        """Wall time at which the last stretch that is looked at is over."""
        return self.start + self.first * self.step

    @property
    def count(self) -> int:
        """How many stretches are looked at."""
        return self.first


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
    """Seconds of the stretch in a state; `unknown` is what the others leave of it."""
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
    """Of a pool: name `devices`, `held`, `active`, in whole GPUs, as means over the stretch."""


@dataclass(frozen=True, slots=True, order=True)
class DayColumn:
    """A kind and a name; as text `kind:name`, which is how it is kept."""

    kind: ColumnKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    def __hash__(self) -> int:
        # A column is looked up for every device and day; few kinds share a name.
        return hash(self.name)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The column of a text that `str` gave.

        Raises:
            ValueError: it is none.
        """
        kind, _, name = text.partition(":")
        return cls(ColumnKind(kind), name)

    @classmethod
    def state(cls, state: State) -> Self:
        """Seconds in a state."""
        return cls(ColumnKind.STATE, state.value)

    @classmethod
    def condition(cls, condition: Condition) -> Self:
        """Seconds during which a condition held."""
        return cls(ColumnKind.CONDITION, condition.value)

    @classmethod
    def tier(cls, tier: Tier) -> Self:
        """Seconds read with a tier."""
        return cls(ColumnKind.TIER, tier.value)

    @classmethod
    def saturated(cls, resource: Resource) -> Self:
        """Seconds at a limit."""
        return cls(ColumnKind.SATURATED, resource.value)

    @classmethod
    def pressed(cls, resource: Resource) -> Self:
        """Seconds at a limit with the application short of it."""
        return cls(ColumnKind.PRESSED, resource.value)

    @classmethod
    def waste(cls, cause: Cause) -> Self:
        """Seconds' worth that a cause took."""
        return cls(ColumnKind.WASTE, cause.value)

    @classmethod
    def mean(cls, measure: Measure) -> Self:
        """Mean of a measure."""
        return cls(ColumnKind.MEAN, measure.value)

    @classmethod
    def peak(cls, measure: Measure) -> Self:
        """Peak of a measure."""
        return cls(ColumnKind.PEAK, measure.value)


def empty_column(grid: Grid) -> array[float]:
    """A column of which nothing is known yet: `nan` in each stretch.

    Packed numbers know no `None`; no `nan` ever leaves a track.
    """
    return array("f", [math.nan]) * grid.count


@dataclass(frozen=True, slots=True)
class SubjectDay:
    """A day of a device, a workload or a pool.

    A column that is missing is not known at all. Columns of seconds that were asked for and had
    nothing to tell are 0 where the subject is known; those of measures are `nan` there.
    """

    subject: str
    """A device's uuid, `workload:KEY` (`domain.window.workload_subject`) or `pool:NAME`."""
    grid: Grid
    columns: Mapping[DayColumn, array[float]]
    demands: Mapping[Resource, Histogram] = field(default_factory=dict)
    """What was used of each resource over the day, where distributions are exported. Weights are
    nanoseconds, idle time included."""


DEVICES: Final = DayColumn(ColumnKind.COUNT, "devices")
DEVICES_TEXT: Final = str(DEVICES)
"""How many devices a workload had; a device has one of itself."""
_LAST: Final = {ColumnKind.MEAN: 1, ColumnKind.PEAK: 2}
_LAYOUTS_KEPT: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class FrameLayout:
    """Which column stands where: what adds up first, then means, then peaks.

    The same columns have the same layout, so that it is known by itself.
    """

    columns: tuple[DayColumn, ...]
    places: Mapping[str, int]
    """By a column's text."""
    additive: int
    """How many of the first columns add up."""
    means: int
    """How many means follow."""
    states: tuple[int, ...]
    """Places of the states that are known."""

    @classmethod
    def of(cls, columns: Iterable[DayColumn]) -> FrameLayout:
        """The layout of some columns, in whatever order."""
        return _layout(tuple(columns))

    @property
    def peaks_pair_up(self) -> bool:
        """Whether each mean has its peak at the same place among the peaks."""
        last = self.additive + self.means
        means = [column.name for column in self.columns[self.additive : last]]
        return means == [column.name for column in self.columns[last:]]


@dataclass(frozen=True, slots=True)
class DayFrame:
    """A track as it is reckoned with."""

    grid: Grid
    layout: FrameLayout
    values: array[float]
    """Column after column, a number for each stretch, `nan` where unknown."""
    demands: Mapping[Resource, Histogram] = field(default_factory=dict)

    @classmethod
    def of(cls, track: SubjectDay) -> Self:
        """A track, laid out."""
        layout = FrameLayout.of(track.columns)
        values = array("f")
        for column in layout.columns:
            values.extend(track.columns[column])
        return cls(track.grid, layout, values, track.demands)

    def track(self, subject: str) -> SubjectDay:
        """The same as a track."""
        count = self.grid.count
        columns = {
            column: self.values[place * count : (place + 1) * count]
            for place, column in enumerate(self.layout.columns)
        }
        return SubjectDay(subject, self.grid, columns, self.demands)

    def column(self, column: DayColumn) -> array[float] | None:
        """One column, `None` where it is not known at all."""
        return self.named(str(column))

    def named(self, text: str) -> array[float] | None:
        """One column by its text, which is the quick way to look for it."""
        place = self.layout.places.get(text)
        return None if place is None else self.at(place)

    def at(self, place: int) -> array[float]:
        """The column that stands at a place."""
        count = self.grid.count
        return self.values[place * count : (place + 1) * count]

    def known_seconds(self) -> list[float]:
        """By stretch, seconds whose state is known; 0 where nothing is."""
        parts = [self.at(place) for place in self.layout.states]
        found = [0.0] * self.grid.count
        for part in filter(any, parts):  # Most states are never there.
            found = list(map(add, found, part))
        return [0.0 if isnan(each) else each for each in found] if isnan(sum(found)) else found


def _order(column: DayColumn) -> tuple[int, DayColumn]:
    return _LAST.get(column.kind, 0), column


@lru_cache(maxsize=_LAYOUTS_KEPT)
def _layout(columns: tuple[DayColumn, ...]) -> FrameLayout:
    """Whatever their order, which a source hardly changes; to sort them takes its time."""
    return _sorted_layout(tuple(sorted(columns, key=_order)))


@lru_cache(maxsize=_LAYOUTS_KEPT)
def _sorted_layout(columns: tuple[DayColumn, ...]) -> FrameLayout:
    kinds = [column.kind for column in columns]
    means, peaks = kinds.count(ColumnKind.MEAN), kinds.count(ColumnKind.PEAK)
    return FrameLayout(
        columns=columns,
        places={str(column): place for place, column in enumerate(columns)},
        additive=len(columns) - means - peaks,
        means=means,
        states=tuple(
            place
            for place, column in enumerate(columns)
            if column.kind is ColumnKind.STATE and column.name != State.UNKNOWN
        ),
    )
