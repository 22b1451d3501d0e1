"""Fetches a plan's shards from a store into the day cache, in worker processes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from rightsizer.fleet.cache.day_cache import DayCache, PackedDay
from rightsizer.fleet.clusters import day_in
from rightsizer.fleet.fetch_plan import FetchPlan, FetchShard
from rightsizer.fleet.model import FleetDay, FleetDevice
from rightsizer.fleet.process_pool import pooled
from rightsizer.fleet.prometheus.endpoint import WaitingCallback
from rightsizer.fleet.source import FleetSource, MetricStore, SampledSeries, SourceReport, StoreUse
from rightsizer.model.errors import StoreLimitError
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import Nanoseconds


class PrefetchingStore:
    """A store that asks for all that is left of a span of time, and keeps it for later parts.

    Queries are extended to the end of the last part; each must come to it by its own steps.
    """

    def __init__(self, store: MetricStore, end: Nanoseconds) -> None:
        self._store, self._end = store, end
        self._kept: dict[tuple[str, Nanoseconds], Sequence[SampledSeries]] = {}

    @property
    def use(self) -> StoreUse:
        """What the store was asked for so far."""
        return self._store.use

    def range(
        self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
    ) -> Sequence[SampledSeries]:
        """As in `Store`; a part that comes after one that was asked for takes no question."""
        key = promql, step
        answer = self._kept.pop(key, None)
        if answer is None:
            answer = self._store.range(promql, start, max(end, self._end), step)
        if end < self._end:
            self._kept[key] = answer
        return _within(answer, start, end)

    def instant(self, promql: str, time: Nanoseconds) -> Sequence[SampledSeries]:
        """As in `Store`."""
        return self._store.instant(promql, time)

    def within(self, matchers: str) -> PrefetchingStore:
        """As in `Store`."""
        return PrefetchingStore(self._store.within(matchers), self._end)


def _within(
    answer: Sequence[SampledSeries], start: Nanoseconds, end: Nanoseconds
) -> Sequence[SampledSeries]:
    """Series that have samples in a span of time, with those alone."""
    places: dict[int, tuple[slice, Sequence[Nanoseconds]]] = {}
    found = []
    for series in answer:
        times = series.times
        # Series of one answer share their times.
        if id(times) not in places:
            place = slice(bisect_left(times, start), bisect_right(times, end))
            places[id(times)] = place, times[place]
        place, inside = places[id(times)]
        if len(inside) == len(times):
            found.append(series)
        elif inside:
            found.append(SampledSeries(series.labels, inside, series.values[place]))
    return found


_DAYS_PER_FRAME: Final = 7
"""A distribution is one of all days of a frame, and rules look at three and at fourteen days."""


_FetchedShard = tuple[tuple[PackedDay, ...], StoreUse]


@dataclass(frozen=True, slots=True)
class FetchTask:
    """How shards are read; pickled to worker processes."""

    store: Callable[[], MetricStore]
    """Makes a process's own."""
    sources: Mapping[str, tuple[FleetSource, SourceReport]]
    """By the keys of their reports."""

    def begin(self) -> Callable[[FetchShard], _FetchedShard]:
        """What reads one shard after the other, with a store of its own."""
        return partial(self._read, self.store())

    def _read(self, store: MetricStore, shard: FetchShard) -> _FetchedShard:
        before, days = store.use, []
        source, report = self.sources[shard.source]
        if report.cluster.matchers:
            store = store.within(report.cluster.matchers)
        uuids = [device.device.uuid for device in shard.devices]
        grids = shard.grid.parts(_DAYS_PER_FRAME)
        # All parts are one query, so that there is one answer to parse.
        parts = store if len(grids) == 1 else PrefetchingStore(store, shard.grid.end)
        for grid in grids:
            day = read_day(partial(source.day, parts, report, grid=grid), shard.devices)
            named = day_in(report.cluster, day)
            days.append(PackedDay.of(shard.source, grid, uuids, shard.now, named))
        return tuple(days), store.use.since(before)


def fetch(  # noqa: PLR0913, PLR0917 - what is to be read, where from, and who is told.
    plan: FetchPlan,
    cache: DayCache,
    task: FetchTask,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda *_: None,
    waiting: WaitingCallback = lambda *_: None,
) -> StoreUse:
    """Read what a plan asks for; what that took of the store.

    Each shard is kept as it comes, so that the next run goes on from there whatever ends this one.
    `waiting` is told where a process waits for the store.

    Raises:
        StoreError: the store is away, refuses, or allows less than a single device's day.
        HistoryError: the cache cannot be written.
    """
    total = len(plan.shards)
    progress(0, total)
    use = StoreUse()
    fetched = pooled(task.begin, plan.shards, min(workers, total), lambda told: waiting(*told))
    for done, (days, used) in enumerate(fetched, start=1):
        for day in days:
            cache.put(day)
        use += used
        progress(done, total)
    return use


def read_day(
    read: Callable[[Sequence[FleetDevice]], FleetDay], devices: Sequence[FleetDevice]
) -> FleetDay:
    """A day of some devices, in halves of them where they are more than the store allows.

    Raises:
        StoreError: a single device is more than the store allows, or it fails otherwise.
    """
    try:
        return read(devices)
    except StoreLimitError:
        if len(devices) <= 1:
            raise
    half = len(devices) // 2
    parts = [read_day(read, some) for some in (devices[:half], devices[half:])]
    return FleetDay(
        {uuid: track for part in parts for uuid, track in part.frames.items()},
        {uuid: held for part in parts for uuid, held in part.holdings.items()},
    )
