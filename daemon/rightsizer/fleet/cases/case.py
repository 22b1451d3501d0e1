"""FleetCases: the cases of a batch over any span, from the merged days of the cache."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, groupby, pairwise

from rightsizer.accounting.accounts_snapshot import allocator_of
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.fleet.cache.combination import DevicePart, by_the_hour, combined
from rightsizer.fleet.cache.day_cache import CachedFrame, HoldingRow
from rightsizer.fleet.cache.day_frame import DAY, FINE_STEP, DayFrame, Grid
from rightsizer.fleet.cache.subject_days import SubjectDays, SummedDay
from rightsizer.fleet.cases.history import SubjectHistory
from rightsizer.fleet.cases.occupancy import NodeNeighbors, Occupancy, held_since
from rightsizer.fleet.model import FleetDevice
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.device import Device
from rightsizer.model.finding import Case
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.histogram import Histogram
from rightsizer.model.node import Node
from rightsizer.model.pattern import Past
from rightsizer.model.state import Resource
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.model.window import Provisioning, Window, workload_subject
from rightsizer.model.workload import Workload


def are_aligned(grids: Iterable[Grid]) -> bool:
    """Whether each day is in a grid of the same days wherever it is."""
    spans = sorted({(grid.day, grid.day + grid.days) for grid in grids})
    return all(end <= start for (_, end), (start, _) in pairwise(spans))


def frames_by_day(frames: Iterable[DayFrame]) -> Iterator[DayFrame]:
    """Each day with its part of the distributions, by the time that is known of it."""
    for frame in frames:
        if frame.grid.days == 1:
            yield frame
            continue
        count, each = frame.grid.count, DAY // frame.grid.step
        known = frame.known_seconds()
        total = sum(known)
        for place, grid in enumerate(frame.grid.parts()):
            values = array("f")
            for first in range(place * each, len(frame.values), count):
                values += frame.values[first : first + each]
            part = sum(known[place * each : (place + 1) * each]) / total if total > 0 else 0.0
            demands = {resource: found.scaled(part) for resource, found in frame.demands.items()}
            yield DayFrame(grid, frame.layout, values, demands)


def rows_by_day(rows: Iterable[HoldingRow]) -> Iterator[HoldingRow]:
    """Holdings that end with their day, and go on with the next one."""
    for row in rows:
        each = DAY // row.grid.step
        for place, grid in enumerate(row.grid.parts()):
            first, last = row.first - place * each, row.last - place * each
            if first < each and last >= 0:
                yield row._replace(grid=grid, first=max(0, first), last=min(each - 1, last))


def merged_frames(cached: Iterable[CachedFrame], sources: Sequence[str]) -> list[DayFrame]:
    """The days of a device, oldest first, one frame for each time.

    It is by the day where several sources have it, of which the preferred ones are first.
    """
    found = list(cached)
    if len({each.source for each in found}) > 1:
        found = [each._replace(frame=day) for each in found for day in frames_by_day([each.frame])]
        found.sort(key=lambda each: each.frame.grid.day)
    by_rank = (
        [each.frame for each in sorted(same, key=lambda each: _rank(each.source, sources))]
        for _, same in groupby(found, lambda each: each.frame.grid.day)
    )
    return [_merged(frames) if len(frames) > 1 else frames[0] for frames in by_rank]


def merged_holdings(rows: Iterable[HoldingRow], sources: Sequence[str]) -> list[HoldingRow]:
    """Of each device and day, who held it by the first source that knows."""
    found: list[HoldingRow] = []
    for _, of_device in groupby(rows, lambda row: row.uuid):
        known = list(of_device)
        if len({row.source for row in known}) == 1:
            found += known
            continue
        known = sorted(rows_by_day(known), key=lambda row: row.grid.day)
        for _, same in groupby(known, lambda row: row.grid.day):
            of_day = list(same)
            best = min((row.source for row in of_day), key=lambda source: _rank(source, sources))
            found += [row for row in of_day if row.source == best]
    return found


def _rank(source: str, sources: Sequence[str]) -> tuple[int, str]:
    return (sources.index(source) if source in sources else len(sources)), source


def _merged(frames: Sequence[DayFrame]) -> DayFrame:
    """Each column and distribution of the first frame that has it."""
    if len({frame.grid.step for frame in frames}) > 1:
        frames = [by_the_hour(frame) for frame in frames]
    columns: dict[str, array[float]] = {}
    demands: dict[Resource, Histogram] = {}
    for frame in reversed(frames):
        columns |= frame.columns
        demands |= frame.demands
    return DayFrame.of(frames[0].grid, columns, demands)


Windows = tuple[Window, ...]
Provisionings = tuple[Provisioning, ...]


class CachedCase(Case):
    """A case over a span that most rules never ask about; elsewhere it is as any other.

    `windows` and `provisioning` are calls, and shared with the same case on its node.
    """

    __slots__ = ("_provisioning", "_windows")
    _windows: Callable[[], Windows]
    _provisioning: Callable[[], Provisionings]

    def __init__(  # noqa: PLR0913, PLR0917 # The fields of a case.
        self,
        key: str,
        workload: Workload | None,
        devices: tuple[Device, ...],
        windows: Callable[[], Windows],
        provisioning: Callable[[], Provisionings],
        past: Past | None,
        node: Node | None = None,
    ) -> None:
        fields = {"key": key, "workload": workload, "devices": devices, "past": past, "node": node}
        for name, value in (fields | {"_windows": windows, "_provisioning": provisioning}).items():
            object.__setattr__(self, name, value)  # As a frozen dataclass does it.

    @property
    def windows(self) -> Windows:
        """One for each device, in the same order."""
        return self._windows()

    @property
    def provisioning(self) -> Provisionings:
        """One for each device, in the same order."""
        return self._provisioning()

    def on(self, node: Node | None) -> CachedCase:
        """The same on a node."""
        sums = self._windows, self._provisioning
        return CachedCase(self.key, self.workload, self.devices, *sums, self.past, node)


@dataclass(frozen=True, slots=True)
class CaseSettings:
    """How cached days become cases."""

    accounting: AccountingSettings = field(default_factory=AccountingSettings)
    demands: DemandSettings = field(default_factory=DemandSettings)
    absent_seconds: float = 3600.0
    """How long a device may be silent before it counts as gone."""

    @property
    def gap(self) -> Nanoseconds:
        """How long a GPU may stand empty before its holder has left it."""
        return nanoseconds(self.accounting.holder_gap_seconds)


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """Workloads, and devices without one, at a moment; small, for it goes to another process."""

    occupancy: Occupancy
    """Of the batch alone."""
    devices: Mapping[str, FleetDevice]
    """By uuid, those that are there now."""
    workloads: Mapping[str, Workload]
    """By key."""
    first_day: int
    now: Nanoseconds
    """Where every span ends."""
    sources: tuple[str, ...] = ()
    """The preferred ones first."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Of its cases."""
        return tuple(self.occupancy.present)


