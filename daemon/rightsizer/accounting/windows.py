"""Windows over one device's past: rings of small windows that merge into any span.

Five-minute windows answer spans up to a day, hourly ones up to thirty days. Closed ones are
kept as bytes; the running sums for the exported spans are kept up by adding and subtracting.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import Final

from rightsizer.accounting.builder import WindowBuilder
from rightsizer.accounting.decay import DecayedDemands, DecaySettings
from rightsizer.accounting.window_form import decode, encode
from rightsizer.domain.entry import Entry
from rightsizer.domain.report import StripCell
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.domain.window import Window

__all__ = ["FINE_SPAN", "DeviceWindows"]

_MINUTE: Final = 60 * NANOSECONDS_PER_SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
FINE_SPAN: Final = 5 * _MINUTE
"""The span of the smallest window that is kept; it divides the hour."""
_CELLS: Final = 2 * _DAY // FINE_SPAN
"""Cells of the strip; a restart divides a window, so there may be more than a day's."""
_DECODED: Final = 32
"""Windows of a ring that stay decoded; rules ask for the last two hours again and again."""


@dataclass(frozen=True, slots=True)
class _Closed:
    start: Nanoseconds
    end: Nanoseconds
    data: bytes


class _Ring:
    """Windows of one length, oldest first, with a running sum of those within a span."""

    def __init__(self, uuid: str, kept: Nanoseconds, summed: Nanoseconds) -> None:
        self._uuid, self._kept, self._summed = uuid, kept, summed
        self._decode = lru_cache(_DECODED)(partial(decode, uuid))
        self._closed: deque[_Closed] = deque()
        self._sum = WindowBuilder(uuid)
        self._left = 0  # How many of the oldest windows have already left the sum.

    def append(self, window: Window) -> None:
        self._closed.append(_Closed(window.start, window.end, encode(window)))
        self._sum.merge(window)
        self.expire(window.end)

    def since(self, start: Nanoseconds) -> Iterable[Window]:
        """The closed windows that begin at a time or later."""
        return (self._decode(closed.data) for closed in self._closed if closed.start >= start)

    def total(self) -> Window:
        """The sum of the windows within the summed span."""
        if self._left == len(self._closed):
            return Window(self._uuid, 0, 0)
        summed = list(islice(self._closed, self._left, None))
        return replace(
            self._sum.window(),
            start=min(closed.start for closed in summed),
            end=max(closed.end for closed in summed),
        )

    def expire(self, now: Nanoseconds) -> None:
        """Let go what is too old, and what a clock that was set back left in the future."""
        while self._left < len(self._closed) and _is_over(
            self._closed[self._left], now, self._summed
        ):
            self._sum.subtract(decode(self._uuid, self._closed[self._left].data))
            self._left += 1
        if self._left == len(self._closed):
            self._sum = WindowBuilder(self._uuid)  # Without what rounding left behind.
        while self._left and _is_over(self._closed[0], now, self._kept):
            self._closed.popleft()
            self._left -= 1


