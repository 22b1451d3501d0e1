"""FleetCase: one device over the lookback, from the merged days of the cache."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, groupby, pairwise

from rightsizer.accounting.accounts_snapshot import allocator_of
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.settings import AccountingSettings, ProvisioningSettings
from rightsizer.fleet.cache.combination import DevicePart, by_the_hour, combined
from rightsizer.fleet.cache.day_cache import CachedFrame, HoldingRow
from rightsizer.fleet.cache.day_frame import DAY, FINE_STEP, DayColumn, DayFrame, FrameLayout, Grid
from rightsizer.fleet.cache.subject_days import SubjectDays, SummedDay
from rightsizer.fleet.cases.history import CachedHistory, SubjectHistory
from rightsizer.fleet.cases.occupancy import NodeNeighbors, NodeResident, Occupancy, tenure_of
from rightsizer.fleet.model import FleetDevice
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.device import Device
from rightsizer.model.finding import Case
from rightsizer.model.histogram import Histogram
from rightsizer.model.node import Node
from rightsizer.model.pattern import Past
from rightsizer.model.state import Resource
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.model.window import Provisioning, Window, workload_subject
from rightsizer.model.workload import Workload


def are_aligned(grids: Iterable[Grid]) -> bool:
    """Whether each day belongs to the same days wherever it is told of."""
    spans = sorted({(grid.day, grid.day + grid.days) for grid in grids})
    return all(end <= start for (_, end), (start, _) in pairwise(spans))


def frames_by_day(sheets: Iterable[DayFrame]) -> list[DayFrame]:
    """Each day with its part of the distributions, by the time that is known of it."""
    return [day for sheet in sheets for day in _days_of(sheet)]


def rows_by_day(rows: Iterable[HoldingRow]) -> list[HoldingRow]:
    """Holdings that end with their day, and go on with the next one."""
    return [day for row in rows for day in _rows_of(row)]


def _days_of(sheet: DayFrame) -> list[DayFrame]:
    if sheet.grid.days == 1:
        return [sheet]
    count, each = sheet.grid.count, DAY // sheet.grid.step
    known = sheet.known_seconds()
    total = sum(known)
    found = []
    for place, grid in enumerate(sheet.grid.each_day):
        values = array("f")
        for first in range(place * each, len(sheet.values), count):
            values += sheet.values[first : first + each]
        part = sum(known[place * each : (place + 1) * each]) / total if total > 0 else 0.0
        demands = {resource: each.scaled(part) for resource, each in sheet.demands.items()}
        found.append(DayFrame(grid, sheet.layout, values, demands))
    return found


def _rows_of(row: HoldingRow) -> list[HoldingRow]:
    if row.grid.days == 1:
        return [row]
    each = DAY // row.grid.step
    days = enumerate(row.grid.each_day)
    return [
        row._replace(
            grid=grid,
            first=max(0, row.first - place * each),
            last=min(each - 1, row.last - place * each),
        )
        for place, grid in days
        if row.first < (place + 1) * each and row.last >= place * each
    ]


def merged_frames(kept: Iterable[CachedFrame], sources: Sequence[str]) -> list[DayFrame]:
    """One sheet for each time, oldest first; by the day where several tell of it.

    Args:
        kept: The days of a device as they were told, oldest first.
        sources: Whom to believe first.
    """
    kept = list(kept)
    if len({each.source for each in kept}) > 1:
        kept = [each._replace(sheet=day) for each in kept for day in frames_by_day([each.sheet])]
        kept.sort(key=lambda each: each.sheet.grid.day)
    found = []
    for _, same in groupby(kept, lambda each: each.sheet.grid.day):
        told = sorted(same, key=lambda each: _rank(each.source, sources))
        first, *others = [each.sheet for each in told]
        found.append(_together(first, others) if others else first)
    return found


def merged_holdings(rows: Iterable[HoldingRow], sources: Sequence[str]) -> list[HoldingRow]:
    """Of each device and day, who held it by the first source that knows."""
    found: list[HoldingRow] = []
    for _, of_device in groupby(rows, lambda row: row.uuid):
        told = list(of_device)
        is_alone = len({row.source for row in told}) == 1
        found += told if is_alone else _best(rows_by_day(told), sources)
    return found


def _best(rows: list[HoldingRow], sources: Sequence[str]) -> list[HoldingRow]:
    found: list[HoldingRow] = []
    rows.sort(key=lambda row: row.grid.day)
    for _, same in groupby(rows, lambda row: row.grid.day):
        told = list(same)
        best = min((row.source for row in told), key=lambda source: _rank(source, sources))
        found += [row for row in told if row.source == best]
    return found


def _rank(source: str, sources: Sequence[str]) -> tuple[int, str]:
    return (sources.index(source) if source in sources else len(sources)), source


def _together(first: DayFrame, others: Sequence[DayFrame]) -> DayFrame:
    sheets = [first, *others]
    if len({sheet.grid.step for sheet in sheets}) > 1:
        sheets = [by_the_hour(sheet) for sheet in sheets]
    columns: dict[DayColumn, array[float]] = {}
    for sheet in reversed(sheets):
        for column in sheet.layout.columns:
            found = sheet.column(column)
            if found is not None:
                columns[column] = found
    layout = FrameLayout.of(columns)
    values = array("f")
    for column in layout.columns:
        values += columns[column]
    demands: dict[Resource, Histogram] = {}
    for sheet in reversed(sheets):
        demands |= sheet.demands
    return DayFrame(sheets[0].grid, layout, values, demands)


Windows = tuple[Window, ...]
Provisionings = tuple[Provisioning, ...]


class CaseSums:
    """The windows of a case, each made at most once, however often the case is told anew."""

    def __init__(
        self, windows: Callable[[], Windows], provisioning: Callable[[Windows], Provisionings]
    ) -> None:
        """Nothing is made yet.

        Args:
            windows: Makes one for each device.
            provisioning: Makes what follows from them.
        """
        self._windows, self._provisioning = windows, provisioning

    @cached_property
    def windows(self) -> Windows:
        """One for each device."""
        return self._windows()

    @cached_property
    def provisioning(self) -> Provisionings:
        """One for each device."""
        return self._provisioning(self.windows)


class CachedCase(Case):
    """A case over a span that most rules never ask about; elsewhere it is as any other."""

    __slots__ = ("_sums",)
    _sums: CaseSums

    def __init__(  # noqa: PLR0913 # The fields of a case.
        self,
        key: str,
        workload: Workload | None,
        devices: tuple[Device, ...],
        sums: CaseSums,
        past: Past | None,
        *,
        node: Node | None = None,
    ) -> None:
        """Nothing is summed up yet."""
        # As a frozen dataclass does it.
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "workload", workload)
        object.__setattr__(self, "devices", devices)
        object.__setattr__(self, "past", past)
        object.__setattr__(self, "node", node)
        object.__setattr__(self, "_sums", sums)

    @property
    def windows(self) -> Windows:
        """One for each device, in the same order."""
        return self._sums.windows

    @property
    def provisioning(self) -> Provisionings:
        """One for each device, in the same order."""
        return self._sums.provisioning

    def on(self, node: Node | None) -> CachedCase:
        """The same on a node."""
        return CachedCase(self.key, self.workload, self.devices, self._sums, self.past, node=node)


@dataclass(frozen=True, slots=True)
class CaseSettings:
    """How kept days become cases."""

    accounting: AccountingSettings = field(default_factory=AccountingSettings)
    demands: DemandSettings = field(default_factory=DemandSettings)
    absent_seconds: float = 3600.0
    """How long a device may be silent before it is taken to be gone."""

    @property
    def gap(self) -> Nanoseconds:
        """How long a GPU may stand empty before its holder has left it."""
        return nanoseconds(self.accounting.holder_gap_seconds)


@dataclass(frozen=True, slots=True)
class _CaseDevices:
    """A device of a case."""

    device: FleetDevice
    days: SubjectDays
    since: Nanoseconds


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is the same for a case of any span."""

    key: str
    workload: Workload | None
    devices: tuple[_CaseDevices, ...]
    past: SubjectHistory

    @property
    def own(self) -> tuple[Device, ...]:
        """Its devices by themselves."""
        return tuple(held.device.device for held in self.devices)


