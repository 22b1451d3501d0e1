"""Blocks and distributions of day frames, computed on demand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import ItemsView, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Final, Protocol, TypeAlias

import numpy as np
from msgspec import Struct

from rightsizer.fleet.cache.day_codec import lifted
from rightsizer.fleet.cache.day_frame import DayFrame, Floats
from rightsizer.fleet.cache.grid import Grid
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.block import BLOCK_SPAN, Blocks, LazyColumn, Measure, Series
from rightsizer.model.histogram import BINS, PRECISION, Distribution, Histogram
from rightsizer.model.state import IDLE_STATES, Resource, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_TENTHS: Final = 10
_SPAN_TENTHS: Final = BLOCK_SPAN / NANOSECONDS_PER_SECOND * _TENTHS
_MOST: Final = 65504.0
"""The largest half float."""
_UNITS: Final = {Measure.MEMORY_BYTES: 2.0**30}
_RECORD: Final = np.dtype(
    [("number", ">u4"), ("tenths", ">u2"), ("halves", ">f2", 2 * len(Measure))]
)
Halves: TypeAlias = tuple[Floats, Floats]
"""Means and peaks as half floats, `nan` if either is unknown."""


class _Day(Protocol):
    @property
    def grid(self) -> Grid: ...

    @property
    def known_parts(self) -> Floats:
        """Known share of each interval, 0 to 1."""

    def halves(self, measure: Measure) -> Halves:
        """Means and peaks of a measure."""


def blocks_of(days: Iterable[_Day]) -> Blocks:
    """Return the blocks of days, oldest first."""
    found = [b""]
    for day in days:
        each = day.grid.step // BLOCK_SPAN
        parts = day.known_parts
        known = parts > 0
        halves = [half for measure in Measure for half in day.halves(measure)]
        records = np.zeros(int(known.sum()) * each, _RECORD)
        records["number"] = _numbers(day.grid, known)
        records["tenths"] = np.repeat((parts[known] * _SPAN_TENTHS + 0.5).astype(int), each)
        records["halves"] = np.repeat(np.stack(halves, axis=1)[known], each, axis=0)
        found.append(records.tobytes())
    return Blocks(b"".join(found))


def _columns_of(days: Iterable[_Day], measure: Measure) -> tuple[Floats, ...]:
    """Return the columns of `blocks_of(days).series(measure)`, without other measures' bytes."""
    unit = _UNITS.get(measure, 1.0)
    found: list[tuple[Floats, ...]] = [_NO_BLOCKS]
    for day in days:
        means, peaks = (half.astype(float) * unit for half in day.halves(measure))
        parts = day.known_parts
        known = (parts > 0) & ~np.isnan(means)
        seconds = np.floor(parts * _SPAN_TENTHS + 0.5) / _TENTHS
        # An hour stands for all of its blocks.
        each = day.grid.step // BLOCK_SPAN
        repeated = (np.repeat(column[known], each) for column in (seconds, means, peaks))
        found.append((_numbers(day.grid, known), *repeated))
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


def _series(numbers: Floats, *columns: Floats) -> Series:
    """Convert to Python numbers; most readers need only one column."""
    if len(numbers) and numbers[-1] - numbers[0] + 1 == len(numbers):
        # Without gaps a range needs no memory.
        whole = range(int(numbers[0]), int(numbers[-1]) + 1)
        return Series(whole, *map(_ArrayColumn, columns))
    return Series(numbers.tolist(), *map(_ArrayColumn, columns))


class _ArrayColumn(LazyColumn):
    """Column of an array, summed up without Python numbers."""

    def __init__(self, values: Floats) -> None:
        super().__init__(len(values), partial(_numbers_of, values))
        self._array = values

    def __array__(self, *_: object) -> Floats:
        """The same numbers."""
        return self._array

    def total(self) -> float:
        """As in `LazyColumn`, in the same order."""
        return float(np.cumsum(self._array)[-1]) if len(self) else 0.0

    def maximum(self) -> float | None:
        """As in `LazyColumn`."""
        return float(self._array.max()) if len(self) else None

    def count_above(self, limit: float) -> int:
        """As in `LazyColumn`."""
        return int(np.count_nonzero(self._array > limit))

    def below(self, limit: float) -> bytes:
        """As in `LazyColumn`."""
        return np.asarray(self._array < limit).tobytes()


