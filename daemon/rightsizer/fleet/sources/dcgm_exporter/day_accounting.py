"""Accounting of a day's readings of many devices, as in the node agent."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from rightsizer.accounting.power import EnergyMeter, LearnedPower, PowerRange
from rightsizer.accounting.settings import EntrySettings
from rightsizer.accounting.signals import power_ratio as power_share
from rightsizer.fleet.cache.day_frame import (
    DARK_ENERGY,
    UNKNOWN_STATE,
    ColumnKind,
    DayFrame,
    Floats,
    frames_of,
    zero_where_unknown,
)
from rightsizer.fleet.cache.grid import Grid
from rightsizer.fleet.cache.measures import bins_of, histogram_of
from rightsizer.fleet.model import DeviceHolding
from rightsizer.fleet.sources.dcgm_exporter.readings import VIOLATIONS, DeviceReadings
from rightsizer.fleet.sources.dcgm_exporter.signal_columns import (
    COUNTERS,
    DeviceFacts,
    SignalColumns,
    UseColumns,
    clock_ratio,
    dead_counters,
    derived,
    drop,
    power_ratio,
    saturated,
    uses,
)
from rightsizer.fleet.sources.dcgm_exporter.state_columns import (
    HolderColumns,
    StateColumns,
    classified,
    conditions_of,
    is_empty,
    pressed,
)
from rightsizer.model.device import Device
from rightsizer.model.histogram import BINS, Histogram
from rightsizer.model.signal import MEDIA_ENGINES, Signal
from rightsizer.model.state import THROTTLES, Cause, Condition, Resource, State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, seconds

_TORN: Final = (0.75, 1.25)
"""Ratio of energy by counter to energy by power, outside of which the counter's series was split
when a holder came or went. Samples two minutes apart give 0.8 and 1.2 in turn."""
_RARE: Final = 0.02
"""Share of an interval below which a throttle reason explains nothing."""
_TENSOR_SIGNALS: Final = (Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.FP32_ACTIVE)
_CAUSES: Final = {
    State.IDLE_EMPTY: Cause.IDLE,
    State.IDLE_HELD: Cause.IDLE,
    State.HIDDEN_STALL: Cause.STALLED,
    State.PCIE_BOUND: Cause.PCIE,
    State.LAUNCH_BOUND: Cause.LAUNCH,
}
"""States with a cause of their own; for others it is throttling, then headroom."""


class WatchedDevices(Struct, frozen=True):
    """Devices on the days of a grid, their holders, and how much of each interval is known."""

    devices: Sequence[Device]
    holdings: Sequence[Sequence[DeviceHolding]]
    known_seconds: Floats
    """By device and interval."""
    grid: Grid


def accounted_days(
    watched: WatchedDevices, read: DeviceReadings, settings: EntrySettings
) -> Iterator[DayFrame]:
    """Yield the frame of each device, from its readings, with the agent's accounting.

    An interval is one reading at its end, and accounts only for itself: one without a reading
    stays unknown. Peaks are upper bounds: utilization, power and clocks may peak at different
    moments.
    """
    grid = watched.grid
    length = watched.known_seconds
    facts = DeviceFacts(watched.devices)
    is_read = length > 0.0
    never = np.zeros_like(length, bool)
    holders = HolderColumns(watched.devices, watched.holdings, grid)
    signals, upper = _signals(watched, read, facts, settings)
    clock = clock_ratio(signals, facts)
    states = classified(signals, facts, clock, holders, settings.classify)
    columns = _Columns(states.is_known, length)
    for state in (each for each in State if each is not State.UNKNOWN):
        columns.add_seconds(ColumnKind.STATE, state, states.states.get(state, never), ~never)
    # Where nothing tells its state, a GPU is there all the same.
    columns.found[UNKNOWN_STATE] = np.where(is_read & ~states.is_known, length, np.nan)
    for tier, is_at in _tiers(signals).items():
        columns.add_seconds(ColumnKind.TIER, tier, is_at, is_at)
    held = conditions_of(signals, _masks(read, never), clock, holders, settings.conditions)
    held[Condition.RANK_IMBALANCE] = holders.out_of_balance(
        signals, states.is_known, grid, settings.imbalance
    )
    for condition, rows in _visible(read, watched, facts).items():
        if condition in held:
            part = _throttled(read, condition) if condition in THROTTLES else 1.0
            columns.add(ColumnKind.CONDITION, condition, held[condition] * part * length, rows)
    use = uses(signals, facts, settings.usage)
    is_full = held[Condition.NEAR_OUT_OF_MEMORY]
    _add_limits(columns, use, signals, is_full, is_read, grid, settings)
    drawn = _energy(signals, read, watched, settings) * (length / seconds(grid.step))
    columns.add(ColumnKind.ENERGY, "joules", drawn)
    is_dark = is_read & ~states.is_known & (drawn > 0.0)
    if is_dark.any():
        columns.found[DARK_ENERGY] = np.where(is_dark, drawn, np.nan).astype(np.float32)
    columns.add(ColumnKind.USED, "seconds", use.used_ratio * length)
    columns.add(ColumnKind.USED, "joules", use.used_ratio * drawn)
    throttles = np.any([held[each] for each in THROTTLES if each in held], axis=0)
    busy = signals[Signal.GPU_BUSY]
    for cause, ratio in _waste(states, use.used_ratio, throttles, clock, busy).items():
        for kind, amount in ((ColumnKind.WASTE, length), (ColumnKind.WASTE_JOULES, drawn)):
            taken = zero_where_unknown(ratio * amount)
            columns.add(kind, cause, taken, np.asarray((taken > 0).any(axis=1)))
    largest = uses(upper, facts, settings.usage).measures(upper)
    for measure, values in use.measures(signals).items():
        columns.add(ColumnKind.MEAN, measure, values)
        peaks = np.where(np.isnan(values), np.nan, np.fmax(values, largest[measure]))
        columns.add(ColumnKind.PEAK, measure, peaks)
    engines = zero_where_unknown(upper.highest(*MEDIA_ENGINES))
    demands = [*map(_media, engines, np.where(states.is_known, length, 0.0))]
    return frames_of(grid, columns.found, demands)


def _signals(
    watched: WatchedDevices, read: DeviceReadings, facts: DeviceFacts, settings: EntrySettings
) -> tuple[SignalColumns, SignalColumns]:
    is_read = watched.known_seconds > 0.0
    never = np.zeros_like(watched.known_seconds, bool)
    means = {signal: np.where(is_read, each, np.nan) for signal, each in read.means.items()}
    most = means | {
        signal: np.where(is_read, np.fmax(each, means.get(signal, each)), np.nan)
        for signal, each in read.peaks.items()
    }
    signals, upper = (derived(each, facts, is_read.shape) for each in (means, most))
    rests = is_empty(signals, facts, settings.classify)
    idle, first_idle = _idle_watts(signals, read, watched, rests, settings)
    for found, watts in ((signals, idle), (upper, first_idle)):
        draws = found[Signal.POWER_WATTS]
        found[Signal.POWER] = power_ratio(draws, watts, facts)
    drop(signals, dead_counters(signals, settings.signals, is_read, never), facts)
    were_dead = ~np.isnan(upper[Signal.SM_ACTIVE]) & np.isnan(signals[Signal.SM_ACTIVE])
    drop(upper, dead_counters(upper, settings.signals, never, were_dead), facts)
    return signals, upper


def _add_limits(  # noqa: PLR0913, PLR0917 - all inputs.
    columns: _Columns,
    use: UseColumns,
    signals: SignalColumns,
    is_full: Floats,
    is_read: Floats,
    grid: Grid,
    settings: EntrySettings,
) -> None:
    """Add seconds at the limit of each resource, and those under pressure."""
    at_limit = saturated(use, settings.usage)
    for resource, is_limited in at_limit.items():
        is_measured = ~np.isnan(use.shares[resource])
        columns.add_seconds(ColumnKind.SATURATED, resource, is_limited & is_measured, is_measured)
    short = pressed(signals, at_limit, is_read, grid, settings.pressure)
    short[Resource.MEMORY] |= is_full
    is_measured = ~np.isnan(signals[Signal.MEMORY_USED])
    for resource, is_short in short.items():
        told = is_short | is_measured if resource is Resource.MEMORY else is_short
        columns.add_seconds(ColumnKind.PRESSED, resource, is_short, told)


class _Columns:
    """Columns of known values, by name; `nan` where a device's state is unknown."""

    def __init__(self, is_known: Floats, length: Floats) -> None:
        self._is_known = is_known
        self._length = length
        self.found: dict[str, Floats] = {}

    def add(self, kind: ColumnKind, name: str, values: Floats, rows: Floats | None = None) -> None:
        there = self._is_known if rows is None else self._is_known & rows[:, None]
        with np.errstate(over="ignore"):  # As in frames, whose precision this is.
            self.found[kind.column(name)] = np.where(there, values, np.nan).astype(np.float32)

    def add_seconds(self, kind: ColumnKind, name: str, is_there: Floats, told: Floats) -> None:
        """Add a condition for all of the known time, for devices that ever report it."""
        rows = np.asarray((told & self._is_known).any(axis=1))
        self.add(kind, name, np.where(is_there, self._length, 0.0), rows)


