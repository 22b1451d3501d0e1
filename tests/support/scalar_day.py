"""A day's readings in the node agent's own accounting, one interval after the other."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec.structs import replace

from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.accounting.power import LearnedPower, PowerRange
from rightsizer.accounting.settings import EntrySettings
from rightsizer.accounting.signals import StateEvidence, clock_ratio, derive_signals, usage
from rightsizer.accounting.window_builder import entry_measures, measures_of
from rightsizer.fleet.cache.day_frame import ColumnKind, Floats
from rightsizer.fleet.cache.grid import Grid
from rightsizer.fleet.model import DeviceHolding
from rightsizer.fleet.sources.day_accounting import (
    VIOLATED,
    DeviceReadings,
    ThrottleReasons,
    WatchedDevices,
)
from rightsizer.model.block import Measure
from rightsizer.model.device import Device
from rightsizer.model.reading import Reading
from rightsizer.model.signal import MEDIA_ENGINES, Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import Condition, Resource, State, Tier
from rightsizer.model.units import seconds
from rightsizer.model.window import Entry
from rightsizer.model.workload import Holding

_TORN: Final = (0.8, 1.25)
"""Energy by the counter of that by power, outside of which the counter's series was torn when a
holder came or went: what it gained between two series belongs to neither."""
_RARE: Final = 0.02
"""Of an interval for which a reason held that explains nothing of it."""
_MEASURED: Final = {ColumnKind.MEAN, ColumnKind.PEAK, ColumnKind.ENERGY, ColumnKind.USED}
"""Columns that are unknown, not 0, where there is no reading."""
_ENERGY: Final = ColumnKind.ENERGY.column("joules")
_THROTTLES: Final = (
    Condition.POWER_THROTTLED,
    Condition.THERMAL_THROTTLED,
    Condition.HARDWARE_SLOWDOWN,
)
_TENSOR_SIGNALS: Final = frozenset({Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.FP32_ACTIVE})


def _reasons_at(reasons: ThrottleReasons, place: int) -> tuple[int, float]:
    """The mask that held at some time of an interval, and for how much of it."""
    most, least, mean = (each[place] for each in (reasons.highest, reasons.lowest, reasons.mean))
    if math.isnan(most) or math.isnan(mean):
        return 0, 0.0
    if math.isnan(least) or most <= least:
        return int(most), 1.0
    return int(most), min(1.0, max(0.0, (mean - least) / (most - least)))


@dataclass
class DeviceDay:
    """What was read of one device; `nan` where it was not."""

    means: dict[Signal, Sequence[float]]
    peaks: dict[Signal, Sequence[float]]
    energy_joules: Sequence[float] | None
    reasons: ThrottleReasons | None
    violations: dict[Condition, Sequence[float]]
    known_seconds: Sequence[float]
    holdings: Sequence[DeviceHolding]

    @classmethod
    def of(cls, read: DeviceReadings, row: int, watched: WatchedDevices) -> DeviceDay:
        """A row of columns."""

        def of_row(columns: Mapping[Any, Floats]) -> dict[Any, Any]:
            return {
                name: column[row].tolist()
                for name, column in columns.items()
                if not np.isnan(column[row]).all()
            }

        energy = of_row({0: np.broadcast_to(read.energy_joules, watched.known_seconds.shape)})
        reasons = None
        if not np.isnan(np.broadcast_to(read.reasons.mean, watched.known_seconds.shape)[row]).all():
            columns = (read.reasons.mean, read.reasons.highest, read.reasons.lowest)
            reasons = ThrottleReasons(*(column[row] for column in columns))
        return cls(
            of_row(read.means),
            of_row(read.peaks),
            energy.get(0),
            reasons,
            of_row(read.violations),
            watched.known_seconds[row].tolist(),
            watched.holdings[row],
        )

    def means_at(self, place: int) -> dict[Signal, float]:
        """The means of an interval that are known."""
        means = ((signal, column[place]) for signal, column in self.means.items())
        return {signal: value for signal, value in means if not math.isnan(value)}

    def most_at(self, place: int) -> dict[Signal, float]:
        """The largest of each signal in an interval, never below its mean."""
        found = self.means_at(place)
        for signal, column in self.peaks.items():
            if column[place] > found.get(signal, -math.inf):
                found[signal] = column[place]
        return found


AccountedInterval: TypeAlias = "tuple[str, int, Entry, Mapping[Measure, float], float]"
"""A device's uuid, an interval, what the accounts say of it, the peaks of its measures, and of its
media engines.

