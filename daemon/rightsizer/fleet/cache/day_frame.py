"""DayFrame: days of a device or workload as columns, on a grid of days and steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from itertools import compress
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rightsizer.fleet.cache.grid import Grid
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Resource, State

Floats: TypeAlias = NDArray[Any]
"""Numbers, `nan` where one is unknown."""


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
    kinds: tuple[tuple[slice, ColumnKind], ...]
    """Where the columns of each kind stand, which are neighbors."""

    @classmethod
    def of(cls, columns: Iterable[str]) -> FrameLayout:
        """The layout of some columns, in whatever order.

        Raises:
            ValueError: one is not the name of a column.
        """
        return _layout(tuple(columns))


@dataclass(frozen=True, slots=True, eq=False)
class DayFrame:
    """Days of a device or workload.

    A column that is missing is not known at all. Columns of seconds that were asked for and had
    no samples are 0 where the subject is known; those of measures are `nan` there.
    """

    grid: Grid
    layout: FrameLayout
    values: Floats
    """By column and interval, in four bytes each."""
    demands: Mapping[Resource, Histogram] = field(default_factory=dict)
    """What was used of each resource, where it is exported, in nanoseconds with the idle ones."""

    @classmethod
    def of(
        cls,
        grid: Grid,
        columns: Mapping[str, ArrayLike],
        demands: Mapping[Resource, Histogram] | None = None,
    ) -> Self:
        """A frame of columns by name, each with a number for each interval."""
        layout = FrameLayout.of(columns)
        values = np.empty((len(layout.columns), grid.count), np.float32)
        with np.errstate(over="ignore"):  # A store may say anything; what is too large is infinite.
            for place, column in enumerate(layout.columns):
                values[place] = columns[column]
        return cls(grid, layout, values, demands or {})

    @property
    def columns(self) -> dict[str, Floats]:
        """The columns by name."""
        return dict(zip(self.layout.columns, self.values, strict=True))

    def column(self, name: str) -> Floats | None:
        """One column, `None` where it is not known at all."""
        place = self.layout.places.get(name)
        return None if place is None else self.values[place]

    def known_seconds(self) -> Floats:
        """By interval, seconds whose state is known; 0 where nothing is."""
        return zero_where_unknown(self.values[[*self.layout.states]].sum(axis=0, dtype=float))


def frames_of(
    grid: Grid, columns: Mapping[str, Floats], demands: Iterable[Mapping[Resource, Histogram]]
) -> Iterator[DayFrame]:
    """The frames of some devices, which have a row in each column and may end before the grid.

    Columns of which nothing is known are left out.
    """
    layout = FrameLayout.of(columns)
    shape = next(iter(columns.values())).shape
    values = np.full((shape[0], len(columns), grid.count), np.nan, np.float32)
    with np.errstate(over="ignore"):
        for place, column in enumerate(layout.columns):
            values[:, place, : shape[1]] = columns[column]
    is_known: Floats = np.asarray(~np.isnan(values).all(axis=2))
    for own, known, found in zip(values, is_known, demands, strict=True):
        kept = layout if known.all() else FrameLayout.of(compress(layout.columns, known))
        yield DayFrame(grid, kept, own[known], found)


def zero_where_unknown(values: Floats) -> Floats:
    """The same with 0 for what is not known."""
    return np.where(np.isnan(values), 0.0, values)


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
        kinds=tuple(
            (slice(kinds.index(kind), kinds.index(kind) + kinds.count(kind)), kind)
            for kind in dict.fromkeys(kinds)
        ),
    )
