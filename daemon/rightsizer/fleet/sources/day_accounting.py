"""Accounting of a day's readings of many devices, as in the node agent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Final

import numpy as np
from msgspec import Struct

from rightsizer.accounting.classification_settings import SignalSettings
from rightsizer.accounting.definitions import (
    ACTIVE,
    CONDITIONS,
    COUNTERS,
    DEAD_COUNTERS,
    HELD,
    LOOKS_STALLED,
    MEMORY_SHORT,
    RATIOS,
    SATURATED,
    SEES_COMPUTE,
    SM_WORK,
    SUSPECTED,
    USED,
    USED_RATIO,
    USERS_WAIT,
)
from rightsizer.accounting.expressions import Name, Term
from rightsizer.accounting.power import EnergyMeter, LearnedPower, PowerRange
from rightsizer.accounting.settings import EntrySettings, PressureSettings
from rightsizer.accounting.signals import power_ratio
from rightsizer.fleet.cache.day_frame import (
    UNKNOWN_STATE,
    ColumnKind,
    DayFrame,
    Floats,
    frames_of,
    zero_where_unknown,
)
from rightsizer.fleet.cache.grid import Grid
from rightsizer.fleet.columns.distributions import bins_of, histogram_of
from rightsizer.fleet.model import DeviceHolding
from rightsizer.fleet.sources.column_interpreter import (
    ColumnInterpreter,
    facts_of,
    states_of,
    tiers_of,
    waste_of,
)
from rightsizer.fleet.sources.holder_columns import HolderColumns
from rightsizer.model.values import (
    BINS,
    NANOSECONDS_PER_SECOND,
    THROTTLES,
    ClockEvent,
    Condition,
    Device,
    Histogram,
    Measure,
    Resource,
    Signal,
    State,
    nanoseconds,
    seconds,
)

_TORN: Final = (0.75, 1.25)
"""Ratio of energy by counter to energy by power, outside of which the counter's series was split
when a holder came or went. Samples two minutes apart give 0.8 and 1.2 in turn."""
_RARE: Final = 0.02
"""Share of an interval below which a throttle reason explains nothing."""
_TENSOR_SIGNALS: Final = (Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.FP32_ACTIVE)
_JOULES: Final = ColumnKind.ENERGY.column("joules")
_MEASURES: Final[Mapping[Measure, Term]] = {
    Measure.BUSY: Name(Signal.GPU_BUSY),
    Measure.MEMORY_BYTES: Name(Signal.MEMORY_USED_BYTES),
    Measure.COMPUTE_AT_LEAST: Name("compute_at_least"),
    **{Measure(resource): term for resource, term in USED if resource.value in {*Measure}},
}
_EMPTY: Final = SEES_COMPUTE & ~ACTIVE & ~HELD
"""Nothing runs and nothing is held, as far as visible without power."""


_UNKNOWN: Final = np.full((1, 1), np.nan)
VIOLATED: Final = {
    Condition.POWER_THROTTLED: ClockEvent.SW_POWER_CAP,
    Condition.THERMAL_THROTTLED: ClockEvent.SW_THERMAL_SLOWDOWN,
}
"""By condition, the reason for low clocks whose time is counted."""


class ThrottleReasons(Struct, frozen=True):
    """Reasons for low clocks, by interval: masks of `ClockEvent`."""

    mean: Floats = _UNKNOWN
    highest: Floats = _UNKNOWN
    lowest: Floats = _UNKNOWN

    @property
    def masks(self) -> Floats:
        """Masks that were active at some time of each interval."""
        return np.where(np.isnan(self.highest) | np.isnan(self.mean), 0, self.highest)

    @property
    def shares(self) -> Floats:
        """Share of each interval in which its mask was active.

        If a mask alternates between two values, as in practice, the mean gives the share of each
        exactly.
        """
        width = np.where(self.highest > self.lowest, self.highest - self.lowest, np.nan)
        share = np.clip((self.mean - self.lowest) / width, 0.0, 1.0)
        is_unknown = np.isnan(self.highest) | np.isnan(self.mean)
        return np.where(is_unknown, 0.0, np.where(np.isnan(share), 1.0, share))


class DeviceReadings(Struct):
    """Readings of some devices, a row each; `nan` if missing."""

    means: dict[Signal, Floats] = {}
    peaks: dict[Signal, Floats] = {}
    energy_joules: Floats = _UNKNOWN
    """By interval."""
    reasons: ThrottleReasons = ThrottleReasons()
    violations: dict[Condition, Floats] = {}
    """Share of each interval in which a limit reduced the clocks."""
    part_watts: Floats = _UNKNOWN
    """What instances have of the power of their GPU, for energy alone."""

    @property
    def is_read(self) -> Floats:
        """Devices with any reading."""
        others = self.energy_joules, self.reasons.mean
        columns = *self.means.values(), *self.peaks.values(), *self.violations.values(), *others
        return reduce(np.logical_or, map(_are_known, columns))


def _are_known(column: Floats) -> Floats:
    """Return the devices with any known value."""
    return np.asarray(~np.isnan(column).all(axis=1))


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
    is_read = length > 0.0
    holders = HolderColumns(watched.devices, watched.holdings, grid)
    signals, upper = _signals(watched, read, settings)
    judged = ColumnInterpreter(signals, settings.classify)
    peers = holders.stalled_peers(np.broadcast_to(judged.holds(LOOKS_STALLED), length.shape))
    states = states_of(
        ColumnInterpreter({**signals, "peer_stalls": peers}, settings.classify), length.shape
    )
    is_known: Floats = np.any(list(states.values()), axis=0)
    columns = _Columns(is_known, length, grid)
    for state, is_in in states.items():
        columns.add_seconds(ColumnKind.STATE, state, is_in, is_known)
    # Where nothing tells its state, a GPU is there all the same.
    columns.found[UNKNOWN_STATE] = np.where(is_read & ~is_known, length, np.nan)
    for row in SUSPECTED:
        is_suspected = states[State.PRODUCTIVE] & judged.holds(row.claim)
        columns.add_seconds(ColumnKind.SECOND_CAUSE, row.state, is_suspected, is_suspected)
    around = signals | {
        "clock_event_reasons": _masks(read, length.shape),
        "is_preallocated": holders.is_preallocated,
        "is_out_of_balance": holders.out_of_balance(judged, is_known, grid, settings.imbalance),
    }
    conditions = ColumnInterpreter(around, settings.conditions)
    held = {condition: conditions.holds(claim) for condition, claim in CONDITIONS}
    for condition, rows in _visible(read, watched, signals).items():
        part = _throttled(read, condition) if condition in THROTTLES else 1.0
        columns.add(ColumnKind.CONDITION, condition, held[condition] * part * length, rows)
    use = ColumnInterpreter(signals, settings.usage)
    is_full = held[Condition.NEAR_OUT_OF_MEMORY]
    _add_limits(columns, use, signals, is_full, is_read, settings)
    drawn = _energy(signals, read, watched, settings) * (length / seconds(grid.step))
    columns.found[_JOULES] = np.where(is_read, drawn, np.nan)
    used_ratio = use.term(USED_RATIO)
    columns.add(ColumnKind.USED, "seconds", used_ratio * length)
    columns.add(ColumnKind.USED, "joules", used_ratio * drawn)
    throttles = np.any([held[throttle] for throttle in THROTTLES], axis=0)
    lost = ColumnInterpreter({**signals, "is_throttled": throttles}, None)
    for cause, ratio in waste_of(lost, states, used_ratio).items():
        for kind, amount in ((ColumnKind.WASTE, length), (ColumnKind.WASTE_JOULES, drawn)):
            taken = zero_where_unknown(ratio * amount)
            columns.add(kind, cause, taken, np.asarray((taken > 0).any(axis=1)))
    interpreter = ColumnInterpreter(upper, settings.usage)
    _add_measures(columns, judged, use, interpreter)
    engines = np.broadcast_to(zero_where_unknown(interpreter.term("media")), length.shape)
    demands = [*map(_media, engines, np.where(is_known, length, 0.0))]
    return frames_of(grid.by(grid.step), columns.found, demands)


def _add_measures(
    columns: _Columns,
    judged: ColumnInterpreter,
    use: ColumnInterpreter,
    peak_use: ColumnInterpreter,
) -> None:
    """Add seconds by tier of telemetry, and means and peaks of the measures."""
    for tier, is_at in tiers_of(judged):
        columns.add_seconds(ColumnKind.TIER, tier, is_at, is_at)
    for measure, term in _MEASURES.items():
        values = use.term(term)
        columns.add(ColumnKind.MEAN, measure, values)
        peaks = np.where(np.isnan(values), np.nan, np.fmax(values, peak_use.term(term)))
        columns.add(ColumnKind.PEAK, measure, peaks)


def _signals(
    watched: WatchedDevices, read: DeviceReadings, settings: EntrySettings
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the mean and the most of each signal and fact by name."""
    is_read = watched.known_seconds > 0.0
    means = {signal: np.where(is_read, mean, np.nan) for signal, mean in read.means.items()}
    signals = facts_of(watched.devices) | means
    upper = signals | {
        signal: np.where(is_read, np.fmax(peak, means.get(signal, peak)), np.nan)
        for signal, peak in read.peaks.items()
    }
    rests = ColumnInterpreter(_with_ratios(signals), settings.classify).holds(_EMPTY)
    rests = np.broadcast_to(rests, is_read.shape)
    signals["idle_watts"], upper["idle_watts"] = _idle_watts(
        read, signals, watched, rests, settings
    )
    signals = _with_ratios(signals)
    upper = _with_ratios(upper)
    had_counters = ColumnInterpreter(upper, None).term(Signal.SM_ACTIVE)
    never = np.zeros_like(is_read)
    signals = _without_dead_counters(signals, settings.signals, is_read, never)
    has_counters = ColumnInterpreter(signals, None).term(Signal.SM_ACTIVE)
    were_dead = ~np.isnan(had_counters) & np.isnan(has_counters)
    upper = _without_dead_counters(upper, settings.signals, never, were_dead)
    return signals, upper


