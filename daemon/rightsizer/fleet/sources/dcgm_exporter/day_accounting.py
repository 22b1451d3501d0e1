"""A day's readings in the node agent's accounting: same code, same thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Final

from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.accounting.power import LearnedPower, PowerLevels, PowerRange
from rightsizer.accounting.settings import EntrySettings
from rightsizer.accounting.signals import derive_signals
from rightsizer.accounting.usage import usage
from rightsizer.accounting.window_builder import measures_of
from rightsizer.fleet.cache.day_frame import Grid
from rightsizer.fleet.model import DeviceHolding
from rightsizer.fleet.sources.dcgm_exporter.readings import VIOLATIONS, DeviceDay
from rightsizer.model.block import Measure
from rightsizer.model.device import Device
from rightsizer.model.entry import Entry
from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.model.workload import Holding

_TORN: Final = (0.8, 1.25)
"""Energy by the counter of that by power, outside of which the counter's series was torn when a
holder came or went: what it gained between two series belongs to neither."""
_RARE: Final = 0.02
"""Of an interval for which a reason held that explains nothing of it."""


@dataclass(frozen=True, slots=True)
class AccountedStep:
    """One interval of a device: what the accounts say, and the largest of what was read."""

    place: int
    device: Device
    entry: Entry
    peaks: Mapping[Signal, float]


class DayAccounting:
    """Accounts of some devices over a day. An interval is read as one reading at its end."""

    def __init__(self, grid: Grid, settings: EntrySettings | None = None) -> None:
        self.grid = grid
        # An interval accounts for itself alone: one that was not read stays unknown.
        base = settings or EntrySettings()
        self._settings = replace(base, gap_minimum_seconds=0.0, gap_intervals=1.0)
        self._entries = EntryBuilder(self._settings)
        self._draws: dict[str, PowerLevels] = {}

    def post(
        self, devices: Sequence[Device], days: Mapping[str, DeviceDay]
    ) -> Iterator[tuple[str, AccountedStep]]:
        """Every known interval of every device, in the order of time."""
        grid = self.grid
        read = {device.uuid: days[device.uuid] for device in devices}
        rows = {
            uuid: _Readings(day, _masks(day, grid), _energy(day, grid))
            for uuid, day in read.items()
        }
        for uuid, row in rows.items():
            self._entries.restore_power(uuid, row.power())
        by_uuid = {device.uuid: device for device in devices}
        holders = {uuid: _by_place(days[uuid].holdings, grid) for uuid in by_uuid}
        snapshot = partial(Snapshot, interval=grid.step, devices=tuple(devices))
        # Where accounting begins, nothing but the counter of energy is known before.
        zero = {Signal.ENERGY_JOULES: 0.0}
        begin = {uuid: Reading(uuid, grid.start, zero) for uuid in by_uuid}
        self._entries.post(snapshot(wall_time=grid.start, time=grid.start, readings=begin))
        for place in range(grid.count):
            end = grid.start + (place + 1) * grid.step
            readings = {
                uuid: row.at(place, uuid, end)
                for uuid, row in rows.items()
                if days[uuid].known_seconds[place] > 0.0
            }
            holdings = {uuid: found[place] for uuid, found in holders.items() if found[place]}
            for entry in self._entries.post(
                snapshot(wall_time=end, time=end, readings=readings, holdings=holdings)
            ):
                uuid = entry.uuid
                if entry.end == end and uuid in readings:
                    yield uuid, AccountedStep(place, by_uuid[uuid], entry, rows[uuid].most(place))

    def peaks(self, step: AccountedStep) -> Mapping[Measure, float]:
        """Upper bounds: utilization, power and clocks may peak at different moments."""
        entry, device, settings = step.entry, step.device, self._settings
        if device.uuid not in self._draws:
            known = PowerRange(settings.power)
            learned = self._entries.learned_power(device.uuid)
            if learned is not None:
                known.restore(learned)
            self._draws[device.uuid] = known.draws(device.power_limit_watts)
        signals = derive_signals(
            Reading(device.uuid, entry.end, step.peaks),
            device,
            {},
            self._draws[device.uuid],
            settings.signals,
            counters_were_dead=Signal.SM_ACTIVE in step.peaks
            and Signal.SM_ACTIVE not in entry.signals,
        )
        most = usage(signals, device, settings.usage)
        return measures_of(signals, most.shares, most.compute_at_least)


@dataclass(frozen=True, slots=True)
class _Readings:
    """A device's day, ready to be read interval by interval."""

    day: DeviceDay
    masks: Sequence[int] | None
    energy: Sequence[float]
    """As a counter since the day began."""

    def at(self, place: int, uuid: str, time: Nanoseconds) -> Reading:
        """One interval as one reading."""
        values = self._known_means(place)
        if self.masks is not None:
            values[Signal.CLOCK_EVENT_REASONS] = self.masks[place]
        if self.energy:
            values[Signal.ENERGY_JOULES] = self.energy[place]
        return Reading(uuid, time, values)

    def most(self, place: int) -> Mapping[Signal, float]:
        """The largest of each signal, never below its mean."""
        found = self._known_means(place)
        for signal, column in self.day.peaks.items():
            if column[place] > found.get(signal, -math.inf):
                found[signal] = column[place]
        return found

    def power(self) -> LearnedPower | None:
        """The range of the day's draws; they are known before the first interval is judged."""
        columns = (each.get(Signal.POWER_WATTS, ()) for each in (self.day.means, self.day.peaks))
        drawn = [watts for column in columns for watts in column if watts > 0.0]
        return LearnedPower(min(drawn), max(drawn)) if drawn else None

    def _known_means(self, place: int) -> dict[Signal, float]:
        means = ((signal, column[place]) for signal, column in self.day.means.items())
        return {signal: value for signal, value in means if not math.isnan(value)}


def _masks(read: DeviceDay, grid: Grid) -> list[int] | None:
    """Why the clocks were low in each interval; `None` where that is not exported."""
    if read.reasons is None and not read.violations:
        return None
    masks = [0] * grid.count
    if read.reasons is not None:
        for place in range(grid.count):
            mask, share = read.reasons.at(place)
            masks[place] = mask if share > _RARE else 0
    for _, condition, bit in VIOLATIONS:
        for place, share in enumerate(read.violations.get(condition, ())):
            if share > _RARE:
                masks[place] |= int(bit)
    return masks


def _energy(read: DeviceDay, grid: Grid) -> list[float]:
    """A counter of energy since the day began; empty where it is not exported."""
    watts = read.means.get(Signal.POWER_WATTS)
    gained = read.energy_joules
    if gained is None:
        return []
    length = seconds(grid.step)
    steps = []
    for place in range(grid.count):
        counted = gained[place]
        drawn = math.nan if watts is None else watts[place] * length
        low, high = _TORN
        is_torn = math.isnan(counted) or counted < low * drawn or counted > high * drawn
        steps.append(drawn if is_torn and not math.isnan(drawn) else counted)
    return list(accumulate(0.0 if math.isnan(step) else step for step in steps))


def _by_place(runs: Sequence[DeviceHolding], grid: Grid) -> list[tuple[Holding, ...]]:
    found: list[tuple[Holding, ...]] = [()] * grid.count
    for run in runs:
        holding = Holding(run.workload, run.share_ratio)
        for place in range(run.first, run.last + 1):
            found[place] = (*found[place], holding)
    return found
