"""Days of frames with cached sums over their intervals; like frames are summed together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import Final, Self

import numpy as np

from rightsizer.fleet.cache.combination import hourly
from rightsizer.fleet.cache.day_frame import (
    DEVICES,
    IDLE_EMPTY_STATE,
    UNKNOWN_STATE,
    ColumnKind,
    DayFrame,
    Floats,
    kind_of,
    zero_where_unknown,
)
from rightsizer.fleet.cache.grid import COARSE_STEP, Grid
from rightsizer.fleet.cache.measures import DayDemands, Halves, halves_of
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.block import Measure
from rightsizer.model.state import State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_HELD: Final = ColumnKind.STATE.column(State.IDLE_HELD)
_MORE_THAN_ALL: Final = 1.0 + 1e-3
"""Tolerance for rounding; larger values are impossible."""


class LikeDays:
    """Frames with equal days and columns, summed together, each span once."""

    def __init__(self, frames: Sequence[DayFrame], settings: DemandSettings) -> None:
        first = frames[0]
        values = np.stack([frame.values for frame in frames])
        self.grid = first.grid
        self.layout = first.layout
        self._values = values
        states = [*self.layout.states]
        self.known = zero_where_unknown(values[:, states].sum(axis=1, dtype=float))
        """Known seconds by frame and interval, over all devices of a frame."""
        limits = self._longest
        is_long = self.known > limits * _MORE_THAN_ALL
        if is_long.any():
            ratios = np.where(is_long, limits / np.where(is_long, self.known, 1.0), 1.0)
            values[:, states] *= ratios[:, None]
            self.known[is_long] = np.broadcast_to(limits, is_long.shape)[is_long]
        self._halves: dict[Measure, Halves | None] = {}
        self._hours: dict[str, Floats | None] = {}
        self.frames = [
            DayFrame(one.grid, one.layout, value, one.demands)
            for one, value in zip(frames, values, strict=True)
        ]
        """Capped to the interval's length, which `increase` may exceed by extrapolation."""
        sums = zero_where_unknown(values[:, : self.layout.additive])
        # Not bound to itself: without reference cycles, a batch is freed at once.
        self.sums_over = cache(lambda at, end: sums[:, :, at:end].sum(axis=2, dtype=float))
        self.demands_over = cache(DayDemands(self.frames, values, self.known, settings).over)

    def column(self, name: str) -> Floats | None:
        """Return a column by frame and interval, or `None` if unknown."""
        place = self.layout.places.get(name)
        return None if place is None else self._values[:, place]

    def hours(self, column: str) -> Floats | None:
        """Return a column by frame and hour; `None` if unknown."""
        if column not in self._hours:
            found = self.column(column)
            if found is not None and self.grid.step != COARSE_STEP:
                found = hourly(kind_of(column), found, self.known)
            self._hours[column] = found
        return self._hours[column]

    def halves(self, measure: Measure) -> Halves | None:
        """Return a measure by frame and interval; `None` if unknown."""
        if measure not in self._halves:
            means = self.column(f"mean:{measure}")
            peaks = self.column(f"peak:{measure}")
            self._halves[measure] = halves_of(means, peaks, measure)
        return self._halves[measure]

    @cached_property
    def present_seconds(self) -> Floats:
        """Seconds of each interval in which a frame was present, with known state or not."""
        unknown = self.column(UNKNOWN_STATE)
        return self.known if unknown is None else self.known + zero_where_unknown(unknown)

    @cached_property
    def present_over(self) -> Callable[[int, int], list[float]]:
        """Getter of the present seconds of each frame between intervals, the last exclusive."""
        return _sums_over(self.present_seconds)

    @cached_property
    def known_over(self) -> Callable[[int, int], list[float]]:
        """Getter of the known seconds of the same."""
        return _sums_over(self.known)

    @cached_property
    def use(self) -> tuple[Floats, Floats, Floats]:
        """Whether frames were present, their share in use, and their devices at work."""
        empty, idle = (
            0.0 if found is None else zero_where_unknown(found)
            for found in map(self.column, (IDLE_EMPTY_STATE, _HELD))
        )
        is_known = self.known > 0
        step = self.grid.step / NANOSECONDS_PER_SECOND
        used = np.where(is_known, 1.0 - empty / np.where(is_known, self.known, np.inf), 0.0)
        active = np.maximum(0.0, self.known - empty - idle) / step
        return np.asarray(self.present_seconds > 0, float), used, active

    @cached_property
    def known_parts(self) -> Floats:
        """Known share of each interval, 0 to 1."""
        longest = self._longest
        return np.minimum(1.0, self.known / np.where(longest > 0, longest, np.inf))

    @property
    def _longest(self) -> Floats:
        """Length of each interval in seconds, over all devices of a frame."""
        devices = self.column(DEVICES)
        step = self.grid.step / NANOSECONDS_PER_SECOND
        return (
            np.full((1, self.grid.count), step) if devices is None else step * devices.astype(float)
        )

    def device_times(self, first: int, last: int) -> list[Nanoseconds]:
        """Return the time of all devices of each frame between intervals, the last exclusive."""
        devices = self.column(DEVICES)
        if devices is None:
            return [(last - first) * self.grid.step] * len(self.frames)
        counts = devices[:, first:last].sum(axis=1, dtype=float)
        return [round(count * self.grid.step) for count in counts.tolist()]


