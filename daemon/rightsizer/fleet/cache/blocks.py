"""Five-minute blocks from day frames, built only when asked for; an hour stands for its twelve."""

from __future__ import annotations

import math
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import chain, groupby, pairwise
from operator import add, sub
from typing import Final

from rightsizer.fleet.cache.day_codec import lifted
from rightsizer.fleet.cache.day_frame import DAY, DayFrame
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure, Series
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_SECOND: Final = NANOSECONDS_PER_SECOND
_TENTHS: Final = 10
_SPAN_TENTHS: Final = BLOCK_SPAN / _SECOND * _TENTHS
_UNKNOWN: Final = struct.pack(">e", math.nan)
_MOST: Final = 65504.0
_UNITS: Final = {Measure.MEMORY_BYTES: 2.0**30}
_SIZE: Final = 6 + 4 * len(Measure)
"""Bytes of a block, in the form that `Blocks` keeps them."""
_BLOCKS: Final = DAY // BLOCK_SPAN
_Day = tuple[DayFrame, Sequence[float]]
"""A sheet with the part of each stretch that is known, 0 to 1."""


def blocks_of(days: Iterable[_Day]) -> Blocks:
    """The blocks of some days, oldest first."""
    runs = groupby(days, lambda day: day[0].grid.step)
    return Blocks(b"".join(_of_run(step // BLOCK_SPAN, list(run)) for step, run in runs))


def series_of(days: Iterable[_Day], measure: Measure) -> Series:
    """What `blocks_of(days).series(measure)` is, without the bytes of the other measures."""
    runs: list[range] = []
    columns: tuple[list[float], ...] = ([], [], [])
    for sheet, parts in days:
        each = sheet.grid.step // BLOCK_SPAN
        means, peaks = (_unpacked(half, measure) for half in _halves([sheet], measure))
        values: tuple[Sequence[float], ...] = _known_seconds(parts), means, peaks
        places: Sequence[int] = range(len(parts))
        if not all(parts) or math.isnan(sum(means)):
            places = [at for at in places if parts[at] and not math.isnan(means[at])]
            values = tuple([column[at] for at in places] for column in values)
        runs += _runs(places, sheet.grid.start // BLOCK_SPAN, each)
        for column, found in zip(columns, values, strict=True):
            column.extend(_spread(found, each))
    return Series(_joined(runs), *columns)


def _known_seconds(parts: Sequence[float]) -> Sequence[float]:
    if min(parts) >= 1.0:
        return [_SPAN_TENTHS / _TENTHS] * len(parts)
    return [_tenths(part) / _TENTHS for part in parts]


def _runs(places: Sequence[int], first: int, each: int) -> list[range]:
    """Numbers of the blocks that stretches stand for."""
    if isinstance(places, range):
        return [range(first, first + len(places) * each)]
    return [range(first + at * each, first + (at + 1) * each) for at in places]


def _joined(runs: Sequence[range]) -> Sequence[int]:
    """A range where nothing is missing, which takes no room."""
    if runs and all(one.stop == other.start for one, other in pairwise(runs)):
        return range(runs[0].start, runs[-1].stop)
    return list(chain.from_iterable(runs))


def _spread(values: Sequence[float], each: int) -> Sequence[float]:
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


def _of_run(each: int, days: Sequence[_Day]) -> bytes:
    """Of days by the same step, at once; a stretch gives so many blocks."""
    known = [part for _, parts in days for part in parts]
    size = len(known) * each
    found = bytearray(size * _SIZE)
    packed = b"".join(_numbers(sheet.grid.day, sheet.grid.days) for sheet, _ in days)
    for place in range(4):
        found[place::_SIZE] = packed[place::4]
    tenths = struct.pack(f">{len(known)}H", *map(_tenths, known))
    _fill(found, 4, tenths, each)
    for at, measure in enumerate(Measure):
        means, peaks = _halves([sheet for sheet, _ in days], measure)
        _fill(found, 6 + 4 * at, means, each)
        _fill(found, 8 + 4 * at, peaks, each)
    return _known_alone(bytes(found), known, each)


@lru_cache(maxsize=128)
def _numbers(day: int, days: int) -> bytes:
    return struct.pack(f">{days * _BLOCKS}I", *range(day * _BLOCKS, (day + days) * _BLOCKS))


def _fill(found: bytearray, place: int, column: bytes, each: int) -> None:
    """Write one number of two bytes into each record, the same into those of one stretch."""
    wide = _SIZE * each
    high, low = column[::2], column[1::2]
    for step in range(each):
        found[place + step * _SIZE :: wide] = high
        found[place + 1 + step * _SIZE :: wide] = low


def _halves(sheets: Sequence[DayFrame], measure: Measure) -> tuple[bytes, bytes]:
    means, peaks = array("f"), array("f")
    is_known = False
    for sheet in sheets:
        mean, peak = sheet.named(f"mean:{measure}"), sheet.named(f"peak:{measure}")
        if mean is None or peak is None:  # A mean says nothing of what is needed at most.
            mean = peak = array("f", [math.nan]) * sheet.grid.count
        else:
            is_known = True
        means += mean
        peaks += peak
    if not is_known:
        return _UNKNOWN * len(means), _UNKNOWN * len(means)
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


def _known_alone(data: bytes, known: Sequence[float], each: int) -> bytes:
    if all(known):
        return data
    size, place, kept = _SIZE * each, 0, []
    for is_known, run in groupby(known, bool):
        length = sum(1 for _ in run) * size
        if is_known:
            kept.append(data[place : place + length])
        place += length
    return b"".join(kept)


class BlockColumns:
    """All blocks of a subject; a measure of them is made once, however many spans ask for it."""

    def __init__(self, days: Sequence[tuple[DayFrame, Sequence[float]]]) -> None:
        """Nothing is made yet.

        Args:
            days: Sheets, oldest first, with the part of each stretch that is known, 0 to 1.
        """
        self._days = days
        self._series: dict[Measure, Series] = {}

    @cached_property
    def packed(self) -> Blocks:
        """All of them as bytes."""
        return blocks_of(self._days)

    def series(self, measure: Measure) -> Series:
        """All of a measure."""
        if measure not in self._series:
            self._series[measure] = series_of(self._days, measure)
        return self._series[measure]


class CachedBlocks(Blocks):
    """The blocks that begin in a span of time; those of the same columns and span are equal."""

    __slots__ = ("_columns", "_first", "_last")
    _columns: BlockColumns
    _first: int
    _last: int

    def __init__(self, columns: BlockColumns, start: Nanoseconds, end: Nanoseconds) -> None:
        """Nothing is made yet."""
        # As a frozen dataclass does it.
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_first", -(-start // BLOCK_SPAN))
        object.__setattr__(self, "_last", -(-end // BLOCK_SPAN))

    @property
    def data(self) -> bytes:
        """As `Blocks` keep them."""
        start, end = self._first * BLOCK_SPAN, self._last * BLOCK_SPAN
        return self._columns.packed.between(start, end).data

    def series(self, measure: Measure) -> Series:
        """One measure by columns."""
        found = self._columns.series(measure)
        low, high = (bisect_left(found.numbers, each) for each in (self._first, self._last))
        if low == 0 and high == len(found.numbers):
            return found
        inside = slice(low, high)
        return Series(
            found.numbers[inside],
            found.known_seconds[inside],
            found.means[inside],
            found.peaks[inside],
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CachedBlocks) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[int, int, int]:
        return id(self._columns), self._first, self._last
