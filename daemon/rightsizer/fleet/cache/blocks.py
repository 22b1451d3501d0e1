"""Five-minute blocks from day frames, built only when asked for; an hour stands for its twelve."""

from __future__ import annotations

import math
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from operator import add, sub
from typing import Final

from rightsizer.fleet.cache.day_codec import lifted
from rightsizer.fleet.cache.day_frame import DayFrame
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure, Series
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_TENTHS: Final = 10
_SPAN_TENTHS: Final = BLOCK_SPAN / NANOSECONDS_PER_SECOND * _TENTHS
_MOST: Final = 65504.0
"""The largest half float."""
_UNITS: Final = {Measure.MEMORY_BYTES: 2.0**30}
_Day = tuple[DayFrame, Sequence[float]]
"""A frame with the part of each interval that is known, 0 to 1."""


def blocks_of(days: Iterable[_Day]) -> Blocks:
    """The blocks of some days, oldest first."""
    records: list[bytes] = []
    for frame, parts in days:
        each = frame.grid.step // BLOCK_SPAN
        first = frame.grid.start // BLOCK_SPAN
        halves = [half for measure in Measure for half in _halves(frame, measure)]
        for place, part in enumerate(parts):
            if not part:
                continue
            values = b"".join(half[2 * place : 2 * place + 2] for half in halves)
            rest = struct.pack(">H", _tenths(part)) + values
            number = first + place * each
            records += [at.to_bytes(4, "big") + rest for at in range(number, number + each)]
    return Blocks(b"".join(records))


def series_of(days: Iterable[_Day], measure: Measure) -> Series:
    """What `blocks_of(days).series(measure)` is, without the bytes of the other measures."""
    runs: list[range] = []
    columns: tuple[list[float], ...] = ([], [], [])
    for frame, parts in days:
        each = frame.grid.step // BLOCK_SPAN
        means, peaks = (_unpacked(half, measure) for half in _halves(frame, measure))
        values: tuple[Sequence[float], ...] = _known_seconds(parts), means, peaks
        places: Sequence[int] = range(len(parts))
        if not all(parts) or math.isnan(sum(means)):
            places = [at for at in places if parts[at] and not math.isnan(means[at])]
            values = tuple([column[at] for at in places] for column in values)
        runs += _runs(places, frame.grid.start // BLOCK_SPAN, each)
        for column, found in zip(columns, values, strict=True):
            column.extend(_repeated(found, each))
    return Series(_joined(runs), *columns)


def _known_seconds(parts: Sequence[float]) -> Sequence[float]:
    if min(parts) >= 1.0:
        return [_SPAN_TENTHS / _TENTHS] * len(parts)
    return [_tenths(part) / _TENTHS for part in parts]


def _runs(places: Sequence[int], first: int, each: int) -> list[range]:
    """Numbers of the blocks that intervals stand for."""
    if isinstance(places, range):
        return [range(first, first + len(places) * each)]
    return [range(first + at * each, first + (at + 1) * each) for at in places]


def _joined(runs: Sequence[range]) -> Sequence[int]:
    """A range where nothing is missing, which takes no memory."""
    if runs and all(one.stop == other.start for one, other in pairwise(runs)):
        return range(runs[0].start, runs[-1].stop)
    return list(chain.from_iterable(runs))


def _repeated(values: Sequence[float], each: int) -> Sequence[float]:
    """So many of each value, one after the other."""
    if each == 1:
        return values
    found = [0.0] * (len(values) * each)
    for place in range(each):
        found[place::each] = values
    return found


def _unpacked(half: bytes, measure: Measure) -> Sequence[float]:
    found = struct.unpack(f">{len(half) // 2}e", half)
    unit = _UNITS.get(measure)
    return found if unit is None else [value * unit for value in found]


def _tenths(part: float) -> int:
    return int(part * _SPAN_TENTHS + 0.5)


def _halves(frame: DayFrame, measure: Measure) -> tuple[bytes, bytes]:
    """Means and peaks as half floats, `nan` where either is unknown."""
    means, peaks = frame.column(f"mean:{measure}"), frame.column(f"peak:{measure}")
    if means is None or peaks is None:  # A mean says nothing of what is needed at most.
        unknown = struct.pack(">e", math.nan) * frame.grid.count
        return unknown, unknown
    if math.isnan(sum(means)) or math.isnan(sum(peaks)):
        means, peaks = _with_gaps(means, peaks), _with_gaps(peaks, means)
    unit = _UNITS.get(measure)
    return _half(means, unit), _half(lifted(peaks), unit)


def _with_gaps(values: array[float], other: array[float]) -> array[float]:
    """Values that are unknown where another is, too: `nan` less itself is no 0."""
    return array("f", map(add, values, map(sub, other, other)))


def _half(values: Sequence[float], unit: float | None) -> bytes:
    if unit is not None:
        values = [value / unit for value in values]
    try:
        return struct.pack(f">{len(values)}e", *values)
    except OverflowError:
        return struct.pack(f">{len(values)}e", *[min(_MOST, value) for value in values])


class BlockColumns:
    """All blocks of frames with the known part of each interval; a measure is computed once."""

    def __init__(self, days: Sequence[_Day]) -> None:
        self.days = days
        self._series: dict[Measure, Series] = {}

    def series(self, measure: Measure) -> Series:
        """All of a measure."""
        if measure not in self._series:
            self._series[measure] = series_of(self.days, measure)
        return self._series[measure]


class CachedBlocks(Blocks):
    """The blocks that begin in a span of time; those of the same columns and span are equal."""

    __slots__ = ("_identity",)
    _identity: tuple[BlockColumns, int, int]

    def __init__(self, columns: BlockColumns, start: Nanoseconds, end: Nanoseconds) -> None:
        identity = columns, -(-start // BLOCK_SPAN), -(-end // BLOCK_SPAN)
        object.__setattr__(self, "_identity", identity)  # As a frozen dataclass does it.

    @property
    def data(self) -> bytes:
        """As `Blocks` keep them."""
        columns, first, last = self._identity
        return blocks_of(columns.days).between(first * BLOCK_SPAN, last * BLOCK_SPAN).data

    def series(self, measure: Measure) -> Series:
        """One measure by columns."""
        columns, first, last = self._identity
        found = columns.series(measure)
        low, high = (bisect_left(found.numbers, each) for each in (first, last))
        if low == 0 and high == len(found.numbers):
            return found
        inside = slice(low, high)
        known, means, peaks = (column[inside] for column in found[1:])
        return Series(found.numbers[inside], known, means, peaks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CachedBlocks) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)
