"""RollupStore: windows of five minutes, hours and days of one device or workload, bounded."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from rightsizer.accounting.rings import BlockRing, WindowRing
from rightsizer.accounting.window_builder import BlockBuilder, WindowBuilder
from rightsizer.accounting.window_query import DAY, FINE_SPAN, HOUR, OpenWindow, WindowQuery
from rightsizer.model.block import Blocks, Measure
from rightsizer.model.entry import Entry
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window

_FINE_KEPT: Final = 2 * DAY
_KEPT: Final = 30 * DAY
_MOST_FINE: Final = 2 * FINE_SPAN
"""A small step back of the clock makes five minutes longer."""


class RollupLevel:
    """Closed windows of one length, and the one that is being put together from shorter ones."""

    def __init__(self, uuid: str, grain: Nanoseconds, summed: Nanoseconds = 0) -> None:
        self.ring = WindowRing(uuid, grain, _KEPT, summed)
        self._uuid, self._grain = uuid, grain
        self._open = WindowBuilder(uuid, keeps_blocks=False)
        self._slot: Nanoseconds = 0
        self._looked_at: OpenWindow | None = None

    def add(self, window: Window, slot: Nanoseconds) -> None:
        """Add a shorter window, after `close_before` was called for it."""
        self._slot = slot - slot % self._grain
        self._open.merge(window)
        self._looked_at = None

    def close_before(self, slot: Nanoseconds) -> OpenWindow | None:
        """Close the open window if a time is outside of it."""
        closed = None if slot - slot % self._grain == self._slot else self.open_window()
        if closed is not None:
            self.ring.append(closed.window, closed.slot)
            self._open = WindowBuilder(self._uuid, keeps_blocks=False)
            self._looked_at = None
        return closed

    def open_window(self) -> OpenWindow | None:
        """What was put together so far, `None` where that is nothing."""
        if self._looked_at is None and not self._open.is_empty:
            self._looked_at = OpenWindow(self._slot, self._open.window())
        return self._looked_at


class RollupStore:
    """The windows of one device or workload, bounded whatever happens."""

    def __init__(self, uuid: str, day: Nanoseconds = 0, week: Nanoseconds = 0) -> None:
        """Nothing yet.

        Args:
            uuid: Of the device, or what a workload has in its place.
            day: The span of the running sum over five-minute windows; 0 for none.
            week: The span of the running sum over hours; 0 for none.
        """
        self.uuid = uuid
        self._fine = WindowRing(uuid, FINE_SPAN, _FINE_KEPT, day)
        self._hours = RollupLevel(uuid, HOUR, week)
        self._days = RollupLevel(uuid, DAY)
        self._blocks = BlockRing()
        self._open = WindowBuilder(uuid)
        self._block = BlockBuilder()
        self._slot: Nanoseconds | None = None
        self._latest_slot: Nanoseconds = 0

    @property
    def slot(self) -> Nanoseconds | None:
        """When the open five minutes began, `None` where none are open."""
        return self._slot

    def add(self, part: Entry) -> Window | None:
        """Add a stretch that lies within five minutes (`split`); the window that it closed."""
        closed = self.go_to(part.end - 1 - (part.end - 1) % FINE_SPAN)
        self._open.add(part)
        return closed

    def measure(self, values: Mapping[Measure, float], duration: Nanoseconds) -> None:
        """Add what was measured to the block of the open window."""
        self._block.add(values, duration)

    def go_to(self, slot: Nanoseconds) -> Window | None:
        """Let five minutes begin, if they have not; the window that is over by then."""
        if self._continues(slot):
            return None
        closed = self.close()
        self._hours_before(slot)
        self._slot = self._latest_slot = slot
        self._expire(slot)
        return closed

    def close(self) -> Window | None:
        """Close the open window before its time; it, where there is one."""
        found = self.open_window()
        if found is None or self._slot is None:
            return None
        self._open, self._block = WindowBuilder(self.uuid), BlockBuilder()
        self._fine.append(found, self._slot)
        self._hours.add(found, self._slot)
        self._blocks.append(found.blocks, self._slot)
        self._slot = None
        return found

    def restore(self, window: Window) -> None:
        """Put back a closed window from a history, oldest first."""
        slot = window.start - window.start % FINE_SPAN
        self._latest_slot = slot
        self._hours_before(slot)
        if window.end - window.start <= _MOST_FINE:  # A history makes hours of what is old.
            self._fine.append(window, slot)
        self._hours.add(window, slot)
        self._blocks.append(window.blocks, slot)

    def open_window(self) -> Window | None:
        """The five minutes that are still running, `None` where nothing was added yet."""
        if self._open.is_empty or self._slot is None:
            return None
        return replace(self._open.window(), blocks=self._block.blocks(self._slot))

    def window_query(self) -> WindowQuery:
        """What is remembered now, for any thread to read."""
        found = self.open_window()
        return WindowQuery(
            uuid=self.uuid,
            fine=self._fine.closed(),
            hours=self._hours.ring.closed(),
            days=self._days.ring.closed(),
            open_fine=None if found is None else OpenWindow(self._slot or 0, found),
            open_hour=self._hours.open_window(),
            open_day=self._days.open_window(),
            fine_since=-(-(self._latest_slot - _FINE_KEPT) // HOUR) * HOUR,
            remembered=self._blocks.remembered(Blocks() if found is None else found.blocks),
        )

    def last_day(self) -> Window:
        """The running sum of five-minute windows, the open one included."""
        return self._with_open(self._fine.total())

    def last_week(self) -> Window:
        """The running sum of hours, the open ones included."""
        hour = self._hours.open_window()
        return self._with_open(self._hours.ring.total(), *([hour.window] if hour else []))

    def _with_open(self, *windows: Window) -> Window:
        builder = WindowBuilder(self.uuid, keeps_blocks=False)
        for window in windows:
            builder.merge(window)
        if not self._open.is_empty:
            builder.merge(self._open.window())
        return builder.window()

    def _continues(self, slot: Nanoseconds) -> bool:
        """Whether time in a slot belongs to the open window; a small step back of the clock does.

        After a larger one the same hours are lived again.
        """
        return self._slot is not None and 0 <= self._slot - slot <= FINE_SPAN

    def _hours_before(self, slot: Nanoseconds) -> None:
        hour = self._hours.close_before(slot)
        if hour is not None:
            self._days.close_before(hour.slot)
            self._days.add(hour.window, hour.slot)

    def _expire(self, now: Nanoseconds) -> None:
        for ring in (self._fine, self._hours.ring, self._days.ring):
            ring.expire(now)


def split_entry(entry: Entry) -> Iterable[Entry]:
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
