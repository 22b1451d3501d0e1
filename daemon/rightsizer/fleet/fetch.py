"""Fetch of a store's days into the day cache: what to ask for, and reading it in processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Final

from rightsizer.fleet.cache.day_cache import DayCache, PackedDay
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY, FINE_STEP, Grid
from rightsizer.fleet.clusters import day_in
from rightsizer.fleet.model import FleetDay, FleetDevice
from rightsizer.fleet.process_pool import ProcessPool
from rightsizer.fleet.prometheus.endpoint import WaitingCallback
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import FleetSource, MetricStore, SourceReport, StoreUse
from rightsizer.model.errors import StoreLimitError
from rightsizer.model.frozen import dataclass
from rightsizer.model.state import State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds

_WIDEST: Final = len(State)
"""Series that one query brings of a device, at most."""
_SAMPLES_A_STRETCH: Final = 2
"""Without two of them nothing is said of five minutes."""

COLUMNS: Final = 30
"""Series of a device, about."""
SHARD_QUERIES: Final = 20
"""Of a day of one shard, about."""

_DoneOf = Callable[[str, Sequence[int]], Mapping[tuple[int, str], Nanoseconds]]
_GridDevices = tuple[Grid, tuple[FleetDevice, ...]]


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """A source and the devices that are read from it."""

    report: SourceReport
    devices: tuple[FleetDevice, ...]


@dataclass(frozen=True, slots=True)
class FetchShard:
    """A day of some devices, or several days by the hour."""

    source: str
    grid: Grid
    devices: tuple[FleetDevice, ...]
    now: Nanoseconds
    """Up to when there can be samples."""


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """All that is to be read, newest days first."""

    shards: tuple[FetchShard, ...]
    fine_days: tuple[int, ...]
    """Days since the epoch that are read by five minutes."""
    coarse_days: tuple[int, ...]
    kept: int
    """Days of devices that need not be asked for."""
    wanted: int
    """Days of devices in all."""
    queries: int
    """That it takes, about."""
    samples: int
    """That come back, about."""

    @property
    def first_day(self) -> int:
        """The oldest that is looked at."""
        return min((*self.fine_days, *self.coarse_days))


def plan_of(
    sources: Sequence[PlannedSource], done: _DoneOf, now: Nanoseconds, settings: FleetSettings
) -> FetchPlan:
    """The plan of a run; `done` has, by source and days, up to when each device was read."""
    first = (now - nanoseconds(settings.lookback_seconds)) // DAY
    late = nanoseconds(settings.late_seconds)
    days = range(first, now // DAY + 1)
    fine = _fine_days(sources, days, now, settings)
    shards: list[FetchShard] = []
    kept = wanted = samples = 0
    most = max(1, settings.store.series_maximum // _WIDEST)
    for source in sources:
        name, known = source.report.key, done(source.report.key, days)
        asked: list[_GridDevices] = []
        for day in reversed(days):
            grid = _grid_of(source.report, day, now, is_fine=day in fine)
            if grid is None:
                continue
            # A day that was read after its last sample is done, at whichever step.
            left = tuple(
                device
                for device in source.devices
                if known.get((day, device.device.uuid), 0) < grid.end + late
            )
            wanted += len(source.devices)
            kept += len(source.devices) - len(left)
            asked.append((grid, left))
            samples += len(left) * COLUMNS * min(grid.count, (now - grid.start) // grid.step)
        for grid, left in _at_once(asked, source.report, now - late):
            # Devices of the same nodes go together, so that what is asked for has few names.
            near = sorted(left, key=lambda one: (one.cluster, one.node, one.device.uuid))
            parts = (tuple(near[place : place + most]) for place in range(0, len(near), most))
            shards += (FetchShard(name, grid, part, now) for part in parts)
    coarse, queries = tuple(day for day in days if day not in fine), len(shards) * SHARD_QUERIES
    return FetchPlan(tuple(shards), tuple(sorted(fine)), coarse, kept, wanted, queries, samples)


def _grid_of(report: SourceReport, day: int, now: Nanoseconds, *, is_fine: bool) -> Grid | None:
    """How a day is read; `None` before a stretch of it is over, and before the first sample."""
    resolution = report.resolution_by_day.get(day, report.resolution_seconds)
    if resolution is not None and _SAMPLES_A_STRETCH * nanoseconds(resolution) > FINE_STEP:
        is_fine = False
    grid = Grid(day, FINE_STEP if is_fine else COARSE_STEP)
    has_samples = report.oldest is not None and report.oldest < grid.end
    return grid if has_samples and now - grid.start >= grid.step else None


def _fine_days(
    sources: Sequence[PlannedSource], days: range, now: Nanoseconds, settings: FleetSettings
) -> frozenset[int]:
    """The newest days, as far as the samples of all days allow, and the last hours anyhow."""
    series = sum(len(source.devices) * COLUMNS for source in sources)
    fine = {day for day in days if (day + 1) * DAY > now - nanoseconds(settings.fine_seconds)}
    left = settings.samples_maximum - series * (
        len(fine) * (DAY // FINE_STEP) + (len(days) - len(fine)) * (DAY // COARSE_STEP)
    )
    more = series * (DAY // FINE_STEP - DAY // COARSE_STEP)
    for day in reversed(days):
        if day not in fine:
            left -= more
            if left < 0:
                break
            fine.add(day)
    return frozenset(fine)


def _at_once(
    asked: Sequence[_GridDevices], report: SourceReport, late: Nanoseconds
) -> Sequence[_GridDevices]:
    """Days by the hour, newest first, joined as far as a source can read them with one query."""
    found: list[_GridDevices] = []
    names = report.names_by_day
    for grid, devices in asked:
        last, last_devices = found[-1] if found else (None, None)
        if (
            last is not None
            and last.step == grid.step == COARSE_STEP
            and last.days < report.days_at_once
            and last.day == grid.day + 1
            and last.end <= late
            and last_devices == devices
            and names.get(last.day) == names.get(grid.day)
        ):
            found[-1] = Grid(grid.day, COARSE_STEP, last.days + 1), devices
        else:
            found.append((grid, devices))
    return found


_SHOWN: Final = 5


def gaps_of(report: SourceReport, now: Nanoseconds) -> Iterator[str]:
    """A sentence where a source has whole days without samples since its first."""
    known = report.resolution_by_day.keys() | report.names_by_day.keys()
    if report.oldest is None or not known:
        return
    silent = [day for day in range(report.oldest // DAY + 1, now // DAY) if day not in known]
    if not silent:
        return
    dates = (datetime.fromtimestamp(day * DAY // NANOSECONDS_PER_SECOND, UTC) for day in silent)
    shown = ", ".join(f"{date:%Y-%m-%d}" for date in islice(dates, _SHOWN))
    shown += ", ..." if len(silent) > _SHOWN else ""
    days = f"{len(silent)} days" if len(silent) > 1 else "a day"
    where = f" in {report.cluster.prefix}" if report.cluster.prefix else ""
    yield (
        f"The store has no samples of {report.source}{where} on {days} ({shown}): what "
        "happened then is unknown, and counts neither as idle nor as used."
    )


_FetchedShard = tuple[PackedDay, StoreUse]


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
        before = store.use
        source, report = self.sources[shard.source]
        if report.cluster.matchers:
            store = store.within(report.cluster.matchers)
        uuids = [device.device.uuid for device in shard.devices]
        day = read_day(partial(source.day, store, report, grid=shard.grid), shard.devices)
        named = day_in(report.cluster, day)
        packed = PackedDay.of(shard.source, shard.grid, uuids, shard.now, named)
        return packed, store.use.since(before)


def fetch(  # noqa: PLR0913, PLR0917 - what is to be read, where from, and who is told.
    plan: FetchPlan,
    cache: DayCache,
    task: FetchTask,
    pool: ProcessPool,
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
    fetched = pool.run(task.begin, plan.shards, lambda news: waiting(*news))
    for done, (day, used) in enumerate(fetched, start=1):
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
