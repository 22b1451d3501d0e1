"""The windows of one device: any span of its past, the exported ones, and the day's strip."""

from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from rightsizer.accounting.block_builder import measured
from rightsizer.accounting.decay import DecayedDemands, DecaySettings
from rightsizer.accounting.ladder import Ladder, split
from rightsizer.accounting.recollection import DAY, FINE_SPAN, Recollection
from rightsizer.domain.entry import Entry
from rightsizer.domain.report import StripCell
from rightsizer.domain.state import State
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.window import Window

__all__ = ["FINE_SPAN", "DeviceWindows"]

_CELLS: Final = 2 * DAY // FINE_SPAN
"""Cells of the strip; a restart divides a window, so there may be more than a day's."""


class DeviceWindows:
    """All that is remembered of one device, bounded whatever happens."""

    def __init__(self, uuid: str, decay: DecaySettings | None = None) -> None:
        self.uuid = uuid
        self._ladder = Ladder(uuid, day=DAY, week=7 * DAY)
        self._cells: deque[StripCell] = deque(maxlen=_CELLS)
        self._decay = decay
        self.demands = DecayedDemands(decay)
        """Of the closed windows."""

    def add(self, entry: Entry) -> list[Window]:
        """Add a stretch; the five-minute windows that it closed."""
        closed: list[Window] = []
        values = measured(entry)
        for part in split(entry):
            window = self._ladder.add(part)
            if window is not None:
                self._note(window)
                closed.append(window)
            self._ladder.measure(values, part.duration)
        return closed

    def restore(self, window: Window) -> None:
        """Put back a closed window from a history, oldest first."""
        self._ladder.restore(window)
        self._note(window)

    def forget_demands(self) -> None:
        """Begin the faded demands anew, for somebody else has taken the device."""
        self.demands = DecayedDemands(self._decay)

    def open_window(self) -> Window | None:
        """The five minutes that are still running, `None` where nothing was added yet."""
        return self._ladder.open_window()

    def recollection(self) -> Recollection:
        """What is remembered now, for any thread to read."""
        return self._ladder.recollection()

    def window(self, start: Nanoseconds, end: Nanoseconds) -> Window:
        """Any span of the past; `Recollection.window` says how exactly."""
        return self.recollection().window(start, end)

    def day(self) -> Window:
        """The last 24 hours, without blocks."""
        return self._ladder.recent()

    def week(self) -> Window:
        """The last 7 days, without blocks."""
        return self._ladder.lately()

    def strip(self, now: Nanoseconds) -> tuple[StripCell, ...]:
        """The states of the last day in five-minute cells, the running one included."""
        cells = tuple(cell for cell in self._cells if now - DAY <= cell.start <= now)
        running = self._ladder.open_window()
        return cells if running is None else (*cells, _cell(running))

    def _note(self, closed: Window) -> None:
        while self._cells and self._cells[0].start < closed.start - DAY:
            self._cells.popleft()
        self._cells.append(_cell(closed))
        self.demands.add(closed)


def _cell(window: Window) -> StripCell:
    return StripCell(window.start, window.end, _shared_states(tuple(window.states.items())))


@lru_cache(maxsize=256)
def _shared_states(states: tuple[tuple[State, Nanoseconds], ...]) -> Mapping[State, Nanoseconds]:
    # Most cells are of one state from end to end, and a table takes more room than its cell.
    return dict(states)