Peaks are upper bounds: utilization, power and clocks may peak at different moments.
"""


def accounted_intervals(
    grid: Grid, devices: Sequence[Device], days: Mapping[str, DeviceDay], settings: EntrySettings
) -> Iterator[AccountedInterval]:
    """Every known interval of some devices in the order of time, as one reading at its end."""
    # An interval accounts for itself alone: one that was not read stays unknown.
    settings = replace(settings, gap_minimum_seconds=0.0, gap_intervals=1.0)
    entries = EntryBuilder(settings)
    by_uuid = {device.uuid: device for device in devices}
    extra = {}
    holders = {}
    for uuid in by_uuid:
        entries.restore_power(uuid, _power(days[uuid]))
        extra[uuid] = _counters(days[uuid], grid)
        holders[uuid] = _by_place(days[uuid].holdings, grid)
    snapshot = partial(Snapshot, interval=grid.step, devices=tuple(devices))
    # Where accounting begins, nothing but the counter of energy is known before.
    zero = {Signal.ENERGY_JOULES: 0.0}
    begin = {uuid: Reading(uuid, grid.start, zero) for uuid in by_uuid}
    entries.post(snapshot(wall_time=grid.start, time=grid.start, readings=begin))

    @cache
    def idle_watts(uuid: str) -> float | None:
        power_range = PowerRange(settings.power)
        if (learned := entries.learned_power(uuid)) is not None:
            power_range.restore(learned)
        return power_range.idle_watts(by_uuid[uuid].power_limit_watts)

    for place in range(grid.count):
        end = grid.start + (place + 1) * grid.step
        readings = {}
        for uuid, columns in extra.items():
            if days[uuid].known_seconds[place] > 0.0:
                own = {signal: column[place] for signal, column in columns.items()}
                readings[uuid] = Reading(uuid, end, days[uuid].means_at(place) | own)
        holdings = {uuid: holder[place] for uuid, holder in holders.items() if holder[place]}
        for entry in entries.post(
            snapshot(wall_time=end, time=end, readings=readings, holdings=holdings)
        ):
            uuid = entry.uuid
            if entry.end == end and uuid in readings:
                reading = Reading(uuid, end, days[uuid].most_at(place))
                peaks = _peak_measures(reading, entry, by_uuid[uuid], idle_watts(uuid), settings)
                media = max(reading.values.get(engine, 0.0) for engine in MEDIA_ENGINES)
                yield uuid, place, entry, peaks, media


def _peak_measures(
    most: Reading, entry: Entry, device: Device, idle_watts: float | None, settings: EntrySettings
) -> Mapping[Measure, float]:
    were_dead = Signal.SM_ACTIVE in most.values and Signal.SM_ACTIVE not in entry.signals
    signals = derive_signals(
        most, device, {}, idle_watts, settings.signals, counters_were_dead=were_dead
    )
    evidence = StateEvidence(signals, clock_ratio=clock_ratio(signals, device))
    used = usage(evidence, device, settings.usage)
    return measures_of(signals, used.shares, used.compute_at_least)


def _power(day: DeviceDay) -> LearnedPower | None:
    """The range of the day's draws; they are known before the first interval is judged."""
    columns = (each.get(Signal.POWER_WATTS, ()) for each in (day.means, day.peaks))
    drawn = [watts for column in columns for watts in column if watts > 0.0]
    return LearnedPower(min(drawn), max(drawn)) if drawn else None


def _counters(day: DeviceDay, grid: Grid) -> dict[Signal, Sequence[float]]:
    """What is read beside the means, where it is exported, by interval."""
    counters: dict[Signal, Sequence[float]] = {}
    if day.reasons is not None or day.violations:
        masks = [0] * grid.count
        if day.reasons is not None:
            held = (_reasons_at(day.reasons, place) for place in range(grid.count))
            masks = [mask if share > _RARE else 0 for mask, share in held]
        for condition, bit in VIOLATED.items():
            for place, share in enumerate(day.violations.get(condition, ())):
                if share > _RARE:
                    masks[place] |= int(bit)
        counters[Signal.CLOCK_EVENT_REASONS] = masks
    if day.energy_joules is not None:
        counters[Signal.ENERGY_JOULES] = _energy(day, day.energy_joules, grid)
    return counters


def _energy(read: DeviceDay, gained: Sequence[float], grid: Grid) -> list[float]:
    """A counter of energy since the day began."""
    watts = read.means.get(Signal.POWER_WATTS)
    length, (low, high) = seconds(grid.step), _TORN
    steps = []
    for place in range(grid.count):
        counted = gained[place]
        drawn = math.nan if watts is None else watts[place] * length
        is_torn = math.isnan(counted) or counted < low * drawn or counted > high * drawn
        steps.append(drawn if is_torn and not math.isnan(drawn) else counted)
    return list(accumulate(0.0 if math.isnan(step) else step for step in steps))


def _by_place(runs: Sequence[DeviceHolding], grid: Grid) -> list[tuple[Holding, ...]]:
    holdingses: list[tuple[Holding, ...]] = [()] * grid.count
    for run in runs:
        holding = Holding(run.workload, run.share_ratio)
        for place in range(run.first, run.last + 1):
            holdingses[place] = (*holdingses[place], holding)
    return holdingses


