"""Five-minute blocks from day frames, built only when asked for; an hour stands for its twelve."""

from __future__ import annotations

import math
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import chain, compress, pairwise
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
        each, first = frame.grid.step // BLOCK_SPAN, frame.grid.start // BLOCK_SPAN
        halves = [half for measure in Measure for half in _halves(frame, measure)]
        for place, part in enumerate(parts):
            if part:
                values = b"".join(half[2 * place : 2 * place + 2] for half in halves)
                rest = struct.pack(">H", int(part * _SPAN_TENTHS + 0.5)) + values
                number = first + place * each
                records += [at.to_bytes(4, "big") + rest for at in range(number, number + each)]
    return Blocks(b"".join(records))


def series_of(days: Iterable[_Day], measure: Measure) -> Series:
    """What `blocks_of(days).series(measure)` is, without the bytes of the other measures."""
    runs: list[range] = []
    columns: tuple[list[float], ...] = ([], [], [])
    unit = _UNITS.get(measure)
    means: Sequence[float]
    peaks: Sequence[float]
    for frame, parts in days:
        each, first = frame.grid.step // BLOCK_SPAN, frame.grid.start // BLOCK_SPAN
        means, peaks = (
            struct.unpack(f">{len(half) // 2}e", half) for half in _halves(frame, measure)
        )
        if unit is not None:
            means, peaks = ([value * unit for value in values] for values in (means, peaks))
        seconds: Sequence[float] = [_SPAN_TENTHS / _TENTHS] * len(parts)
        if min(parts) < 1.0:
            seconds = [int(part * _SPAN_TENTHS + 0.5) / _TENTHS for part in parts]
        if all(parts) and not math.isnan(sum(means)):
            runs.append(range(first, first + len(parts) * each))
        else:
            known = [bool(part) and mean == mean for part, mean in zip(parts, means, strict=True)]  # noqa: PLR0124 - The quickest way to find a nan.
            starts = compress(range(first, first + len(parts) * each, each), known)
            runs += [range(start, start + each) for start in starts]
            seconds, means, peaks = (list(compress(one, known)) for one in (seconds, means, peaks))
        for column, values in zip(columns, (seconds, means, peaks), strict=True):
            # An hour stands for all of its blocks.
            more = values if each == 1 else chain.from_iterable(zip(*[values] * each, strict=True))
            column.extend(more)
    if runs and all(one.stop == other.start for one, other in pairwise(runs)):
        # Nothing is missing: a range takes no memory.
        return Series(range(runs[0].start, runs[-1].stop), *columns)
    return Series(list(chain.from_iterable(runs)), *columns)


def _halves(frame: DayFrame, measure: Measure) -> tuple[bytes, bytes]:
    """Means and peaks as half floats, `nan` where either is unknown."""
    means, peaks = frame.column(f"mean:{measure}"), frame.column(f"peak:{measure}")
    if means is None or peaks is None:  # A mean says nothing of what is needed at most.
        unknown = struct.pack(">e", math.nan) * frame.grid.count
        return unknown, unknown
    if math.isnan(sum(means)) or math.isnan(sum(peaks)):
        # What is unknown less itself is no 0.
        pairs = ((means, peaks), (peaks, means))
        means, peaks = (array("f", map(add, a, map(sub, b, b))) for a, b in pairs)
    unit = _UNITS.get(measure)
    return _half(means, unit), _half(lifted(peaks), unit)


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
        self.series = cache(partial(series_of, days))
        """All of a measure."""


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
