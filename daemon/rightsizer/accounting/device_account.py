"""Account of one device: windows, decayed demand, totals, tenancy; its record in the history."""

import json
from collections import deque
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final

from rightsizer.accounting.power import LearnedPower
from rightsizer.accounting.rollup_store import FINE_SPAN, RollupStore, split_entry
from rightsizer.accounting.settings import AccountingSettings, DecaySettings
from rightsizer.accounting.window_builder import EntrySums, WindowBuilder, entry_measures
from rightsizer.io.codec import convert
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.frozen import asdict, dataclass, replace
from rightsizer.model.histogram import Histogram
from rightsizer.model.members import members
from rightsizer.model.reading import Reading
from rightsizer.model.report import StripCell, Totals
from rightsizer.model.signal import RATIO_SIGNALS, Signal
from rightsizer.model.state import Resource, State
from rightsizer.model.topology import Topology
from rightsizer.model.units import DAY, Nanoseconds, nanoseconds, seconds
from rightsizer.model.window import EnergySource, Entry, Window
from rightsizer.model.workload import Holding, Workload

_State = members(State)
_Resource = members(Resource)


class DecayedDemands:
    """The demand of one device with two memories; windows are added oldest first."""

    def __init__(self, settings: DecaySettings | None = None) -> None:
        settings = settings or DecaySettings()
        fast: dict[Resource, Histogram] = {}
        slow: dict[Resource, Histogram] = {}
        self._memories = (
            (settings.fast_half_life_seconds, settings.fast_quantile_ratio, fast),
            (settings.slow_half_life_seconds, settings.slow_quantile_ratio, slow),
        )
        """Half-life, the quantile that counts, and distributions whose weights halve in it."""
        self._until: Nanoseconds | None = None

    def add(self, window: Window) -> None:
        """Let time pass to the window's end, then add it."""
        elapsed = 0 if self._until is None else max(0, window.end - self._until)
        self._until = window.end
        for half_life, _, histograms in self._memories:
            if elapsed:
                factor = 0.5 ** (seconds(elapsed) / half_life)
                for histogram in histograms.values():
                    histogram.decay(factor)
            for resource, histogram in window.demands.items():
                histograms.setdefault(resource, Histogram()).merge(histogram)

    def demand(self) -> Mapping[Resource, float]:
        """The demand by resource; a resource that was never used is absent."""
        found: dict[Resource, float] = {}
        for _, quantile, histograms in self._memories:
            for resource, histogram in histograms.items():
                if (share := histogram.quantile(quantile)) is not None:
                    found[resource] = max(share, found.get(resource, share))
        return found


_CELLS: Final = 2 * DAY // FINE_SPAN
"""Cells of the strip; a restart divides a window, so there may be more than a day's."""


class DeviceWindows:
    """All that is remembered of one device, bounded whatever happens."""

    def __init__(
        self, uuid: str, decay: DecaySettings | None = None, hourly_before: Nanoseconds = 0
    ) -> None:
        self.uuid = uuid
        self.rollups = RollupStore(uuid, DAY, 7 * DAY, hourly_before)
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
            if (window := self.rollups.add(part)) is not None:
                self._note(window)
                closed.append(window)
            self.rollups.measure(values, part.end - part.start)
        return closed

    def restore(self, window: Window) -> None:
        """Put back a closed window from a history, oldest first."""
        self.rollups.restore(window)
        self._note(window)

    def reset_demands(self) -> None:
        """Begin the faded demands again: another workload has taken the device."""
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


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """A device with its holder."""

    device: Device
    holder: Workload | None = None
    holder_since: Nanoseconds = 0
    power: LearnedPower | None = None
    """The range of its draw as far as it was learned."""
    reading: Reading | None = None
    """The last of it, so that a history tells what was read at all."""
    xids: XidLog | None = None
    holdings: tuple[Holding, ...] = ()
    topology: Topology | None = None
    """Of the whole node, kept with one of its devices."""


def encode_device(known: DeviceRecord) -> str:
    """The device as JSON."""
    reading = known.reading
    if reading is not None:  # Mappings that are shared cannot be copied.
        missing, origins = dict(reading.missing), dict(reading.origins)
        known = replace(known, reading=replace(reading, missing=missing, origins=origins))
    fields = asdict(known)
    fields["held_since"] = fields.pop("holder_since")  # The stored name.
    return json.dumps(fields)


