"""Counters of each device and workload since the agent, or the recording, began; they only grow."""

from collections import Counter
from typing import Final

from rightsizer.domain.energy_source import EnergySource
from rightsizer.domain.entry import Entry
from rightsizer.domain.histogram import Histogram
from rightsizer.domain.report import Totals
from rightsizer.domain.signal import SIGNALS, Signal
from rightsizer.domain.state import Cause, Condition, State
from rightsizer.domain.units import Nanoseconds, Unit, seconds

__all__ = ["RunningTotals"]

_RATIOS: Final = frozenset(signal for signal, each in SIGNALS.items() if each.unit is Unit.RATIO)


class RunningTotals:
    """The totals of one device or workload while they grow."""

    def __init__(self, *, keeps_distributions: bool = True) -> None:
        self._keeps_distributions = keeps_distributions
        self._states: Counter[State] = Counter()
        self._conditions: Counter[Condition] = Counter()
        self._waste_seconds: dict[Cause, float] = {}
        self._waste_joules: dict[Cause, float] = {}
        self._used_seconds = 0.0
        self._used_joules = 0.0
        self._energy_joules: dict[EnergySource, float] = {}
        self._distributions: dict[Signal, Histogram] = {}
        self._signal_seconds: dict[Signal, float] = {}

    def add(self, entry: Entry) -> None:
        """Add one stretch of the device's time."""
        duration = entry.duration
        self._states[entry.state] += duration
        for condition in entry.conditions:
            self._conditions[condition] += duration
        if self._keeps_distributions:
            for signal, value in entry.signals.items():
                if signal in _RATIOS:
                    self._add_signal(signal, value, duration)
        if entry.used_ratio is not None:
            self._add_waste(entry, entry.used_ratio)

    def totals(self) -> Totals:
        """The totals so far, for any thread to read."""
        return Totals(
            state_seconds={state: seconds(time) for state, time in self._states.items()},
            condition_seconds={name: seconds(time) for name, time in self._conditions.items()},
            waste_seconds=dict(self._waste_seconds),
            waste_joules=dict(self._waste_joules),
            used_seconds=self._used_seconds,
            used_joules=self._used_joules,
            distributions={signal: found.copy() for signal, found in self._distributions.items()},
            signal_seconds=dict(self._signal_seconds),
            energy_joules=dict(self._energy_joules),
        )

    def _add_signal(self, signal: Signal, value: float, duration: Nanoseconds) -> None:
        found = self._distributions.get(signal)
        if found is None:
            found = self._distributions[signal] = Histogram()
            self._signal_seconds[signal] = 0.0
        found.add(value, duration)
        self._signal_seconds[signal] += value * seconds(duration)

    def _add_waste(self, entry: Entry, used_ratio: float) -> None:
        length, joules = seconds(entry.duration), entry.energy_joules or 0.0
        if entry.energy_source is not None:
            source = entry.energy_source
            self._energy_joules[source] = self._energy_joules.get(source, 0.0) + joules
        self._used_seconds += used_ratio * length
        self._used_joules += used_ratio * joules
        for cause, part in entry.waste.items():
            self._waste_seconds[cause] = self._waste_seconds.get(cause, 0.0) + part * length
            self._waste_joules[cause] = self._waste_joules.get(cause, 0.0) + part * joules
