"""The blocks of a month: packed day by day, for they are read rarely and seldom fewer."""

import zlib
from collections import deque
from dataclasses import dataclass
from typing import Final

from rightsizer.accounting.shared import shared
from rightsizer.domain.block import Blocks
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds

__all__ = ["BlockRing", "RememberedBlocks"]

_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_KEPT: Final = 31 * _DAY
"""The day that began thirty days ago is not over for all of it."""
_NONE: Final = Blocks()
_MOST: Final = 2 * _KEPT // _DAY


@dataclass(frozen=True, slots=True)
class _PackedDay:
    day: Nanoseconds
    """When it began."""
    data: bytes

    def blocks(self) -> Blocks:
        return Blocks.from_columns(zlib.decompress(self.data))


@dataclass(frozen=True, slots=True)
class RememberedBlocks:
    """Blocks as they were at one moment."""

    days: tuple[_PackedDay, ...] = ()
    running: Blocks = _NONE
    """Of the running day."""

    def between(self, start: Nanoseconds, end: Nanoseconds) -> Blocks:
        """The blocks that begin in a span of time."""
        parts = [
            day.blocks().between(start, end)
            for day in self.days
            if day.day < end and start < day.day + _DAY
        ]
        return Blocks.joined([*parts, self.running.between(start, end)])


class BlockRing:
    """Closed blocks, oldest first, bounded whatever the clock does."""

    def __init__(self) -> None:
        self._days: deque[_PackedDay] = deque(maxlen=_MOST)
        self._running: list[Blocks] = []
        self._day: Nanoseconds = 0

    def append(self, blocks: Blocks, start: Nanoseconds) -> None:
        """Add blocks that begin at a time, all on one day."""
        day = start - start % _DAY
        if day != self._day:
            self._pack()
            self._day = day
            while self._days and not day - _KEPT <= self._days[0].day <= day:
                self._days.popleft()
        if blocks:
            self._running.append(blocks)

    def remembered(self, growing: Blocks) -> RememberedBlocks:
        """What is there now, with the block that is still growing, for any thread to read."""
        if len(self._running) > 1:
            self._running = [Blocks.joined(self._running)]
        return RememberedBlocks(tuple(self._days), Blocks.joined([*self._running, growing]))

    def _pack(self) -> None:
        if self._running:
            data = zlib.compress(Blocks.joined(self._running).columns())
            self._days.append(_PackedDay(self._day, shared(data)))
            self._running = []