@dataclass(frozen=True, slots=True)
class CaseBatch:
    """Some workloads, and devices that nobody holds, with all that is kept of them."""

    keys: tuple[str, ...]
    """Of the roster's."""
    roster: Occupancy
    devices: Mapping[str, FleetDevice]
    """By uuid, those that are there now."""
    workloads: Mapping[str, Workload]
    """By key."""
    sheets: Mapping[str, Sequence[DayFrame]]
    """By uuid, the kept days of the batch's devices, former ones included, oldest first."""
    rows: Sequence[HoldingRow]
    """Who held these devices, by device, oldest first."""


class FleetCases:
    """The cases of a batch at one moment."""

    def __init__(
        self, batch: CaseBatch, now: Nanoseconds, settings: CaseSettings | None = None
    ) -> None:
        """Nothing is summed up yet.

        Args:
            batch: What it is made of.
            now: Where every span ends.
            settings: Thresholds.
        """
        self.now, self.settings = now, settings or CaseSettings()
        self._batch, self._roster = batch, batch.roster
        told = [row.grid for row in chain(batch.rows, *batch.roster.ever.values())]
        kept = [sheet.grid for found in batch.sheets.values() for sheet in found]
        self._by_day = not are_aligned(told + kept)
        self._days = {
            uuid: SubjectDays(
                SummedDay(sheet, self.settings.demands)
                for sheet in (frames_by_day(found) if self._by_day else found)
            )
            for uuid, found in batch.sheets.items()
        }
        self._rows: dict[str, list[HoldingRow]] = {}
        for row in self._split(batch.rows):
            self._rows.setdefault(row.uuid, []).append(row)
        present = (self._subject(key) for key in batch.keys)
        self._subjects = {each.key: each for each in present if each.devices}
        residents = (
            NodeResident(each.key, each.workload, each.own) for each in self._subjects.values()
        )
        self._neighbors = NodeNeighbors(residents, self.devices, self.rows)

    def cases(self, span: Nanoseconds | None) -> tuple[Case, ...]:
        """The cases over the last span of time; `None` for all there is."""
        found = {key: self._case(subject, span) for key, subject in self._subjects.items()}
        nodes = self._neighbors.nodes(found)
        return tuple(case.on(nodes.get(key)) for key, case in found.items())

    @property
    def devices(self) -> Mapping[str, FleetDevice]:
        """Of the estate, those that belong to the batch, whether they are still there or not."""
        return self._batch.devices

    def days(self, uuid: str) -> SubjectDays:
        """What is kept of a device."""
        return self._days.get(uuid) or SubjectDays(())

    def days_of(self, key: str) -> SubjectDays:
        """What is kept of a case's subject."""
        return self._subjects[key].past.days

    def rows(self, uuid: str) -> Sequence[HoldingRow]:
        """Who held a device, oldest first."""
        return self._rows.get(uuid, ())

    def is_present(self, uuid: str) -> bool:
        """Whether a device is still there: it was heard of lately, as far as hours tell."""
        days = self.days(uuid)
        if days.last_heard is None:
            return False
        silent = self.now - days.last_heard
        step = days.days[-1].sheet.grid.step
        return silent <= nanoseconds(self.settings.absent_seconds) + (
            step if step > FINE_STEP else 0
        )

    def _case(self, subject: _Subject, span: Nanoseconds | None) -> CachedCase:
        start, end = subject.past.days.over(span, self.now)
        return CachedCase(
            key=subject.key,
            workload=subject.workload,
            devices=subject.own,
            sums=CaseSums(
                partial(_windows, subject, start, end),
                partial(_provisioning, subject, self.settings.accounting.provisioning),
            ),
            past=CachedHistory(subject.past, start, end, of_workload=subject.workload is not None),
        )

    def _subject(self, key: str) -> _Subject:
        is_held = key in self._roster.ever
        devices = tuple(
            self._held(uuid, key if is_held else None)
            for uuid in self._roster.present[key]
            if self.is_present(uuid)
        )
        settings = self.settings.accounting.past
        if is_held:
            past = SubjectHistory(self._together(key), workload_subject(key), 0, self.now, settings)
        else:
            since = devices[0].since if devices else 0
            past = SubjectHistory(self.days(key), key, since, self.now, settings)
        return _Subject(key, self._batch.workloads.get(key) if is_held else None, devices, past)

    def _held(self, uuid: str, holder: str | None) -> _CaseDevices:
        days = self.days(uuid)
        tenure = tenure_of(self.rows(uuid), holder, days, self.settings.gap)
        return _CaseDevices(self._batch.devices[uuid], days, tenure.since)

    def _split(self, rows: Sequence[HoldingRow]) -> Sequence[HoldingRow]:
        return rows_by_day(rows) if self._by_day else rows

    def _together(self, key: str) -> SubjectDays:
        """The workload's own days, over all the devices that it held."""
        by_day: dict[int, list[HoldingRow]] = {}
        for row in self._split(self._roster.ever[key]):
            by_day.setdefault(row.grid.day, []).append(row)
        found = [self._day(rows) for _, rows in sorted(by_day.items())]
        (uuid, *others) = {row.uuid for row in self._roster.ever[key]}
        alone = self.days(uuid)
        if not others and found == list(alone.days):
            return alone
        return SubjectDays(found)

    def _day(self, rows: Iterable[HoldingRow]) -> SummedDay:
        parts, shared = [], None
        for row in rows:
            day = self._kept(row)
            sheet = None if day is None else day.sheet
            grid = row.grid if sheet is None else sheet.grid
            first, last = _place(row, grid.step)
            if day is not None and not any(day.known[last + 1 :]):
                last = grid.count - 1  # Nothing is known of what comes after it.
            part = DevicePart(sheet, grid, first, last, row.share_ratio)
            parts.append(part)
            shared = day if part.is_whole else None
        if len(parts) == 1 and shared is not None:
            return shared
        return SummedDay(combined(parts), self.settings.demands)

    def _kept(self, row: HoldingRow) -> SummedDay | None:
        days = self.days(row.uuid).days
        return next((day for day in days if day.sheet.grid.day == row.grid.day), None)


def _windows(subject: _Subject, start: Nanoseconds, end: Nanoseconds) -> tuple[Window, ...]:
    return tuple(
        held.days.window(held.device.device.uuid, min(end, max(start, held.since)), end)
        for held in subject.devices
    )


def _provisioning(
    subject: _Subject, settings: ProvisioningSettings, windows: Sequence[Window]
) -> tuple[Provisioning, ...]:
    allocator = allocator_of(subject.workload)
    return tuple(
        provision(window, allocator, settings, held.device.demands)
        for held, window in zip(subject.devices, windows, strict=True)
    )


def _place(row: HoldingRow, step: Nanoseconds) -> tuple[int, int]:
    """Which stretches of another step a holding takes."""
    first = (row.start - row.grid.start) // step
    return first, max(first, -(-(row.end - row.grid.start) // step) - 1)
