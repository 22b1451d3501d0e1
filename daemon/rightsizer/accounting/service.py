"""Accounts of a node, and the thread-safe service that updates and reads them."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from rightsizer.accounting.accounts_snapshot import (
    AccountsSnapshot,
    CaseDevice,
    CaseInput,
    allocator_of,
)
from rightsizer.accounting.device_account import DeviceAccount
from rightsizer.accounting.device_codec import DeviceRecord
from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.rings import WindowReader
from rightsizer.accounting.rollup_store import FINE_KEPT, WindowQuery
from rightsizer.accounting.served import ServedAccounts, ServedHour
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.accounting.workload_accounts import WorkloadAccounts
from rightsizer.model.advice import Advice
from rightsizer.model.device import Device
from rightsizer.model.finding import Node
from rightsizer.model.metric import DISTRIBUTION_SIGNALS
from rightsizer.model.report import (
    AgentReport,
    DeviceReport,
    NodeReport,
    Report,
    StripCell,
    WorkloadReport,
)
from rightsizer.model.served_load import ServedLoad
from rightsizer.model.signal import RATIO_SIGNALS, Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.window import Entry, Provisioning, Window

DAY_WINDOW: Final = "24h"
WEEK_WINDOW: Final = "7d"
CURRENT_WINDOW: Final = "current"
_LINKS_UP: Final = Signal.NVLINK_LINKS_UP  # Each access to a member of an enum costs.
_ABSENT_KEPT: Final = 64
"""Maximum accounts of absent devices; MIG reconfiguration creates new uuids each time."""


class NodeAccounts:
    """Accounts of all devices and workloads. Not thread-safe."""

    def __init__(
        self,
        settings: AccountingSettings | None = None,
        distributions: Collection[Signal] = RATIO_SIGNALS,
        *,
        is_often_judged: bool = False,
    ) -> None:
        """Start empty; the totals keep the distributions of some ratios.

        If judged often, keep the windows decoded for one snapshot for the next.
        """
        self._decoded: Mapping[bytes, Window] = {}
        self._is_often_judged = is_often_judged
        self._settings = settings or AccountingSettings()
        self._distributions = distributions
        self._builder = EntryBuilder(self._settings.books)
        self._accounts: dict[str, DeviceAccount] = {}
        self._devices: dict[str, Device] = {}
        self._posted_devices: Sequence[Device] | None = None
        self._workloads = WorkloadAccounts(self._settings.workloads)
        self._closed: list[Window] = []
        self._node = Node()
        self._hourly_before: Nanoseconds = 0

    @property
    def devices(self) -> tuple[Device, ...]:
        """Devices of the last snapshot."""
        return tuple(self._devices.values())

    def device(self, uuid: str) -> DeviceAccount:
        """Account of a device, created on first use."""
        if uuid not in self._accounts:
            self._accounts[uuid] = DeviceAccount(
                uuid, self._settings, self._distributions, self._hourly_before
            )
        return self._accounts[uuid]

    def post(self, snapshot: Snapshot) -> list[Entry]:
        """Account for a snapshot; return its entries."""
        if snapshot.devices is not self._posted_devices:
            self._posted_devices = snapshot.devices
            self._devices = {device.uuid: device for device in snapshot.devices}
            # Accounts of absent devices are kept, up to a limit.
            absent = [uuid for uuid in self._accounts if uuid not in self._devices]
            for uuid in absent[: max(0, len(absent) - _ABSENT_KEPT)]:
                del self._accounts[uuid]
            for device in snapshot.devices:
                self.device(device.uuid)
        # Keep the last readings of silent devices that are still present.
        before = {
            uuid: reading for uuid, reading in self._node.readings.items() if uuid in self._devices
        }
        for uuid, reading in snapshot.readings.items():
            if up := reading.values.get(_LINKS_UP):
                account = self.device(uuid)
                account.nvlinks_up = max(account.nvlinks_up, up)
        self._node = Node(
            devices=snapshot.devices,
            readings=before | dict(snapshot.readings),
            xids=snapshot.xids,
            down=snapshot.down,
            holdings=snapshot.holdings,
            topology=snapshot.topology,
            nvlinks_up={uuid: self.device(uuid).nvlinks_up for uuid in self._devices},
        )
        entries = self._builder.post(snapshot)
        for entry in entries:
            account = self.device(entry.uuid)
            account.totals.add(entry)
            if account.tenancy.add_holdings(snapshot.holdings.get(entry.uuid, ()), entry):
                account.windows.reset_demands()
            account.last = entry
            self._closed.extend(account.windows.add(entry))
        self._closed.extend(self._workloads.post(snapshot.holdings, entries))
        return entries

    def forget(self, uuid: str) -> bool:
        """Forget the account of a device that is gone; return whether there was one."""
        if uuid in self._devices:
            return False
        return self._accounts.pop(uuid, None) is not None

    def keep_hours_before(self, moment: Nanoseconds) -> None:
        """Limit accounts created from now on to hourly windows before a time."""
        self._hourly_before = moment
        self._workloads.keep_hours_before(moment)

    def reset_totals(self) -> None:
        """Reset the totals to 0; keep the windows."""
        for account in self._accounts.values():
            account.reset_totals()
        self._workloads.reset_totals()

    def restore(self, window: Window, *, counts: bool = False) -> None:
        """Restore a window from the history; call oldest first for each device and workload.

        With `counts` it also counts as posted.
        """
        if (key := window.workload_key) is not None:
            self._workloads.restore(key, window)
            return
        account = self.device(window.uuid)
        account.windows.restore(window)
        if counts:
            account.whole.merge(window)
        if window.end <= account.tenancy.since:
            account.windows.reset_demands()

    def restore_record(self, record: DeviceRecord) -> None:
        """Restore a device and its holder from the history."""
        self._devices.setdefault(record.device.uuid, record.device)
        account = self.device(record.device.uuid)
        account.tenancy.restore(record.holder, record.holder_since)
        account.nvlinks_up = max(account.nvlinks_up, record.most_nvlinks_up)
        self._builder.restore_power(record.device.uuid, record.power)
        if record.holder is not None:
            self._workloads.restore_workload(record.holder)

    def device_records(self) -> tuple[DeviceRecord, ...]:
        """Devices of the last snapshot with their holders."""
        records: list[DeviceRecord] = []
        node = self._node
        for uuid, device in self._devices.items():
            account = self.device(uuid)
            tenancy = account.tenancy
            power = self._builder.learned_power(uuid)
            device_record = DeviceRecord(
                device,
                tenancy.holder,
                tenancy.since,
                power,
                reading=node.readings.get(uuid),
                xids=node.xids.get(uuid),
                holdings=node.holdings.get(uuid, ()),
                topology=None if records else node.topology,
                nvlinks_up=account.nvlinks_up,
            )
            records.append(device_record)
        return tuple(records)

    def restore_node(self, records: Collection[DeviceRecord]) -> None:
        """Restore the last state of the node, to judge past data; a live agent reads its own."""
        self._node = Node(
            devices=tuple(record.device for record in records),
            readings={record.device.uuid: record.reading for record in records if record.reading},
            xids={record.device.uuid: record.xids for record in records if record.xids},
            holdings={record.device.uuid: record.holdings for record in records if record.holdings},
            topology=next((record.topology for record in records if record.topology), None),
            nvlinks_up={record.device.uuid: record.most_nvlinks_up for record in records},
        )

    def drain_closed(self) -> list[Window]:
        """Return the five-minute windows closed since the last call."""
        closed = self._closed
        self._closed = []
        return closed

    def open_windows(self) -> list[Window]:
        """Open five-minute windows."""
        windows = (account.windows.rollups.open_window() for account in self._accounts.values())
        running = [window for window in windows if window is not None]
        return [*running, *self._workloads.open_windows()]

    def workloads(self) -> tuple[WorkloadReport, ...]:
        """Totals of workloads over all their devices, least recently seen first."""
        return self._workloads.reports()

    def device_queries(self) -> tuple[WindowQuery, ...]:
        """Histories of the devices of the last snapshot, without parents of MIG instances."""
        return tuple(
            self.device(uuid).windows.rollups.window_query()
            for uuid, device in self._devices.items()
            if not device.has_mig_instances
        )

    def window_queries(self) -> tuple[WindowQuery, ...]:
        """Histories of all devices and workloads, including absent ones."""
        devices = (account.windows.rollups.window_query() for account in self._accounts.values())
        return (*devices, *self._workloads.window_queries())

    def provisioning(self, uuid: str) -> Mapping[str, Provisioning]:
        """Provisioning of a device by exported window."""
        account = self.device(uuid)
        settings = self._settings.provisioning
        allocator = allocator_of(account.tenancy.holder)
        day = account.windows.rollups.last_day()
        week = account.windows.rollups.last_week()
        return {
            DAY_WINDOW: provision(day, allocator, settings),
            WEEK_WINDOW: provision(week, allocator, settings),
            CURRENT_WINDOW: provision(week, allocator, settings, account.current_demands()),
        }

    def signals(self, entry: Entry) -> Mapping[Signal, float]:
        """Signals of an entry, with energy by power where the driver does not count it."""
        joules = self._builder.integral_joules(entry.uuid)
        if joules is None or Signal.POWER_WATTS not in entry.signals:
            return entry.signals
        return {**entry.signals, Signal.ENERGY_JOULES: joules}

    def snapshot(self, now: Nanoseconds) -> AccountsSnapshot:
        """Input of the cases, which are built after the lock is released."""
        groups: dict[str, list[str]] = {}
        for uuid, device in self._devices.items():
            if not device.has_mig_instances:
                holder = self.device(uuid).tenancy.holder
                groups.setdefault(holder.key if holder else uuid, []).append(uuid)
        cases = [self._case(key, uuids) for key, uuids in groups.items()]
        reader = WindowReader(self._decoded)
        if self._is_often_judged:
            self._decoded = reader.windows
        return AccountsSnapshot(cases, self._node, now, self._settings, reader)

    def _case(self, key: str, uuids: list[str]) -> CaseInput:
        workload = self.device(uuids[0]).tenancy.holder
        devices = tuple(
            CaseDevice(
                self._devices[uuid],
                account.windows.rollups.window_query(),
                whole=account.whole.window(),
                since=account.tenancy.since,
                demands=account.current_demands(),
            )
            for uuid, account in ((uuid, self.device(uuid)) for uuid in uuids)
        )
        group = None if workload is None else self._workloads.window_query(workload.key)
        return CaseInput(key, workload, devices, group)


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
        self._enrich = enrich
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
        snapshot = self._enrich(snapshot)
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

    def change_enrichment(self, enrich: Enrich) -> None:
        """Replace the enrichment, from the next snapshot on."""
        self._enrich = enrich

    def backfill(self, snapshots: Iterable[Snapshot], until: Nanoseconds = 0) -> None:
        """Account for past snapshots without publishing; reset the totals afterwards.

        With a known end, windows too old by then for five-minute retention are kept as hours only.
        """
        with self._lock:
            self._accounts.keep_hours_before(until - FINE_KEPT)
            for snapshot in snapshots:
                self._accounts.post(self._enrich(snapshot))
            self._accounts.drain_closed()
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
        devices = {record.device.uuid: record.device for record in self.device_records()}
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

    def served_loads(self, since: Nanoseconds) -> tuple[ServedLoad, ...]:
        """Loads of served models since a wall time, by whole hours."""
        with self._lock:
            queries = self._served.queries(since)
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
