"""A store that is asked once for what is wanted in parts: several weeks, one after the other."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.prometheus.use import StoreUse
from rightsizer.fleet.store import Sampled, Store

__all__ = ["AheadStore"]


class _Place(NamedTuple):
    """Where a part lies in the samples of a series."""

    first: int
    last: int
    """The first that is not in it."""
    times: Sequence[Nanoseconds]


class AheadStore:
    """A `Store` that asks for all that is left of a span of time, and keeps it for who comes next.

    Args:
        store: Who is asked.
        end: Of the last part: where questions are extended to. Every question about a range must
            come to it by its own steps.
    """

    def __init__(self, store: Store, end: Nanoseconds) -> None:
        self._store, self._end = store, end
        self._kept: dict[tuple[str, Nanoseconds], Sequence[Sampled]] = {}

    @property
    def use(self) -> StoreUse:
        """What the store was asked for so far."""
        return self._store.use

    def range(
        self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
    ) -> Sequence[Sampled]:
        """As in `Store`; a part that comes after one that was asked for takes no question."""
        key = promql, step
        answer = self._kept.pop(key, None)
        if answer is None:
            answer = self._store.range(promql, start, max(end, self._end), step)
        if end < self._end:
            self._kept[key] = answer
        return _within(answer, start, end)

    def instant(self, promql: str, time: Nanoseconds) -> Sequence[Sampled]:
        """As in `Store`."""
        return self._store.instant(promql, time)


def _within(answer: Sequence[Sampled], start: Nanoseconds, end: Nanoseconds) -> Sequence[Sampled]:
    """Series that have samples in a span of time, with those alone."""
    places: dict[int, _Place] = {}
    found = []
    for series in answer:
        times = series.times
        # Series of one answer share their times.
        place = places.get(id(times)) or places.setdefault(id(times), _place(times, start, end))
        if place.last - place.first == len(times):
            found.append(series)
        elif place.times:
            values = series.values[place.first : place.last]
            found.append(Sampled(series.labels, place.times, values))
    return found


def _place(times: Sequence[Nanoseconds], start: Nanoseconds, end: Nanoseconds) -> _Place:
    first, last = bisect_left(times, start), bisect_right(times, end)
    return _Place(first, last, times[first:last])
