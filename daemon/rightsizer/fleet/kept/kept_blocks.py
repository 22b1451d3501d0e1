"""Blocks of kept days, of which only what is asked for is ever made."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

from rightsizer.domain.block import BLOCK_SPAN, Blocks, Measure, Series
from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.kept.day_blocks import blocks_of, series_of
from rightsizer.fleet.kept.sheet import Sheet

__all__ = ["BlockColumns", "KeptBlocks"]


class BlockColumns:
    """All blocks of a subject; a measure of them is made once, however many spans ask for it."""

    def __init__(self, days: Sequence[tuple[Sheet, Sequence[float]]]) -> None:
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


class KeptBlocks(Blocks):
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
        return isinstance(other, KeptBlocks) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[int, int, int]:
        return id(self._columns), self._first, self._last