class DeviceWindows:
    """All that is remembered of one device, bounded whatever happens."""

    def __init__(self, uuid: str, decay: DecaySettings | None = None) -> None:
        self.uuid = uuid
        self._fine = _Ring(uuid, kept=_DAY, summed=_DAY)
        self._coarse = _Ring(uuid, kept=30 * _DAY, summed=7 * _DAY)
        self._cells: deque[StripCell] = deque(maxlen=_CELLS)
        self._open = WindowBuilder(uuid)
        self._open_hour = WindowBuilder(uuid)
        self._open_start: Nanoseconds | None = None
        self._decay = decay
        self.demands = DecayedDemands(decay)
        """Of the closed windows."""

    def add(self, entry: Entry) -> list[Window]:
        """Add a stretch; the five-minute windows that it closed."""
        closed: list[Window] = []
        for part in split(entry):
            slot = part.end - 1 - (part.end - 1) % FINE_SPAN
            if not self._continues(slot):
                closed.extend(self._begin(slot))
            self._open.add(part)
        return closed

    def restore(self, window: Window) -> None:
        """Put back a closed window from a history, oldest first."""
        if self._open_hour_is_over(window.start):
            self._close_hour()
        self._remember(window)

    def forget_demands(self) -> None:
        """Begin the faded demands anew, for somebody else has taken the device."""
        self.demands = DecayedDemands(self._decay)

    def open_window(self) -> Window | None:
        """The five minutes that are still running, `None` where nothing was added yet."""
        return None if self._open.is_empty else self._open.window()

    def window(self, span: Nanoseconds, now: Nanoseconds) -> Window:
        """The last span of time, to the grain of the ring that covers it.

        Spans up to a day are read from five-minute windows, longer ones from hourly windows.
        """
        builder = WindowBuilder(self.uuid)
        if span <= _DAY:
            for window in self._fine.since(now - span):
                builder.merge(window)
        else:
            for window in self._coarse.since(now - span):
                builder.merge(window)
            if not self._open_hour.is_empty:
                builder.merge(self._open_hour.window())
        if not self._open.is_empty:
            builder.merge(self._open.window())
        return builder.window()

    def day(self) -> Window:
        """The last 24 hours."""
        return self._with_open(self._fine.total())

    def week(self) -> Window:
        """The last 7 days."""
        builder = WindowBuilder(self.uuid)
        builder.merge(self._coarse.total())
        if not self._open_hour.is_empty:
            builder.merge(self._open_hour.window())
        return self._with_open(builder.window())

    def strip(self, now: Nanoseconds) -> tuple[StripCell, ...]:
        """The states of the last day in five-minute cells, the running one included."""
        cells = tuple(cell for cell in self._cells if now - _DAY <= cell.start <= now)
        return cells if self._open.is_empty else (*cells, _cell(self._open.window()))

    def _with_open(self, window: Window) -> Window:
        builder = WindowBuilder(self.uuid)
        builder.merge(window)
        if not self._open.is_empty:
            builder.merge(self._open.window())
        return builder.window()

    def _continues(self, slot: Nanoseconds) -> bool:
        """Whether time in a slot belongs to the open window; a small step back of the clock does.

        After a larger one the same hours are lived again.
        """
        return self._open_start is not None and 0 <= self._open_start - slot <= FINE_SPAN

    def _begin(self, slot: Nanoseconds) -> Iterable[Window]:
        if not self._open.is_empty:
            yield self._close()
        if self._open_hour_is_over(slot):
            self._close_hour()
        self._open_start = slot
        self._fine.expire(slot)
        self._coarse.expire(slot)

    def _close(self) -> Window:
        window = self._open.window()
        self._open = WindowBuilder(self.uuid)
        self._remember(window)
        return window

    def _remember(self, window: Window) -> None:
        self._fine.append(window)
        self._cells.append(_cell(window))
        self._open_hour.merge(window)
        self.demands.add(window)

    def _open_hour_is_over(self, start: Nanoseconds) -> bool:
        if self._open_hour.is_empty:
            return False
        return start // _HOUR != (self._open_hour.end - 1) // _HOUR

    def _close_hour(self) -> None:
        self._coarse.append(self._open_hour.window())
        self._open_hour = WindowBuilder(self.uuid)


def _is_over(closed: _Closed, now: Nanoseconds, span: Nanoseconds) -> bool:
    return closed.start < now - span or closed.start >= now


def _cell(window: Window) -> StripCell:
    return StripCell(window.start, window.end, window.states)


def split(entry: Entry) -> Iterable[Entry]:
    """The entry in parts that do not cross the border of a five-minute window."""
    start = entry.start
    while (border := start - start % FINE_SPAN + FINE_SPAN) < entry.end:
        yield _part(entry, start, border)
        start = border
    yield entry if start == entry.start else _part(entry, start, entry.end)


def _part(entry: Entry, start: Nanoseconds, end: Nanoseconds) -> Entry:
    joules = entry.energy_joules
    share = (end - start) / entry.duration
    return replace(
        entry, start=start, end=end, energy_joules=None if joules is None else joules * share
    )
