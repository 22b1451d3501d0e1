"""Cached days of a device or workload, and windows over any span of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from typing import Any, Final, Self

import numpy as np

from rightsizer.fleet.cache.day_frame import (
    DEVICES,
    ColumnKind,
    DayFrame,
    Floats,
    FrameLayout,
    kind_of,
    zero_where_unknown,
)
from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.cache.measures import (
    BlockColumns,
    CachedBlocks,
    DayDemands,
    Demands,
    Distributions,
)
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.block import Blocks
from rightsizer.model.frozen import replace
from rightsizer.model.histogram import Histogram
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
"""Seconds and joules by kind and name, as an enumeration member if there is one."""


@lru_cache(maxsize=256)
def _known_columns(layout: FrameLayout) -> tuple[tuple[int, ColumnKind, str], ...]:
    """Return place, kind and name of additive columns; later versions' names are skipped."""
    found: list[tuple[int, ColumnKind, str]] = []
    for place, column in enumerate(layout.columns[: layout.additive]):
        kind, name = kind_of(column), column.partition(":")[2]
        if (members := _MEMBERS.get(kind)) is None:
            found.append((place, kind, name))
        elif name in set(members):
            found.append((place, kind, members(name)))
    return tuple(found)


def _amounts(sums: Mapping[FrameLayout, Floats]) -> Amounts:
    found: dict[ColumnKind, dict[str, float]] = {kind: defaultdict(float) for kind in ColumnKind}
    for layout, totals in sums.items():
        for place, kind, name in _known_columns(layout):
            if totals[place] > 0:
                found[kind][name] += float(totals[place])
    return found


def _times(amounts: Mapping[Any, float]) -> dict[Any, Nanoseconds]:
    return {name: round(amount * NANOSECONDS_PER_SECOND) for name, amount in amounts.items()}


def _states(seconds: Mapping[State, float], span: Nanoseconds) -> dict[State, Nanoseconds]:
    """Return time by state; the rest of the span is unknown."""
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
"""Share of an interval: a monitor's brief access is no work."""
_PROFILED: Final = ColumnKind.TIER.column(Tier.PROFILING)
_MORE_THAN_ALL: Final = 1.0 + 1e-3
"""Tolerance for rounding; larger values are impossible."""


class _LikeDays:
    """Frames with equal days and columns, summed together, each span once."""

    def __init__(self, frames: Sequence[DayFrame], settings: DemandSettings) -> None:
        layout, values = frames[0].layout, np.stack([frame.values for frame in frames])
        states = [*layout.states]
        self.known = zero_where_unknown(values[:, states].sum(axis=1, dtype=float))
        """By frame and interval."""
        limits = np.stack([_longest(frame) for frame in frames])
        is_long = self.known > limits * _MORE_THAN_ALL
        if is_long.any():
            ratios = np.where(is_long, limits / np.where(is_long, self.known, 1.0), 1.0)
            values[:, states] *= ratios[:, None]
            self.known[is_long] = limits[is_long]
        self.frames = [replace(one, values=own) for one, own in zip(frames, values, strict=True)]
        """Capped to the interval's length, which `increase` may exceed by extrapolation."""
        sums = zero_where_unknown(values[:, : layout.additive])
        # Not bound to itself: without reference cycles, a batch is freed at once.
        self.sums_over = cache(lambda at, end: sums[:, :, at:end].sum(axis=2, dtype=float))
        self.demands_over = cache(DayDemands(self.frames, values, self.known, settings).over)