def _numbers_of(values: Floats) -> Sequence[float]:
    """Share equal numbers, as most known times are."""
    if len(values) and (values == values[0]).all():
        return (float(values[0]),) * len(values)
    found: list[float] = values.tolist()
    return found


_NO_BLOCKS: Final = (np.zeros(0, int), np.zeros(0), np.zeros(0), np.zeros(0))


def _numbers(grid: Grid, known: Floats) -> Floats:
    each = grid.step // BLOCK_SPAN
    first = grid.start // BLOCK_SPAN
    return (first + each * np.flatnonzero(known)[:, None] + np.arange(each)).ravel()


def halves_of(means: Floats | None, peaks: Floats | None, measure: Measure) -> Halves | None:
    """Return a measure as half floats; `None` if means or peaks are unknown."""
    if means is None or peaks is None:  # A mean has no information on the peak.
        return None
    unit = _UNITS.get(measure, 1.0)
    is_known = ~(np.isnan(means) | np.isnan(peaks))
    both = (np.minimum(each / unit, _MOST) for each in (means, lifted(peaks)))
    found, most = (np.where(is_known, each, np.nan).astype(np.float16) for each in both)
    return found, most


class BlockColumns:
    """Blocks of frames with their known shares; measures are computed once."""

    def __init__(self, days: Sequence[_Day]) -> None:
        self.days = days
        self._columns = cache(partial(_columns_of, days))
        self._series: dict[tuple[Measure, int, int], Series] = {}

    def series(self, measure: Measure, first: int, last: int) -> Series:
        """Return a measure from one block to another, exclusive."""
        numbers, *columns = self._columns(measure)
        low, high = (bisect_left(numbers, each) for each in (first, last))
        key = measure, low, high
        if key not in self._series:
            self._series[key] = _series(*(each[low:high] for each in (numbers, *columns)))
        return self._series[key]


class CachedBlocks(Blocks):
    """Blocks that begin in a span; equal if columns and span are."""

    __slots__ = ("_identity",)
    _identity: tuple[BlockColumns, int, int]

    def __init__(self, columns: BlockColumns, start: Nanoseconds, end: Nanoseconds) -> None:
        identity = columns, -(-start // BLOCK_SPAN), -(-end // BLOCK_SPAN)
        self._identity = identity

    @property
    def data(self) -> bytes:
        """Encoded as in `Blocks`."""
        columns, first, last = self._identity
        return blocks_of(columns.days).between(first * BLOCK_SPAN, last * BLOCK_SPAN).data

    def series(self, measure: Measure) -> Series:
        """Return one measure in columns."""
        columns, first, last = self._identity
        return columns.series(measure, first, last)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CachedBlocks) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


_ROUNDING: Final = 1e-9
_RESOURCES: Final = {
    Measure.COMPUTE: Resource.COMPUTE,
    Measure.MEMORY: Resource.MEMORY,
    Measure.MEMORY_BANDWIDTH: Resource.MEMORY_BANDWIDTH,
    Measure.PCIE: Resource.PCIE,
    Measure.NVLINK: Resource.NVLINK,
    Measure.COMPUTE_AT_LEAST: None,
}
_RESOURCES_BY_ROW: Final = (*Resource, None)
"""Resource of each distribution; the last is compute's lower bound."""
_ROWS: Final = {resource: row for row, resource in enumerate(_RESOURCES_BY_ROW)}
_IDLE: Final = tuple(
    tuple(f"state:{state}" for state in states)
    for states in ((State.IDLE_EMPTY,), sorted(IDLE_STATES))
)
"""States without use, for memory and for other resources."""


def histogram_of(weights: Floats) -> Histogram:
    """Build a histogram from weights by percent."""
    used = np.flatnonzero(weights > 0)
    return Histogram(dict(zip(used.tolist(), weights[used].tolist(), strict=True)))


Distributions = tuple[Mapping[Resource, Distribution], Distribution]
"""Use of each resource, and compute's lower bound."""


