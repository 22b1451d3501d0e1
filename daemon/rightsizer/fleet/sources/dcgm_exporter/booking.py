"""Runs a day's readings through the node agent's accounting: same code, same thresholds."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.model.workload import Holding

_TORN: Final = (0.8, 1.25)
"""Energy by the counter of that by power, outside of which the counter's series was torn when a
holder came or went: what it gained between two series belongs to neither."""
_RARE: Final = 0.02
"""Of a stretch for which a reason held that explains nothing of it."""


@dataclass(frozen=True, slots=True)
class AccountedStep:
    """One stretch of a device: what the books say, and the largest of what was read."""

    stretch: int
    entry: Entry
    peaks: Mapping[Signal, float]


class DayAccounting:
    """Books of some devices over a day. A stretch is read as one reading at its end."""

    def __init__(self, grid: Grid, settings: EntrySettings | None = None) -> None:
        """Nothing is booked yet."""
        self._grid = grid
        # A stretch accounts for itself alone: one that was not read stays unknown.
        base = settings or EntrySettings()
        self.settings = replace(base, gap_minimum_seconds=0.0, gap_intervals=1.0)
        self._books = EntryBuilder(self.settings)
        self._readings: dict[str, _Readings] = {}

    def draws(self, device: Device) -> PowerLevels:
        """The range of a device's draw, as the day has taught it."""
        known = PowerRange(self.settings.power)
        learned = self._books.learned_power(device.uuid)
        if learned is not None:
            known.restore(learned)
        return known.draws(device.power_limit_watts)

    def post(
        self,
        devices: Sequence[Device],
        read: Mapping[str, DeviceDay],
        known: Mapping[str, Sequence[float]],
        held: Mapping[str, Sequence[DeviceHolding]],
    ) -> Iterator[tuple[str, AccountedStep]]:
        """Every known stretch of every device, in the order of time.

        Args:
            devices: Those of a shard.
            read: What was read of each.
            known: Seconds of each stretch that were watched.
            held: Who held each, which tells the ranks of a job.
        """
        there = [device for device in devices if device.uuid in read]
        rows = {device.uuid: _Readings.of(read[device.uuid], self._grid) for device in there}
        for device in there:
            self._books.restore_power(device.uuid, rows[device.uuid].power())
        holders = {uuid: _by_stretch(runs, self._grid) for uuid, runs in held.items()}
        self._books.post(self._snapshot(there, self._grid.start, _first(there, self._grid), {}))
        for stretch in range(self._grid.count):
            end = self._grid.start + (stretch + 1) * self._grid.step
            readings = {
                uuid: row.at(stretch, uuid, end)
                for uuid, row in rows.items()
                if known[uuid][stretch] > 0.0
            }
            holdings = {uuid: found[stretch] for uuid, found in holders.items() if found[stretch]}
            for entry in self._books.post(self._snapshot(there, end, readings, holdings)):
                if entry.end == end and entry.uuid in readings:
                    yield entry.uuid, AccountedStep(stretch, entry, rows[entry.uuid].most(stretch))

    def _snapshot(
        self,
        devices: Sequence[Device],
        time: Nanoseconds,
        readings: Mapping[str, Reading],
        holdings: Mapping[str, tuple[Holding, ...]],
    ) -> Snapshot:
        return Snapshot(
            wall_time=time,
            time=time,
            interval=self._grid.step,
            devices=tuple(devices),
            readings=readings,
            holdings=holdings,
        )


