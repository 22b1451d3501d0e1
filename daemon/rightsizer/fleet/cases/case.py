"""Cases of an estate from kept days, as the rules judge them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from rightsizer.accounting.accounts import AccountingSettings
from rightsizer.accounting.case_view import allocator_of
from rightsizer.accounting.provisioning import ProvisioningSettings, provision
from rightsizer.domain.device import Device
from rightsizer.domain.finding import Case
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.domain.window import Provisioning, Window, workload_subject
from rightsizer.domain.workload import Workload
from rightsizer.fleet.cases.kept_case import CaseSums, KeptCase
from rightsizer.fleet.cases.neighbors import Neighbors, Resident
from rightsizer.fleet.cases.past import KeptPast, SubjectPast
from rightsizer.fleet.cases.roster import Roster, tenure_of
from rightsizer.fleet.estate import EstateDevice
from rightsizer.fleet.kept.combined import Part, combined
from rightsizer.fleet.kept.day_demands import DemandSettings
from rightsizer.fleet.kept.days import DayOfSubject, Days
from rightsizer.fleet.kept.grid import FINE_STEP
from rightsizer.fleet.kept.sheet import Sheet
from rightsizer.fleet.kept.shelf import HeldRow
from rightsizer.fleet.kept.single_days import are_aligned, rows_by_day, sheets_by_day

__all__ = ["Batch", "CaseSettings", "FleetCases"]


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
class _Held:
    """A device of a case."""

    device: EstateDevice
    days: Days
    since: Nanoseconds


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is the same for a case of any span."""

    key: str
    workload: Workload | None
    devices: tuple[_Held, ...]
    past: SubjectPast

    @property
    def own(self) -> tuple[Device, ...]:
        """Its devices by themselves."""
        return tuple(held.device.device for held in self.devices)


@dataclass(frozen=True, slots=True)
class Batch:
    """Some workloads, and devices that nobody holds, with all that is kept of them."""

    keys: tuple[str, ...]
    """Of the roster's."""
    roster: Roster
    devices: Mapping[str, EstateDevice]
    """By uuid, those that are there now."""
    workloads: Mapping[str, Workload]
    """By key."""
    sheets: Mapping[str, Sequence[Sheet]]
    """By uuid, the kept days of the batch's devices, former ones included, oldest first."""
    rows: Sequence[HeldRow]
    """Who held these devices, by device, oldest first."""


class FleetCases:
    """The cases of a batch at one moment."""

    def __init__(
        self, batch: Batch, now: Nanoseconds, settings: CaseSettings | None = None
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
            uuid: Days(
                DayOfSubject(sheet, self.settings.demands)
                for sheet in (sheets_by_day(found) if self._by_day else found)
            )
            for uuid, found in batch.sheets.items()
        }
        self._rows: dict[str, list[HeldRow]] = {}
        for row in self._split(batch.rows):
            self._rows.setdefault(row.uuid, []).append(row)
        present = (self._subject(key) for key in batch.keys)
        self._subjects = {each.key: each for each in present if each.devices}
        residents = (
            Resident(each.key, each.workload, each.own) for each in self._subjects.values()
        )
        self._neighbors = Neighbors(residents, self.devices, self.rows)

    def cases(self, span: Nanoseconds | None) -> tuple[Case, ...]:
        """The cases over the last span of time; `None` for all there is."""
        found = {key: self._case(subject, span) for key, subject in self._subjects.items()}
        nodes = self._neighbors.nodes(found)
        return tuple(case.on(nodes.get(key)) for key, case in found.items())

    @property
    def devices(self) -> Mapping[str, EstateDevice]:
        """Of the estate, those that belong to the batch, whether they are still there or not."""
        return self._batch.devices

    def days(self, uuid: str) -> Days:
        """What is kept of a device."""
        return self._days.get(uuid) or Days(())

    def days_of(self, key: str) -> Days:
        """What is kept of a case's subject."""
        return self._subjects[key].past.days

    def rows(self, uuid: str) -> Sequence[HeldRow]:
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

    def _case(self, subject: _Subject, span: Nanoseconds | None) -> KeptCase:
        start, end = subject.past.days.over(span, self.now)
        return KeptCase(
            key=subject.key,
            workload=subject.workload,
            devices=subject.own,
            sums=CaseSums(
                partial(_windows, subject, start, end),
                partial(_provisioning, subject, self.settings.accounting.provisioning),
            ),
            past=KeptPast(subject.past, start, end, of_workload=subject.workload is not None),
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
            past = SubjectPast(self._together(key), workload_subject(key), 0, self.now, settings)
        else:
            since = devices[0].since if devices else 0
            past = SubjectPast(self.days(key), key, since, self.now, settings)
        return _Subject(key, self._batch.workloads.get(key) if is_held else None, devices, past)

    def _held(self, uuid: str, holder: str | None) -> _Held:
        days = self.days(uuid)
        tenure = tenure_of(self.rows(uuid), holder, days, self.settings.gap)
        return _Held(self._batch.devices[uuid], days, tenure.since)

    def _split(self, rows: Sequence[HeldRow]) -> Sequence[HeldRow]:
        return rows_by_day(rows) if self._by_day else rows

    def _together(self, key: str) -> Days:
        """The workload's own days, over all the devices that it held."""
        by_day: dict[int, list[HeldRow]] = {}
        for row in self._split(self._roster.ever[key]):
            by_day.setdefault(row.grid.day, []).append(row)
        found = [self._day(rows) for _, rows in sorted(by_day.items())]
        (uuid, *others) = {row.uuid for row in self._roster.ever[key]}
        alone = self.days(uuid)
        if not others and found == list(alone.days):
            return alone
        return Days(found)

    def _day(self, rows: Iterable[HeldRow]) -> DayOfSubject:
        parts, shared = [], None
        for row in rows:
            day = self._kept(row)
            sheet = None if day is None else day.sheet
            grid = row.grid if sheet is None else sheet.grid
            first, last = _place(row, grid.step)
            if day is not None and not any(day.known[last + 1 :]):
                last = grid.count - 1  # Nothing is known of what comes after it.
            part = Part(sheet, grid, first, last, row.share_ratio)
            parts.append(part)
            shared = day if part.is_whole else None
        if len(parts) == 1 and shared is not None:
            return shared
        return DayOfSubject(combined(parts), self.settings.demands)

    def _kept(self, row: HeldRow) -> DayOfSubject | None:
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


def _place(row: HeldRow, step: Nanoseconds) -> tuple[int, int]:
    """Which stretches of another step a holding takes."""
    first = (row.start - row.grid.start) // step
    return first, max(first, -(-(row.end - row.grid.start) // step) - 1)