@dataclass(frozen=True, slots=True)
class _DeviceHeld:
    device: FleetDevice
    days: SubjectDays
    since: Nanoseconds


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is the same for a case of any span."""

    key: str
    workload: Workload | None
    devices: tuple[_DeviceHeld, ...]
    past: SubjectHistory


class FleetCases:
    """The cases of a batch.

    `frames` has the days of the batch's devices by uuid, former ones included, `rows` who held
    them; both are in the order of time.
    """

    def __init__(
        self,
        request: BatchRequest,
        frames: Mapping[str, Sequence[DayFrame]],
        rows: Sequence[HoldingRow],
        settings: CaseSettings | None = None,
    ) -> None:
        self.now, self.settings = request.now, settings or CaseSettings()
        self._request, self._occupancy = request, request.occupancy
        grids = [row.grid for row in chain(rows, *self._occupancy.ever.values())]
        grids += [frame.grid for found in frames.values() for frame in found]
        self._by_day = not are_aligned(grids)
        self._days = {
            uuid: SubjectDays(
                SummedDay(frame, self.settings.demands)
                for frame in (frames_by_day(found) if self._by_day else found)
            )
            for uuid, found in frames.items()
        }
        self._rows: dict[str, list[HoldingRow]] = {}
        for row in self._split(rows):
            self._rows.setdefault(row.uuid, []).append(row)
        present = (self._subject(key) for key in request.keys)
        self._subjects = {each.key: each for each in present if each.devices}
        residents = (self._case(each, 0) for each in self._subjects.values())
        self._neighbors = NodeNeighbors(residents, self.devices, self.rows)

    def cases(self, span: Nanoseconds | None) -> tuple[Case, ...]:
        """The cases over the last span of time; `None` for all there is."""
        found = {key: self._case(subject, span) for key, subject in self._subjects.items()}
        nodes = self._neighbors.nodes(found)
        return tuple(case.on(nodes.get(key)) for key, case in found.items())

    @property
    def devices(self) -> Mapping[str, FleetDevice]:
        """Of the fleet, those that belong to the batch, whether they are still there or not."""
        return self._request.devices

    def days(self, uuid: str) -> SubjectDays:
        """The days of a device."""
        return self._days.get(uuid) or SubjectDays(())

    def days_of(self, key: str) -> SubjectDays:
        """The days of a case's subject."""
        return self._subjects[key].past.days

    def rows(self, uuid: str) -> Sequence[HoldingRow]:
        """Who held a device, oldest first."""
        return self._rows.get(uuid, ())

    def is_present(self, uuid: str) -> bool:
        """Whether a device is still there: it had samples lately, to the hour."""
        days = self.days(uuid)
        if days.last_present is None:
            return False
        step = days.days[-1].frame.grid.step
        longest = nanoseconds(self.settings.absent_seconds) + (step if step > FINE_STEP else 0)
        return self.now - days.last_present <= longest

    def _case(self, subject: _Subject, span: Nanoseconds | None) -> CachedCase:
        start, end = subject.past.days.over(span, self.now)
        allocator, settings = allocator_of(subject.workload), self.settings.accounting.provisioning

        @cache
        def windows() -> Windows:
            return tuple(
                held.days.window(held.device.device.uuid, min(end, max(start, held.since)), end)
                for held in subject.devices
            )

        @cache
        def provisioning() -> Provisionings:
            return tuple(
                provision(window, allocator, settings, held.device.demands)
                for held, window in zip(subject.devices, windows(), strict=True)
            )

        devices = tuple(held.device.device for held in subject.devices)
        past = subject.past.over(start, end)
        return CachedCase(subject.key, subject.workload, devices, windows, provisioning, past)

    def _subject(self, key: str) -> _Subject:
        is_held = key in self._occupancy.ever
        hold = partial(self._held, holder=key if is_held else None)
        devices = tuple(map(hold, filter(self.is_present, self._occupancy.present[key])))
        settings = self.settings.accounting.past
        if is_held:
            days, subject, since = self._days_together(key), workload_subject(key), 0
        else:
            days, subject, since = self.days(key), key, devices[0].since if devices else 0
        past = SubjectHistory(days, subject, since, self.now, settings)
        return _Subject(key, self._request.workloads.get(key) if is_held else None, devices, past)

    def _held(self, uuid: str, holder: str | None) -> _DeviceHeld:
        days = self.days(uuid)
        since = held_since(self.rows(uuid), holder, days, self.settings.gap)
        return _DeviceHeld(self.devices[uuid], days, since)

    def _split(self, rows: Iterable[HoldingRow]) -> Iterable[HoldingRow]:
        return rows_by_day(rows) if self._by_day else rows

    def _days_together(self, key: str) -> SubjectDays:
        """The workload's own days, over all the devices that it held."""
        by_day: dict[int, list[HoldingRow]] = {}
        for row in self._split(self._occupancy.ever[key]):
            by_day.setdefault(row.grid.day, []).append(row)
        found = [self._day(rows) for _, rows in sorted(by_day.items())]
        (uuid, *others) = {row.uuid for row in self._occupancy.ever[key]}
        alone = self.days(uuid)
        if not others and found == list(alone.days):
            return alone
        return SubjectDays(found)

    def _day(self, rows: Iterable[HoldingRow]) -> SummedDay:
        parts, shared = [], None
        for row in rows:
            days = (day for day in self.days(row.uuid).days if day.frame.grid.day == row.grid.day)
            day = next(days, None)
            frame = None if day is None else day.frame
            grid = row.grid if frame is None else frame.grid
            first = (row.start - row.grid.start) // grid.step
            last = max(first, -(-(row.end - row.grid.start) // grid.step) - 1)
            if day is not None and not any(day.known[last + 1 :]):
                last = grid.count - 1  # Nothing is known of what comes after it.
            part = DevicePart(frame, grid, first, last, row.share_ratio)
            parts.append(part)
            shared = day if part.is_whole else None
        if len(parts) == 1 and shared is not None:
            return shared
        return SummedDay(combined(parts), self.settings.demands)
