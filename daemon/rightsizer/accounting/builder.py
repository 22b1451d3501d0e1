"""Builds windows: adds entries and other windows up, and takes them away again."""

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from rightsizer.domain.block import Blocks
from rightsizer.domain.entry import Entry
from rightsizer.domain.histogram import Histogram
from rightsizer.domain.state import (
    ACTIVE_STATES,
    Cause,
    Condition,
    Resource,
    State,
    Tier,
)
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.domain.window import Window

__all__ = ["WindowBuilder"]

_Key = TypeVar("_Key")


class WindowBuilder:
    """A window that is still growing. Nanoseconds are whole, so that sums are exact."""

    def __init__(self, uuid: str, *, keeps_blocks: bool = True) -> None:
        """Nothing yet.

        Args:
            uuid: Of the device, or the subject that a workload has in its place.
            keeps_blocks: Whether the blocks of merged windows are joined; they cannot be taken
                away again.
        """
        self.uuid = uuid
        self._keeps_blocks = keeps_blocks
        self._blocks: list[Blocks] = []
        self._start: Nanoseconds | None = None
        self._end: Nanoseconds | None = None
        self._states: Counter[State] = Counter()
        self._conditions: Counter[Condition] = Counter()
        self._tiers: Counter[Tier] = Counter()
        self._saturated: Counter[Resource] = Counter()
        self._pressed: Counter[Resource] = Counter()
        self._waste_seconds: dict[Cause, float] = {}
        self._waste_joules: dict[Cause, float] = {}
        self._used_seconds = 0.0
        self._used_joules = 0.0
        self._energy_joules = 0.0
        self._demands: dict[Resource, Histogram] = {}
        self._compute_at_least = Histogram()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added yet."""
        return self._start is None

    @property
    def end(self) -> Nanoseconds:
        """The end of the latest stretch, 0 where nothing was added yet."""
        return self._end or 0

    def add(self, entry: Entry) -> None:
        """Add one stretch of the device's time."""
        duration = entry.duration
        self._widen(entry.start, entry.end)
        self._states[entry.state] += duration
        if entry.state is State.UNKNOWN:
            return
        self._tiers[entry.tier] += duration
        for condition in entry.conditions:
            self._conditions[condition] += duration
        for resource in entry.saturated:
            self._saturated[resource] += duration
        for resource in entry.pressed:
            self._pressed[resource] += duration
        self._add_waste(entry)
        self._add_demands(entry)

    def merge(self, window: Window) -> None:
        """Add another window of the same device."""
        if not window.states:
            return
        self._widen(window.start, window.end)
        self._combine(window, 1)
        for resource, histogram in window.demands.items():
            self._demand(resource).merge(histogram)
        self._compute_at_least.merge(window.compute_at_least)
        if self._keeps_blocks and window.blocks:
            self._blocks.append(window.blocks)

    def subtract(self, window: Window) -> None:
        """Take away a window that was merged before; start, end and blocks stay."""
        self._combine(window, -1)
        for resource, histogram in window.demands.items():
            self._demand(resource).subtract(histogram)
        self._compute_at_least.subtract(window.compute_at_least)

    def window(self) -> Window:
        """What was built so far, independent of what comes."""
        if len(self._blocks) > 1:
            self._blocks = [Blocks.joined(self._blocks)]
        return Window(
            uuid=self.uuid,
            start=self._start or 0,
            end=self._end or 0,
            states=_positive(self._states),
            conditions=_positive(self._conditions),
            tiers=_positive(self._tiers),
            saturated=_positive(self._saturated),
            pressed=_positive(self._pressed),
            waste_seconds=dict(self._waste_seconds),
            waste_joules=dict(self._waste_joules),
            used_seconds=self._used_seconds,
            used_joules=self._used_joules,
            energy_joules=self._energy_joules,
            demands={resource: found.copy() for resource, found in self._demands.items()},
            compute_at_least=self._compute_at_least.copy(),
            blocks=self._blocks[0] if self._blocks else Blocks(),
        )

    def _widen(self, start: Nanoseconds, end: Nanoseconds) -> None:
        self._start = start if self._start is None else min(self._start, start)
        self._end = end if self._end is None else max(self._end, end)

    def _add_waste(self, entry: Entry) -> None:
        joules = entry.energy_joules or 0.0
        self._energy_joules += joules
        if entry.used_ratio is None:
            return
        length = seconds(entry.duration)
        self._used_seconds += entry.used_ratio * length
        self._used_joules += entry.used_ratio * joules
        for cause, part in entry.waste.items():
            self._waste_seconds[cause] = self._waste_seconds.get(cause, 0.0) + part * length
            self._waste_joules[cause] = self._waste_joules.get(cause, 0.0) + part * joules

    def _add_demands(self, entry: Entry) -> None:
        is_active = entry.state in ACTIVE_STATES
        for resource, share in entry.shares.items():
            if is_active or (resource is Resource.MEMORY and entry.state is State.IDLE_HELD):
                self._demand(resource).add(share, entry.duration)
        if is_active and entry.compute_at_least is not None:
            self._compute_at_least.add(entry.compute_at_least, entry.duration)

    def _demand(self, resource: Resource) -> Histogram:
        found = self._demands.get(resource)
        if found is None:
            found = self._demands[resource] = Histogram()
        return found

    def _combine(self, window: Window, sign: int) -> None:
        _combine_counts(self._states, window.states, sign)
        _combine_counts(self._conditions, window.conditions, sign)
        _combine_counts(self._tiers, window.tiers, sign)
        _combine_counts(self._saturated, window.saturated, sign)
        _combine_counts(self._pressed, window.pressed, sign)
        for sums, parts in (
            (self._waste_seconds, window.waste_seconds),
            (self._waste_joules, window.waste_joules),
        ):
            for cause, part in parts.items():
                sums[cause] = max(0.0, sums.get(cause, 0.0) + sign * part)
        self._used_seconds = max(0.0, self._used_seconds + sign * window.used_seconds)
        self._used_joules = max(0.0, self._used_joules + sign * window.used_joules)
        self._energy_joules = max(0.0, self._energy_joules + sign * window.energy_joules)


def _combine_counts(mine: Counter[_Key], theirs: Mapping[_Key, Nanoseconds], sign: int) -> None:
    for key, duration in theirs.items():
        mine[key] += sign * duration


def _positive(counter: Counter[_Key]) -> dict[_Key, Nanoseconds]:
    return {key: duration for key, duration in counter.items() if duration > 0}