def _with_ratios(signals: Mapping[str, Floats]) -> dict[str, Floats]:
    over = ColumnInterpreter(signals, None)
    return {**signals, **{signal: over.term(term) for signal, term in RATIOS}}


def _without_dead_counters(
    signals: Mapping[str, Floats], settings: SignalSettings, is_read: Floats, were_dead: Floats
) -> dict[str, Floats]:
    """Drop profiling counters that read 0 though the device works; they stay so until one changes.

    `were_dead` marks counters known to be dead before.
    """
    over = ColumnInterpreter(signals, settings)
    is_at_rest = over.term("counters") == 0.0
    dead = is_at_rest & (were_dead | over.holds(DEAD_COUNTERS))
    if dead.any():
        last = np.zeros(len(dead), bool)
        for place in range(dead.shape[1]):
            dead[:, place] |= is_at_rest[:, place] & last
            last = np.where(is_read[:, place], dead[:, place], last)
        live = (name for name in COUNTERS if name in signals)
        signals = {**signals, **{name: np.where(dead, np.nan, signals[name]) for name in live}}
    return {**signals, Signal.SM_WORK: ColumnInterpreter(signals, None).term(SM_WORK)}


def _add_limits(  # noqa: PLR0913, PLR0917 - all inputs.
    columns: _Columns,
    use: ColumnInterpreter,
    signals: Mapping[str, Floats],
    is_full: Floats,
    is_read: Floats,
    settings: EntrySettings,
) -> None:
    """Add seconds at the limit of each resource, and those under pressure."""
    preempted = _preempted(signals, is_read, columns.grid, settings.pressure)
    names = {**signals, "has_preempted": preempted, "is_near_out_of_memory": is_full}
    pressure = ColumnInterpreter(names, settings.pressure)
    shares = dict(USED)
    for resource, claim in SATURATED:
        is_limited = use.holds(claim)
        is_measured = ~np.isnan(use.term(shares[resource]))
        columns.add_seconds(ColumnKind.SATURATED, resource, is_limited & is_measured, is_measured)
        if resource is Resource.MEMORY:
            is_short = pressure.holds(MEMORY_SHORT)
            is_reported = is_short | is_measured
        else:
            is_reported = is_short = is_limited & pressure.holds(USERS_WAIT)
        columns.add_seconds(ColumnKind.PRESSED, resource, is_short, is_reported)