class SummedDay:
    """A frame with cached sums over its intervals."""

    def __init__(
        self, frame: DayFrame, settings: DemandSettings, like: tuple[_LikeDays, int] | None = None
    ) -> None:
        self._like, self._row = like or (_LikeDays([frame], settings), 0)
        self.known = self._like.known[self._row]
        """Known seconds by interval, over all its devices."""
        self.frame = self._like.frames[self._row]

    @classmethod
    def of_all(cls, frames: Iterable[DayFrame], settings: DemandSettings) -> list[Self]:
        """Create one for each frame; like frames share the work."""
        found, groups = list(frames), defaultdict[object, list[int]](list)
        for place, frame in enumerate(found):
            groups[frame.grid, frame.layout, frozenset(frame.demands)].append(place)
        days = dict[int, Self]()
        for places in groups.values():
            like = _LikeDays([found[place] for place in places], settings)
            days |= {at: cls(found[at], settings, (like, row)) for row, at in enumerate(places)}
        return [days[place] for place in range(len(found))]

    def sums_over(self, first: int, last: int) -> Floats:
        """Return sums of additive columns from one interval to another, exclusive."""
        return self._like.sums_over(first, last)[self._row]

    def demands_over(self, first: int, last: int) -> Demands:
        """Return the distributions of the same intervals."""
        found = self._like.demands_over(first, last)
        return Demands(found.exported[self._row], found.estimated[self._row])

    def amounts_over(self, first: int, last: int) -> Amounts:
        """Return the amounts from one interval to another, exclusive."""
        return _amounts({self.frame.layout: self.sums_over(first, last)})

    @cached_property
    def present_seconds(self) -> Floats:
        """Seconds of each interval in which it was present, with known state or not."""
        unknown = self.frame.column(_UNKNOWN)
        return self.known if unknown is None else self.known + zero_where_unknown(unknown)

    @cached_property
    def known_parts(self) -> Floats:
        """Known share of each interval, 0 to 1."""
        longest = _longest(self.frame)
        return np.minimum(1.0, self.known / np.where(longest > 0, longest, np.inf))

    def device_time(self, first: int, last: int) -> Nanoseconds:
        """Return the time of all devices from one interval to another, exclusive."""
        devices = self.frame.column(DEVICES)
        count = last - first if devices is None else float(devices[first:last].sum(dtype=float))
        return round(count * self.frame.grid.step)


_TOTALS: Final = ("accounted", "known", "active", "coverage_ratio", "tier")
"""Each depends on those before it."""


class CachedWindow(Window):
    """Window with lazy distributions, which few rules need, and cached totals."""

    __slots__ = ("_distributions", *_TOTALS)
    _distributions: Callable[[], Distributions]

    def __init__(self, distributions: Callable[[], Distributions], **fields: Any) -> None:
        super().__init__(**fields)
        # As in a frozen dataclass.
        object.__setattr__(self, "_distributions", cache(distributions))
        for name in _TOTALS:
            object.__setattr__(self, name, getattr(super(), name))

    @property
    def demands(self) -> Mapping[Resource, Histogram]:
        """As in `Window`."""
        return self._distributions()[0]

    @property
    def compute_at_least(self) -> Histogram:
        """As in `Window`."""
        return self._distributions()[1]


_Part = tuple[SummedDay, int, int]
"""A day, its first interval, and the one after the last."""


