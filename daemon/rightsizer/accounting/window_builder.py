"""Builders of windows and their five-minute blocks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar

from rightsizer.accounting.window_codec import AMOUNTS, DURATIONS, SUMS
from rightsizer.model.members import members
from rightsizer.model.values import (
    ACTIVE_STATES,
    NANOSECONDS_PER_SECOND,
    Blocks,
    Cause,
    Condition,
    Entry,
    Histogram,
    Measure,
    Nanoseconds,
    Observation,
    Resource,
    Signal,
    State,
    Tier,
    Totals,
    UnknownReason,
    Window,
    seconds,
)

_State = members(State)
_Resource = members(Resource)

_Key = TypeVar("_Key")
_Times: TypeAlias = defaultdict[_Key, Nanoseconds]

_times_of, _amounts_of, _sums_of = (attrgetter(*names) for names in (DURATIONS, AMOUNTS, SUMS))
"""Getters of a window's fields; a builder has each under its name with a leading underscore."""
_own_times, _own_amounts = (
    attrgetter(*(f"_{name}" for name in names)) for names in (DURATIONS, AMOUNTS)
)
_OWN_SUMS: Final = tuple(f"_{name}" for name in SUMS)


class EntrySums:
    """Sums over entries, common to windows and running totals."""

    def __init__(self) -> None:
        self._states: _Times[State] = defaultdict(int)
        self._conditions: _Times[Condition] = defaultdict(int)
        self._waste_seconds: defaultdict[Cause, float] = defaultdict(float)
        self._waste_joules: defaultdict[Cause, float] = defaultdict(float)
        self._used_seconds = 0.0
        self._used_joules = 0.0

    def add(self, entry: Entry) -> None:
        """Add one interval of the device's time."""
        duration = entry.end - entry.start
        self._states[entry.state] += duration
        for condition in entry.conditions:
            self._conditions[condition] += duration
        if (used := entry.used_ratio) is None:
            return
        # Not `seconds`: this is called some ten times for each reading of a device.
        length = duration / NANOSECONDS_PER_SECOND
        joules = entry.energy_joules or 0.0
        self._used_seconds += used * length
        self._used_joules += used * joules
        for cause, part in entry.waste.items():
            self._waste_seconds[cause] += part * length
            self._waste_joules[cause] += part * joules

    def totals(self, **beside: Any) -> Totals:
        """Copy of the sums and the given additional fields, safe for any thread to read."""
        return Totals(
            state_seconds={state: seconds(time) for state, time in self._states.items()},
            condition_seconds={name: seconds(time) for name, time in self._conditions.items()},
            waste_seconds=dict(self._waste_seconds),
            waste_joules=dict(self._waste_joules),
            used_seconds=self._used_seconds,
            used_joules=self._used_joules,
            **beside,
        )


