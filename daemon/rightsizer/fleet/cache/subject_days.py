"""SubjectDays: cached days of a device or workload, and any span of them as a window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache, cached_property, lru_cache, partial
from math import isnan
from operator import add
from typing import Any, Final

from rightsizer.fleet.cache.day_frame import (
    COARSE_STEP,
    DEVICES,
    ColumnKind,
    DayFrame,
    FrameLayout,
    kind_of,
)
from rightsizer.fleet.cache.measures import BlockColumns, CachedBlocks, DayDemands, Demands
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.block import Blocks
from rightsizer.model.state import Cause, Condition, Observation, Resource, State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.window import Window, workload_subject

_MEMBERS: Final[Mapping[ColumnKind, type[StrEnum]]] = {
    ColumnKind.STATE: State,
    ColumnKind.CONDITION: Condition,
    ColumnKind.TIER: Tier,
    ColumnKind.SATURATED: Resource,
    ColumnKind.PRESSED: Resource,
    ColumnKind.WASTE: Cause,
    ColumnKind.WASTE_JOULES: Cause,
}
Amounts = Mapping[ColumnKind, Mapping[Any, float]]
"""Seconds and joules by kind and name, a member of the kind's enumeration where it has one."""


@lru_cache(maxsize=256)
def _known_columns(layout: FrameLayout) -> tuple[tuple[int, ColumnKind, str], ...]:
    """Place, kind and name of what adds up; names of a later version are left out."""
    found: list[tuple[int, ColumnKind, str]] = []
    for place, column in enumerate(layout.columns[: layout.additive]):
        kind, name = kind_of(column), column.partition(":")[2]
        members = _MEMBERS.get(kind)
        if members is None:
            found.append((place, kind, name))
        elif name in set(members):
            found.append((place, kind, members(name)))
    return tuple(found)


def _amounts(sums: Mapping[FrameLayout, Sequence[float]]) -> Amounts:
    """What adds up, of days of several layouts together."""
    found: dict[ColumnKind, dict[str, float]] = {kind: defaultdict(float) for kind in ColumnKind}
    for layout, totals in sums.items():
        for place, kind, name in _known_columns(layout):
            if totals[place] > 0:
                found[kind][name] += totals[place]
    return found


def _times(amounts: Mapping[Any, float]) -> dict[Any, Nanoseconds]:
    return {name: round(amount * NANOSECONDS_PER_SECOND) for name, amount in amounts.items()}


def _states(seconds: Mapping[State, float], span: Nanoseconds) -> dict[State, Nanoseconds]:
    """Time by state; what has no state of the span is unknown."""
    found: dict[State, Nanoseconds] = _times(seconds)
    found.pop(State.UNKNOWN, None)
    beyond = sum(found.values()) - span
    if beyond > 0:  # By rounding.
        largest = max(found, key=lambda state: found[state])
        found[largest] -= beyond
    elif beyond < 0:
        found[State.UNKNOWN] = -beyond
    return found


_WORKLOAD: Final = workload_subject("")
_UNKNOWN: Final = ColumnKind.STATE.column(State.UNKNOWN)
_EMPTY: Final = ColumnKind.STATE.column(State.IDLE_EMPTY)
_NEARLY_ALL: Final = 0.95
"""Of an interval: a monitor that looks in is no work."""
_PROFILED: Final = ColumnKind.TIER.column(Tier.PROFILING)
_MORE_THAN_ALL: Final = 1.0 + 1e-3
"""What is kept is rounded; beyond that it cannot be true."""


