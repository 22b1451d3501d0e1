"""DeviceWindows: roll-ups, decayed demand and the day's strip of one device."""

from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from rightsizer.accounting.rollup_store import RollupStore, split_entry
from rightsizer.accounting.settings import DecaySettings
from rightsizer.accounting.window_builder import entry_measures
from rightsizer.accounting.window_query import DAY, FINE_SPAN
from rightsizer.model.entry import Entry
from rightsizer.model.histogram import Histogram
from rightsizer.model.report import StripCell
from rightsizer.model.state import Resource, State
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.model.window import Window


class _Fading:
    """Distributions by resource whose weights halve in a half-life."""

    def __init__(self, half_life_seconds: float) -> None:
        self._half_life = half_life_seconds
        self.histograms: dict[Resource, Histogram] = {}

    def fade(self, elapsed: Nanoseconds) -> None:
        factor = 0.5 ** (seconds(elapsed) / self._half_life)
        for histogram in self.histograms.values():
            histogram.decay(factor)

    def add(self, window: Window) -> None:
        for resource, histogram in window.demands.items():
            self.histograms.setdefault(resource, Histogram()).merge(histogram)


class DecayedDemands:
    """The demand of one device with both memories; windows are added oldest first."""

    def __init__(self, settings: DecaySettings | None = None) -> None:
        self._settings = settings or DecaySettings()
        self._fast = _Fading(self._settings.fast_half_life_seconds)
        self._slow = _Fading(self._settings.slow_half_life_seconds)
        self._until: Nanoseconds | None = None

    def add(self, window: Window) -> None:
        """Let time pass to the window's end, then add it."""
        elapsed = 0 if self._until is None else max(0, window.end - self._until)
        self._until = window.end
        for memory in (self._fast, self._slow):
            if elapsed:
                memory.fade(elapsed)
            memory.add(window)

    def demand(self) -> Mapping[Resource, float]:
        """The demand by resource; a resource that was never used is absent."""
        found: dict[Resource, float] = {}
        for resource in self._fast.histograms:
            quantiles = (
                self._fast.histograms[resource].quantile(self._settings.fast_quantile_ratio),
                self._slow.histograms[resource].quantile(self._settings.slow_quantile_ratio),
            )
            known = [quantile for quantile in quantiles if quantile is not None]
            if known:
                found[resource] = max(known)
        return found


_CELLS: Final = 2 * DAY // FINE_SPAN
"""Cells of the strip; a restart divides a window, so there may be more than a day's."""


class DeviceWindows:
    """All that is remembered of one device, bounded whatever happens."""

    def __init__(self, uuid: str, decay: DecaySettings | None = None) -> None:
        self.uuid = uuid
        self.rollups = RollupStore(uuid, day=DAY, week=7 * DAY)
        """Windows without blocks of the last day and week, and what is remembered of a month."""
        self._cells: deque[StripCell] = deque(maxlen=_CELLS)
        self._decay = decay
        self.demands = DecayedDemands(decay)
        """Of the closed windows."""

    def add(self, entry: Entry) -> list[Window]:
        """Add a stretch; the five-minute windows that it closed."""
        closed: list[Window] = []
        values = entry_measures(entry)
        for part in split_entry(entry):
            window = self.rollups.add(part)
            if window is not None:
                self._note(window)
                closed.append(window)
            self.rollups.measure(values, part.duration)
        return closed

    def restore(self, window: Window) -> None:
        """Put back a closed window from a history, oldest first."""
        self.rollups.restore(window)
        self._note(window)

    def reset_demands(self) -> None:
        """Begin the faded demands anew, for somebody else has taken the device."""
        self.demands = DecayedDemands(self._decay)

    def window(self, start: Nanoseconds, end: Nanoseconds) -> Window:
        """Any span of the past; `WindowQuery.window` says how exactly."""
        return self.rollups.window_query().window(start, end)

    def strip(self, now: Nanoseconds) -> tuple[StripCell, ...]:
        """The states of the last day in five-minute cells, the running one included."""
        cells = tuple(cell for cell in self._cells if now - DAY <= cell.start <= now)
        running = self.rollups.open_window()
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
