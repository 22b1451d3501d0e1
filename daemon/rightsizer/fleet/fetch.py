"""Fetches a plan's shards from a store into the day cache, in worker processes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from rightsizer.fleet.cache.day_cache import DayCache, PackedDay
from rightsizer.fleet.cache.day_frame import Grid
from rightsizer.fleet.fetch_plan import FetchPlan, FetchShard
from rightsizer.fleet.model import FleetDay, FleetDevice
from rightsizer.fleet.process_pool import ProcessPool
from rightsizer.fleet.source import FleetSource, MetricStore, SampledSeries, SourceReport, StoreUse
from rightsizer.model.errors import StoreLimitError
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import Nanoseconds


class _PartPlace(NamedTuple):
    """Where a part lies in the samples of a series."""

    first: int
    last: int
    """The first that is not in it."""
    times: Sequence[Nanoseconds]


class PrefetchingStore:
    """A `Store` that asks for all that is left of a span of time, and keeps it for who comes next.

    Args:
        store: Who is asked.
        end: Of the last part: where questions are extended to. Every question about a range must
            come to it by its own steps.
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


def _within(
    answer: Sequence[SampledSeries], start: Nanoseconds, end: Nanoseconds
) -> Sequence[SampledSeries]:
    """Series that have samples in a span of time, with those alone."""
    places: dict[int, _PartPlace] = {}
    found = []
    for series in answer:
        times = series.times
        # Series of one answer share their times.
        place = places.get(id(times)) or places.setdefault(id(times), _place(times, start, end))
        if place.last - place.first == len(times):
            found.append(series)
        elif place.times:
            values = series.values[place.first : place.last]
            found.append(SampledSeries(series.labels, place.times, values))
    return found


def _place(times: Sequence[Nanoseconds], start: Nanoseconds, end: Nanoseconds) -> _PartPlace:
    first, last = bisect_left(times, start), bisect_right(times, end)
    return _PartPlace(first, last, times[first:last])


_DAYS_PER_FRAME: Final = 7
"""That are kept as one: a distribution is one of all its days, and rules look at three and at
fourteen of them."""


class _FetchedShard(NamedTuple):
    """What came of a shard."""

    days: tuple[PackedDay, ...]
    use: StoreUse


@dataclass(frozen=True, slots=True)
class FetchTask:
    """How shards are read; it goes to other processes."""

    store: Callable[[], MetricStore]
    """Makes a process's own."""
    sources: Mapping[str, tuple[FleetSource, SourceReport]]

    def begin(self) -> Callable[[FetchShard], _FetchedShard]:
        """Who reads one shard after the other."""
        return _ShardFetcher(self.store(), self.sources).read


def fetch(
    plan: FetchPlan,
    shelf: DayCache,
    reading: FetchTask,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> StoreUse:
    """Read what a plan asks for; what that took of the store.

    What was read before something failed is kept, so that the next run goes on from there.

    Raises:
        StoreError: the store is away, refuses, or allows less than a single device's day.
        HistoryError: the cache cannot be written.
    """
    total = len(plan.shards)
    progress(0, total)
    use = StoreUse()
    crew: ProcessPool[FetchShard, _FetchedShard] = ProcessPool(reading.begin, min(workers, total))
    for done, read in enumerate(crew.results(plan.shards), start=1):
        for day in read.days:
            shelf.put(day)
        use += read.use
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


class _ShardFetcher:
    """Reads shards with a store of its own."""

    def __init__(
        self, store: MetricStore, sources: Mapping[str, tuple[FleetSource, SourceReport]]
    ) -> None:
        self._store, self._sources = store, sources

    def read(self, shard: FetchShard) -> _FetchedShard:
        """One shard, packed, and what it took."""
        before = self._store.use
        grids = shard.grid.parts(_DAYS_PER_FRAME)
        # What is asked for is asked for at once, so that it is one answer to read.
        store = self._store if len(grids) == 1 else PrefetchingStore(self._store, shard.grid.end)
        days = tuple(self._day(store, shard, grid) for grid in grids)
        return _FetchedShard(days, self._store.use.since(before))

    def _day(self, store: MetricStore, shard: FetchShard, grid: Grid) -> PackedDay:
        source, report = self._sources[shard.source]
        day = read_day(lambda devices: source.day(store, report, devices, grid), shard.devices)
        uuids = [device.device.uuid for device in shard.devices]
        return PackedDay.of(shard.source, grid, uuids, shard.now, day)