class SummedDay:
    """A frame with sums over its intervals, each computed once."""

    def __init__(self, frame: DayFrame, settings: DemandSettings) -> None:
        self.known = frame.known_seconds()
        """Of each interval, all its devices together."""
        self.frame = _bounded(frame, self.known)
        self.sums_over = cache(partial(_sums, self.frame))
        """Of what adds up, from an interval to another, the last not included."""
        self.demands_over = cache(DayDemands(self.frame, self.known, settings).over)

    def amounts_over(self, first: int, last: int) -> Amounts:
        """What a stretch of it comes to, the last interval not included."""
        return _amounts({self.frame.layout: self.sums_over(first, last)})

    @cached_property
    def present_seconds(self) -> list[float]:
        """Seconds of each interval in which it was there, its state known or not."""
        unknown = self.frame.column(_UNKNOWN)
        if unknown is None or not any(unknown):
            return self.known
        return [
            known + (0.0 if isnan(more) else more)
            for known, more in zip(self.known, unknown, strict=True)
        ]

    @cached_property
    def known_parts(self) -> list[float]:
        """Of each interval, 0 to 1."""
        step = self.frame.grid.step / NANOSECONDS_PER_SECOND
        devices = self.frame.column(DEVICES)
        if devices is None:
            if min(self.known) >= step:
                return [1.0] * len(self.known)
            return [min(1.0, each / step) for each in self.known]
        return [
            min(1.0, each / (step * number)) if number else 0.0
            for each, number in zip(self.known, devices, strict=True)
        ]

    def device_time(self, first: int, last: int) -> Nanoseconds:
        """The time of all devices together, from an interval to another, the last not included."""
        devices = self.frame.column(DEVICES)
        count = last - first if devices is None else sum(devices[first:last])
        return round(count * self.frame.grid.step)


_Part = tuple[SummedDay, int, int]
"""A day, the first interval, and the one after the last."""


