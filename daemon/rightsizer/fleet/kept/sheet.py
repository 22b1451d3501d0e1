"""A sheet: a day of a subject as one block of numbers, which adds up and slices at C speed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import isnan
from operator import add
from typing import Final, Self

from rightsizer.domain.histogram import Histogram
from rightsizer.domain.state import Resource, State
from rightsizer.fleet.kept.column import Column, Kind
from rightsizer.fleet.kept.grid import Grid
from rightsizer.fleet.kept.track import Track

__all__ = ["DEVICES", "DEVICES_TEXT", "Layout", "Sheet"]

DEVICES: Final = Column(Kind.COUNT, "devices")
DEVICES_TEXT: Final = str(DEVICES)
"""How many devices a workload had; a device has one of itself."""
_LAST: Final = {Kind.MEAN: 1, Kind.PEAK: 2}
_LAYOUTS_KEPT: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Which column stands where: what adds up first, then means, then peaks.

    The same columns have the same layout, so that it is known by itself.
    """

    columns: tuple[Column, ...]
    places: Mapping[str, int]
    """By a column's text."""
    additive: int
    """How many of the first columns add up."""
    means: int
    """How many means follow."""
    states: tuple[int, ...]
    """Places of the states that are known."""

    @classmethod
    def of(cls, columns: Iterable[Column]) -> Layout:
        """The layout of some columns, in whatever order."""
        return _layout(tuple(columns))

    @property
    def peaks_pair_up(self) -> bool:
        """Whether each mean has its peak at the same place among the peaks."""
        last = self.additive + self.means
        means = [column.name for column in self.columns[self.additive : last]]
        return means == [column.name for column in self.columns[last:]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A track as it is reckoned with."""

    grid: Grid
    layout: Layout
    values: array[float]
    """Column after column, a number for each stretch, `nan` where unknown."""
    demands: Mapping[Resource, Histogram] = field(default_factory=dict)

    @classmethod
    def of(cls, track: Track) -> Self:
        """A track, laid out."""
        layout = Layout.of(track.columns)
        values = array("f")
        for column in layout.columns:
            values.extend(track.columns[column])
        return cls(track.grid, layout, values, track.demands)

    def track(self, subject: str) -> Track:
        """The same as a track."""
        count = self.grid.count
        columns = {
            column: self.values[place * count : (place + 1) * count]
            for place, column in enumerate(self.layout.columns)
        }
        return Track(subject, self.grid, columns, self.demands)

    def column(self, column: Column) -> array[float] | None:
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


def _order(column: Column) -> tuple[int, Column]:
    return _LAST.get(column.kind, 0), column


@lru_cache(maxsize=_LAYOUTS_KEPT)
def _layout(columns: tuple[Column, ...]) -> Layout:
    """Whatever their order, which a source hardly changes; to sort them takes its time."""
    return _sorted_layout(tuple(sorted(columns, key=_order)))


@lru_cache(maxsize=_LAYOUTS_KEPT)
def _sorted_layout(columns: tuple[Column, ...]) -> Layout:
    kinds = [column.kind for column in columns]
    means, peaks = kinds.count(Kind.MEAN), kinds.count(Kind.PEAK)
    return Layout(
        columns=columns,
        places={str(column): place for place, column in enumerate(columns)},
        additive=len(columns) - means - peaks,
        means=means,
        states=tuple(
            place
            for place, column in enumerate(columns)
            if column.kind is Kind.STATE and column.name != State.UNKNOWN
        ),
    )