def _preempted(
    signals: Mapping[str, Floats], is_read: Floats, grid: Grid, settings: PressureSettings
) -> Floats:
    """Return where requests were preempted within the last while."""
    has_preempted = np.zeros_like(is_read)
    if Signal.PREEMPTIONS not in signals:
        return has_preempted
    counted = np.where(is_read, signals[Signal.PREEMPTIONS], np.nan)
    before = np.fmax.accumulate(counted, axis=1)
    grown = counted[:, 1:] > before[:, :-1]
    for later in range(nanoseconds(settings.preemption_hold_seconds) // grid.step + 1):
        has_preempted[:, 1 + later :] |= grown[:, : grown.shape[1] - later]
    return has_preempted


class _Columns(Struct):
    """Columns of known values, by name; `nan` where a device's state is unknown."""

    is_known: Floats
    length: Floats
    grid: Grid
    found: dict[str, Floats] = {}

    def add(self, kind: ColumnKind, name: str, values: Floats, rows: Floats | None = None) -> None:
        there = self.is_known if rows is None else self.is_known & rows[:, None]
        with np.errstate(over="ignore"):  # As in frames, whose precision this is.
            self.found[kind.column(name)] = np.where(there, values, np.nan).astype(np.float32)

    def add_seconds(
        self, kind: ColumnKind, name: str, is_there: Floats, is_reported: Floats
    ) -> None:
        """Add a condition for all of the known time, for devices that ever report it."""
        rows = np.asarray((is_reported & self.is_known).any(axis=1))
        self.add(kind, name, np.where(is_there, self.length, 0.0), rows)


def _idle_watts(
    read: DeviceReadings,
    signals: Mapping[str, Floats],
    watched: WatchedDevices,
    rests: Floats,
    settings: EntrySettings,
) -> tuple[Floats, Floats]:
    """Return idle draws by interval, and those after the first known one."""
    rows, count = rests.shape
    idle_watts = np.full((rows, count + 1), np.nan)
    columns = (values.get(Signal.POWER_WATTS, rests[:, :0]) for values in (read.means, read.peaks))
    drawn = np.concatenate([*columns], axis=1)
    lowest = np.min(drawn, axis=1, initial=np.inf, where=drawn > 0.0)
    highest = np.max(drawn, axis=1, initial=0.0, where=drawn > 0.0)
    watts = signals.get(Signal.POWER_WATTS, np.full(rests.shape, np.nan))
    limit = settings.classify.idle_power_ratio
    for row in np.flatnonzero(highest).tolist():
        device = watched.devices[row]
        power_range = PowerRange(settings.power)
        power_range.restore(LearnedPower(float(lowest[row]), float(highest[row])))
        since = 0
        idle = power_range.idle_watts(device.power_limit_watts)
        rested = -math.inf  # Whatever draws no more rests as well, until the idle power changes.
        draws = watts[row].tolist()
        for place in np.flatnonzero(rests[row] & ~np.isnan(watts[row])).tolist():
            draw = draws[place]
            if draw > rested:
                share = power_ratio(draw, device.power_limit_watts, idle)
                if share is not None and share >= limit:
                    continue
                rested = draw
            power_range.account(draw, State.IDLE_EMPTY, watched.grid.step)
            learned = power_range.idle_watts(device.power_limit_watts)
            if learned != idle:
                idle_watts[row, since : place + 1] = idle
                since = place + 1
                idle = learned
                rested = -math.inf
        idle_watts[row, since:] = idle
    first = np.argmax(watched.known_seconds > 0.0, axis=1) + 1
    return idle_watts[:, :-1], idle_watts[np.arange(rows), first][:, None]


def _energy(
    signals: Mapping[str, Floats],
    read: DeviceReadings,
    watched: WatchedDevices,
    settings: EntrySettings,
) -> Floats:
    """Return the energy of each interval, by the counter where it is plausible."""
    length = seconds(watched.grid.step)
    low, high = _TORN
    counted = read.energy_joules
    watts = np.broadcast_to(signals.get(Signal.POWER_WATTS, _UNKNOWN), watched.known_seconds.shape)
    drawn = np.where(np.isnan(watts), read.part_watts, watts) * length
    if np.isnan(counted).all():
        return drawn
    expected = read.means.get(Signal.POWER_WATTS, _UNKNOWN) * length
    is_torn = np.isnan(counted) | (counted < low * expected) | (counted > high * expected)
    moved = zero_where_unknown(np.where(is_torn & ~np.isnan(expected), expected, counted))
    is_read = watched.known_seconds > 0.0
    follows = np.pad(is_read, ((0, 0), (1, 0)), constant_values=True)[:, :-1]
    # The increase of a counter across a gap is unknown.
    joules = np.where(follows, moved, drawn)
    limits = np.array([[device.power_limit_watts or np.inf] for device in watched.devices])
    plausible_joules = settings.energy.plausible_limit_ratio * length * limits
    # Also where a counter stands still across a gap: what it then jumps by is of the gap, too.
    is_odd = is_read & ((moved == 0.0) | (follows & (moved > plausible_joules)))
    for row in np.flatnonzero(is_odd.any(axis=1)).tolist():
        meter = EnergyMeter(settings.energy)
        counter = 0.0
        meter.restart(counter)
        for place in range(watched.grid.count):
            counter += float(moved[row, place])
            if not is_read[row, place]:
                meter.interrupt()
                continue
            draw = float(drawn[row, place]) / length
            drawn_watts = None if math.isnan(draw) else draw
            limit = watched.devices[row].power_limit_watts
            measured = meter.measure(watched.grid.step, drawn_watts, counter, limit)
            joules[row, place] = math.nan if measured is None else measured.joules
    return joules


def _masks(read: DeviceReadings, shape: tuple[int, ...]) -> Floats:
    masks = np.where(read.reasons.shares > _RARE, read.reasons.masks, 0).astype(int)
    for condition, violation in read.violations.items():
        masks = masks | np.where(violation > _RARE, int(VIOLATED[condition]), 0)
    return np.broadcast_to(masks, shape)


def _throttled(read: DeviceReadings, condition: Condition) -> Floats:
    """Return the share of each interval with reduced clocks, if known."""
    violation = read.violations.get(condition, _UNKNOWN)
    return np.where(violation >= 0.0, np.minimum(1.0, violation), read.reasons.shares)


def _visible(
    read: DeviceReadings, watched: WatchedDevices, signals: Mapping[str, Floats]
) -> dict[Condition, Floats]:
    """Return the devices for which each condition is observable; others are not reported."""
    tensor, memory = (
        reduce(np.logical_and, (_are_known(read.means.get(name, _UNKNOWN)) for name in names))
        for names in (_TENSOR_SIGNALS, (Signal.MEMORY_USED_BYTES,))
    )
    return {
        **{
            name: _are_known(read.reasons.mean) | _are_known(read.violations.get(name, _UNKNOWN))
            for name in sorted(THROTTLES)
        },
        Condition.NO_TENSOR_CORES: tensor,
        Condition.RANK_IMBALANCE: np.array([bool(held) for held in watched.holdings]),
        Condition.NEAR_OUT_OF_MEMORY: memory & _are_known(signals["memory_total_bytes"]),
    }


def _media(engines: Floats, known_seconds: Floats) -> dict[Resource, Histogram]:
    """Return the usage of media engines; nothing if they were idle throughout."""
    if not engines.any():
        return {}
    times = np.rint(known_seconds * NANOSECONDS_PER_SECOND)
    return {Resource.MEDIA: histogram_of(np.bincount(bins_of(engines), times, BINS))}
