"""Bounded rings of windows and blocks as bytes, and the reader that decodes each once."""

import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from operator import le
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.accounting.window_codec import decode_window, encode_window
from rightsizer.model.values import DAY, Blocks, Nanoseconds, Window

_LATEST: Final = 256
"""Equal ones occur close in time: all devices and workloads close windows at one moment."""


@lru_cache(maxsize=_LATEST)
def deduplicate(data: bytes) -> bytes:
    """Return the bytes, or a recent equal object, to share memory."""
    return data


class ClosedWindows(Struct, frozen=True, dict=True):
    """Windows of a ring at one moment, oldest first."""

    slots: Sequence[Nanoseconds]
    """Nominal starts of the windows: multiples of their length."""
    encoded: Sequence[bytes]

    def __iter__(self) -> Iterator[tuple[Nanoseconds, bytes]]:
        return zip(self.slots, self.encoded, strict=True)

    def __len__(self) -> int:
        return len(self.slots)

    @cached_property
    def _is_ascending(self) -> bool:
        """False after the clock was set back, when hours repeat."""
        return all(map(le, self.slots, self.slots[1:]))

    def between(self, start: Nanoseconds, end: Nanoseconds) -> "ClosedWindows":
        """Windows that begin in a time range."""
        if self._is_ascending:
            low = bisect_left(self.slots, start)
            high = bisect_left(self.slots, end)
            return ClosedWindows(self.slots[low:high], self.encoded[low:high])
        kept = [(slot, encoded) for slot, encoded in self if start <= slot < end]
        return ClosedWindows([slot for slot, _ in kept], [encoded for _, encoded in kept])


class WindowRing:
    """Windows of one length, with an optional running sum over the latest.

    Blocks are stored separately (`BlockRing`).
    """

    def __init__(
        self, uuid: str, grain: Nanoseconds, kept: Nanoseconds, summed: Nanoseconds = 0
    ) -> None:
        self._uuid = uuid
        self._kept = kept
        self._summed = summed
        self.grain = grain
        self._most = 2 * kept // grain
        # As columns: there are over a thousand, and objects would double the memory. A deque would
        # take more than most workloads have.
        self._slots = array("q")
        self._forms: list[bytes] = []
        self._sum = self._new_sum()
        self._end: Nanoseconds = 0
        self._left = 0  # Number of the oldest windows that have already left the sum.

    def append(self, window: Window, slot: Nanoseconds) -> None:
        """Add a window, and drop expired ones."""
        self._slots.append(slot)
        self._forms.append(deduplicate(encode_window(replace(window, blocks=Blocks()))))
        self._end = window.end
        if self._sum is not None:
            self._sum.merge(window)
        self.expire(window.end)

    def closed(self) -> ClosedWindows:
        """Copy of the windows, safe for any thread to read."""
        return ClosedWindows(self._slots[:], tuple(self._forms))

    def total(self) -> Window:
        """Sum of the windows within the summed span."""
        if self._sum is None or self._left == len(self._slots):
            return Window(self._uuid, 0, 0)
        first = decode_window(self._uuid, self._forms[self._left])
        return replace(self._sum.window(), start=first.start, end=max(first.end, self._end))

    def expire(self, now: Nanoseconds) -> None:
        """Drop windows too old, or in the future after the clock was set back."""
        while self._left < len(self._slots) and (
            _is_over(self._slots[self._left], now, self._summed)
            or len(self._slots) - self._left > self._most
        ):
            if self._sum is not None:
                self._sum.subtract(decode_window(self._uuid, self._forms[self._left]))
            self._left += 1
        if self._left == len(self._slots):
            # Discard accumulated rounding errors.
            self._sum = self._new_sum()
        while self._left and (
            _is_over(self._slots[0], now, self._kept) or len(self._slots) > self._most
        ):
            self._slots.pop(0)
            self._forms.pop(0)
            self._left -= 1

    def _new_sum(self) -> WindowBuilder | None:
        return WindowBuilder(self._uuid, keeps_blocks=False) if self._summed else None


def _is_over(slot: Nanoseconds, now: Nanoseconds, span: Nanoseconds) -> bool:
    return not now - span <= slot <= now


_KEPT: Final = 31 * DAY
"""The day that began thirty days ago must be kept until it is over."""
_NONE: Final = Blocks()
_MOST: Final = 2 * _KEPT // DAY


_PackedDay = tuple[Nanoseconds, bytes]
"""Start of the day, and its blocks as compressed columns."""


class StoredBlocks(Struct, frozen=True):
    """Blocks at one moment."""

    days: tuple[_PackedDay, ...] = ()
    running: Blocks = _NONE
    """Blocks of the current day."""

    def between(self, start: Nanoseconds, end: Nanoseconds) -> Blocks:
        """Blocks that begin in a time range."""
        parts = [
            Blocks.from_columns(zlib.decompress(data)).between(start, end)
            for day, data in self.days
            if day < end and start < day + DAY
        ]
        return Blocks.joined([*parts, self.running.between(start, end)])


class BlockRing:
    """Closed blocks, oldest first; bounded even if the clock is set back."""

    def __init__(self) -> None:
        # No deque, which takes more than the blocks of most workloads.
        self._days: list[_PackedDay] = []
        self._running: list[Blocks] = []
        self._day: Nanoseconds = 0

    def append(self, blocks: Blocks, start: Nanoseconds) -> None:
        """Add blocks of one day, which begin at a time."""
        if (day := start - start % DAY) != self._day:
            self._pack()
            self._day = day
            while self._days and not day - _KEPT <= self._days[0][0] <= day:
                self._days.pop(0)
        if blocks:
            self._running.append(blocks)

    def stored_blocks(self, growing: Blocks) -> StoredBlocks:
        """Copy of the blocks with the growing one, safe for any thread to read."""
        if len(self._running) > 1:
            self._running = [Blocks.joined(self._running)]
        return StoredBlocks(tuple(self._days), Blocks.joined([*self._running, growing]))

    def _pack(self) -> None:
        if self._running:
            data = zlib.compress(Blocks.joined(self._running).columns())
            self._days.append((self._day, deduplicate(data)))
            del self._days[:-_MOST]
            self._running = []


class WindowReader:
    """Cache of decoded windows and blocks for one snapshot of the accounts.

    Windows known from the previous snapshot need not be decoded again.
    """

    def __init__(self, known_windows: Mapping[bytes, Window] = MappingProxyType({})) -> None:
        self.windows: dict[bytes, Window] = {}
        """Decoded windows by their bytes."""
        self._known = known_windows
        self.blocks = cache(StoredBlocks.between)
        """Cached `StoredBlocks.between`."""
        self.month = lru_cache(maxsize=1)(StoredBlocks.between)
        """The same, but caching only the latest result: a month takes more memory than values
        computed from it, and is requested several times in a row."""

    def window(self, encoded: bytes) -> Window:
        """Decode a stored window, without a uuid; it must not be modified."""
        if (window := self.windows.get(encoded)) is None:
            # A device and a workload that holds it alone share the same bytes, without a name.
            window = self._known.get(encoded) or decode_window("", encoded)
            self.windows[encoded] = window
        return window