def decode_device(text: str) -> DeviceRecord:
    """The device that `encode_device` wrote, in this version or a former one.

    Raises:
        ValueError: the text is not such a device.
    """
    try:
        fields: dict[str, Any] = json.loads(text)
        return convert({**fields, "holder_since": fields["held_since"]}, DeviceRecord)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a device: {error!r}") from None


class Tenancy:
    """One device's present holder."""

    def __init__(self, gap: Nanoseconds) -> None:
        self._gap = gap
        self._empty_since: Nanoseconds | None = None
        self.holder: Workload | None = None
        """The workload with the largest share, `None` where the device is free."""
        self.since: Nanoseconds = 0
        """When the holder took the device, or left it; wall time."""

    def restore(self, holder: Workload | None, since: Nanoseconds) -> None:
        """Go on where a history ended."""
        self.holder, self.since = holder, since

    def see(self, holdings: tuple[Holding, ...], entry: Entry) -> bool:
        """Add the holders of a stretch; whether another workload has taken the device."""
        if entry.end < self.since:  # The clock was set back: it is free from then on.
            self.since = entry.start
        if holdings:
            holder = max(holdings, key=lambda held: held.share_ratio).workload
            if is_new := self.holder is None or holder.key != self.holder.key:
                self.since = entry.start
            self.holder, self._empty_since = holder, None
            return is_new
        if entry.state is _State.IDLE_EMPTY:
            if self._empty_since is None or entry.end < self._empty_since:
                self._empty_since = entry.start
            if self.holder is not None and entry.end - self._empty_since >= self._gap:
                self.holder, self.since = None, self._empty_since
        elif entry.state is not _State.UNKNOWN:
            self._empty_since = None
        return False


class RunningTotals:
    """The totals of one device or workload while they grow: sums, and what is kept beside them."""

    def __init__(self, sums: EntrySums, distributions: Collection[Signal] = RATIO_SIGNALS) -> None:
        """Nothing yet; the distributions of some ratios are kept, and the means of those."""
        self._sums, self._kept = sums, frozenset(distributions)
        self._energy_joules: dict[EnergySource, float] = {}
        self._distributions: dict[Signal, Histogram] = {}
        self._signal_seconds: dict[Signal, float] = {}

    def add(self, entry: Entry) -> None:
        """Add one stretch of the device's time."""
        self._sums.add(entry)
        duration = entry.end - entry.start
        length, sums, kept = seconds(duration), self._signal_seconds, self._kept
        for signal, value in entry.signals.items() if kept else ():
            if signal in kept:
                if (found := self._distributions.get(signal)) is None:
                    found = self._distributions[signal] = Histogram()
                found.add(value, duration)
                sums[signal] = sums.get(signal, 0.0) + value * length
        if entry.used_ratio is not None and entry.energy_source is not None:
            known = self._energy_joules.get(entry.energy_source, 0.0)
            self._energy_joules[entry.energy_source] = known + (entry.energy_joules or 0.0)

    def totals(self) -> Totals:
        """The totals so far, for any thread to read."""
        return self._sums.totals(
            distributions={signal: found.copy() for signal, found in self._distributions.items()},
            signal_seconds=dict(self._signal_seconds),
            energy_joules=dict(self._energy_joules),
        )


class DeviceAccount:
    """One device's."""

    def __init__(
        self,
        uuid: str,
        settings: AccountingSettings,
        distributions: Collection[Signal],
        hourly_before: Nanoseconds,
    ) -> None:
        self.windows = DeviceWindows(uuid, settings.decay, hourly_before)
        self._distributions = distributions
        self.begin()
        self.last: Entry | None = None
        self.tenancy = Tenancy(nanoseconds(settings.holder_gap_seconds))

    def begin(self) -> None:
        """Count the totals, and all that was posted, from 0."""
        self.whole = WindowBuilder(self.windows.uuid)
        self.totals = RunningTotals(self.whole, self._distributions)

    def current_demands(self) -> dict[Resource, float]:
        """What is needed now. Memory does not fade: what was needed once may be needed again."""
        demands = dict(self.windows.demands.demand())
        demands.pop(_Resource.MEMORY, None)
        return demands
