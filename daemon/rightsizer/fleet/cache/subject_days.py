"""Cached days of a device or workload, and windows over any span of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import Final, Self

import numpy as np

from rightsizer.fleet.cache.day_frame import IDLE_EMPTY_STATE, ColumnKind, Floats
from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.cache.measures import BlockColumns, CachedBlocks
from rightsizer.fleet.cache.span_sums import LikeSubjects, SpanSums
from rightsizer.fleet.cache.summed_day import SummedDay
from rightsizer.model.block import Blocks
from rightsizer.model.histogram import Distribution, Histogram
from rightsizer.model.lazy import LazyMapping
from rightsizer.model.state import Condition, Observation, State, Tier
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window, workload_subject

_WORKLOAD: Final = workload_subject("")
_NEARLY_ALL: Final = 0.95
"""Share of an interval: a monitor's brief access is no work."""
_PROFILED: Final = ColumnKind.TIER.column(Tier.PROFILING)
_RANKS: Final = ColumnKind.CONDITION.column(Condition.RANK_IMBALANCE)


class LazyDistribution:
    """Distribution that is computed when first read."""

    def __init__(self, compute: Callable[[], Distribution]) -> None:
        self._compute = compute

    @cached_property
    def _distribution(self) -> Distribution:
        return self._compute()

    @property
    def total(self) -> float:
        """As in `Distribution`."""
        return self._distribution.total

    def quantile(self, share: float) -> float | None:
        """As in `Distribution`."""
        return self._distribution.quantile(share)

    def mean(self) -> float | None:
        """As in `Distribution`."""
        return self._distribution.mean()

    def maximum(self) -> float | None:
        """As in `Distribution`."""
        return self._distribution.maximum()

    def items(self) -> ItemsView[int, float]:
        """As in `Distribution`."""
        return self._distribution.items()

    def __reduce__(self) -> tuple[type[Histogram], tuple[dict[int, float]]]:
        """Pickle the weights, in place of what computes them."""
        return Histogram, (dict(self.items()),)


class CachedWindow(Window, frozen=True, dict=True):
    """Window with cached totals, each of which depends on those before it."""

    @cached_property
    def accounted(self) -> Nanoseconds:
        """As in `Window`."""
        return super().accounted

    @cached_property
    def known(self) -> Nanoseconds:
        """As in `Window`."""
        return super().known

    @cached_property
    def active(self) -> Nanoseconds:
        """As in `Window`."""
        return super().active

    @cached_property
    def coverage_ratio(self) -> float:
        """As in `Window`."""
        return super().coverage_ratio

    @cached_property
    def tier(self) -> Tier:
        """As in `Window`."""
        return super().tier