@dataclass(frozen=True, slots=True)
class _Readings:
    """A device's day, ready to be read stretch by stretch."""

    means: tuple[tuple[Signal, array[float]], ...]
    peaks: tuple[tuple[Signal, array[float]], ...]
    masks: Sequence[int] | None
    energy: Sequence[float]
    """As a counter since the day began."""

    @classmethod
    def of(cls, read: DeviceDay, grid: Grid) -> _Readings:
        """The readings of a day."""
        return cls(
            tuple(read.means.items()),
            tuple(read.peaks.items()),
            _masks(read, grid),
            _energy(read, grid),
        )

    def at(self, stretch: int, uuid: str, time: Nanoseconds) -> Reading:
        """What one stretch came to, as one reading."""
        values = {
            signal: value for signal, column in self.means if (value := column[stretch]) == value
        }
        if self.masks is not None:
            values[Signal.CLOCK_EVENT_REASONS] = self.masks[stretch]
        if self.energy:
            values[Signal.ENERGY_JOULES] = self.energy[stretch]
        return Reading(uuid, time, values)

    def most(self, stretch: int) -> Mapping[Signal, float]:
        """The largest of each signal, never below its mean."""
        found = {
            signal: value for signal, column in self.means if (value := column[stretch]) == value
        }
        for signal, column in self.peaks:
            value = column[stretch]
            if value > found.get(signal, -math.inf):
                found[signal] = value
        return found

    def power(self) -> LearnedPower | None:
        """The range of the day's draws; they are known before the first stretch is judged."""
        named = dict(self.means), dict(self.peaks)
        drawn = [
            watts
            for columns in named
            for watts in columns.get(Signal.POWER_WATTS, ())
            if watts > 0.0
        ]
        return LearnedPower(min(drawn), max(drawn)) if drawn else None


def _first(devices: Sequence[Device], grid: Grid) -> Mapping[str, Reading]:
    """Where accounting begins: nothing but the counter of energy is known before."""
    return {
        device.uuid: Reading(device.uuid, grid.start, {Signal.ENERGY_JOULES: 0.0})
        for device in devices
    }


def _masks(read: DeviceDay, grid: Grid) -> list[int] | None:
    """Why the clocks were low in each stretch; `None` where nobody tells."""
    if read.reasons is None and not read.violations:
        return None
    masks = [0] * grid.count
    if read.reasons is not None:
        for stretch in range(grid.count):
            mask, share = read.reasons.at(stretch)
            masks[stretch] = mask if share > _RARE else 0
    for _, condition, bit in VIOLATIONS:
        for stretch, share in enumerate(read.violations.get(condition, ())):
            if share > _RARE:
                masks[stretch] |= int(bit)
    return masks


def _energy(read: DeviceDay, grid: Grid) -> list[float]:
    """A counter of energy since the day began; empty where nothing tells of it."""
    watts = read.means.get(Signal.POWER_WATTS)
    gained = read.energy_joules
    if gained is None:
        return []
    length = seconds(grid.step)
    steps = []
    for stretch in range(grid.count):
        counted = gained[stretch]
        drawn = math.nan if watts is None else watts[stretch] * length
        low, high = _TORN
        is_torn = math.isnan(counted) or counted < low * drawn or counted > high * drawn
        steps.append(drawn if is_torn and not math.isnan(drawn) else counted)
    return list(accumulate(0.0 if math.isnan(step) else step for step in steps))


def _by_stretch(runs: Sequence[DeviceHolding], grid: Grid) -> list[tuple[Holding, ...]]:
    found: list[tuple[Holding, ...]] = [()] * grid.count
    for run in runs:
        holding = Holding(run.workload, run.share_ratio)
        for stretch in range(run.first, run.last + 1):
            found[stretch] = (*found[stretch], holding)
    return found


class Peaks:
    """Of one device over a day."""

    def __init__(self, device: Device, books: DayAccounting) -> None:
        """Asks the books for the range of the device's draw when the first stretch is there."""
        self._device = device
        self._books = books
        self._draws: PowerLevels | None = None

    def of(self, booked: AccountedStep) -> Mapping[Measure, float]:
        """Upper bounds: utilization, power and clocks may peak at different moments."""
        if self._draws is None:
            self._draws = self._books.draws(self._device)
        entry, device, settings = booked.entry, self._device, self._books.settings
        were_dead = Signal.SM_ACTIVE in booked.peaks and Signal.SM_ACTIVE not in entry.signals
        signals = derive_signals(
            Reading(device.uuid, entry.end, booked.peaks),
            device,
            {},
            self._draws,
            settings.signals,
            counters_were_dead=were_dead,
        )
        most = usage(signals, device, settings.usage)
        return measures_of(signals, most.shares, most.compute_at_least)
