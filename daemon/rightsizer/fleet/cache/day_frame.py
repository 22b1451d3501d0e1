"""Days of a device or workload as columns, on a grid of days and steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from itertools import compress
from typing import Any, Final, Self, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from rightsizer.fleet.cache.grid import DAY, Grid
from rightsizer.model.values import Histogram, Resource, State

Floats: TypeAlias = NDArray[Any]
"""Numbers; `nan` if unknown."""


class ColumnKind(StrEnum):
    """Meaning of a column's values, which determines how several subjects combine."""

    STATE = "state"
    """Seconds of the interval in a state; `unknown` is the rest."""
    SECOND_CAUSE = "second_cause"
    """Seconds in which a state is the next most likely."""
    CONDITION = "condition"
    """Seconds with a condition."""
    TIER = "tier"
    """Seconds read with a telemetry tier."""
    SATURATED = "saturated"
    """Seconds at a resource's limit."""
    PRESSED = "pressed"
    """Seconds at a resource's limit while the application lacked it."""
    WASTE = "waste"
    """Equivalent seconds lost to a cause."""
    WASTE_JOULES = "waste_joules"
    USED = "used"
    """Name `seconds` or `joules`."""
    ENERGY = "energy"
    """Name `joules`; of all time, whatever the state."""
    MEAN = "mean"
    """Mean of a measure over known time, idle time included: a share of a device, or bytes."""
    PEAK = "peak"
    """Maximum of a measure."""

    def column(self, name: str) -> str:
        """Return the stored name of a column of this kind, `kind:name`."""
        return f"{self}:{name}"


@lru_cache(maxsize=1024)
def kind_of(column: str) -> ColumnKind:
    """Return the kind of a column by its name.

    Raises:
        ValueError: it is no column name.
    """
    return ColumnKind(column.partition(":")[0])


UNKNOWN_STATE: Final = ColumnKind.STATE.column(State.UNKNOWN)
IDLE_EMPTY_STATE: Final = ColumnKind.STATE.column(State.IDLE_EMPTY)
IDLE_HELD_STATE: Final = ColumnKind.STATE.column(State.IDLE_HELD)
_LAST: Final = {ColumnKind.MEAN: 1, ColumnKind.PEAK: 2}
_LAYOUTS_KEPT: Final = 256


class FrameLayout(Struct, frozen=True, eq=False):
    """Order of columns: additive ones, then means, then peaks.

    Equal columns share a layout object, so layouts are compared by identity.
    """

    columns: tuple[str, ...]
    places: Mapping[str, int]
    """By column name."""
    additive: int
    """Number of leading additive columns."""
    means: int
    """Number of means that follow."""
    states: tuple[int, ...]
    """Places of the known states."""
    kinds: Mapping[ColumnKind, slice]
    """Places of the columns of each kind, which are adjacent."""

    def places_of(self, *columns: str) -> tuple[int, ...]:
        """Return the places of those columns that it has."""
        return tuple(self.places[column] for column in columns if column in self.places)

    def slice_of(self, kind: ColumnKind) -> slice:
        """Return the places of the columns of a kind."""
        return self.kinds.get(kind, slice(0))

    @classmethod
    def of(cls, columns: Iterable[str]) -> FrameLayout:
        """Return the layout of columns in any order.

        Raises:
            ValueError: one is no column name.
        """
        return _layout(tuple(columns))


