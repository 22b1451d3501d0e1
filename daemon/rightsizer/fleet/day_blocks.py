"""Blocks of five minutes from sheets; an hour stands for its twelve, each with its mean and peak.

A peak within an hour is then one of all its blocks: how often a load went beyond a capacity is
an upper bound there.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import add, sub
from typing import Final

from rightsizer.domain.block import BLOCK_SPAN, Blocks, Measure
from rightsizer.domain.units import NANOSECONDS_PER_SECOND
from rightsizer.fleet.grid import DAY
from rightsizer.fleet.sheet import Sheet
from rightsizer.fleet.track_form import lifted

__all__ = ["blocks_of"]

_SECOND: Final = NANOSECONDS_PER_SECOND
_TENTHS: Final = 10
_UNKNOWN: Final = struct.pack(">e", math.nan)
_MOST: Final = 65504.0
_UNITS: Final = {Measure.MEMORY_BYTES: 2.0**30}
_SIZE: Final = 6 + 4 * len(Measure)
"""Bytes of a block, in the form that `Blocks` keeps them."""
_BLOCKS: Final = DAY // BLOCK_SPAN


def blocks_of(days: Iterable[tuple[Sheet, Sequence[float]]]) -> Blocks:
    """The blocks of some days, oldest first.

    Args:
        days: Sheets with the part of each stretch that is known, 0 to 1.
    """
    runs = groupby(days, lambda day: day[0].grid.step)
    return Blocks(b"".join(_of_run(step // BLOCK_SPAN, list(run)) for step, run in runs))


def _of_run(each: int, days: Sequence[tuple[Sheet, Sequence[float]]]) -> bytes:
    """Of days by the same step, at once; a stretch gives so many blocks."""
    known = [part for _, parts in days for part in parts]
    size = len(known) * each
    found = bytearray(size * _SIZE)
    packed = b"".join(_numbers(sheet.grid.day) for sheet, _ in days)
    for place in range(4):
        found[place::_SIZE] = packed[place::4]
    span = BLOCK_SPAN / _SECOND * _TENTHS
    tenths = struct.pack(f">{len(known)}H", *[int(part * span + 0.5) for part in known])
    _fill(found, 4, tenths, each)
    for at, measure in enumerate(Measure):
        means, peaks = _halves([sheet for sheet, _ in days], measure)
        _fill(found, 6 + 4 * at, means, each)
        _fill(found, 8 + 4 * at, peaks, each)
    return _known_alone(bytes(found), known, each)


@lru_cache(maxsize=128)
def _numbers(day: int) -> bytes:
    return struct.pack(f">{_BLOCKS}I", *range(day * _BLOCKS, (day + 1) * _BLOCKS))


def _fill(found: bytearray, place: int, column: bytes, each: int) -> None:
    """Write one number of two bytes into each record, the same into those of one stretch."""
    wide = _SIZE * each
    high, low = column[::2], column[1::2]
    for step in range(each):
        found[place + step * _SIZE :: wide] = high
        found[place + 1 + step * _SIZE :: wide] = low


def _halves(sheets: Sequence[Sheet], measure: Measure) -> tuple[bytes, bytes]:
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
