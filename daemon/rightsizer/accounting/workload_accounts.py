"""Accounts of workloads over all devices that they hold or held."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec.structs import replace

from rightsizer.accounting.device_account import RunningTotals
from rightsizer.accounting.rollup_store import FINE_SPAN, RollupStore, WindowQuery, split_entry
from rightsizer.accounting.settings import WorkloadAccountSettings
from rightsizer.accounting.window_builder import EntrySums, entry_measures
from rightsizer.model.values import (
    Entry,
    Holding,
    Measure,
    Nanoseconds,
    Window,
    Workload,
    WorkloadReport,
    workload_subject,
)

_INTERVALS_VALID: Final = 2
"""Number of its own intervals for which a silent device's last values are still used."""


class _Latest(NamedTuple):
    end: Nanoseconds
    duration: Nanoseconds
    values: Mapping[Measure, float]
    """The workload's share; empty if the device's state is unknown."""


class WorkloadAccount:
    """Account of one workload."""

    def __init__(self, key: str, hourly_before: Nanoseconds) -> None:
        self.workload: Workload | None = None
        self.devices: tuple[str, ...] = ()
        self.seen: Nanoseconds = 0
        self.rollups = RollupStore(workload_subject(key), hourly_before=hourly_before)
        self.totals = RunningTotals(EntrySums(), ())
        self._latest: dict[str, _Latest] = {}

    def post(self, held: Mapping[str, float], parts: Sequence[tuple[Entry, float]]) -> list[Window]:
        """Account for one moment; return the five-minute windows that it closed.

        Entries cover the workload's share of the device, given beside each.
        """
        self.seen = max(entry.end for entry, _ in parts)
        self.devices = tuple(held)
        closed = list(self._add(entry for entry, _ in parts))
        self._latest = {uuid: latest for uuid, latest in self._latest.items() if uuid in held}
        for entry, share in parts:
            self.totals.add(entry)
            values = entry_measures(entry)
            duration = entry.end - entry.start
            if share != 1.0:
                values = {measure: share * value for measure, value in values.items()}
                duration = round(duration / share)
            self._latest[entry.uuid] = _Latest(entry.end, duration, values)
        self._measure(held)
        return closed

    def close(self) -> Window | None:
        """Close the open window of a workload that is gone; return it, or `None`."""
        self._latest = {}
        return self.rollups.close()

    def _add(self, entries: Iterable[Entry]) -> Iterator[Window]:
        """Add entries in chronological order; move late ones into the open window."""
        now = self.seen - 1 - (self.seen - 1) % FINE_SPAN
        parts = [part for entry in entries for part in split_entry(entry)]
        for part in sorted(parts, key=attrgetter("end")):
            if (slot := self.rollups.slot) is not None and part.end <= slot <= now:
                late = replace(part, start=slot, end=slot + part.duration)
                self.rollups.add(late)
            elif (closed := self.rollups.add(part)) is not None:
                yield closed

    def _measure(self, held: Mapping[str, float]) -> None:
        latest = [self._latest[uuid] for uuid in held if uuid in self._latest]
        if len(latest) < len(held):
            return
        sums: Mapping[Measure, float] | None = None
        for end, duration, values in latest:
            if self.seen - end > _INTERVALS_VALID * duration:
                return
            sums = (
                values
                if sums is None
                else {
                    measure: sums[measure] + values[measure]
                    for measure in sums
                    if measure in values
                }
            )
        self.rollups.measure(sums or {}, min(device.duration for device in latest))