class SubjectDays:
    """Days in time order; subjects with equal days may share them."""

    def __init__(self, days: Iterable[SummedDay]) -> None:
        self.days = tuple(days)
        self._blocks: dict[tuple[Nanoseconds, Nanoseconds], Blocks] = {}

    @cached_property
    def _columns(self) -> BlockColumns:
        return BlockColumns([(day.frame, day.known_parts) for day in self.days])

    @property
    def fine_since(self) -> Nanoseconds:
        """Time from which all days are in five-minute steps; 0 without hourly ones."""
        coarse = [day.frame.grid.end for day in self.days if day.frame.grid.step == COARSE_STEP]
        return max(coarse, default=0)

    def over(self, span: Nanoseconds | None, now: Nanoseconds) -> tuple[Nanoseconds, Nanoseconds]:
        """Return a span that ends now, in complete intervals; `None` for all.

        If the newest day is hourly, short spans are answered by the last whole hour: what held over
        all of it held at its end, and nothing is known of the current hour.
        """
        step = self.days[-1].frame.grid.step if self.days else 0
        if step != COARSE_STEP:
            return (0 if span is None else now - span), now
        end = now // step * step
        return (0 if span is None else end - -(-span // step) * step), end

    @cached_property
    def last_present(self) -> Nanoseconds | None:
        """End of the last interval in which it was present."""
        return self._last(lambda day: day.present_seconds)

    @cached_property
    def last_profiled(self) -> Nanoseconds | None:
        """End of the last interval read with profiling, or `None`."""
        return self._last(lambda day: day.frame.column(_PROFILED))

    def _last(self, seconds: Callable[[SummedDay], Floats | None]) -> Nanoseconds | None:
        for day in reversed(self.days):
            column = seconds(day)
            there = np.flatnonzero(0.0 if column is None else column > 0)
            if len(there):
                return day.frame.grid.time(int(there[-1]) + 1)
        return None

    def empty_since(self, left: Nanoseconds) -> Nanoseconds | None:
        """Return since when nothing is on it, or `None`. Unknown time is skipped.

        `left` is when its last holder left.
        """
        since = None
        for day in reversed(self.days):
            grid, empty = day.frame.grid, day.frame.column(_EMPTY)
            for place in np.flatnonzero(day.known > 0)[::-1].tolist():
                start = grid.time(place)
                is_empty = empty is not None and empty[place] >= day.known[place] * _NEARLY_ALL
                if not is_empty or start < left:
                    return since
                since = start
        return since

    def blocks(self, start: Nanoseconds, end: Nanoseconds) -> Blocks:
        """Return the blocks that begin in a span."""
        if end <= start:
            return Blocks()
        if (start, end) not in self._blocks:
            self._blocks[start, end] = CachedBlocks(self._columns, start, end)
        return self._blocks[start, end]

    def known_in(self, start: Nanoseconds, end: Nanoseconds) -> float:
        """Return the known seconds of a span."""
        parts = (day.known[first:last].sum() for day, first, last in self._in(start, end))
        return float(sum(parts))

    def window(self, subject: str, start: Nanoseconds, end: Nanoseconds) -> Window:
        """Return the window of all intervals that begin in a span.

        It begins with the first known interval; time without state, including days that are not
        cached, is unknown. A workload's time is that of the devices it had.
        """
        parts = list(self._in(start, end))
        known = (
            day.frame.grid.time(first + int(there[0]))
            for day, first, last in parts
            if len(there := np.flatnonzero(day.known[first:last] > 0))
        )
        began = next(known, None)
        if began is None:
            nothing = {State.UNKNOWN: end - start} if end > start else {}
            return Window(subject, start, max(start, end), states=nothing)
        sums: dict[FrameLayout, Floats] = {}
        for day, first, last in parts:
            layout, more = day.frame.layout, day.sums_over(first, last)
            sums[layout] = sums[layout] + more if layout in sums else more
        found = _amounts(sums)
        time = end - began
        if subject.startswith(_WORKLOAD):
            time = sum(day.device_time(first, last) for day, first, last in parts)
        states = _states(found[ColumnKind.STATE], time)

        def distributions() -> Distributions:
            demands = Demands()
            for day, first, last in parts:
                demands.add(day.demands_over(first, last))
            return demands.by_resource(states)

        return CachedWindow(
            distributions,
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
    """Ranks were compared if imbalance would show; stores lack the load of each second."""
    ranks = ColumnKind.CONDITION.column(Condition.RANK_IMBALANCE)
    if not any(ranks in layout.places for layout in layouts):
        return {}
    return {Observation.RANKS: sum(states.values()) - states.get(State.UNKNOWN, 0)}


def _longest(frame: DayFrame) -> Floats:
    """Return the length of each interval in seconds, over all devices."""
    devices, step = frame.column(DEVICES), frame.grid.step / NANOSECONDS_PER_SECOND
    return np.full(frame.grid.count, step) if devices is None else step * devices.astype(float)