def _sums_over(values: Floats) -> Callable[[int, int], list[float]]:
    return cache(lambda at, end: values[:, at:end].sum(axis=1).tolist())


class SummedDay:
    """A frame among like ones, with cached sums over its intervals."""

    def __init__(
        self, frame: DayFrame, settings: DemandSettings, like: tuple[LikeDays, int] | None = None
    ) -> None:
        self.like, self.row = like or (LikeDays([frame], settings), 0)
        self.known: Floats = self.like.known[self.row]
        """Known seconds by interval, over all its devices."""
        self.frame = self.like.frames[self.row]

    @classmethod
    def of_all(cls, frames: Iterable[DayFrame], settings: DemandSettings) -> list[Self]:
        """Create one for each frame; like frames share the work."""
        day_frames = list(frames)
        groups = defaultdict[object, list[int]](list)
        for place, frame in enumerate(day_frames):
            groups[frame.grid, frame.layout, frozenset(frame.demands)].append(place)
        days = dict[int, Self]()
        for places in groups.values():
            like = LikeDays([day_frames[place] for place in places], settings)
            days |= {
                at: cls(day_frames[at], settings, (like, row)) for row, at in enumerate(places)
            }
        return [days[place] for place in range(len(day_frames))]

    @property
    def grid(self) -> Grid:
        """Its intervals."""
        return self.frame.grid

    def halves(self, measure: Measure) -> Halves:
        """Return means and peaks of a measure by interval."""
        of_all = self.like.halves(measure)
        if of_all is None:
            unknown = np.full(self.grid.count, np.nan, np.float16)
            return unknown, unknown
        means, peaks = of_all
        return means[self.row], peaks[self.row]

    def known_over(self, first: int, last: int) -> float:
        """Return the known seconds between intervals, the last exclusive."""
        return self.like.known_over(first, last)[self.row]

    def sum_over(self, column: str, first: int, last: int) -> float:
        """Return the sum of an additive column between intervals, 0 if unknown."""
        place = self.like.layout.places.get(column)
        return 0.0 if place is None else float(self.like.sums_over(first, last)[self.row, place])

    @property
    def present_seconds(self) -> Floats:
        """Seconds of each interval in which it was present, with known state or not."""
        seconds: Floats = self.like.present_seconds[self.row]
        return seconds

    @property
    def known_parts(self) -> Floats:
        """Known share of each interval, 0 to 1."""
        parts: Floats = self.like.known_parts[self.row]
        return parts
