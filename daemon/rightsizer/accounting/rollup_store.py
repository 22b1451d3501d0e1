"""Windows of five minutes, hours and days of one device or workload, and queries over them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.rings import (
    BlockRing,
    ClosedWindows,
    StoredBlocks,
    WindowReader,
    WindowRing,
    deduplicate,
)
from rightsizer.accounting.window_builder import BlockBuilder, WindowBuilder
from rightsizer.accounting.window_codec import decode_window, encode_window
from rightsizer.model.values import (
    BLOCK_SPAN,
    DAY,
    HOUR,
    Blocks,
    Cause,
    DeviceSpan,
    Entry,
    Measure,
    Nanoseconds,
    Span,
    State,
    StripCell,
    Window,
)

FINE_SPAN: Final[Nanoseconds] = BLOCK_SPAN
"""Span of the smallest windows; it divides the hour."""


class OpenWindow(Struct, frozen=True):
    """Window that was still growing at the time of the query."""

    slot: Nanoseconds
    window: Window


class EncodedWindow(Struct, frozen=True):
    """Closed part of a longer window, as bytes, without blocks."""

    slot: Nanoseconds
    encoded: bytes


class WindowQuery(Struct, frozen=True):
    """Immutable history of a device or workload at one moment.

    Holds encoded windows, so that it is created quickly under a lock and decoded after its
    release. An hour sums its closed five-minute windows, a day its closed hours, so every level
    gives the same total.
    """

    uuid: str
    fine: ClosedWindows
    hours: ClosedWindows
    days: ClosedWindows
    open_fine: OpenWindow | None
    open_hour: EncodedWindow | None
    """Closed part of the current hour."""
    open_day: EncodedWindow | None
    """Closed part of the current day, in whole hours."""
    fine_since: Nanoseconds
    """Start of the five-minute windows; a whole hour."""
    stored_blocks: StoredBlocks

    @property
    def first(self) -> Nanoseconds:
        """Start of the first window, 0 if there is none."""
        rings = (ring.slots for ring in (self.fine, self.hours, self.days))
        growing = (
            open_window
            for open_window in (self.open_fine, self.open_hour, self.open_day)
            if open_window
        )
        slots = (
            *chain.from_iterable(rings),
            *(open_window.slot for open_window in growing),
            *(day for day, _ in self.stored_blocks.days),
        )
        return min(slots, default=0)

    def grain(self, start: Nanoseconds, end: Nanoseconds) -> Nanoseconds:
        """Precision of a query: either end is off by less than this."""
        fine = all(at % HOUR == 0 or at >= self.fine_since for at in (start, end))
        return FINE_SPAN if fine else HOUR

    def window(
        self, start: Nanoseconds, end: Nanoseconds, reader: WindowReader | None = None
    ) -> Window:
        """Sum of all windows that begin in a time range.

        Exact to five minutes if both ends lie within the last two days, and to the hour up to
        thirty days back. The result has its actual start and end. Pass one reader to several
        queries to share decoded windows.
        """
        if start >= end:
            return Window(self.uuid, 0, 0)
        reader = reader or WindowReader()
        builder = WindowBuilder(self.uuid, self._cover(start, end, reader), keeps_blocks=False)
        return builder.window(reader.blocks(self.stored_blocks, start, end))

    def blocks(self, start: Nanoseconds, end: Nanoseconds) -> Blocks:
        """Blocks that begin in a time range, exact to five minutes for thirty days."""
        return self.stored_blocks.between(start, end)

    def closed_windows(self) -> Iterator[Window]:
        """All closed windows without overlap, oldest first: hours, then five minutes."""
        reader = WindowReader()
        fine = [(slot, encoded) for slot, encoded in self.fine if slot >= self.fine_since]
        divided = {slot - slot % HOUR for slot, _ in fine}
        hours = [(slot, reader.window(encoded)) for slot, encoded in self.hours]
        if self.open_hour is not None:
            hours.append((self.open_hour.slot, reader.window(self.open_hour.encoded)))
        windows = [
            *((slot, HOUR, window) for slot, window in hours if slot not in divided),
            *((slot, FINE_SPAN, reader.window(encoded)) for slot, encoded in fine),
        ]
        for slot, grain, window in windows:
            blocks = reader.blocks(self.stored_blocks, slot, slot + grain)
            yield replace(window, uuid=self.uuid, blocks=blocks)

    def _cover(
        self, start: Nanoseconds, end: Nanoseconds, reader: WindowReader
    ) -> Iterator[Window]:
        """Longest windows that fit into a range, and shorter ones at its ends."""
        # The current hour may be used as a whole if the range extends to its present end.
        whole_end = end if end < self._last() else end + DAY
        first = max(start, self.fine_since)
        edges = (first, first + HOUR), (max(first, whole_end - HOUR), end + HOUR)
        # Divisible hours at the start and around the end of the range.
        fine_hours = {
            slot - slot % HOUR for edge in edges for slot in self.fine.between(*edge).slots
        }

        def holds(slot: Nanoseconds, grain: Nanoseconds) -> bool:
            return start <= slot and slot + grain <= whole_end

        def takes_hour(slot: Nanoseconds) -> bool:
            """Whether it lies wholly inside, or has no shorter windows to divide it."""
            return (slot not in fine_hours and start <= slot < end) or holds(slot, HOUR)

        covered = {slot for slot in self.days.slots if holds(slot, DAY)}
        yield from (reader.window(encoded) for slot, encoded in self.days if slot in covered)
        if self.open_day is not None and holds(self.open_day.slot, DAY):
            covered.add(self.open_day.slot)
            yield reader.window(self.open_day.encoded)
        for slot, encoded in self.hours.between(start, whole_end):
            if slot - slot % DAY not in covered and takes_hour(slot):
                yield reader.window(encoded)
        if self.open_hour is not None and takes_hour(self.open_hour.slot):
            yield reader.window(self.open_hour.encoded)
        divided = {hour for hour in fine_hours if not holds(hour, HOUR)}
        for slot, encoded in self.fine.between(start, end):
            if slot - slot % HOUR in divided:
                yield reader.window(encoded)
        if self.open_fine is not None and start <= self.open_fine.slot < end:
            yield self.open_fine.window

    def _last(self) -> Nanoseconds:
        """End of the known time, to the precision of the last window."""
        if self.open_fine is not None:
            return self.open_fine.window.end
        rings = ((self.fine, FINE_SPAN), (self.hours, HOUR))
        return max((ring.slots[-1] + grain for ring, grain in rings if ring), default=0)


def device_span(window_query: WindowQuery, span: Span, now: Nanoseconds) -> DeviceSpan:
    """Aggregate the span that ends now: its cells, and sums of the windows that begin in it.

    Cells shorter than an hour are made of five-minute windows, longer ones of hours. The first
    cell may begin before the span; sums exclude that window, so no day has more than 24 h.
    """
    windows = list(_windows(window_query, span, now))
    inside = [window for slot, window in windows if slot >= now - span.length]
    states: Counter[State] = Counter()
    for window in inside:
        states.update(window.states)
    return DeviceSpan(
        cells=tuple(_cells(windows, span.cell)),
        states=dict(states),
        used_seconds=sum(window.used_seconds for window in inside),
        used_joules=sum(window.used_joules for window in inside),
        waste_seconds=_summed(window.waste_seconds for window in inside),
        waste_joules=_summed(window.waste_joules for window in inside),
    )


def _windows(
    window_query: WindowQuery, span: Span, now: Nanoseconds
) -> Iterator[tuple[Nanoseconds, Window]]:
    since = now - span.length
    if span.cell < HOUR:
        closed = list(window_query.fine)
        grain = FINE_SPAN
    else:
        # The current hour consists of its closed part and the open five minutes.
        closed = list(window_query.hours)
        grain = HOUR
        if (hour := window_query.open_hour) is not None:
            closed.append((hour.slot, hour.encoded))
    for slot, encoded in closed:
        if since < slot + grain and slot <= now:
            yield slot, decode_window(window_query.uuid, encoded)
    window = window_query.open_fine
    if window is not None and since < window.slot + grain and window.slot <= now:
        yield window.slot, window.window


def _cells(
    windows: Iterable[tuple[Nanoseconds, Window]], length: Nanoseconds
) -> Iterator[StripCell]:
    cells: dict[Nanoseconds, tuple[list[Nanoseconds], Counter[State]]] = {}
    for slot, window in windows:
        if window.states:
            ends, states = cells.setdefault(slot - slot % length, ([], Counter()))
            ends += (window.start, window.end)
            states.update(window.states)
    for slot in sorted(cells):
        ends, states = cells[slot]
        yield StripCell(min(ends), max(ends), dict(states))


def _summed(parts: Iterable[Mapping[Cause, float]]) -> dict[Cause, float]:
    sums: dict[Cause, float] = defaultdict(float)
    for cause, amount in chain.from_iterable(part.items() for part in parts):
        sums[cause] += amount
    return dict(sums)


FINE_KEPT: Final = 2 * DAY
"""Retention of five-minute windows."""
_KEPT: Final = 30 * DAY
_MOST_FINE: Final = 2 * FINE_SPAN
"""Longest five-minute window, since a small step back of the clock extends it."""


class RollupLevel:
    """Closed windows of one length, and the open one, merged from shorter windows.

    A query turns the open one into bytes, and so it stays until it grows: most workloads of a node
    have ended, and the histograms of a window take more than all else that their accounts keep.
    """

    def __init__(self, uuid: str, grain: Nanoseconds, summed: Nanoseconds = 0) -> None:
        self.ring = WindowRing(uuid, grain, _KEPT, summed)
        self._uuid = uuid
        self._grain = grain
        self._slot: Nanoseconds = 0
        self._encoded: EncodedWindow | None = None
        self._growing: WindowBuilder | None = None
        """Open window since the last query, if it has grown since."""

    def add(self, window: Window, slot: Nanoseconds) -> None:
        """Add a shorter window; call `close_before` first."""
        if self._growing is None:
            self._growing = WindowBuilder(self._uuid, self.open_windows(), keeps_blocks=False)
        self._growing.merge(window)
        self._slot = slot - slot % self._grain

    def close_before(self, slot: Nanoseconds) -> OpenWindow | None:
        """Close the open window if a time is outside it."""
        if slot - slot % self._grain == self._slot or not (windows := self.open_windows()):
            return None
        self.ring.append(windows[0], self._slot)
        self._encoded = self._growing = None
        return OpenWindow(self._slot, windows[0])

    def encoded(self) -> EncodedWindow | None:
        """Open window so far, if any."""
        if self._growing is not None and (windows := self.open_windows()):
            self._encoded = EncodedWindow(self._slot, deduplicate(encode_window(windows[0])))
            self._growing = None
        return self._encoded

    def open_windows(self) -> list[Window]:
        """Open window so far, if any."""
        if self._growing is not None:
            return [] if self._growing.is_empty else [self._growing.window()]
        return [] if self._encoded is None else [decode_window(self._uuid, self._encoded.encoded)]


class RollupStore:
    """Windows of one device or workload, bounded in number."""

    def __init__(
        self, uuid: str, day: Nanoseconds = 0, week: Nanoseconds = 0, hourly_before: Nanoseconds = 0
    ) -> None:
        """Start empty; keep windows that begin before `hourly_before` only as hours."""
        self.uuid = uuid
        self._hourly_before = hourly_before
        self._fine = WindowRing(uuid, FINE_SPAN, FINE_KEPT, day)
        self._hours = RollupLevel(uuid, HOUR, week)
        self._days = RollupLevel(uuid, DAY)
        self._blocks = BlockRing()
        self._open: WindowBuilder | None = None
        self._block = BlockBuilder()
        self.slot: Nanoseconds | None = None
        """Start of the open five-minute window, or `None`."""
        self._latest_slot: Nanoseconds = 0

    def add(self, part: Entry) -> Window | None:
        """Add an entry within five minutes (`split_entry`); return the window that it closed."""
        closed = self.go_to(part.end - 1 - (part.end - 1) % FINE_SPAN)
        if self._open is None:
            self._open = WindowBuilder(self.uuid)
        self._open.add(part)
        return closed

    def measure(self, values: Mapping[Measure, float], duration: Nanoseconds) -> None:
        """Add measured values to the block of the open window."""
        self._block.add(values, duration)

    def go_to(self, slot: Nanoseconds) -> Window | None:
        """Advance to a five-minute window; return the window closed by that."""
        # After a small step back of the clock the open window continues; after a larger one the
        # same hours repeat.
        if self.slot is not None and 0 <= self.slot - slot <= FINE_SPAN:
            return None
        closed = self.close()
        self._hours_before(slot)
        self.slot = self._latest_slot = slot
        for ring in (self._fine, self._hours.ring, self._days.ring):
            ring.expire(slot)
        return closed

    def close(self) -> Window | None:
        """Close the open window early; return it, or `None`."""
        if (window := self.open_window()) is None or self.slot is None:
            return None
        self._open = None
        self._block = BlockBuilder()
        if self.slot >= self._hourly_before:
            self._fine.append(window, self.slot)
        self._hours.add(window, self.slot)
        self._blocks.append(window.blocks, self.slot)
        self.slot = None
        return window

    def restore(self, window: Window) -> None:
        """Restore a closed window from the history; call oldest first."""
        slot = window.start - window.start % FINE_SPAN
        self._latest_slot = slot
        self._hours_before(slot)
        if window.end - window.start <= _MOST_FINE:  # The history merges old windows into hours.
            self._fine.append(window, slot)
        self._hours.add(window, slot)
        self._blocks.append(window.blocks, slot)

    def open_window(self) -> Window | None:
        """Open five-minute window, or `None` if empty."""
        if self._open is None or self.slot is None:
            return None
        return self._open.window(self._block.blocks(self.slot))

    def window_query(self) -> WindowQuery:
        """Immutable query of the present history, safe for any thread to read."""
        window = self.open_window()
        return WindowQuery(
            uuid=self.uuid,
            fine=self._fine.closed(),
            hours=self._hours.ring.closed(),
            days=self._days.ring.closed(),
            open_fine=None if window is None else OpenWindow(self.slot or 0, window),
            open_hour=self._hours.encoded(),
            open_day=self._days.encoded(),
            fine_since=-(-(self._latest_slot - FINE_KEPT) // HOUR) * HOUR,
            stored_blocks=self._blocks.stored_blocks(Blocks() if window is None else window.blocks),
        )

    def last_day(self) -> Window:
        """Running sum of the five-minute windows of a day, including the open one."""
        return self._with_open(self._fine.total())

    def last_week(self) -> Window:
        """Running sum of the hours of a week, including the open windows."""
        return self._with_open(self._hours.ring.total(), *self._hours.open_windows())

    def _with_open(self, *windows: Window) -> Window:
        running = [] if self._open is None else [self._open.window()]
        return WindowBuilder(self.uuid, [*windows, *running], keeps_blocks=False).window()

    def _hours_before(self, slot: Nanoseconds) -> None:
        if (hour := self._hours.close_before(slot)) is not None:
            self._days.close_before(hour.slot)
            self._days.add(hour.window, hour.slot)


def split_entry(entry: Entry) -> Sequence[Entry]:
    """Split an entry at the borders of five-minute windows."""
    start = entry.start
    parts = []
    while (border := start - start % FINE_SPAN + FINE_SPAN) < entry.end:
        parts.append(entry.cut(start, border))
        start = border
    return (*parts, entry.cut(start, entry.end)) if parts else (entry,)