class SubjectDays:
    """Days in time order; subjects with equal days may share them.

    `like` are subjects with like days, itself included, and its row among them.
    """

    def __init__(
        self, days: Iterable[SummedDay], like: tuple[LikeSubjects, int] | None = None
    ) -> None:
        self.days = tuple(days)
        self._like = like
        self._blocks: dict[tuple[Nanoseconds, Nanoseconds], Blocks] = {}

    @classmethod
    def of_all(cls, subjects: Iterable[Iterable[SummedDay]]) -> list[Self]:
        """Create one for each subject; those with like days share the work."""
        dayses = [tuple(days) for days in subjects]
        groups = defaultdict[tuple[int, ...], list[int]](list)
        for place, days in enumerate(dayses):
            groups[tuple(id(day.like) for day in days)].append(place)
        subject_days = dict[int, Self]()
        for places in groups.values():
            like = LikeSubjects([dayses[place] for place in places])
            subject_days |= {at: cls(dayses[at], (like, row)) for row, at in enumerate(places)}
        return [subject_days[place] for place in range(len(dayses))]

    @cached_property
    def _alone(self) -> LikeSubjects:
        return LikeSubjects([self.days])

    @cached_property
    def _columns(self) -> BlockColumns:
        return BlockColumns(self.days)

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
            grid = day.frame.grid
            empty = day.frame.column(IDLE_EMPTY_STATE)
            for place in np.flatnonzero(day.known > 0)[::-1].tolist():
                start = grid.time(place)
                is_empty = empty is not None and empty[place] >= day.known[place] * _NEARLY_ALL
                if not is_empty or start < left:
                    return since
                since = start
        return since

    @property
    def is_empty(self) -> bool:
        """Whether nothing was on it in its last known interval."""
        for day in reversed(self.days):
            if len(known := np.flatnonzero(day.known > 0)):
                last = known[-1]
                empty = day.frame.column(IDLE_EMPTY_STATE)
                return empty is not None and bool(empty[last] >= day.known[last] * _NEARLY_ALL)
        return False

    def blocks(self, start: Nanoseconds, end: Nanoseconds) -> Blocks:
        """Return the blocks that begin in a span."""
        if end <= start:
            return Blocks()
        if (start, end) not in self._blocks:
            self._blocks[start, end] = CachedBlocks(self._columns, start, end)
        return self._blocks[start, end]

    def known_in(self, start: Nanoseconds, end: Nanoseconds) -> float:
        """Return the known seconds of a span."""
        return sum(day.known_over(first, last) for day, first, last in self._in(start, end))

    def present_in(self, start: Nanoseconds, end: Nanoseconds) -> float:
        """Return the seconds of a span in which it was present, with known state or not."""
        return sum(
            day.like.present_over(first, last)[day.row] for day, first, last in self._in(start, end)
        )

    def sums(self, start: Nanoseconds, end: Nanoseconds) -> tuple[SpanSums, int]:
        """Return the sums over a span of all devices with like days, and its row among them."""
        like, row = self._like or (self._alone, 0)
        return like.over(start, end, of_devices=True), row

    def window(
        self, subject: str, start: Nanoseconds, end: Nanoseconds, *, is_shared: bool = False
    ) -> Window:
        """Return the window of all intervals that begin in a span.

        It begins with the first known interval; time without state, including days that are not
        cached, is unknown. A workload's time is that of the devices it had. A span that is shared
        is asked of subjects with like days, too.
        """
        like, row = self._like if is_shared and self._like else (self._alone, 0)
        sums = like.over(start, end, of_devices=not subject.startswith(_WORKLOAD))
        if (began := sums.began[row]) is None:
            nothing = {State.UNKNOWN: end - start} if end > start else {}
            return Window(subject, start, max(start, end), states=nothing)
        states = sums.states(row)
        used = sums.amounts(ColumnKind.USED, row)
        distributions = cache(lambda: sums.distributions.of(row))
        return CachedWindow(
            uuid=subject,
            start=began,
            end=end,
            states=states,
            second_causes=sums.times(ColumnKind.SECOND_CAUSE, row),
            conditions=sums.times(ColumnKind.CONDITION, row),
            observed=_observed(states) if sums.has(_RANKS) else {},
            tiers=sums.times(ColumnKind.TIER, row),
            saturated=sums.times(ColumnKind.SATURATED, row),
            pressed=sums.times(ColumnKind.PRESSED, row),
            waste_seconds=sums.amounts(ColumnKind.WASTE, row),
            waste_joules=sums.amounts(ColumnKind.WASTE_JOULES, row),
            used_seconds=used.get("seconds", 0.0),
            used_joules=used.get("joules", 0.0),
            energy_joules=sums.amounts(ColumnKind.ENERGY, row).get("joules", 0.0),
            demands=LazyMapping(lambda: distributions()[0]),
            compute_at_least=LazyDistribution(lambda: distributions()[1]),
            blocks=self.blocks(start, end),
        )

    def _in(self, start: Nanoseconds, end: Nanoseconds) -> Iterator[tuple[SummedDay, int, int]]:
        """Yield each day with its first interval inside and the one after the last."""
        for day in self.days:
            first, last = day.frame.grid.inside(start, end)
            if first < last:
                yield day, first, last


def _observed(states: Mapping[State, Nanoseconds]) -> dict[Observation, Nanoseconds]:
    """Ranks were compared if imbalance would show; stores lack the load of each second."""
    return {Observation.RANKS: sum(states.values()) - states.get(State.UNKNOWN, 0)}