class TableDistribution(Struct, frozen=True):
    """Distribution of a subject in a table."""

    table: DistributionTable
    subject: int
    place: int

    @property
    def total(self) -> float:
        """As in `Histogram`."""
        return self.table.totals[self.subject][self.place]

    def quantile(self, share: float) -> float | None:
        """As in `Histogram`."""
        return self.table.quantiles(share)[self.subject][self.place]

    def mean(self) -> float | None:
        """As in `Histogram`."""
        return self._histogram.mean()

    def maximum(self) -> float | None:
        """As in `Histogram`."""
        return self.table.maxima[self.subject][self.place]

    def items(self) -> ItemsView[int, float]:
        """As in `Histogram`."""
        return self._histogram.items()

    @property
    def _histogram(self) -> Histogram:
        return histogram_of(self.table.weights[self.subject, self.place])


class DistributionTable:
    """Distributions of many subjects, whose quantiles are computed at once.

    `weights` are by subject, row of `_ROWS` and percent.
    """

    def __init__(self, weights: Floats) -> None:
        self._rows = np.flatnonzero((weights > 0).any(axis=(0, 2))).tolist()
        self.weights = weights[:, self._rows]
        is_used = self.weights > 0
        self._is_used: list[list[bool]] = np.asarray(is_used.any(axis=2)).tolist()
        self._first = is_used.argmax(axis=2)
        last = BINS - 1 - is_used[:, :, ::-1].argmax(axis=2)
        self.maxima: list[list[float]] = (last / (BINS - 1)).tolist()
        self._reached = np.cumsum(self.weights, axis=2)
        self.totals: list[list[float]] = self._reached[:, :, -1].tolist()
        self._quantiles: dict[float, list[list[float]]] = {}

    def quantiles(self, share: float) -> list[list[float]]:
        """Return a quantile of each distribution, by subject and resource, as in `Histogram`."""
        if share not in self._quantiles:
            target = share * self._reached[:, :, -1:] * (1 - PRECISION)
            place = (self._reached >= target).argmax(axis=2)
            found = np.maximum(place, self._first) / (BINS - 1)
            self._quantiles[share] = found.tolist()
        return self._quantiles[share]

    def is_known(self, resource: Resource | None) -> Floats:
        """Return which subjects have a distribution of a resource."""
        return self.total_of(resource) > 0.0

    def total_of(self, resource: Resource | None) -> Floats:
        """Return the weight of a resource by subject; `None` is compute's lower bound."""
        return self._of(resource, self._reached[:, :, -1], 0.0)

    def maximum_of(self, resource: Resource | None) -> Floats:
        """Return the maximum of a resource by subject; `nan` if unknown."""
        return self._of(resource, np.array(self.maxima), np.nan)

    def quantile_of(self, resource: Resource | None, share: float) -> Floats:
        """Return a quantile of a resource by subject; `nan` if unknown."""
        return self._of(resource, np.array(self.quantiles(share)), np.nan)

    def _of(self, resource: Resource | None, values: Floats, blank: float) -> Floats:
        if (row := _ROWS[resource]) not in self._rows:
            return np.full(len(self.weights), blank)
        place = self._rows.index(row)
        is_used = self.weights[:, place].any(axis=1)
        return np.where(is_used, values[:, place], blank)

    def of(self, subject: int) -> Distributions:
        """Return the distributions of a subject that are not empty."""
        distributions: dict[Resource | None, Distribution] = {
            _RESOURCES_BY_ROW[row]: TableDistribution(self, subject, place)
            for place, row in enumerate(self._rows)
            if self._is_used[subject][place]
        }
        at_least = distributions.pop(None, None) or Histogram()
        return {
            resource: one for resource, one in distributions.items() if resource is not None
        }, at_least


class Demands(Struct, frozen=True):
    """Distributions of many subjects, by subject, row of `_ROWS` and percent."""

    exported: Floats
    """Over all known time, idle time included."""
    estimated: Floats
    """Over active time; for memory over held time."""

    @classmethod
    def summed(cls, parts: Iterable[tuple[Demands, Floats]]) -> Demands:
        """Sum rows of several, given the row of each subject."""
        exported, estimated = (
            sum(column)
            for column in zip(
                *((demands.exported[rows], demands.estimated[rows]) for demands, rows in parts),
                strict=True,
            )
        )
        return cls(np.asarray(exported), np.asarray(estimated))

    def without_idle(self, known: Floats, idle: Floats, empty: Floats) -> DistributionTable:
        """Return the distributions over active (memory: held) time, given times by subject.

        An idle device uses nothing, so idle time is the lowest part.
        """
        if not self.exported.any():
            return DistributionTable(self.estimated)
        exported = np.where(known[:, None, None] > 0, self.exported, 0.0)
        unused = np.repeat(idle[:, None], len(_ROWS), axis=1)
        unused[:, _ROWS[Resource.MEMORY]] = empty
        away = exported.sum(axis=2) * unused / np.maximum(1.0, known)[:, None]
        below = np.cumsum(exported, axis=2) - away[:, :, None]
        return DistributionTable(np.clip(below, 0.0, exported) + self.estimated)