def _idle_watts(
    signals: SignalColumns,
    read: DeviceReadings,
    watched: WatchedDevices,
    rests: Floats,
    settings: EntrySettings,
) -> tuple[Floats, Floats]:
    """Return idle draws by interval, and those after the first known one."""
    rows, count = rests.shape
    found = np.full((rows, count + 1), np.nan)
    columns = (each.get(Signal.POWER_WATTS) for each in (read.means, read.peaks))
    drawn = np.concatenate([each for each in columns if each is not None] or [rests[:, :0]], axis=1)
    watts = signals[Signal.POWER_WATTS]
    limit = settings.classify.idle_power_ratio
    for row, device in enumerate(watched.devices):
        seen = drawn[row][drawn[row] > 0.0]
        if not len(seen):
            continue
        learned = LearnedPower(float(seen.min()), float(seen.max()))
        known = PowerRange(settings.power)
        since = 0
        known.restore(learned)
        idle = known.idle_watts(device.power_limit_watts)
        for place in np.flatnonzero(rests[row] & ~np.isnan(watts[row])).tolist():
            draw = float(watts[row, place])
            share = power_share(draw, device.power_limit_watts, idle)
            if share is None or share < limit:
                known.account(draw, State.IDLE_EMPTY, watched.grid.step)
                found[row, since : place + 1] = idle
                since = place + 1
                idle = known.idle_watts(device.power_limit_watts)
        found[row, since:] = idle
    first = np.argmax(watched.known_seconds > 0.0, axis=1) + 1
    return found[:, :-1], found[np.arange(rows), first][:, None]


