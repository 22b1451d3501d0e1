"""Account of one device: windows, decayed demand, totals, tenancy."""

from collections import deque
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final

from rightsizer.accounting.rollup_store import FINE_SPAN, RollupStore, split_entry
from rightsizer.accounting.settings import AccountingSettings, DecaySettings
from rightsizer.accounting.window_builder import EntrySums, WindowBuilder, entry_measures
from rightsizer.model.members import members
from rightsizer.model.values import (
    DAY,
    RATIO_SIGNALS,
    EnergySource,
    Entry,
    Histogram,
    Holding,
    Nanoseconds,
    Resource,
    Signal,
    State,
    StripCell,
    Totals,
    Window,
    Workload,
    nanoseconds,
    seconds,
)

_State = members(State)
_Resource = members(Resource)


class DecayedDemands:
    """Demand of one device with fast and slow decay; add windows oldest first."""

    def __init__(self, settings: DecaySettings | None = None) -> None:
        settings = settings or DecaySettings()
        fast: dict[Resource, Histogram] = {}
        slow: dict[Resource, Histogram] = {}
        self._distributions = (
            (settings.fast_half_life_seconds, settings.fast_quantile_ratio, fast),
            (settings.slow_half_life_seconds, settings.slow_quantile_ratio, slow),
        )
        """Half-life, effective quantile, and distributions that decay with the half-life."""
        self._until: Nanoseconds | None = None

    def add(self, window: Window) -> None:
        """Decay to the window's end, then add the window."""
        elapsed = 0 if self._until is None else max(0, window.end - self._until)
        self._until = window.end
        for half_life, _, histograms in self._distributions:
            if elapsed:
                factor = 0.5 ** (seconds(elapsed) / half_life)
                for histogram in histograms.values():
                    histogram.decay(factor)
            for resource, used in window.demands.items():
                histograms.setdefault(resource, Histogram()).merge(used)

    def demand(self) -> Mapping[Resource, float]:
        """Demand by resource; resources never used are absent."""
        demand: dict[Resource, float] = {}
        for _, quantile, histograms in self._distributions:
            for resource, histogram in histograms.items():
                if (share := histogram.quantile(quantile)) is not None:
                    demand[resource] = max(share, demand.get(resource, share))
        return demand


_CELLS: Final = 2 * DAY // FINE_SPAN
"""Maximum cells of the strip; restarts split windows, so a day may have more of them."""


class DeviceWindows:
    """History of one device, bounded in size."""

    def __init__(
        self, uuid: str, decay: DecaySettings | None = None, hourly_before: Nanoseconds = 0
    ) -> None:
        self.uuid = uuid
        self.rollups = RollupStore(uuid, DAY, 7 * DAY, hourly_before)
        """Running sums of the last day and week, and a month of history."""
        self._cells: deque[StripCell] = deque(maxlen=_CELLS)
        self._decay = decay
        self.demands = DecayedDemands(decay)
        """Demands of the closed windows."""

    def add(self, entry: Entry) -> list[Window]:
        """Add an entry; return the five-minute windows that it closed."""
        closed: list[Window] = []
        values = entry_measures(entry)
        for part in split_entry(entry):
            if (window := self.rollups.add(part)) is not None:
                self._add_closed(window)
                closed.append(window)
            self.rollups.measure(values, part.end - part.start)
        return closed

    def restore(self, window: Window) -> None:
        """Restore a closed window from the history; call oldest first."""
        self.rollups.restore(window)
        self._add_closed(window)

    def reset_demands(self) -> None:
        """Reset the decayed demands after a change of holder."""
        self.demands = DecayedDemands(self._decay)

    def strip(self, now: Nanoseconds) -> tuple[StripCell, ...]:
        """States of the last day in five-minute cells, including the current one."""
        cells = tuple(cell for cell in self._cells if now - DAY <= cell.start <= now)
        running = self.rollups.open_window()
        return cells if running is None else (*cells, _cell(running))

    def _add_closed(self, closed: Window) -> None:
        while self._cells and self._cells[0].start < closed.start - DAY:
            self._cells.popleft()
        self._cells.append(_cell(closed))
        self.demands.add(closed)


def _cell(window: Window) -> StripCell:
    return StripCell(window.start, window.end, _shared_states(tuple(window.states.items())))


