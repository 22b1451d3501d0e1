"""Sums of many subjects over a span, a row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

from rightsizer.fleet.cache.day_frame import ColumnKind, Floats, FrameLayout
from rightsizer.fleet.columns.distributions import (
    SegmentDemands,
    UseDistribution,
    UseDistributions,
)
from rightsizer.fleet.columns.segment import Segment
from rightsizer.model.values import (
    BINS,
    IDLE_STATES,
    NANOSECONDS_PER_SECOND,
    Cause,
    Condition,
    Distribution,
    Nanoseconds,
    Resource,
    State,
    Tier,
)

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
_RANKS: Final = ColumnKind.CONDITION.column(Condition.RANK_IMBALANCE)


def is_of_this_version(column: str) -> bool:
    """Whether the name of a column is one of this version; later ones may have more."""
    kind, _, name = column.partition(":")
    members = _MEMBERS.get(ColumnKind(kind))
    return members is None or name in set(members)


class SpanPart(NamedTuple):
    """Intervals of a segment that begin in a span."""

    segment: Segment
    demands: SegmentDemands
    first: int
    last: int
    """Exclusive."""


class SpanSums:
    """Sums of the subjects of some segments over a span.

    Args:
        parts: Intervals of the span, in time order.
        layout: Layout of the segments.
        size: Number of subjects.
        end: End of the span.
        of_devices: Whether the subjects are devices, whose time begins with their first known
            interval; a workload's is that of its devices.
    """

    def __init__(
        self,
        parts: Sequence[SpanPart],
        layout: FrameLayout,
        size: int,
        end: Nanoseconds,
        *,
        of_devices: bool,
    ) -> None:
        self._parts = parts
        self._layout = layout
        self.began = self._began(size)
        """Start of the first known interval; `None` without one."""
        self._totals = np.zeros((size, layout.additive))
        for part in parts:
            self._totals += part.segment.sums_over(part.first, part.last)
        self._nanoseconds = np.rint(self._totals * NANOSECONDS_PER_SECOND)
        spans = [end - (began or 0) for began in self.began]
        if not of_devices:
            spans = [0] * size
            for part in parts:
                devices = part.segment.devices[:, part.first : part.last].sum(axis=1, dtype=float)
                step = part.segment.grid.step
                times = (round(count * step) for count in devices.tolist())
                spans = [span + time for span, time in zip(spans, times, strict=True)]
        self.spans = np.array(spans)
        """Time of each subject."""
        self._distributions: dict[Resource | None, UseDistributions] = {}

    @cached_property
    def _amounts(self) -> list[list[float]]:
        amounts: list[list[float]] = self._totals.tolist()
        return amounts

    @cached_property
    def _times(self) -> list[list[float]]:
        times: list[list[float]] = self._nanoseconds.tolist()
        return times

    def columns(self, kind: ColumnKind) -> tuple[tuple[Any, ...], Floats]:
        """Return the names of a kind, and the nanoseconds of each subject by name."""
        return names_of(self._layout, kind), self._nanoseconds[:, self._layout.slice_of(kind)]

    def column(self, kind: ColumnKind, name: str) -> Floats | None:
        """Return the nanoseconds of a name by subject; `None` if unknown."""
        place = self._layout.places.get(kind.column(name))
        return None if place is None else self._nanoseconds[:, place]

    def _began(self, size: int) -> list[Nanoseconds | None]:
        began: list[Nanoseconds | None] = [None] * size
        for part in reversed(self._parts):
            is_known = part.segment.known[:, part.first : part.last] > 0
            first = is_known.argmax(axis=1) + part.first
            for row in np.flatnonzero(is_known.any(axis=1)).tolist():
                began[row] = part.segment.grid.time(int(first[row]))
        return began

    def amounts(self, kind: ColumnKind, row: int) -> dict[Any, float]:
        """Return the positive amounts of a kind, by name."""
        amounts = self._amounts[row][self._layout.slice_of(kind)]
        pairs = zip(names_of(self._layout, kind), amounts, strict=True)
        return {name: amount for name, amount in pairs if amount > 0}

    def times(self, kind: ColumnKind, row: int) -> dict[Any, Nanoseconds]:
        """Return the times of the same."""
        times = self._times[row][self._layout.slice_of(kind)]
        pairs = zip(names_of(self._layout, kind), times, strict=True)
        return {name: int(time) for name, time in pairs if time > 0}

    def time_in(self, *states: State) -> Floats:
        """Return the nanoseconds of each subject in some states; beyond the span by rounding."""
        columns = (self.column(ColumnKind.STATE, state) for state in states)
        told = (column for column in columns if column is not None)
        return sum(told, np.zeros(len(self.spans)))

    @cached_property
    def known(self) -> Floats:
        """Nanoseconds of each subject with a known state."""
        known_states = (state for state in State if state is not State.UNKNOWN)
        return np.asarray(np.minimum(self.time_in(*known_states), self.spans), float)

    def states(self, row: int) -> dict[State, Nanoseconds]:
        """Return time by state; the rest of the span is unknown."""
        states: dict[State, Nanoseconds] = self.times(ColumnKind.STATE, row)
        states.pop(State.UNKNOWN, None)
        beyond = sum(states.values()) - int(self.spans[row])
        if beyond > 0:  # By rounding.
            largest = max(states, key=lambda state: states[state])
            states[largest] -= beyond
        elif beyond < 0:
            states[State.UNKNOWN] = -beyond
        return states

    @cached_property
    def has_ranks(self) -> Floats:
        """Of which subjects the imbalance of ranks is known at any time of the span."""
        place = self._layout.places.get(_RANKS)
        is_known = np.zeros(len(self.began), bool)
        for part in self._parts if place is not None else ():
            values = part.segment.values[:, place, part.first : part.last]
            is_known |= ~np.isnan(values).all(axis=1)
        return is_known

    def distributions(self, resource: Resource | None) -> UseDistributions:
        """Return the use of a resource by subject; of `None`, compute's lower bound."""
        if resource not in self._distributions:
            self._distributions[resource] = self._summed(resource)
        return self._distributions[resource]

    def _summed(self, resource: Resource | None) -> UseDistributions:
        """Sum the use over active (memory: held) time.

        An idle device uses nothing, so idle time is the lowest part of what is exported.
        """
        demands = [part.demands.over(resource, part.first, part.last) for part in self._parts]
        estimated = sum((demand.estimated for demand in demands), np.zeros((len(self.spans), BINS)))
        exported = np.asarray(sum(demand.exported for demand in demands))
        if not exported.any():
            return UseDistributions(estimated)
        unused_states = (State.IDLE_EMPTY,) if resource is Resource.MEMORY else IDLE_STATES
        exported = np.where(self.known[:, None] > 0, exported, 0.0)
        away = exported.sum(axis=1) * self.time_in(*unused_states) / np.maximum(1.0, self.known)
        below = np.cumsum(exported, axis=1) - away[:, None]
        return UseDistributions(np.clip(below, 0.0, exported) + estimated)

    def demand(self, resource: Resource | None, row: int) -> Distribution:
        """Return the use of a resource by a subject; of `None`, compute's lower bound."""
        return UseDistribution(partial(self.distributions, resource), row)

    def demands(self, row: int) -> dict[Resource, Distribution]:
        """Return the use of each resource by a subject of which it is known."""
        return {
            resource: self.demand(resource, row)
            for resource in Resource
            if self.distributions(resource).is_known[row]
        }


@lru_cache(maxsize=1024)
def names_of(layout: FrameLayout, kind: ColumnKind) -> tuple[Any, ...]:
    """Return the names of a layout's columns of a kind, as members of an enumeration if any."""
    names = (column.partition(":")[2] for column in layout.columns[layout.slice_of(kind)])
    return tuple(map(_MEMBERS.get(kind, str), names))