def _energy(
    signals: SignalColumns, read: DeviceReadings, watched: WatchedDevices, settings: EntrySettings
) -> Floats:
    """Return the energy of each interval, by the counter where it is plausible."""
    length, (low, high) = seconds(watched.grid.step), _TORN
    drawn = signals[Signal.POWER_WATTS] * length
    if read.part_watts is not None:
        drawn = np.where(np.isnan(drawn), read.part_watts * length, drawn)
    if read.energy_joules is None:
        return drawn
    counted = read.energy_joules
    expected = read.means.get(Signal.POWER_WATTS, np.full_like(counted, np.nan)) * length
    is_torn = np.isnan(counted) | (counted < low * expected) | (counted > high * expected)
    moved = zero_where_unknown(np.where(is_torn & ~np.isnan(expected), expected, counted))
    is_read = watched.known_seconds > 0.0
    follows = np.pad(is_read, ((0, 0), (1, 0)), constant_values=True)[:, :-1]
    # The increase of a counter across a gap is unknown.
    found = np.where(follows, moved, drawn)
    limits = np.array([[each.power_limit_watts or np.inf] for each in watched.devices])
    most = settings.energy.plausible_limit_ratio * length * limits
    # Also where a counter stands still across a gap: what it then jumps by is of the gap, too.
    is_odd = is_read & ((moved == 0.0) | (follows & (moved > most)))
    for row in np.flatnonzero(is_odd.any(axis=1)).tolist():
        meter = EnergyMeter(settings.energy)
        counter = 0.0
        meter.restart(counter)
        for place in range(watched.grid.count):
            counter += float(moved[row, place])
            if not is_read[row, place]:
                meter.interrupt()
                continue
            watts = float(drawn[row, place]) / length
            told = None if math.isnan(watts) else watts
            limit = watched.devices[row].power_limit_watts
            measured = meter.measure(watched.grid.step, told, counter, limit)
            found[row, place] = math.nan if measured is None else measured.joules
    return found


