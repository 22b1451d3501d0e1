"""Bounded rings of windows and blocks as bytes, and the reader that decodes each once."""

import zlib
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from operator import le
from types import MappingProxyType
from typing import Final

from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.accounting.window_codec import decode_window, encode_window
from rightsizer.model.block import Blocks
from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.units import DAY, Nanoseconds
from rightsizer.model.window import Window

_LATEST: Final = 256
"""Equal ones come close together: what closes at one moment, of all devices and workloads."""


@lru_cache(maxsize=_LATEST)
def deduplicate(data: bytes) -> bytes:
    """The bytes themselves, or equal ones that were lately shared and so take no more room."""
    return data


@dataclass(frozen=True)
class ClosedWindows:
    """The windows of a ring at one moment, oldest first."""

    slots: Sequence[Nanoseconds]
    """Where the length of the windows puts each: multiples of that length."""
    encoded: Sequence[bytes]

    def __iter__(self) -> Iterator[tuple[Nanoseconds, bytes]]:
        return zip(self.slots, self.encoded, strict=True)

    def __len__(self) -> int:
        return len(self.slots)

    @cached_property
    def _is_ascending(self) -> bool:
        """Not so where the clock was set back: the same hours were lived again."""
        return all(map(le, self.slots, self.slots[1:]))

    def between(self, start: Nanoseconds, end: Nanoseconds) -> "ClosedWindows":
        """Those that begin in a span of time."""
        if self._is_ascending:
            low, high = bisect_left(self.slots, start), bisect_left(self.slots, end)
            return ClosedWindows(self.slots[low:high], self.encoded[low:high])
        kept = [(slot, encoded) for slot, encoded in self if start <= slot < end]
        return ClosedWindows([slot for slot, _ in kept], [encoded for _, encoded in kept])


class WindowRing:
    """Windows of one length, and a running sum over the latest of them where one is wanted.

    Their blocks are kept elsewhere (`BlockRing`).
    """

    def __init__(
        self, uuid: str, grain: Nanoseconds, kept: Nanoseconds, summed: Nanoseconds = 0
    ) -> None:
        self._uuid, self._kept, self._summed = uuid, kept, summed
        self.grain = grain
        self._most = 2 * kept // grain
        # Side by side: there are a thousand and more, and an object for each would double them.
        self._slots = array("q")
        self._forms: deque[bytes] = deque()
        self._sum = WindowBuilder(uuid, keeps_blocks=False)
        self._end: Nanoseconds = 0
        self._left = 0  # How many of the oldest windows have already left the sum.

    def append(self, window: Window, slot: Nanoseconds) -> None:
        """Add a window; what is too old by then goes."""
        self._slots.append(slot)
        self._forms.append(deduplicate(encode_window(replace(window, blocks=Blocks()))))
        self._end = window.end
        if self._summed:
            self._sum.merge(window)
        self.expire(window.end)

    def closed(self) -> ClosedWindows:
        """The windows as they are now, for any thread to read."""
        return ClosedWindows(self._slots[:], tuple(self._forms))

    def total(self) -> Window:
        """The sum of the windows within the summed span."""
        if self._left == len(self._slots):
            return Window(self._uuid, 0, 0)
        first = decode_window(self._uuid, self._forms[self._left])
        return replace(self._sum.window(), start=first.start, end=max(first.end, self._end))

    def expire(self, now: Nanoseconds) -> None:
        """Let go what is too old, and what a clock that was set back left in the future."""
        while self._left < len(self._slots) and (
            _is_over(self._slots[self._left], now, self._summed)
            or len(self._slots) - self._left > self._most
        ):
            if self._summed:
                self._sum.subtract(decode_window(self._uuid, self._forms[self._left]))
            self._left += 1
        if self._left == len(self._slots):
            # Without what rounding left behind.
            self._sum = WindowBuilder(self._uuid, keeps_blocks=False)
        while self._left and (
            _is_over(self._slots[0], now, self._kept) or len(self._slots) > self._most
        ):
            self._slots.pop(0)
            self._forms.popleft()
            self._left -= 1


def _is_over(slot: Nanoseconds, now: Nanoseconds, span: Nanoseconds) -> bool:
    return not now - span <= slot <= now


_KEPT: Final = 31 * DAY
"""The day that began thirty days ago is not over for all of it."""
_NONE: Final = Blocks()
_MOST: Final = 2 * _KEPT // DAY


_PackedDay = tuple[Nanoseconds, bytes]
"""When it began, and its blocks as compressed columns."""


@dataclass(frozen=True, slots=True)
class StoredBlocks:
    """Blocks as they were at one moment."""

    days: tuple[_PackedDay, ...] = ()
    running: Blocks = _NONE
    """Of the running day."""

    def between(self, start: Nanoseconds, end: Nanoseconds) -> Blocks:
        """The blocks that begin in a span of time."""
        parts = [
            Blocks.from_columns(zlib.decompress(data)).between(start, end)
            for day, data in self.days
            if day < end and start < day + DAY
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
        if (day := start - start % DAY) != self._day:
            self._pack()
            self._day = day
            while self._days and not day - _KEPT <= self._days[0][0] <= day:
                self._days.popleft()
        if blocks:
            self._running.append(blocks)

    def remembered(self, growing: Blocks) -> StoredBlocks:
        """What is there now, with the block that is still growing, for any thread to read."""
        if len(self._running) > 1:
            self._running = [Blocks.joined(self._running)]
        return StoredBlocks(tuple(self._days), Blocks.joined([*self._running, growing]))

    def _pack(self) -> None:
        if self._running:
            data = zlib.compress(Blocks.joined(self._running).columns())
            self._days.append((self._day, deduplicate(data)))
            self._running = []


class WindowReader:
    """It keeps all that it has read, so it lives no longer than one look at the accounts.

    What the look before has read need not be decoded again.
    """

    def __init__(self, known: Mapping[bytes, Window] = MappingProxyType({})) -> None:
        self.windows: dict[bytes, Window] = {}
        """By their bytes."""
        self._known = known
        self.blocks = cache(StoredBlocks.between)
        """Those that begin in a span of time."""
        self.month = lru_cache(maxsize=1)(StoredBlocks.between)
        """The same, of which only the latest are kept: a month of them takes more room than what
        is made of it, and is asked for several times running."""

    def window(self, encoded: bytes) -> Window:
        """A window that was kept, of no device in particular; it is not to be changed."""
        if (found := self.windows.get(encoded)) is None:
            # A device and a workload that has it to itself keep the same bytes, without a name.
            found = self._known.get(encoded) or decode_window("", encoded)
            self.windows[encoded] = found
        return found
