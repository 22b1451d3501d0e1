"""Sums of subjects over a span; those with like days are summed together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from rightsizer.fleet.cache.day_frame import ColumnKind, Floats, FrameLayout, kind_of
from rightsizer.fleet.cache.measures import Demands, DistributionTable
from rightsizer.fleet.cache.summed_day import LikeDays, SummedDay
from rightsizer.model.state import IDLE_STATES, Cause, Condition, Resource, State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_MEMBERS: Final[Mapping[ColumnKind, type[StrEnum]]] = {
    ColumnKind.STATE: State,
    ColumnKind.SECOND_CAUSE: State,
    ColumnKind.CONDITION: Condition,
    ColumnKind.TIER: Tier,
    ColumnKind.SATURATED: Resource,
    ColumnKind.PRESSED: Resource,
    ColumnKind.WASTE: Cause,
    ColumnKind.WASTE_JOULES: Cause,
}


_KNOWN_STATES: Final = tuple(state for state in State if state is not State.UNKNOWN)


class _Totals(NamedTuple):
    """Order of the totals of some layouts: names of a kind are adjacent."""

    kinds: Mapping[ColumnKind, tuple[slice, tuple[Any, ...]]]
    """Places and names of each kind; names as members of an enumeration if there is one."""
    places: tuple[tuple[Floats, Floats], ...]
    """By layout, places of its known columns in the layout and among the totals."""


@lru_cache(maxsize=256)
def _totals_of(layouts: tuple[FrameLayout, ...]) -> _Totals:
    """Return the order of totals; names of later versions are skipped."""
    columns = dict.fromkeys(
        column
        for layout in layouts
        for column in layout.columns[: layout.additive]
        if _name_of(column) is not None
    )
    ordered = sorted(columns, key=kind_of)  # Stable.
    kinds = {}
    for kind in ColumnKind:
        places = [place for place, column in enumerate(ordered) if kind_of(column) is kind]
        names = tuple(_name_of(ordered[place]) for place in places)
        kinds[kind] = slice(places[0], places[-1] + 1) if places else slice(0), names
    pairs = []
    for layout in layouts:
        own = [column for column in ordered if column in layout.places]
        theirs = [layout.places[column] for column in own]
        pairs.append((np.array(theirs, int), np.array([*map(ordered.index, own)], int)))
    return _Totals(kinds, tuple(pairs))


def _name_of(column: str) -> str | None:
    """Return the name of an additive column; `None` for one of a later version."""
    kind = kind_of(column)
    name = column.partition(":")[2]
    members = _MEMBERS.get(kind)
    if members is None:
        return name
    return members(name) if name in set(members) else None


class SpanSums:
    """Sums of like subjects over a span, a row each.

    `size` is the number of subjects.
    """

    def __init__(
        self, parts: Sequence[_Part], size: int, end: Nanoseconds, *, of_devices: bool
    ) -> None:
        self._parts = parts
        self.began = self._began(size)
        """Start of the first known interval; `None` without one."""
        layouts = tuple(dict.fromkeys(part.like.layout for part in parts))
        self._kinds, places = _totals_of(layouts)
        count = max(each.stop for each, _ in self._kinds.values())
        totals = np.zeros((size, count))
        for layout, (theirs, own) in zip(layouts, places, strict=True):
            same = (part for part in parts if part.like.layout is layout)
            sums = sum(part.like.sums_over(part.first, part.last)[part.rows] for part in same)
            totals[:, own] += np.maximum(0.0, np.asarray(sums)[:, theirs])
        self._totals = totals
        self._nanoseconds = np.rint(totals * NANOSECONDS_PER_SECOND)
        # A device's time begins with its first known interval; a workload's is its devices'.
        spans = [end - (began or 0) for began in self.began]
        if not of_devices and parts:
            times = (part.device_times for part in parts)
            spans = [sum(each) for each in zip(*times, strict=True)]
        self.spans = np.array(spans)
        """Time of each subject."""

    @cached_property
    def _amounts(self) -> list[list[float]]:
        found: list[list[float]] = self._totals.tolist()
        return found

    @cached_property
    def _times(self) -> list[list[float]]:
        found: list[list[float]] = self._nanoseconds.tolist()
        return found

    def columns(self, kind: ColumnKind) -> tuple[tuple[Any, ...], Floats]:
        """Return the names of a kind, and the nanoseconds of each subject by name."""
        where, names = self._kinds[kind]
        return names, self._nanoseconds[:, where]

    def column(self, kind: ColumnKind, name: str) -> Floats | None:
        """Return the nanoseconds of a name by subject; `None` if unknown."""
        names, found = self.columns(kind)
        return found[:, names.index(name)] if name in names else None

    def _began(self, size: int) -> list[Nanoseconds | None]:
        found: list[Nanoseconds | None] = [None] * size
        for part in reversed(self._parts):
            is_known = part.like.known[part.rows, part.first : part.last] > 0
            first = is_known.argmax(axis=1) + part.first
            for row in np.flatnonzero(is_known.any(axis=1)).tolist():
                found[row] = part.like.grid.time(int(first[row]))
        return found

    def amounts(self, kind: ColumnKind, row: int) -> dict[Any, float]:
        """Return the positive amounts of a kind, by name."""
        where, names = self._kinds[kind]
        pairs = zip(names, self._amounts[row][where], strict=True)
        return {name: amount for name, amount in pairs if amount > 0}

    def times(self, kind: ColumnKind, row: int) -> dict[Any, Nanoseconds]:
        """Return the times of the same."""
        where, names = self._kinds[kind]
        found = zip(names, self._times[row][where], self._amounts[row][where], strict=True)
        return {name: int(time) for name, time, amount in found if amount > 0}

    def states(self, row: int) -> dict[State, Nanoseconds]:
        """Return time by state; the rest of the span is unknown."""
        found: dict[State, Nanoseconds] = self.times(ColumnKind.STATE, row)
        found.pop(State.UNKNOWN, None)
        beyond = sum(found.values()) - int(self.spans[row])
        if beyond > 0:  # By rounding.
            largest = max(found, key=lambda state: found[state])
            found[largest] -= beyond
        elif beyond < 0:
            found[State.UNKNOWN] = -beyond
        return found

    def has(self, column: str) -> bool:
        """Whether any day has a column."""
        return any(column in part.like.layout.places for part in self._parts)

    @cached_property
    def distributions(self) -> DistributionTable:
        """Distributions of all resources, over active (memory: held) time."""
        parts = ((part.like.demands_over(part.first, part.last), part.rows) for part in self._parts)
        states = [self.states(row) for row in range(len(self.began))]
        known, idle, empty = (
            np.array([sum(each.get(state, 0) for state in some) for each in states], float)
            for some in (_KNOWN_STATES, IDLE_STATES, (State.IDLE_EMPTY,))
        )
        return Demands.summed(parts).without_idle(known, idle, empty)


class _Part(NamedTuple):
    like: LikeDays
    rows: Floats
    first: int
    last: int

    @property
    def device_times(self) -> list[Nanoseconds]:
        """Time of all devices, by row."""
        times = self.like.device_times(self.first, self.last)
        return [times[row] for row in self.rows.tolist()]


class LikeSubjects:
    """Subjects whose days are alike, in time order; each span is summed once for all of them."""

    def __init__(self, subjects: Sequence[Sequence[SummedDay]]) -> None:
        self._size = len(subjects)
        by_day = zip(*subjects, strict=True)
        self._days = [(days[0].like, np.array([day.row for day in days])) for days in by_day]
        self._spans: dict[tuple[Nanoseconds, Nanoseconds, bool], SpanSums] = {}

    def over(self, start: Nanoseconds, end: Nanoseconds, *, of_devices: bool) -> SpanSums:
        """Return the sums of all intervals that begin in a span."""
        key = start, end, of_devices
        if key not in self._spans:
            parts = []
            for like, rows in self._days:
                first, last = like.grid.inside(start, end)
                if first < last:
                    parts.append(_Part(like, rows, first, last))
            self._spans[key] = SpanSums(parts, self._size, end, of_devices=of_devices)
        return self._spans[key]