class SubjectDays:
    """Days in the order of time; two subjects that did the same may share them."""

    def __init__(self, days: Iterable[SummedDay]) -> None:
        self.days = tuple(days)
        self._columns = cache(
            lambda: BlockColumns([(day.frame, day.known_parts) for day in self.days])
        )
        self._blocks: dict[tuple[Nanoseconds, Nanoseconds], Blocks] = {}

    @property
    def fine_since(self) -> Nanoseconds:
        """From when on all of them are by five minutes; 0 where none is by the hour."""
        coarse = [day.frame.grid.end for day in self.days if day.frame.grid.step == COARSE_STEP]
        return max(coarse, default=0)

    def over(self, span: Nanoseconds | None, now: Nanoseconds) -> tuple[Nanoseconds, Nanoseconds]:
        """A span of time that ends now, as whole intervals that are over; `None` for all.

        Where the newest day is by the hour, ten minutes are answered by the last whole hour: what
        held over all of it held at its end, and nothing is known of the hour that runs.
        """
        step = self.days[-1].frame.grid.step if self.days else 0
        if step != COARSE_STEP:
            return (0 if span is None else now - span), now
        end = now // step * step
        return (0 if span is None else end - -(-span // step) * step), end

    @cached_property
    def last_present(self) -> Nanoseconds | None:
        """When the last interval ends in which it was there."""
        return self._last(lambda day: day.present_seconds)

    @cached_property
    def last_profiled(self) -> Nanoseconds | None:
        """When the last interval ends that was read with profiling; `None` where none was."""
        return self._last(lambda day: day.frame.column(_PROFILED) or ())

    def _last(self, seconds: Callable[[SummedDay], Sequence[float]]) -> Nanoseconds | None:
        """When the last interval ends of which there are any of some seconds."""
        ends = (
            day.frame.grid.end - after * day.frame.grid.step
            for day in reversed(self.days)
            for after, known in enumerate(reversed(seconds(day)))
            if known > 0
        )
        return next(ends, None)

    def empty_since(self, left: Nanoseconds) -> Nanoseconds | None:
        """Since when nothing is on it; `None` where something is. What is unknown is passed over.

        `left` is when its last holder left.
        """
        since = None
        for day in reversed(self.days):
            grid, empty = day.frame.grid, day.frame.column(_EMPTY)
            for place in range(grid.count - 1, -1, -1):
                known = day.known[place]
                if known <= 0:
                    continue
                start = grid.time(place)
                is_empty = empty is not None and empty[place] >= known * _NEARLY_ALL
                if not is_empty or start < left:
                    return since
                since = start
        return since

    def blocks(self, start: Nanoseconds, end: Nanoseconds) -> Blocks:
        """The blocks that begin in a span of time."""
        if end <= start:
            return Blocks()
        if (start, end) not in self._blocks:
            self._blocks[start, end] = CachedBlocks(self._columns(), start, end)
        return self._blocks[start, end]

    def known_in(self, start: Nanoseconds, end: Nanoseconds) -> float:
        """Seconds that are known of a span of time."""
        return sum(sum(day.known[first:last]) for day, first, last in self._in(start, end))

    def window(self, subject: str, start: Nanoseconds, end: Nanoseconds) -> Window:
        """What is known of a span of time: all intervals that begin in it.

        It begins with the first interval of which anything is known; all of it that has no state
        is unknown, days that are not cached included. A workload's time is that of the devices
        that it had.
        """
        parts = list(self._in(start, end))
        known = (
            day.frame.grid.time(place)
            for day, first, last in parts
            for place in range(first, last)
            if day.known[place] > 0
        )
        began = next(known, None)
        if began is None:
            nothing = {State.UNKNOWN: end - start} if end > start else {}
            return Window(subject, start, max(start, end), states=nothing)
        sums: dict[FrameLayout, list[float]] = {}
        demands = Demands()
        for day, first, last in parts:
            layout, more = day.frame.layout, day.sums_over(first, last)
            sums[layout] = list(map(add, sums[layout], more)) if layout in sums else more
            demands.add(day.demands_over(first, last))
        found = _amounts(sums)
        time = end - began
        if subject.startswith(_WORKLOAD):
            time = sum(day.device_time(first, last) for day, first, last in parts)
        states = _states(found[ColumnKind.STATE], time)
        return Window(
            uuid=subject,
            start=began,
            end=end,
            states=states,
            conditions=_times(found[ColumnKind.CONDITION]),
            observed=_observed(states, sums),
            tiers=_times(found[ColumnKind.TIER]),
            saturated=_times(found[ColumnKind.SATURATED]),
            pressed=_times(found[ColumnKind.PRESSED]),
            waste_seconds=dict(found[ColumnKind.WASTE]),
            waste_joules=dict(found[ColumnKind.WASTE_JOULES]),
            used_seconds=found[ColumnKind.USED].get("seconds", 0.0),
            used_joules=found[ColumnKind.USED].get("joules", 0.0),
            energy_joules=found[ColumnKind.ENERGY].get("joules", 0.0),
            demands=demands.by_resource(states),
            compute_at_least=demands.compute_at_least,
            blocks=self.blocks(start, end),
        )

    def _in(self, start: Nanoseconds, end: Nanoseconds) -> Iterator[_Part]:
        for day in self.days:
            grid = day.frame.grid
            first = max(0, -(-(start - grid.start) // grid.step))
            last = min(grid.count, -(-(end - grid.start) // grid.step))
            if first < last:
                yield day, first, last


def _observed(
    states: Mapping[State, Nanoseconds], layouts: Iterable[FrameLayout]
) -> dict[Observation, Nanoseconds]:
    """Ranks were compared where imbalance would show; no store has the load of each second."""
    ranks = ColumnKind.CONDITION.column(Condition.RANK_IMBALANCE)
    if not any(ranks in layout.places for layout in layouts):
        return {}
    return {Observation.RANKS: sum(states.values()) - states.get(State.UNKNOWN, 0)}


def _sums(frame: DayFrame, first: int, last: int) -> list[float]:
    values, count = frame.values, frame.grid.count
    found = [
        sum(values[place + first : place + last])
        for place in range(0, frame.layout.additive * count, count)
    ]
    for at, total in enumerate(found):
        if isnan(total):  # Something in it is unknown.
            part = values[at * count + first : at * count + last]
            found[at] = sum(value for value in part if not isnan(value))
    return found


def _bounded(frame: DayFrame, known: list[float]) -> DayFrame:
    """A frame no interval of which is longer than it can be: `increase` extrapolates.

    What is known of its intervals is cut with it.
    """
    step = frame.grid.step / NANOSECONDS_PER_SECOND
    devices = frame.column(DEVICES)
    if devices is None and max(known, default=0.0) <= step * _MORE_THAN_ALL:
        return frame
    limits = [step * each for each in devices] if devices else [step] * frame.grid.count
    long = [
        (place, limit)
        for place, (each, limit) in enumerate(zip(known, limits, strict=True))
        if each > limit * _MORE_THAN_ALL
    ]
    if not long:
        return frame
    values = frame.values[:]
    for place, limit in long:
        for column in frame.layout.states:
            values[column * frame.grid.count + place] *= limit / known[place]
        known[place] = limit
    return DayFrame(frame.grid, frame.layout, values, frame.demands)
