"""Accounts of a node, and the thread-safe service that updates and reads them."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from rightsizer.accounting.accounts_snapshot import (
    AccountsSnapshot,
)
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.accounting.rollup_store import FINE_KEPT, WindowQuery
from rightsizer.accounting.served import ServedAccounts, ServedHour
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.model.metric import DISTRIBUTION_SIGNALS
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Advice,
    AgentReport,
    Device,
    DeviceReport,
    Entry,
    Nanoseconds,
    NodeReport,
    Provisioning,
    Report,
    ServedLoad,
    Snapshot,
    StripCell,
    Window,
    WorkloadReport,
)


class RestoredWindows(NamedTuple):
    """Windows restored from a history."""

    number: int
    ends: Mapping[str, Nanoseconds]
    """End of the last window, by device or workload."""

    @property
    def end(self) -> Nanoseconds:
        """End of the last window of all; 0 without any."""
        return max(self.ends.values(), default=0)


class StoredAccounts(NamedTuple):
    """Part of the accounts that the history stores."""

    closed: Iterable[Window]
    running: Sequence[Window]
    devices: Sequence[DeviceRecord]


Enrich = Callable[[Snapshot], Snapshot]
"""Applies the operators' statements to the holders of a snapshot."""

_GAUGES_EVERY: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND


class AccountingService:
    """Lock-protected accounts, and the latest report."""

    def __init__(
        self,
        settings: AccountingSettings,
        enrich: Enrich = lambda snapshot: snapshot,
        gauges_every: Nanoseconds = _GAUGES_EVERY,
    ) -> None:
        self._accounts = NodeAccounts(settings, DISTRIBUTION_SIGNALS)
        self.enrich = enrich
        """Applied to each snapshot; another one counts from the next on."""
        self._gauges_every = gauges_every
        self._lock = threading.Lock()
        self._generation = 0
        self._gauges: dict[str, tuple[dict[str, Provisioning], tuple[StripCell, ...]]] = {}
        self._gauges_due: Nanoseconds = 0
        self._workloads: tuple[WorkloadReport, ...] = ()
        self._last_sample: dict[str, Nanoseconds] = {}
        self._latest: Report | None = None
        self._served = ServedAccounts()

    def latest(self) -> Report | None:
        """Last report, or `None` before the first snapshot."""
        return self._latest

    def post(
        self, snapshot: Snapshot, advice: Sequence[Advice], agent: Callable[[], AgentReport]
    ) -> Report:
        """Account for a snapshot and publish the resulting report."""
        snapshot = self.enrich(snapshot)
        with self._lock:
            self._accounts.post(snapshot)
            # Monotonic time: the wall clock may step back by hours.
            if snapshot.time >= self._gauges_due:
                self._update_gauges(snapshot)
            self._generation += 1
            report = Report(
                generation=self._generation,
                wall_time=snapshot.wall_time,
                devices=tuple(self._device(snapshot, device) for device in snapshot.devices),
                advice=tuple(advice),
                agent=agent(),
                node=NodeReport(
                    snapshot.host,
                    snapshot.driver,
                    snapshot.topology,
                    snapshot.ports,
                    snapshot.released,
                ),
                workloads=self._workloads,
                served=self._served.post(snapshot),
            )
        self._latest = report
        return report

    def forget(self, uuid: str) -> bool:
        """Forget the account of a device that is gone; return whether there was one."""
        with self._lock:
            return self._accounts.forget(uuid)

    def backfill(self, snapshots: Iterable[Snapshot], until: Nanoseconds = 0) -> None:
        """Account for past snapshots without publishing; reset the totals afterwards.

        With a known end, windows too old by then for five-minute retention are kept as hours only.
        """
        with self._lock:
            self._accounts.keep_hours_before(until - FINE_KEPT)
            for snapshot in snapshots:
                self._accounts.post(self.enrich(snapshot))
            self._accounts.reset_totals()

    def restore(
        self, devices: Iterable[DeviceRecord], windows: Iterable[Window], *, counts: bool = False
    ) -> RestoredWindows:
        """Restore devices and windows from the history, oldest first."""
        number = 0
        ends = dict[str, Nanoseconds]()
        records = tuple(devices)
        with self._lock:
            for record in records:
                self._accounts.restore_record(record)
            if counts:
                self._accounts.restore_node(records)
            for window in windows:
                self._accounts.restore(window, counts=counts)
                number += 1
                ends[window.uuid] = max(ends.get(window.uuid, 0), window.end)
        return RestoredWindows(number, ends)

    def snapshot(self, now: Nanoseconds) -> AccountsSnapshot:
        """Snapshot of the accounts, for the cases of several spans up to a wall time."""
        # Decoding a month of windows takes a while; do not block sampling meanwhile.
        with self._lock:
            return self._accounts.snapshot(now)

    def device_queries(self) -> tuple[Nanoseconds, tuple[WindowQuery, ...]]:
        """Time of the latest snapshot, and the histories of its devices."""
        with self._lock:
            now = self._latest.wall_time if self._latest is not None else 0
            return now, self._accounts.device_queries()

    def whole_accounts(self, end: Nanoseconds) -> list[tuple[Device, Window]]:
        """Present devices with their windows over the whole history, up to a wall time."""
        devices = {record.device.uuid: record.device_as_read for record in self.device_records()}
        _, queries = self.device_queries()
        return [
            (devices[query.uuid], query.window(query.first, end))
            for query in queries
            if query.uuid in devices
        ]

    def device_records(self) -> tuple[DeviceRecord, ...]:
        """Devices of the last snapshot with their holders."""
        with self._lock:
            return self._accounts.device_records()

    def served_loads(
        self, since: Nanoseconds, until: Nanoseconds | None = None
    ) -> tuple[ServedLoad, ...]:
        """Loads of served models since a wall time, by whole hours that begin before another."""
        with self._lock:
            queries = self._served.queries(since, until)
        # Decoding a week of hours takes a while; do not block sampling meanwhile.
        return tuple(query.load() for query in queries)

    def served_hours(self, since: Nanoseconds = 0) -> list[ServedHour]:
        """Hours of served models to add to the history, from that of a wall time on."""
        with self._lock:
            return self._served.hours(since)

    def restore_served(self, hours: Iterable[ServedHour]) -> None:
        """Restore the hours of served models from the history, oldest first."""
        with self._lock:
            self._served.restore(hours)

    def drain_windows(self) -> StoredAccounts:
        """Accounts to add to the history: windows closed since the last call, and open ones."""
        with self._lock:
            return self._drain_windows()

    def _drain_windows(self) -> StoredAccounts:
        accounts = self._accounts
        return StoredAccounts(
            accounts.drain_closed(), accounts.open_windows(), accounts.device_records()
        )

    def drain_all_windows(self) -> StoredAccounts:
        """Accounts for an empty history: all closed windows in memory, and open ones."""
        with self._lock:
            queries = self._accounts.window_queries()
            drained = self._drain_windows()
        return drained._replace(closed=(w for query in queries for w in query.closed_windows()))

    def _update_gauges(self, snapshot: Snapshot) -> None:
        present = {device.uuid for device in snapshot.devices}
        times = self._last_sample.items()
        self._last_sample = {uuid: time for uuid, time in times if uuid in present}
        self._gauges_due = snapshot.time + self._gauges_every
        self._workloads = self._accounts.workloads()
        self._gauges = {
            device.uuid: (
                dict(self._accounts.provisioning(device.uuid)),
                self._accounts.device(device.uuid).windows.strip(snapshot.wall_time),
            )
            for device in snapshot.devices
            if not device.has_mig_instances
        }

    def _device(self, snapshot: Snapshot, device: Device) -> DeviceReport:
        uuid = device.uuid
        if (reading := snapshot.readings.get(uuid)) is not None:
            self._last_sample[uuid] = snapshot.wall_time_of(reading.time)
        account = self._accounts.device(uuid)
        entry = account.last if reading is not None else None
        if device.has_mig_instances:
            # It has no state of its own, but its own power, temperature and error counters.
            signals = {} if reading is None else reading.values
            entry = Entry(uuid, 0, 0, signals=signals)
        entry = entry or Entry(uuid, 0, 0)
        provisioning, strip = self._gauges.get(uuid, ({}, ()))
        return DeviceReport(
            device=device,
            down=snapshot.down.get(uuid),
            last_sample=self._last_sample.get(uuid),
            reading=reading,
            signals=self._accounts.signals(entry),
            state=entry.state,
            conditions=entry.conditions,
            tier=entry.tier,
            totals=account.totals.totals(),
            provisioning=provisioning,
            strip=strip,
            holdings=snapshot.holdings.get(uuid, ()),
            xids=snapshot.xids.get(uuid),
        )