class DayDemands:
    """Use of each resource over intervals of like frames, by known seconds.

    Frames have the same columns, and distributions of the same resources. `values` are their
    columns, `known` their known seconds.
    """

    def __init__(
        self, frames: Sequence[DayFrame], values: Floats, known: Floats, settings: DemandSettings
    ) -> None:
        self._frames = frames
        self._values = values
        self._known = known
        self._settings = settings
        self._totals = known.sum(axis=1)

    def over(self, first: int, last: int) -> Demands:
        """Return each frame's distributions from one interval to another, exclusive.

        Exported distributions are included proportionally.
        """
        count = len(self._frames)
        parts = self._known[:, first:last].sum(axis=1)
        parts = parts / np.where(self._totals > 0, self._totals, np.inf)
        times, bins = (point[:, first:last].ravel() for point in self._points)
        weights = np.bincount(bins, times, count * len(_ROWS) * BINS) * NANOSECONDS_PER_SECOND
        exported = self._exported * np.minimum(1.0, parts)[:, None, None]
        return Demands(exported, weights.reshape(count, -1, BINS))

    @cached_property
    def _exported(self) -> Floats:
        if not self._frames[0].demands:
            return np.zeros((len(self._frames), 1, 1))
        found = np.zeros((len(self._frames), len(_ROWS), BINS))
        for own, frame in zip(found, self._frames, strict=True):
            for resource, histogram in frame.demands.items():
                bins = dict(histogram.items())
                own[_ROWS[resource], [*bins]] = [*bins.values()]
        return found

    @cached_property
    def _points(self) -> tuple[Floats, Floats]:
        """Return, by frame, interval and measure, times at its peak and below, and bins of both.

        Bins of measures and frames are consecutive.
        """
        frame = self._frames[0]
        values = self._values
        places = frame.layout.places
        wanted = [
            measure
            for measure, resource in _RESOURCES.items()
            if resource not in frame.demands and f"mean:{measure}" in places
        ]
        columns = [places[f"mean:{measure}"] for measure in wanted]
        means = values[:, columns]
        peaks = values[
            :, [places.get(f"peak:{measure}", columns[at]) for at, measure in enumerate(wanted)]
        ]
        held, active = map(self._time_without, _IDLE)
        usable = [held if measure is Measure.MEMORY else active for measure in wanted]
        time: Floats = np.stack(usable, axis=1) if usable else means
        # Comparisons with unknown values are false.
        counts = (time > 0) & (peaks >= 0) & (means >= 0)
        time, known, means, peaks = (
            np.where(counts, each, 0.0) for each in (time, self._known[:, None], means, peaks)
        )
        left = np.minimum(means * known / np.where(counts, time, 1.0), peaks)
        share = self._settings.peak_share_ratio
        begins = np.array([_ROWS[_RESOURCES[measure]] for measure in wanted], int)[:, None, None]
        begins = begins + np.arange(len(values))[:, None, None, None] * len(_ROWS)
        times = np.stack((time * share, time * (1.0 - share)), 3)
        bins = np.stack((bins_of(peaks), bins_of(left)), 3) + begins * BINS
        return times.swapaxes(1, 2), bins.swapaxes(1, 2)

    def _time_without(self, states: Sequence[str]) -> Floats:
        """Return known seconds of each interval outside of some states."""
        places = self._frames[0].layout.places
        return self._known - sum(
            self._values[:, places[state]] for state in states if state in places
        )


def bins_of(values: Floats) -> Floats:
    """Return the bins of ratios, as in `Histogram.add`."""
    scaled = np.minimum(values * (BINS - 1) - _ROUNDING, BINS - 2)
    return np.where(scaled <= 0, 0, scaled.astype(int) + 1)
