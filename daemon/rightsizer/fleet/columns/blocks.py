"""Blocks of a subject, read from its segments on demand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, partial
from typing import Final, NamedTuple

import numpy as np

from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import Grid
from rightsizer.fleet.columns.segment import Segment
from rightsizer.model.values import (
    BLOCK_SPAN,
    BLOCK_UNITS,
    NANOSECONDS_PER_SECOND,
    Blocks,
    LazyColumn,
    Measure,
    Nanoseconds,
    Series,
)

_TENTHS: Final = 10
_SPAN_TENTHS: Final = BLOCK_SPAN / NANOSECONDS_PER_SECOND * _TENTHS
_RECORD: Final = np.dtype(
    [("number", ">u4"), ("tenths", ">u2"), ("halves", ">f2", 2 * len(Measure))]
)


class SegmentRow(NamedTuple):
    """Consecutive days of one subject."""

    segment: Segment
    row: int

    @property
    def known_parts(self) -> Floats:
        """Known share of each interval, 0 to 1."""
        parts: Floats = self.segment.known_parts[self.row]
        return parts

    def halves(self, measure: Measure) -> tuple[Floats, Floats]:
        """Return means and peaks of a measure by interval."""
        means, peaks = self.segment.halves(measure)
        return means[self.row], peaks[self.row]


def blocks_of(rows: Iterable[SegmentRow]) -> Blocks:
    """Return the blocks of a subject, oldest first."""
    encoded = [b""]
    for segment_row in rows:
        grid = segment_row.segment.grid
        blocks = grid.step // BLOCK_SPAN
        parts = segment_row.known_parts
        is_known = parts > 0
        halves = [half for measure in Measure for half in segment_row.halves(measure)]
        records = np.zeros(int(is_known.sum()) * blocks, _RECORD)
        records["number"] = _numbers(grid, is_known)
        records["tenths"] = np.repeat((parts[is_known] * _SPAN_TENTHS + 0.5).astype(int), blocks)
        records["halves"] = np.repeat(np.stack(halves, axis=1)[is_known], blocks, axis=0)
        encoded.append(records.tobytes())
    return Blocks(b"".join(encoded))


class _MeasureColumns:
    """Columns of `blocks_of(rows).series(measure)`, without other measures' bytes."""

    def __init__(self, rows: Sequence[SegmentRow], measure: Measure) -> None:
        self._rows = rows
        self._halves = [segment_row.halves(measure) for segment_row in rows]
        self._unit = BLOCK_UNITS.get(measure, 1.0)
        self._known = [
            (segment_row.known_parts > 0) & ~np.isnan(means)
            for segment_row, (means, _) in zip(rows, self._halves, strict=True)
        ]
        grids = (segment_row.segment.grid for segment_row in rows)
        self.numbers = np.concatenate([np.zeros(0, int), *map(_numbers, grids, self._known)])

    @cached_property
    def _seconds(self) -> Floats:
        parts = (segment_row.known_parts for segment_row in self._rows)
        return self._by_block(np.floor(part * _SPAN_TENTHS + 0.5) / _TENTHS for part in parts)

    @cached_property
    def _means(self) -> Floats:
        return self._by_block(means.astype(float) * self._unit for means, _ in self._halves)

    @cached_property
    def _peaks(self) -> Floats:
        return self._by_block(peaks.astype(float) * self._unit for _, peaks in self._halves)

    def _by_block(self, columns: Iterable[Floats]) -> Floats:
        # An hour stands for all of its blocks.
        return np.concatenate(
            [np.zeros(0)]
            + [
                np.repeat(column[is_known], segment_row.segment.grid.step // BLOCK_SPAN)
                for segment_row, column, is_known in zip(
                    self._rows, columns, self._known, strict=True
                )
            ]
        )

    def between(self, low: int, high: int) -> Series:
        """Return the blocks from one place to another; most readers need only one column."""
        numbers = self.numbers[low:high]
        columns = (
            _ArrayColumn(len(numbers), partial(self._part, name, slice(low, high)))
            for name in ("_seconds", "_means", "_peaks")
        )
        if len(numbers) and numbers[-1] - numbers[0] + 1 == len(numbers):
            # Without gaps a range needs no memory.
            return Series(range(int(numbers[0]), int(numbers[-1]) + 1), *columns)
        return Series(numbers.tolist(), *columns)

    def _part(self, column: str, inside: slice) -> Floats:
        part: Floats = getattr(self, column)[inside]
        return part


class _ArrayColumn(LazyColumn):
    """Column of an array, summed up without Python numbers."""

    def __init__(self, length: int, compute: Callable[[], Floats]) -> None:
        self._length = length
        self._compute = compute

    @cached_property
    def _array(self) -> Floats:
        return self._compute()

    @cached_property
    def _values(self) -> Sequence[float]:
        return _numbers_of(self._array)

    def __array__(self, *_: object) -> Floats:
        """The same numbers."""
        return self._array

    def part(self, inside: slice) -> LazyColumn:
        """As in `LazyColumn`."""
        return _ArrayColumn(len(range(len(self))[inside]), lambda: self._array[inside])

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
    numbers: list[float] = values.tolist()
    return numbers


def _numbers(grid: Grid, is_known: Floats) -> Floats:
    blocks = grid.step // BLOCK_SPAN
    first = grid.start // BLOCK_SPAN
    return (first + blocks * np.flatnonzero(is_known)[:, None] + np.arange(blocks)).ravel()


class BlockColumns:
    """Blocks of a subject with their known shares; measures are computed once."""

    def __init__(self, rows: Sequence[SegmentRow]) -> None:
        self.rows = rows
        self._columns = cache(partial(_MeasureColumns, rows))
        self._series: dict[tuple[Measure, int, int], Series] = {}

    def series(self, measure: Measure, first: int, last: int) -> Series:
        """Return a measure from one block to another, exclusive."""
        columns = self._columns(measure)
        low, high = (bisect_left(columns.numbers, number) for number in (first, last))
        key = measure, low, high
        if key not in self._series:
            self._series[key] = columns.between(low, high)
        return self._series[key]


class ColumnBlocks(Blocks):
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
        return blocks_of(columns.rows).between(first * BLOCK_SPAN, last * BLOCK_SPAN).data

    def series(self, measure: Measure) -> Series:
        """Return one measure in columns."""
        columns, first, last = self._identity
        return columns.series(measure, first, last)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ColumnBlocks) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)