class DayFrame(Struct, frozen=True, eq=False):
    """Days of a device or workload.

    Missing columns are unknown. Columns of seconds that were queried without samples are 0 while
    the subject is known; those of measures are `nan`.
    """

    grid: Grid
    layout: FrameLayout
    values: Floats
    """By column and interval, four bytes each."""
    demands: Mapping[Resource, Histogram] = {}
    """Distribution of each exported resource's use in nanoseconds, idle time included."""

    @classmethod
    def of(
        cls,
        grid: Grid,
        columns: Mapping[str, ArrayLike],
        demands: Mapping[Resource, Histogram] | None = None,
    ) -> Self:
        """Create a frame from columns by name, with a number per interval."""
        layout = FrameLayout.of(columns)
        values = np.empty((len(layout.columns), grid.count), np.float32)
        with np.errstate(over="ignore"):  # Values are untrusted; excessive ones become infinite.
            for place, column in enumerate(layout.columns):
                values[place] = columns[column]
        return cls(grid, layout, values, demands or {})

    @property
    def columns(self) -> dict[str, Floats]:
        """Columns by name."""
        return dict(zip(self.layout.columns, self.values, strict=True))

    def column(self, name: str) -> Floats | None:
        """Return a column, or `None` if unknown."""
        place = self.layout.places.get(name)
        return None if place is None else self.values[place]

    def known_seconds(self) -> Floats:
        """Seconds of known state by interval; 0 if unknown."""
        return zero_where_unknown(self.values[[*self.layout.states]].sum(axis=0, dtype=float))


def frames_of(
    grid: Grid, columns: Mapping[str, Floats], demands: Iterable[Mapping[Resource, Histogram]]
) -> Iterator[DayFrame]:
    """Yield the frames of devices, which are the rows of each column; they may end early.

    Columns without known values are omitted.
    """
    layout = FrameLayout.of(columns)
    shape = next(iter(columns.values())).shape
    values = np.full((shape[0], len(columns), grid.count), np.nan, np.float32)
    with np.errstate(over="ignore"):
        for place, column in enumerate(layout.columns):
            values[:, place, : shape[1]] = columns[column]
    is_known: Floats = np.asarray(~np.isnan(values).all(axis=2))
    for value, known_columns, demand in zip(values, is_known, demands, strict=True):
        kept = (
            layout
            if known_columns.all()
            else FrameLayout.of(compress(layout.columns, known_columns))
        )
        yield DayFrame(grid, kept, value[known_columns], demand)


def frames_by_day(frames: Iterable[DayFrame]) -> Iterator[DayFrame]:
    """Split frames into days, with distributions divided by known time."""
    for frame in frames:
        if frame.grid.days == 1:
            yield frame
            continue
        intervals_a_day = DAY // frame.grid.step
        seconds = frame.known_seconds()
        total = seconds.sum()
        for place, grid in enumerate(frame.grid.parts()):
            inside = slice(place * intervals_a_day, (place + 1) * intervals_a_day)
            values = frame.values[:, inside]
            part = seconds[inside].sum() / total if total else 0.0
            demands = {
                resource: demand.scaled(float(part)) for resource, demand in frame.demands.items()
            }
            yield DayFrame(grid, frame.layout, values, demands)


def zero_where_unknown(values: Floats) -> Floats:
    """Replace unknown values by 0."""
    return np.where(np.isnan(values), 0.0, values)


@lru_cache(maxsize=_LAYOUTS_KEPT)
def _layout(columns: tuple[str, ...]) -> FrameLayout:
    """Cache layouts by source order, which rarely changes: sorting is slow."""
    ordered = sorted(columns, key=lambda column: (_LAST.get(kind_of(column), 0), column))
    return _sorted_layout(tuple(ordered))


@lru_cache(maxsize=_LAYOUTS_KEPT)
def _sorted_layout(columns: tuple[str, ...]) -> FrameLayout:
    kinds = [kind_of(column) for column in columns]
    means = kinds.count(ColumnKind.MEAN)
    peaks = kinds.count(ColumnKind.PEAK)
    states = (at for at, kind in enumerate(kinds) if kind is ColumnKind.STATE)
    return FrameLayout(
        columns=columns,
        places={column: place for place, column in enumerate(columns)},
        additive=len(columns) - means - peaks,
        means=means,
        states=tuple(at for at in states if columns[at] != UNKNOWN_STATE),
        kinds={
            kind: slice(kinds.index(kind), kinds.index(kind) + kinds.count(kind)) for kind in kinds
        },
    )