def scalar_days(
    watched: WatchedDevices, read: DeviceReadings, settings: EntrySettings
) -> dict[str, dict[str, array[float]]]:
    """The columns of each device."""
    devices = watched.devices
    grid = watched.grid
    longest = max(settings.imbalance.window_seconds, 2.0 * seconds(grid.step))
    settings = replace(settings, imbalance=replace(settings.imbalance, window_seconds=longest))
    days = {device.uuid: DeviceDay.of(read, row, watched) for row, device in enumerate(devices)}
    found = {device.uuid: _blank_columns(device, days[device.uuid], grid) for device in devices}
    unknown = {uuid: set(range(grid.count)) for uuid in found}
    for uuid, place, entry, peaks, _ in accounted_intervals(grid, devices, days, settings):
        columns = found[uuid]
        if entry.energy_joules is not None:
            blanks = array("f", [math.nan]) * grid.count
            length = days[uuid].known_seconds[place]
            counted = entry.energy_joules * (length / seconds(grid.step))
            columns.setdefault(_ENERGY, blanks)[place] = counted
        if entry.state is State.UNKNOWN:
            continue
        unknown[uuid].remove(place)
        for kind, name, value in _amounts(entry, days[uuid], place, peaks, grid):
            column = kind.column(name)
            if column not in columns:
                if kind is ColumnKind.CONDITION:
                    continue  # Of one that is not visible nothing is said.
                blank = math.nan if kind in _MEASURED else 0.0
                columns[column] = array("f", [blank]) * grid.count
            columns[column][place] = value
    for uuid, columns in found.items():
        for name, values in columns.items():
            for place in unknown[uuid] if name != _ENERGY else ():
                values[place] = math.nan
        lengths = days[uuid].known_seconds
        there = (lengths[place] if place in unknown[uuid] else 0.0 for place in range(grid.count))
        columns[ColumnKind.STATE.column(State.UNKNOWN)] = array("f", there)
    return found


def _blank_columns(device: Device, read: DeviceDay, grid: Grid) -> dict[str, array[float]]:
    """Of states, and of the conditions that would show; whether others held is unknown."""
    conditions = set(read.violations)
    if read.reasons is not None:
        conditions |= set(_THROTTLES)
    if read.means.keys() >= _TENSOR_SIGNALS:
        conditions.add(Condition.NO_TENSOR_CORES)
    if read.holdings:
        conditions.add(Condition.RANK_IMBALANCE)
    names = [ColumnKind.STATE.column(state) for state in State if state is not State.UNKNOWN]
    if Signal.MEMORY_USED_BYTES in read.means and device.memory_total_bytes:
        conditions.add(Condition.NEAR_OUT_OF_MEMORY)
        names.append(ColumnKind.PRESSED.column(Resource.MEMORY))
    names += map(ColumnKind.CONDITION.column, sorted(conditions))
    return {name: array("f", [0.0]) * grid.count for name in names}


def _causes(
    entry: Entry, length: float, throttled: Mapping[Condition, float]
) -> Iterator[tuple[ColumnKind, str, float]]:
    """State, tier and conditions; the second cause, if it does not come from counters."""
    yield ColumnKind.STATE, entry.state, length
    yield ColumnKind.TIER, entry.tier, length
    if entry.second_cause is State.MEMORY_BANDWIDTH_BOUND and entry.tier is not Tier.PROFILING:
        yield ColumnKind.SECOND_CAUSE, entry.second_cause, length
    for condition in entry.conditions:
        yield ColumnKind.CONDITION, condition, length * throttled.get(condition, 1.0)


def _amounts(
    entry: Entry, read: DeviceDay, place: int, peaks: Mapping[Measure, float], grid: Grid
) -> Iterator[tuple[ColumnKind, str, float]]:
    """Kind, name and value of all that is known of an interval."""
    length = read.known_seconds[place]
    yield from _causes(entry, length, _throttled(read, place))
    for resource in entry.shares:
        yield ColumnKind.SATURATED, resource, length if resource in entry.saturated else 0.0
    for resource in entry.pressed:
        yield ColumnKind.PRESSED, resource, length
    joules = None
    if entry.energy_joules is not None:
        joules = entry.energy_joules * (length / seconds(grid.step))
    if entry.used_ratio is not None:
        yield ColumnKind.USED, "seconds", entry.used_ratio * length
        for cause, ratio in entry.waste.items():
            yield ColumnKind.WASTE, cause, ratio * length
        if joules is not None:
            yield ColumnKind.USED, "joules", entry.used_ratio * joules
            for cause, ratio in entry.waste.items():
                yield ColumnKind.WASTE_JOULES, cause, ratio * joules
    for measure, value in entry_measures(entry).items():
        yield ColumnKind.MEAN, measure, value
        yield ColumnKind.PEAK, measure, max(value, peaks.get(measure, value))


def _throttled(read: DeviceDay, place: int) -> Mapping[Condition, float]:
    """For how much of an interval the clocks were held down, where that is known."""
    parts = ((condition, column[place]) for condition, column in read.violations.items())
    found = {condition: min(1.0, part) for condition, part in parts if part >= 0.0}
    return (
        found
        if read.reasons is None
        else (dict.fromkeys(_THROTTLES, _reasons_at(read.reasons, place)[1]) | found)
    )
