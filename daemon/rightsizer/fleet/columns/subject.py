"""Subjects of a fleet: a device or a workload in columns, and windows over any span of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Final

import numpy as np

from rightsizer.fleet.cache.day_frame import IDLE_EMPTY_STATE, ColumnKind, Floats
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY
from rightsizer.fleet.columns.blocks import BlockColumns, ColumnBlocks, SegmentRow
from rightsizer.fleet.columns.segment import Segment
from rightsizer.fleet.columns.subject_columns import SubjectColumns
from rightsizer.model.lazy import LazyMapping
from rightsizer.model.values import (
    Blocks,
    Nanoseconds,
    Observation,
    State,
    Tier,
    Window,
    workload_subject,
)

_WORKLOAD: Final = workload_subject("")
_NEARLY_ALL: Final = 0.95
"""Share of an interval: a monitor's brief access is no work."""
_PROFILED: Final = ColumnKind.TIER.column(Tier.PROFILING)


class ColumnWindow(Window, frozen=True, dict=True):
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


class Subject:
    """A device or a workload: a row of columns."""

    def __init__(self, columns: SubjectColumns, row: int) -> None:
        self.columns = columns
        self.row = row
        self._blocks: dict[tuple[Nanoseconds, Nanoseconds], Blocks] = {}

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Segments in which it was there, oldest first."""
        return tuple(
            segment for segment in self.columns.segments if segment.devices[self.row].any()
        )

    @cached_property
    def _alone(self) -> SubjectColumns:
        return self.columns.only(self.row)

    @cached_property
    def _block_columns(self) -> BlockColumns:
        return BlockColumns([SegmentRow(segment, self.row) for segment in self.segments])

    @cached_property
    def last_step(self) -> Nanoseconds:
        """Step of its newest day; 0 without any."""
        return self.segments[-1].grid.step if self.segments else 0

    @cached_property
    def fine_since(self) -> Nanoseconds:
        """Time from which all its days are in five-minute steps; 0 without hourly ones."""
        for segment in reversed(self.segments):
            if segment.grid.step == COARSE_STEP:
                last = np.flatnonzero(segment.devices[self.row])[-1]
                return -(-segment.grid.time(int(last) + 1) // DAY) * DAY
        return 0

    def over(self, span: Nanoseconds | None, now: Nanoseconds) -> tuple[Nanoseconds, Nanoseconds]:
        """Return a span that ends now, in complete intervals; `None` for all."""
        return latest_span(self.last_step, span, now)

    @cached_property
    def last_present(self) -> Nanoseconds | None:
        """End of the last interval in which it was present."""
        return self._last(lambda segment: segment.present)

    @cached_property
    def last_profiled(self) -> Nanoseconds | None:
        """End of the last interval read with profiling, or `None`."""
        return self._last(lambda segment: segment.column(_PROFILED))

    def _last(self, seconds: Callable[[Segment], Floats | None]) -> Nanoseconds | None:
        for segment in reversed(self.segments):
            column = seconds(segment)
            there = np.flatnonzero(0.0 if column is None else column[self.row] > 0)
            if len(there):
                return segment.grid.time(int(there[-1]) + 1)
        return None

    def _known_backwards(self) -> Iterator[tuple[Nanoseconds, bool]]:
        """Yield the start of each known interval, latest first, and whether nothing was on it."""
        for segment in reversed(self.segments):
            known_seconds = segment.known[self.row]
            empty = segment.column(IDLE_EMPTY_STATE)
            row = np.zeros(len(known_seconds)) if empty is None else empty[self.row]
            is_empty = row >= known_seconds * _NEARLY_ALL
            for place in np.flatnonzero(known_seconds > 0)[::-1].tolist():
                yield segment.grid.time(place), bool(is_empty[place])

    def empty_since(self, left: Nanoseconds) -> Nanoseconds | None:
        """Return since when nothing is on it, or `None`. Unknown time is skipped.

        `left` is when its last holder left.
        """
        since = None
        for start, is_empty in self._known_backwards():
            if not is_empty or start < left:
                return since
            since = start
        return since

    @property
    def is_empty(self) -> bool:
        """Whether nothing was on it in its last known interval."""
        return next((is_empty for _, is_empty in self._known_backwards()), False)

    def blocks(self, start: Nanoseconds, end: Nanoseconds) -> Blocks:
        """Return the blocks that begin in a span."""
        if end <= start:
            return Blocks()
        if (start, end) not in self._blocks:
            self._blocks[start, end] = ColumnBlocks(self._block_columns, start, end)
        return self._blocks[start, end]

    def known_in(self, start: Nanoseconds, end: Nanoseconds) -> float:
        """Return the known seconds of a span."""
        return self._sum_in(lambda segment: segment.known, start, end)

    def present_in(self, start: Nanoseconds, end: Nanoseconds) -> float:
        """Return the seconds of a span in which it was present, with known state or not."""
        return self._sum_in(lambda segment: segment.present, start, end)

    def seconds_in(self, column: str, start: Nanoseconds, end: Nanoseconds) -> float:
        """Return the sum of an additive column over a span; 0 if it is unknown."""
        if (place := self.columns.layout.places.get(column)) is None:
            return 0.0
        return self._sum_in(lambda segment: segment.additive[:, place], start, end)

    def _sum_in(
        self, seconds: Callable[[Segment], Floats], start: Nanoseconds, end: Nanoseconds
    ) -> float:
        total = 0.0
        for segment in self.segments:
            first, last = segment.grid.inside(start, end)
            if first < last:
                total += float(seconds(segment)[self.row, first:last].sum())
        return total

    def window(
        self, subject: str, start: Nanoseconds, end: Nanoseconds, *, is_shared: bool = False
    ) -> Window:
        """Return the window of all intervals that begin in a span.

        It begins with the first known interval; time without state, including days that are not
        cached, is unknown. A workload's time is that of the devices it had. A span that is shared
        is asked of the other subjects of its columns, too.
        """
        columns, row = (self.columns, self.row) if is_shared else (self._alone, 0)
        sums = columns.over(start, end, of_devices=not subject.startswith(_WORKLOAD))
        if (began := sums.began[row]) is None:
            nothing = {State.UNKNOWN: end - start} if end > start else {}
            return Window(subject, start, max(start, end), states=nothing)
        states = sums.states(row)
        used = sums.amounts(ColumnKind.USED, row)
        return ColumnWindow(
            uuid=subject,
            start=began,
            end=end,
            states=states,
            second_causes=sums.times(ColumnKind.SECOND_CAUSE, row),
            conditions=sums.times(ColumnKind.CONDITION, row),
            observed=_observed(states) if sums.has_ranks[row] else {},
            tiers=sums.times(ColumnKind.TIER, row),
            saturated=sums.times(ColumnKind.SATURATED, row),
            pressed=sums.times(ColumnKind.PRESSED, row),
            waste_seconds=sums.amounts(ColumnKind.WASTE, row),
            waste_joules=sums.amounts(ColumnKind.WASTE_JOULES, row),
            used_seconds=used.get("seconds", 0.0),
            used_joules=used.get("joules", 0.0),
            energy_joules=sums.amounts(ColumnKind.ENERGY, row).get("joules", 0.0),
            demands=LazyMapping(lambda: sums.demands(row)),
            compute_at_least=sums.demand(None, row),
            blocks=self.blocks(start, end),
        )


def latest_span(
    step: Nanoseconds, span: Nanoseconds | None, now: Nanoseconds
) -> tuple[Nanoseconds, Nanoseconds]:
    """Return a span that ends now, in complete intervals of the newest day; `None` for all.

    If that is hourly, short spans are answered by the last whole hour: what held over all of it
    held at its end, and nothing is known of the current hour.
    """
    if step != COARSE_STEP:
        return (0 if span is None else now - span), now
    end = now // step * step
    return (0 if span is None else end - -(-span // step) * step), end


def _observed(states: Mapping[State, Nanoseconds]) -> dict[Observation, Nanoseconds]:
    """Ranks were compared if imbalance would show; stores lack the load of each second."""
    return {Observation.RANKS: sum(states.values()) - states.get(State.UNKNOWN, 0)}
