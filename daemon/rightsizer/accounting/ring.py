"""A ring: closed windows of one length, oldest first, as bytes and bounded."""

import struct
from collections import deque
from dataclasses import replace
from typing import Final, Self

from rightsizer.accounting.builder import WindowBuilder
from rightsizer.accounting.window_form import decode, encode
from rightsizer.domain.block import Blocks
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.window import Window

__all__ = ["ClosedWindow", "Ring"]

_SLOT: Final = struct.Struct(">q")


class ClosedWindow(bytes):
    """A window that no longer changes: its place in time and its form in one piece of memory.

    There are a thousand and more for each device, and objects with fields would double them.
    """

    __slots__ = ()

    @classmethod
    def of(cls, slot: Nanoseconds, window: Window) -> Self:
        """A window without its blocks, which are kept elsewhere (`BlockRing`)."""
        return cls(_SLOT.pack(slot) + encode(replace(window, blocks=Blocks())))

    @property
    def slot(self) -> Nanoseconds:
        """Where the length of the ring's windows puts it: a multiple of that length."""
        return int(_SLOT.unpack_from(self)[0])

    def window(self, uuid: str) -> Window:
        """The window as it was."""
        return decode(uuid, self[_SLOT.size :])


class Ring:
    """Windows of one length, and a running sum over the latest of them where one is wanted."""

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
        self._closed: deque[ClosedWindow] = deque()
        self._sum = WindowBuilder(uuid, keeps_blocks=False)
        self._end: Nanoseconds = 0
        self._left = 0  # How many of the oldest windows have already left the sum.

    def append(self, window: Window, slot: Nanoseconds) -> None:
        """Add a window; what is too old by then goes."""
        self._closed.append(ClosedWindow.of(slot, window))
        self._end = window.end
        if self._summed:
            self._sum.merge(window)
        self.expire(window.end)

    def closed(self) -> tuple[ClosedWindow, ...]:
        """The windows as they are now, for any thread to read."""
        return tuple(self._closed)

    def total(self) -> Window:
        """The sum of the windows within the summed span."""
        if self._left == len(self._closed):
            return Window(self._uuid, 0, 0)
        first = self._closed[self._left].window(self._uuid)
        return replace(self._sum.window(), start=first.start, end=max(first.end, self._end))

    def expire(self, now: Nanoseconds) -> None:
        """Let go what is too old, and what a clock that was set back left in the future."""
        while self._left < len(self._closed) and (
            _is_over(self._closed[self._left], now, self._summed)
            or len(self._closed) - self._left > self._most
        ):
            if self._summed:
                self._sum.subtract(self._closed[self._left].window(self._uuid))
            self._left += 1
        if self._left == len(self._closed):
            # Without what rounding left behind.
            self._sum = WindowBuilder(self._uuid, keeps_blocks=False)
        while self._left and (
            _is_over(self._closed[0], now, self._kept) or len(self._closed) > self._most
        ):
            self._closed.popleft()
            self._left -= 1


def _is_over(closed: ClosedWindow, now: Nanoseconds, span: Nanoseconds) -> bool:
    return not now - span <= closed.slot <= now
