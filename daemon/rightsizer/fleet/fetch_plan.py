"""FetchPlan: days, steps and shards to ask a store for, and the gaps in what it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from rightsizer.fleet.cache.day_frame import COARSE_STEP, DAY, FINE_STEP, Grid
from rightsizer.fleet.model import FleetDevice
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.model.frozen import dataclass
from rightsizer.model.state import State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds

_WIDEST: Final = len(State)
"""Series that one query brings of a device, at most."""
_SAMPLES_A_STRETCH: Final = 2
"""Without two of them nothing is said of five minutes."""

_DoneOf = Callable[[str, Sequence[int]], Mapping[tuple[int, str], Nanoseconds]]


@dataclass(frozen=True, slots=True)
class FetchCost:
    """What reading a source takes."""

    columns: int = 30
    """Series of a device, about."""
    queries: int = 20
    """Of a day of one shard, about."""


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """A source and the devices that are read from it."""

    report: SourceReport
    devices: tuple[FleetDevice, ...]
    effort: FetchCost = FetchCost()


@dataclass(frozen=True, slots=True)
class FetchShard:
    """A day of some devices, or several days by the hour."""

    source: str
    grid: Grid
    devices: tuple[FleetDevice, ...]
    now: Nanoseconds
    """Up to when there can be samples."""


class _Asked(NamedTuple):
    """Days of devices that are still to be read."""

    grid: Grid
    devices: tuple[FleetDevice, ...]


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
    days = range(first, now // DAY + 1)
    fine = _fine_days(sources, days, now, settings)
    shards: list[FetchShard] = []
    kept = wanted = queries = samples = 0
    for source in sources:
        known = done(source.report.source, days)
        asked: list[_Asked] = []
        for day in reversed(days):
            grid = Grid(day, FINE_STEP if day in fine and _is_fine(source, day) else COARSE_STEP)
            if not _has_samples(source, grid, now):
                continue
            left = tuple(
                device
                for device in source.devices
                if not _is_over(known.get((day, device.device.uuid)), grid, settings)
            )
            wanted += len(source.devices)
            kept += len(source.devices) - len(left)
            asked.append(_Asked(grid, left))
            stretches = min(grid.count, (now - grid.start) // grid.step)
            samples += len(left) * source.effort.columns * stretches
        for grid, left in _at_once(asked, source.report, now - nanoseconds(settings.late_seconds)):
            found = _shards(source, grid, left, now, settings)
            shards += found
            queries += len(found) * source.effort.queries
    coarse = tuple(day for day in days if day not in fine)
    return FetchPlan(tuple(shards), tuple(sorted(fine)), coarse, kept, wanted, queries, samples)


def _fine_days(
    sources: Sequence[PlannedSource], days: range, now: Nanoseconds, settings: FleetSettings
) -> frozenset[int]:
    """The newest days, as far as the samples of all days allow, and the last hours anyhow."""
    series = sum(len(source.devices) * source.effort.columns for source in sources)
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


def _at_once(asked: Sequence[_Asked], report: SourceReport, late: Nanoseconds) -> Sequence[_Asked]:
    """Days by the hour, newest first, joined as far as a source can read them with one query."""
    found: list[_Asked] = []
    for each in asked:
        last = found[-1] if found else None
        if (
            last is not None
            and last.grid.step == each.grid.step == COARSE_STEP
            and last.grid.days < report.days_at_once
            and last.grid.day == each.grid.day + 1
            and last.grid.end <= late
            and last.devices == each.devices
            and _names(report, last.grid.day) == _names(report, each.grid.day)
        ):
            days = last.grid.days + 1
            found[-1] = _Asked(Grid(each.grid.day, COARSE_STEP, days), each.devices)
        else:
            found.append(each)
    return found


def _names(report: SourceReport, day: int) -> frozenset[str] | None:
    return report.names_by_day.get(day)


def _is_fine(source: PlannedSource, day: int) -> bool:
    report = source.report
    resolution = report.resolution_by_day.get(day, report.resolution_seconds)
    return resolution is None or _SAMPLES_A_STRETCH * nanoseconds(resolution) <= FINE_STEP


def _has_samples(source: PlannedSource, grid: Grid, now: Nanoseconds) -> bool:
    """Whether a stretch of the day is over, and the store goes back to it."""
    oldest = source.report.oldest
    return now - grid.start >= grid.step and oldest is not None and oldest < grid.end


def _is_over(until: Nanoseconds | None, grid: Grid, settings: FleetSettings) -> bool:
    """Whether a day was read after its last sample, at whichever step."""
    return until is not None and until >= grid.end + nanoseconds(settings.late_seconds)


def _shards(
    source: PlannedSource,
    grid: Grid,
    devices: Sequence[FleetDevice],
    now: Nanoseconds,
    settings: FleetSettings,
) -> list[FetchShard]:
    """Devices of the same nodes go together, so that what is asked for has few names."""
    most = max(1, settings.store.series_maximum // _WIDEST)
    sorted_devices = sorted(devices, key=_place)
    return [
        FetchShard(source.report.source, grid, tuple(sorted_devices[place : place + most]), now)
        for place in range(0, len(sorted_devices), most)
    ]


def _place(device: FleetDevice) -> tuple[str, str, str]:
    return device.cluster, device.node, device.device.uuid


_SHOWN: Final = 5


def gaps_of(report: SourceReport, now: Nanoseconds) -> Iterator[str]:
    """A sentence where a source has whole days without samples since its first."""
    known = report.resolution_by_day.keys() | report.names_by_day.keys()
    if report.oldest is None or not known:
        return
    silent = [day for day in range(report.oldest // DAY + 1, now // DAY) if day not in known]
    if not silent:
        return
    shown = ", ".join(map(_date, silent[:_SHOWN])) + (", ..." if len(silent) > _SHOWN else "")
    days = f"{len(silent)} days" if len(silent) > 1 else "a day"
    yield (
        f"The store has no samples of {report.source} on {days} ({shown}): what happened then is "
        "unknown, and counts neither as idle nor as used."
    )


def _date(day: int) -> str:
    return f"{datetime.fromtimestamp(day * DAY // NANOSECONDS_PER_SECOND, UTC):%Y-%m-%d}"