class WindowBuilder(EntrySums):
    """Growing window in integer nanoseconds; each field has an attribute of its name.

    `parts`: initial windows to merge.
    """

    def __init__(
        self, uuid: str, parts: Iterable[Window] = (), *, keeps_blocks: bool = True
    ) -> None:
        super().__init__()
        self.uuid = uuid
        self._keeps_blocks = keeps_blocks
        self._blocks: list[Blocks] = []
        self._start: Nanoseconds | None = None
        self._end: Nanoseconds | None = None
        self._second_causes: _Times[State] = defaultdict(int)
        self._unknown_reasons: _Times[UnknownReason] = defaultdict(int)
        self._observed: _Times[Observation] = defaultdict(int)
        self._tiers: _Times[Tier] = defaultdict(int)
        self._saturated: _Times[Resource] = defaultdict(int)
        self._pressed: _Times[Resource] = defaultdict(int)
        self._energy_joules = 0.0
        self._cycles = self._cycle_seconds = self._cycle_busy_seconds = 0.0
        self._demands: defaultdict[Resource, Histogram] = defaultdict(Histogram)
        self._compute_at_least = Histogram()
        for part in parts:
            self.merge(part)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added yet."""
        return self._start is None

    def add(self, entry: Entry) -> None:
        """Add one interval of the device's time."""
        super().add(entry)
        start = entry.start
        end = entry.end
        state = entry.state
        duration = end - start
        self._widen(start, end)
        # Drawn and paid for, whatever it was for.
        self._energy_joules += entry.energy_joules or 0.0
        if state is _State.UNKNOWN:
            if entry.unknown_reason is not None:
                self._unknown_reasons[entry.unknown_reason] += duration
            return
        self._tiers[entry.tier] += duration
        if entry.second_cause is not None:
            self._second_causes[entry.second_cause] += duration
        for observation in entry.observed:
            self._observed[observation] += duration
        for resource in entry.saturated:
            self._saturated[resource] += duration
        for resource in entry.pressed:
            self._pressed[resource] += duration
        if entry.cycle is not None:
            self._cycles += 1.0
            self._cycle_seconds += entry.cycle.length_seconds
            self._cycle_busy_seconds += entry.cycle.busy_seconds
        self._add_demands(entry, duration)

    def _add_demands(self, entry: Entry, duration: Nanoseconds) -> None:
        state = entry.state
        is_active = state in ACTIVE_STATES
        demands = self._demands
        for resource, share in entry.shares.items():
            if is_active or (resource is _Resource.MEMORY and state is _State.IDLE_HELD):
                demands[resource].add(share, duration)
        if is_active and entry.compute_at_least is not None:
            self._compute_at_least.add(entry.compute_at_least, duration)

    def merge(self, window: Window) -> None:
        """Add another window of the same device."""
        if not window.states:
            return
        self._widen(window.start, window.end)
        self._combine(window, 1)
        for resource, histogram in window.demands.items():
            self._demands[resource].merge(histogram)
        self._compute_at_least.merge(window.compute_at_least)
        if self._keeps_blocks and window.blocks:
            self._blocks.append(window.blocks)

    def subtract(self, window: Window) -> None:
        """Remove a window merged before; start, end and blocks stay."""
        self._combine(window, -1)
        for resource, histogram in window.demands.items():
            self._demands[resource].subtract(histogram)
        self._compute_at_least.subtract(window.compute_at_least)

    def window(self, blocks: Blocks | None = None) -> Window:
        """Window so far, independent of later additions; optionally with other blocks."""
        if len(self._blocks) > 1:
            self._blocks = [Blocks.joined(self._blocks)]
        parts: dict[str, Any] = dict(zip(DURATIONS, map(_positive, _own_times(self)), strict=True))
        parts |= zip(AMOUNTS, map(dict, _own_amounts(self)), strict=True)
        parts |= zip(SUMS, (getattr(self, name) for name in _OWN_SUMS), strict=True)
        return Window(
            uuid=self.uuid,
            start=self._start or 0,
            end=self._end or 0,
            **parts,
            demands={resource: demand.copy() for resource, demand in self._demands.items()},
            compute_at_least=self._compute_at_least.copy(),
            blocks=(self._blocks or [Blocks()])[0] if blocks is None else blocks,
        )

    def _widen(self, start: Nanoseconds, end: Nanoseconds) -> None:
        if self._start is None or start < self._start:
            self._start = start
        if self._end is None or end > self._end:
            self._end = end

    def _combine(self, window: Window, sign: int) -> None:
        # Most fields of a window are empty and skipped.
        for time, times in zip(_own_times(self), _times_of(window), strict=True):
            for key, duration in times.items():
                time[key] += sign * duration
        for totals, amounts in zip(_own_amounts(self), _amounts_of(window), strict=True):
            for cause, amount in amounts.items():
                totals[cause] = max(0.0, totals[cause] + sign * amount)
        for name, amount in zip(_OWN_SUMS, _sums_of(window), strict=True):
            if amount:
                setattr(self, name, max(0.0, getattr(self, name) + sign * amount))


def _positive(times: Mapping[_Key, Nanoseconds]) -> dict[_Key, Nanoseconds]:
    return {key: duration for key, duration in times.items() if duration > 0} if times else {}


_SIGNALS: Final = (
    (Measure.BUSY, Signal.GPU_BUSY),
    (Measure.MEMORY_BYTES, Signal.MEMORY_USED_BYTES),
)
_RESOURCES: Final = (
    (Measure.COMPUTE, Resource.COMPUTE),
    (Measure.MEMORY_BANDWIDTH, Resource.MEMORY_BANDWIDTH),
    (Measure.MEMORY, Resource.MEMORY),
    (Measure.PCIE, Resource.PCIE),
    (Measure.NVLINK, Resource.NVLINK),
)


def entry_measures(entry: Entry) -> dict[Measure, float]:
    """Known value of each measure in an interval; empty if its state is unknown."""
    if entry.state is _State.UNKNOWN:
        return {}
    return measures_of(entry.signals, entry.shares, entry.compute_at_least)


def measures_of(
    signals: Mapping[Signal, float],
    shares: Mapping[Resource, float],
    compute_at_least: float | None,
) -> dict[Measure, float]:
    """Measures from signals and shares of resources."""
    values: dict[Measure, float] = {}
    for measure, signal in _SIGNALS:
        if signal in signals:
            values[measure] = signals[signal]
    for measure, name in _RESOURCES:
        if name in shares:
            values[measure] = shares[name]
    if compute_at_least is not None:
        values[Measure.COMPUTE_AT_LEAST] = compute_at_least
    return values


class BlockBuilder:
    """Growing block."""

    __slots__ = ("_durations", "_known", "_peaks", "_sums")

    def __init__(self) -> None:
        self._known: Nanoseconds = 0
        self._durations: dict[Measure, Nanoseconds] = {}
        self._sums: dict[Measure, float] = {}
        self._peaks: dict[Measure, float] = {}

    def add(self, values: Mapping[Measure, float], duration: Nanoseconds) -> None:
        """Add values measured over a duration; without any the time is unknown."""
        if not values:
            return
        self._known += duration
        durations = self._durations
        sums = self._sums
        peaks = self._peaks
        for measure, value in values.items():
            if measure not in sums:
                durations[measure] = 0
                sums[measure] = 0.0
                peaks[measure] = value
            durations[measure] += duration
            sums[measure] += value * duration
            peaks[measure] = max(peaks[measure], value)

    def blocks(self, start: Nanoseconds) -> Blocks:
        """Block so far, or none if nothing is known."""
        if not self._known:
            return Blocks()
        means = {measure: total / self._durations[measure] for measure, total in self._sums.items()}
        return Blocks.of_one(start, seconds(self._known), means, self._peaks)
