"""The harvest: reads a plan's shards from a store, and puts them on the shelf one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rightsizer.domain.errors import StoreLimitError
from rightsizer.fleet.crew import Crew
from rightsizer.fleet.estate import Day, EstateDevice
from rightsizer.fleet.kept.grid import Grid
from rightsizer.fleet.kept.shelf import PackedDay, Shelf
from rightsizer.fleet.prometheus.ahead import AheadStore
from rightsizer.fleet.prometheus.use import StoreUse
from rightsizer.fleet.reading.plan import Plan, Shard
from rightsizer.fleet.source import Source, SourceReport
from rightsizer.fleet.store import Store

__all__ = ["Reading", "harvest", "read_day"]

_KEPT_DAYS: Final = 7
"""That are kept as one: a distribution is one of all its days, and rules look at three and at
fourteen of them."""


class _Read(NamedTuple):
    """What came of a shard."""

    days: tuple[PackedDay, ...]
    use: StoreUse


@dataclass(frozen=True, slots=True)
class Reading:
    """How shards are read; it goes to other processes."""

    store: Callable[[], Store]
    """Makes a process's own."""
    sources: Mapping[str, tuple[Source, SourceReport]]

    def begin(self) -> Callable[[Shard], _Read]:
        """Who reads one shard after the other."""
        return _Reader(self.store(), self.sources).read


def harvest(
    plan: Plan,
    shelf: Shelf,
    reading: Reading,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> StoreUse:
    """Read what a plan asks for; what that took of the store.

    What was read before something failed is kept, so that the next run goes on from there.

    Args:
        plan: What to read.
        shelf: Where it is kept.
        reading: How.
        workers: How many processes read.
        progress: Is told how many shards are done, and of how many.

    Raises:
        StoreError: the store is away, refuses, or allows less than a single device's day.
        HistoryError: the shelf cannot be written.
    """
    total = len(plan.shards)
    progress(0, total)
    use = StoreUse()
    crew: Crew[Shard, _Read] = Crew(reading.begin, min(workers, total))
    for done, read in enumerate(crew.results(plan.shards), start=1):
        for day in read.days:
            shelf.put(day)
        use += read.use
        progress(done, total)
    return use


def read_day(read: Callable[[Sequence[EstateDevice]], Day], devices: Sequence[EstateDevice]) -> Day:
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
    return Day(
        {uuid: track for part in parts for uuid, track in part.tracks.items()},
        {uuid: held for part in parts for uuid, held in part.holdings.items()},
    )


class _Reader:
    """Reads shards with a store of its own."""

    def __init__(self, store: Store, sources: Mapping[str, tuple[Source, SourceReport]]) -> None:
        self._store, self._sources = store, sources

    def read(self, shard: Shard) -> _Read:
        """One shard, packed, and what it took."""
        before = self._store.use
        grids = shard.grid.parts(_KEPT_DAYS)
        # What is asked for is asked for at once, so that it is one answer to read.
        store = self._store if len(grids) == 1 else AheadStore(self._store, shard.grid.end)
        days = tuple(self._day(store, shard, grid) for grid in grids)
        return _Read(days, self._store.use.since(before))

    def _day(self, store: Store, shard: Shard, grid: Grid) -> PackedDay:
        source, report = self._sources[shard.source]
        day = read_day(lambda devices: source.day(store, report, devices, grid), shard.devices)
        uuids = [device.device.uuid for device in shard.devices]
        return PackedDay.of(shard.source, grid, uuids, shard.now, day)