class WorkloadAccounts:
    """Accounts of a node's workloads, limited in number."""

    def __init__(self, settings: WorkloadAccountSettings | None = None) -> None:
        self._settings = settings or WorkloadAccountSettings()
        self._accounts: OrderedDict[str, WorkloadAccount] = OrderedDict()
        self._slot: Nanoseconds = 0
        self._hourly_before: Nanoseconds = 0

    def keep_hours_before(self, moment: Nanoseconds) -> None:
        """Limit accounts created from now on to hourly windows before a time."""
        self._hourly_before = moment

    def post(
        self, holdings: Mapping[str, tuple[Holding, ...]], entries: Iterable[Entry]
    ) -> list[Window]:
        """Account for a snapshot's entries; return the five-minute windows that it closed.

        A shared device counts for each workload by its share.
        """
        closed: list[Window] = []
        parts: dict[str, list[tuple[Entry, float]]] = {}
        workloads: dict[str, Workload] = {}
        for entry in entries:
            for holding, part in _split_by_holder(entry, holdings.get(entry.uuid, ())):
                workloads[holding.workload.key] = holding.workload
                parts.setdefault(holding.workload.key, []).append((part, holding.share_ratio))
        if parts:
            held = _shares_by_workload(holdings)
            self._admit(held, parts, closed)
            for key, entry_shares in parts.items():
                if key in self._accounts:  # The number of workloads may exceed the limit.
                    self._accounts[key].workload = workloads[key]
                    closed += self._accounts[key].post(held[key], entry_shares)
            closed += self._close_absent(
                max(entry.end for entry_shares in parts.values() for entry, _ in entry_shares)
            )
        return closed

    def restore_workload(self, workload: Workload) -> None:
        """Restore the description of a workload from the history."""
        if workload.key in self._accounts:
            self._accounts[workload.key].workload = workload

    def restore(self, key: str, window: Window) -> None:
        """Restore a workload's closed window from the history; call oldest first."""
        account = self._touch(key, [])
        account.seen = window.end
        account.rollups.restore(window)

    def reset_totals(self) -> None:
        """Reset the totals to 0; keep the windows."""
        for account in self._accounts.values():
            account.totals = RunningTotals(EntrySums(), ())

    def open_windows(self) -> list[Window]:
        """Open five-minute windows."""
        windows = (account.rollups.open_window() for account in self._accounts.values())
        return [window for window in windows if window is not None]

    def window_queries(self) -> Iterator[WindowQuery]:
        """Histories of all workloads."""
        return (account.rollups.window_query() for account in self._accounts.values())

    def window_query(self, key: str) -> WindowQuery | None:
        """History of a workload, or `None`."""
        account = self._accounts.get(key)
        return None if account is None else account.rollups.window_query()

    def reports(self) -> tuple[WorkloadReport, ...]:
        """Totals of each workload seen since the agent started."""
        return tuple(
            WorkloadReport(account.workload, account.devices, account.seen, account.totals.totals())
            for account in self._accounts.values()
            if account.workload is not None and account.devices
        )

    def _admit(self, held: Iterable[str], new: Iterable[str], closed: list[Window]) -> None:
        """Create accounts up to the limit; never evict a workload that still holds devices."""
        admitted = [key for key in held if key in self._accounts]
        for key in admitted:
            self._accounts.move_to_end(key)
        room = self._settings.most - len(admitted)
        for key in [key for key in new if key not in self._accounts][:room]:
            self._touch(key, closed)

    def _touch(self, key: str, closed: list[Window]) -> WorkloadAccount:
        """Account of a workload just seen; evict the least recently seen beyond the limit."""
        if key not in self._accounts:
            self._accounts[key] = WorkloadAccount(key, self._hourly_before)
        self._accounts.move_to_end(key)
        while len(self._accounts) > self._settings.most:
            _, forgotten = self._accounts.popitem(last=False)
            if (window := forgotten.close()) is not None:
                closed.append(window)
        return self._accounts[key]

    def _close_absent(self, now: Nanoseconds) -> Iterator[Window]:
        """Close windows of workloads that are gone, once every five minutes."""
        if (slot := now - now % FINE_SPAN) == self._slot:
            return
        self._slot = slot
        for account in self._accounts.values():
            if account.seen < slot - FINE_SPAN and (window := account.close()) is not None:
                yield window


def _shares_by_workload(holdings: Mapping[str, tuple[Holding, ...]]) -> dict[str, dict[str, float]]:
    """Shares of each workload by device."""
    held: dict[str, dict[str, float]] = {}
    for uuid, device_holdings in holdings.items():
        for holding in device_holdings:
            held.setdefault(holding.workload.key, {})[uuid] = holding.share_ratio
    return held


def _split_by_holder(
    entry: Entry, holdings: tuple[Holding, ...]
) -> Iterator[tuple[Holding, Entry]]:
    """Split an entry by holder; the parts add up to it if all of the device is held."""
    share = 0.0
    last = entry.end
    for holding in holdings:
        if holding.share_ratio >= 1.0:
            yield holding, entry
            return
        share += holding.share_ratio
        if (start := max(entry.start, entry.end - round(entry.duration * share))) < last:
            yield holding, entry.cut(entry.end - (last - start), entry.end)
        last = start
