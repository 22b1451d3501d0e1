"""A ring: closed windows of one length, oldest first, as bytes and bounded."""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import le

from rightsizer.accounting.builder import WindowBuilder
from rightsizer.accounting.shared import shared
from rightsizer.accounting.window_form import decode, encode
from rightsizer.domain.block import Blocks
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.window import Window

__all__ = ["ClosedWindows", "Ring"]


@dataclass(frozen=True)
class ClosedWindows:
    """The windows of a ring at one moment, oldest first."""

    slots: Sequence[Nanoseconds]
    """Where the length of the windows puts each: multiples of that length."""
    forms: Sequence[bytes]

    def __iter__(self) -> Iterator[tuple[Nanoseconds, bytes]]:
        return zip(self.slots, self.forms, strict=True)

    def __len__(self) -> int:
        return len(self.slots)

    @cached_property
    def _is_ascending(self) -> bool:
        """Not so where the clock was set back: the same hours were lived again."""
        return all(map(le, self.slots, self.slots[1:]))

    def between(self, start: Nanoseconds, end: Nanoseconds) -> Iterator[tuple[Nanoseconds, bytes]]:
        """Those that begin in a span of time."""
        if self._is_ascending:
            low, high = bisect_left(self.slots, start), bisect_left(self.slots, end)
            return zip(self.slots[low:high], self.forms[low:high], strict=True)
        return ((slot, form) for slot, form in self if start <= slot < end)


class Ring:
    """Windows of one length, and a running sum over the latest of them where one is wanted.

    Their blocks are kept elsewhere (`BlockRing`).
    """

    def __init__(
        self, uuid: str, grain: Nanoseconds, kept: Nanoseconds, summed: Nanoseconds = 0
    ) -> None:
        """An empty ring.

        Args:
            uuid: Whose windows.
            grain: How long a window is.
            kept: How long one is kept.
            summed: The span of the running sum; 0 for none.
        """
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
        self._forms.append(shared(encode(replace(window, blocks=Blocks()))))
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
        first = decode(self._uuid, self._forms[self._left])
        return replace(self._sum.window(), start=first.start, end=max(first.end, self._end))

    def expire(self, now: Nanoseconds) -> None:
        """Let go what is too old, and what a clock that was set back left in the future."""
        while self._left < len(self._slots) and (
            _is_over(self._slots[self._left], now, self._summed)
            or len(self._slots) - self._left > self._most
        ):
            if self._summed:
                self._sum.subtract(decode(self._uuid, self._forms[self._left]))
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