def _tiers(signals: SignalColumns) -> dict[Tier, Floats]:
    has_counters = ~np.isnan(signals.highest(*COUNTERS))
    is_busy_known = ~np.isnan(signals[Signal.GPU_BUSY]) & ~has_counters
    has_power = ~np.isnan(signals[Signal.POWER])
    return {
        Tier.PROFILING: has_counters,
        Tier.POWER: is_busy_known & has_power,
        Tier.BASIC: is_busy_known & ~has_power,
    }


def _masks(read: DeviceReadings, never: Floats) -> Floats:
    found = never.astype(int)
    if read.reasons is not None:
        found |= np.where(read.reasons.shares > _RARE, read.reasons.masks, 0).astype(int)
    for _, condition, bit in VIOLATIONS:
        if condition in read.violations:
            found |= np.where(read.violations[condition] > _RARE, int(bit), 0)
    return found


def _throttled(read: DeviceReadings, condition: Condition) -> Floats | float:
    """Return the share of each interval with reduced clocks, if known."""
    shares = 1.0 if read.reasons is None else read.reasons.shares
    told = read.violations.get(condition)
    return shares if told is None else np.where(told >= 0.0, np.minimum(1.0, told), shares)


def _visible(
    read: DeviceReadings, watched: WatchedDevices, facts: DeviceFacts
) -> dict[Condition, Floats]:
    """Return the devices for which each condition is observable; others are not reported."""
    nothing = np.full_like(watched.known_seconds, np.nan)

    def told(column: Floats | None) -> Floats:
        return np.asarray(~np.isnan(nothing if column is None else column).all(axis=1))

    reasons = told(None if read.reasons is None else read.reasons.mean)
    found = {each: reasons | told(read.violations.get(each)) for each in sorted(THROTTLES)}
    tensor = [told(read.means.get(signal)) for signal in _TENSOR_SIGNALS]
    found[Condition.NO_TENSOR_CORES] = np.all(tensor, axis=0)
    found[Condition.RANK_IMBALANCE] = np.array([bool(held) for held in watched.holdings])
    memory = told(read.means.get(Signal.MEMORY_USED_BYTES))
    found[Condition.NEAR_OUT_OF_MEMORY] = memory & ~np.isnan(facts.memory_total_bytes[:, 0])
    return found


def _waste(
    states: StateColumns, used: Floats, is_throttled: Floats, clock: Floats, busy: Floats
) -> dict[Cause, Floats]:
    unused = np.maximum(0.0, 1.0 - used)
    found = defaultdict[Cause, Floats](lambda: np.zeros(()))
    rest = states.is_known
    without_kernel = np.fmin(unused, 1.0 - busy)
    for state, cause in _CAUSES.items():
        lost = without_kernel if cause is Cause.LAUNCH else unused
        found[cause] = found[cause] + np.where(states.states[state], lost, 0.0)
        if cause is not Cause.LAUNCH:
            rest = rest & ~states.states[state]
    throttled = np.where(rest & is_throttled, np.minimum(unused, 1.0 - clock), 0.0)
    found[Cause.THROTTLED] = np.where(states.states[State.LAUNCH_BOUND], 0.0, throttled)
    spent = found[Cause.THROTTLED] + found[Cause.LAUNCH]
    found[Cause.HEADROOM] = np.where(rest, unused - spent, 0.0)
    return found


def _media(engines: Floats, known_seconds: Floats) -> dict[Resource, Histogram]:
    """Return the usage of media engines; nothing if they were idle throughout."""
    if not engines.any():
        return {}
    times = np.rint(known_seconds * NANOSECONDS_PER_SECOND)
    return {Resource.MEDIA: histogram_of(np.bincount(bins_of(engines), times, BINS))}
