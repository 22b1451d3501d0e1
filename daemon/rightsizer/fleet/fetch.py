"""Fetch of a store's days into the day cache: planning, and reading in processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Final

from msgspec import Struct

from rightsizer.fleet.cache.day_cache import DayCache, PackedDay
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY, FINE_STEP, Grid
from rightsizer.fleet.clusters import day_in
from rightsizer.fleet.model import FleetDay, FleetDevice
from rightsizer.fleet.process_pool import ProcessPool
from rightsizer.fleet.prometheus.endpoint import WaitingCallback
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import FleetSource, MetricStore, SourceReport, StoreUse
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    StoreLimitError,
    nanoseconds,
)

_SAMPLES_A_STRETCH: Final = 2
"""Five minutes need at least two samples."""

COLUMNS: Final = 30
"""Approximate series per device."""

_DoneOf = Callable[[str, Sequence[int]], Mapping[tuple[int, str], Nanoseconds]]
_GridDevices = tuple[Grid, tuple[FleetDevice, ...]]


class PlannedSource(Struct, frozen=True):
    """A source with the devices read from it."""

    report: SourceReport
    devices: tuple[FleetDevice, ...]


class FetchShard(Struct, frozen=True):
    """A day of some devices, or several days by the hour."""

    source: str
    grid: Grid
    devices: tuple[FleetDevice, ...]
    now: Nanoseconds
    """Time up to which samples can exist."""


class FetchPlan(Struct, frozen=True):
    """Everything to read, newest days first."""

    shards: tuple[FetchShard, ...]
    fine_days: tuple[int, ...]
    """Days since the epoch that are read in five-minute steps in all clusters."""
    coarse_days: tuple[int, ...]
    kept: int
    """Device days that are already cached."""
    wanted: int
    """Device days in total."""
    samples: int
    """Approximate number of samples."""

    @property
    def first_day(self) -> int:
        """Oldest day of the plan."""
        return min((*self.fine_days, *self.coarse_days))


def plan_of(
    sources: Sequence[PlannedSource],
    done: _DoneOf,
    now: Nanoseconds,
    settings: FleetSettings,
    *,
    is_read: bool = False,
) -> FetchPlan:
    """Plan a run; `done` has, by source and days, up to when each device was read.

    With `is_read`, what shards have read until now is not read again. Steps depend on the whole of
    a cluster and on no other, so that shards read what a single look reads.
    """
    first = (now - nanoseconds(settings.lookback_seconds)) // DAY
    late = nanoseconds(settings.late_seconds)
    days = range(first, now // DAY + 1)
    by_cluster = defaultdict[str, list[PlannedSource]](list)
    for planned_source in sources:
        by_cluster[planned_source.report.cluster.name].append(planned_source)
    fine = {
        name: _fine_days(planned_sources, days, now, settings)
        for name, planned_sources in by_cluster.items()
    }
    shards: list[FetchShard] = []
    kept = wanted = samples = 0
    part = settings.part
    for source in sources:
        name = source.report.key
        at_once = max(1, settings.store.series_maximum // source.report.series_at_once)
        ends = done(name, days)
        devices = tuple(
            device for device in source.devices if part.has_node(device.cluster, device.node)
        )
        asked: list[_GridDevices] = []
        for day in reversed(days):
            grid = _grid_of(
                source.report, day, now, is_fine=day in fine[source.report.cluster.name]
            )
            if grid is None:
                continue
            # A day read after its last sample is complete, in either step.
            complete = min(grid.end + late, now) if is_read else grid.end + late
            read_here = [device for device in devices if _is_told(device, source.report, grid)]
            left = tuple(
                device for device in read_here if ends.get((day, device.device.uuid), 0) < complete
            )
            wanted += len(read_here)
            kept += len(read_here) - len(left)
            asked.append((grid, left))
            samples += len(left) * COLUMNS * min(grid.count, (now - grid.start) // grid.step)
        for grid, left in _at_once(asked, source.report, now - late):
            # Devices of the same nodes together, so that queries contain few names.
            near = sorted(left, key=lambda one: (one.cluster, one.node, one.device.uuid))
            starts = range(0, len(near), at_once)
            parts = (tuple(near[start : start + at_once]) for start in starts)
            shards += (FetchShard(name, grid, some, now) for some in parts)
    coarse = tuple(day for day in days if any(day not in fine_days for fine_days in fine.values()))
    finely = tuple(day for day in days if day not in coarse)
    return FetchPlan(tuple(shards), finely, coarse, kept, wanted, samples)


def _is_told(device: FleetDevice, report: SourceReport, grid: Grid) -> bool:
    """Whether a source tells the time of a device: of a former one, until another took over."""
    return device.former != report.source or grid.end <= (device.seen[0] - 1) // DAY * DAY


def _grid_of(report: SourceReport, day: int, now: Nanoseconds, *, is_fine: bool) -> Grid | None:
    """Return the grid of a day; `None` before its first complete interval or sample."""
    resolution = report.resolution_by_day.get(day, report.resolution_seconds)
    if resolution is not None and _SAMPLES_A_STRETCH * nanoseconds(resolution) > FINE_STEP:
        is_fine = False
    grid = Grid(day, FINE_STEP if is_fine else COARSE_STEP)
    has_samples = report.oldest is not None and report.oldest < grid.end
    return grid if has_samples and now - grid.start >= grid.step else None


def _fine_days(
    sources: Sequence[PlannedSource], days: range, now: Nanoseconds, settings: FleetSettings
) -> frozenset[int]:
    """Return a cluster's newest days within the sample limit, at least the last hours."""
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
    """Return hourly days, newest first, joined as far as one query of the source allows."""
    spans: list[_GridDevices] = []
    names = report.names_by_day
    for grid, devices in asked:
        last, last_devices = spans[-1] if spans else (None, None)
        if (
            last is not None
            and last.step == grid.step == COARSE_STEP
            and last.days < report.days_at_once
            and last.day == grid.day + 1
            and last.end <= late
            and last_devices == devices
            and names.get(last.day) == names.get(grid.day)
        ):
            spans[-1] = Grid(grid.day, COARSE_STEP, last.days + 1), devices
        else:
            spans.append((grid, devices))
    return spans