@lru_cache(maxsize=256)
def _shared_states(states: tuple[tuple[State, Nanoseconds], ...]) -> Mapping[State, Nanoseconds]:
    # Most cells have a single state, and a dict takes more memory than its cell.
    return dict(states)


class Tenancy:
    """Present holder of one device."""

    def __init__(self, gap: Nanoseconds) -> None:
        self._gap = gap
        self._empty_since: Nanoseconds | None = None
        self.holder: Workload | None = None
        """Workload with the largest share, or `None` if the device is free."""
        self.since: Nanoseconds = 0
        """Wall time at which the holder took or left the device."""

    def restore(self, holder: Workload | None, since: Nanoseconds) -> None:
        """Restore the holder from the history."""
        self.holder = holder
        self.since = since

    def add_holdings(self, holdings: tuple[Holding, ...], entry: Entry) -> bool:
        """Update with the holders of an entry; return whether the holder changed."""
        if entry.end < self.since:  # Clock set back: the tenancy begins again.
            self.since = entry.start
        if holdings:
            holder = max(holdings, key=lambda held: held.share_ratio).workload
            if is_new := self.holder is None or holder.key != self.holder.key:
                self.since = entry.start
            self.holder = holder
            self._empty_since = None
            return is_new
        if entry.state is _State.IDLE_EMPTY:
            if self._empty_since is None or entry.end < self._empty_since:
                self._empty_since = entry.start
            if self.holder is not None and entry.end - self._empty_since >= self._gap:
                self.holder = None
                self.since = self._empty_since
        elif entry.state is not _State.UNKNOWN:
            self._empty_since = None
        return False


class RunningTotals:
    """Growing totals of one device or workload: entry sums, distributions and energy."""

    def __init__(self, sums: EntrySums, distributions: Collection[Signal] = RATIO_SIGNALS) -> None:
        """Start from zero; keep the distributions and integrals of some ratios."""
        self._sums = sums
        self._kept = frozenset(distributions)
        self._energy_joules: dict[EnergySource, float] = {}
        self._distributions: dict[Signal, Histogram] = {}
        self._signal_seconds: dict[Signal, float] = {}

    def add(self, entry: Entry) -> None:
        """Add one interval of the device's time."""
        self._sums.add(entry)
        duration = entry.end - entry.start
        length = seconds(duration)
        sums = self._signal_seconds
        kept = self._kept
        for signal, value in entry.signals.items() if kept else ():
            if signal in kept:
                if (histogram := self._distributions.get(signal)) is None:
                    histogram = self._distributions[signal] = Histogram()
                histogram.add(value, duration)
                sums[signal] = sums.get(signal, 0.0) + value * length
        if entry.energy_source is not None:
            joules = self._energy_joules.get(entry.energy_source, 0.0)
            self._energy_joules[entry.energy_source] = joules + (entry.energy_joules or 0.0)

    def totals(self) -> Totals:
        """Copy of the totals, safe for any thread to read."""
        return self._sums.totals(
            distributions={
                signal: distribution.copy() for signal, distribution in self._distributions.items()
            },
            signal_seconds=dict(self._signal_seconds),
            energy_joules=dict(self._energy_joules),
        )


class DeviceAccount:
    """Account of one device."""

    def __init__(
        self,
        uuid: str,
        settings: AccountingSettings,
        distributions: Collection[Signal],
        hourly_before: Nanoseconds,
    ) -> None:
        self.windows = DeviceWindows(uuid, settings.decay, hourly_before)
        self._distributions = distributions
        self.reset_totals()
        self.last: Entry | None = None
        self.nvlinks_up = 0.0
        """Most NVLinks that were ever seen up."""
        self.tenancy = Tenancy(nanoseconds(settings.holder_gap_seconds))

    def reset_totals(self) -> None:
        """Reset the totals and the window over everything posted."""
        self.whole = WindowBuilder(self.windows.uuid)
        self.totals = RunningTotals(self.whole, self._distributions)

    def current_demands(self) -> dict[Resource, float]:
        """Current demands; memory is excluded, since its need does not decay."""
        demands = dict(self.windows.demands.demand())
        demands.pop(_Resource.MEMORY, None)
        return demands