_SHOWN: Final = 5


def gaps_of(report: SourceReport, now: Nanoseconds) -> Iterator[str]:
    """Yield a sentence for whole days without samples since a source's first."""
    sampled_days = report.resolution_by_day.keys() | report.names_by_day.keys()
    if report.oldest is None or not sampled_days:
        return
    silent = [day for day in range(report.oldest // DAY + 1, now // DAY) if day not in sampled_days]
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


class FetchTask(Struct, frozen=True):
    """Reader of shards; pickled to worker processes."""

    store: Callable[[], MetricStore]
    """Creates a process's own store client."""
    sources: Mapping[str, tuple[FleetSource, SourceReport]]
    """By report key."""

    def begin(self) -> AbstractContextManager[Callable[[FetchShard], _FetchedShard]]:
        """Return the reader of shards, with its own store client."""
        return nullcontext(partial(self._read, self.store()))

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


def fetch(  # noqa: PLR0913, PLR0917 - data, store, and listeners.
    plan: FetchPlan,
    cache: DayCache,
    task: FetchTask,
    pool: ProcessPool,
    progress: Callable[[int, int], None] = lambda *_: None,
    waiting: WaitingCallback = lambda *_: None,
) -> StoreUse:
    """Read a plan; return its cost for the store.

    Each shard is stored as it arrives, so the next run continues after any interruption. `waiting`
    is called while a process waits for the store.

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
    """Read a day, in halves of the devices if the store allows no more.

    Raises:
        StoreError: a single device exceeds the store's limits, or another failure.
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
