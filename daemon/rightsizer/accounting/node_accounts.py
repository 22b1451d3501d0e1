"""NodeAccounts: entries of all devices into totals, windows, gauges and cases."""

from collections.abc import Mapping
from typing import Final

from rightsizer.accounting.accounts_snapshot import (
    AccountsSnapshot,
    CaseDevice,
    CaseInput,
    allocator_of,
)
from rightsizer.accounting.device_account import DeviceAccount, DeviceRecord, RunningTotals
from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.accounting.window_query import WindowQuery
from rightsizer.accounting.workload_accounts import WorkloadAccounts
from rightsizer.model.device import Device
from rightsizer.model.entry import Entry
from rightsizer.model.node import Node
from rightsizer.model.reading import Reading
from rightsizer.model.report import WorkloadReport
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Provisioning, Window

DAY_WINDOW: Final = "24h"
WEEK_WINDOW: Final = "7d"
CURRENT_WINDOW: Final = "current"
_ABSENT_KEPT: Final = 64
"""Accounts of devices that are not there; MIG reconfiguration makes new uuids each time."""


class NodeAccounts:
    """Every device's account. Not safe for threads: whoever shares it brings a lock."""

    def __init__(self, settings: AccountingSettings | None = None) -> None:
        self._settings = settings or AccountingSettings()
        self._books = EntryBuilder(self._settings.books)
        self._accounts: dict[str, DeviceAccount] = {}
        self._devices: dict[str, Device] = {}
        self._workloads = WorkloadAccounts(self._settings.workloads)
        self._closed: list[Window] = []
        self._node = Node()

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices of the last snapshot."""
        return tuple(self._devices.values())

    def device(self, uuid: str) -> DeviceAccount:
        """A device's account, an empty one for a device that was never seen."""
        if uuid not in self._accounts:
            self._accounts[uuid] = DeviceAccount(uuid, self._settings)
        return self._accounts[uuid]

    def post(self, snapshot: Snapshot) -> list[Entry]:
        """Account for a snapshot; the entries that it gave."""
        self._devices = {device.uuid: device for device in snapshot.devices}
        self._node = Node(
            devices=snapshot.devices,
            readings={**_of_present(self._node.readings, self._devices), **snapshot.readings},
            xids=snapshot.xids,
            holdings=snapshot.holdings,
            topology=snapshot.topology,
        )
        self._forget_absent()
        for device in snapshot.devices:
            self.device(device.uuid)
        entries = self._books.post(snapshot)
        for entry in entries:
            account = self.device(entry.uuid)
            account.totals.add(entry)
            account.whole.add(entry)
            if account.tenancy.see(snapshot.holdings.get(entry.uuid, ()), entry):
                account.windows.reset_demands()
            account.last = entry
            self._closed.extend(account.windows.add(entry))
        self._closed.extend(self._workloads.post(snapshot.holdings, entries))
        return entries

    def begin(self) -> None:
        """Count totals from 0 again; windows stay as they are."""
        for account in self._accounts.values():
            account.totals = RunningTotals()
            account.whole = WindowBuilder(account.windows.uuid)
        self._workloads.begin()

    def restore(self, window: Window) -> None:
        """Put back a window from a history; oldest first for each device and workload."""
        key = window.workload_key
        if key is not None:
            self._workloads.restore(key, window)
            return
        account = self.device(window.uuid)
        account.windows.restore(window)
        if window.end <= account.tenancy.since:
            account.windows.reset_demands()

    def restore_record(self, known: DeviceRecord) -> None:
        """Put back a device and its holder from a history."""
        self._devices.setdefault(known.device.uuid, known.device)
        account = self.device(known.device.uuid)
        account.tenancy.restore(known.holder, known.holder_since)
        self._books.restore_power(known.device.uuid, known.power)
        if known.holder is not None:
            self._workloads.know(known.holder)

    def device_records(self) -> tuple[DeviceRecord, ...]:
        """The devices of the last snapshot with their holders."""
        return tuple(
            DeviceRecord(
                device,
                self.device(uuid).tenancy.holder,
                self.device(uuid).tenancy.since,
                self._books.learned_power(uuid),
            )
            for uuid, device in self._devices.items()
        )

    def drain_closed(self) -> list[Window]:
        """The five-minute windows that were closed since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def open_windows(self) -> list[Window]:
        """The five-minute windows that are still running."""
        found = (account.windows.rollups.open_window() for account in self._accounts.values())
        running = [window for window in found if window is not None]
        return [*running, *self._workloads.open_windows()]

    def workloads(self) -> tuple[WorkloadReport, ...]:
        """The counters of workloads over all their devices, seen longest ago first."""
        return self._workloads.reports()

    def device_queries(self) -> tuple[WindowQuery, ...]:
        """What is remembered of the devices of the last snapshot that have states of their own."""
        return tuple(
            self.device(uuid).windows.rollups.window_query()
            for uuid, device in self._devices.items()
            if not device.has_mig_instances
        )

    def provisioning(self, uuid: str) -> Mapping[str, Provisioning]:
        """The derived gauges of a device by exported window."""
        account, settings = self.device(uuid), self._settings.provisioning
        allocator = allocator_of(account.tenancy.holder)
        day, week = account.windows.rollups.last_day(), account.windows.rollups.last_week()
        return {
            DAY_WINDOW: provision(day, allocator, settings),
            WEEK_WINDOW: provision(week, allocator, settings),
            CURRENT_WINDOW: provision(week, allocator, settings, account.current_demands()),
        }

    def look(self, now: Nanoseconds) -> AccountsSnapshot:
        """What `cases` are made of, at once; whoever holds a lock makes them when it is free."""
        groups: dict[str, list[str]] = {}
        for uuid, device in self._devices.items():
            if not device.has_mig_instances:
                holder = self.device(uuid).tenancy.holder
                groups.setdefault(holder.key if holder else uuid, []).append(uuid)
        views = [self._case_view(key, uuids) for key, uuids in groups.items()]
        return AccountsSnapshot(views, self._node, now, self._settings)

    def _case_view(self, key: str, uuids: list[str]) -> CaseInput:
        workload = self.device(uuids[0]).tenancy.holder
        return CaseInput(
            key=key,
            workload=workload,
            devices=tuple(self._device_view(uuid) for uuid in uuids),
            group=None if workload is None else self._workloads.window_query(workload.key),
        )

    def _device_view(self, uuid: str) -> CaseDevice:
        account = self.device(uuid)
        return CaseDevice(
            device=self._devices[uuid],
            window_query=account.windows.rollups.window_query(),
            whole=account.whole.window(),
            since=account.tenancy.since,
            demands=account.current_demands(),
        )

    def _forget_absent(self) -> None:
        """Keep a device's account while it is away, but only so many of them."""
        absent = [uuid for uuid in self._accounts if uuid not in self._devices]
        for uuid in absent[: max(0, len(absent) - _ABSENT_KEPT)]:
            del self._accounts[uuid]


def _of_present(
    readings: Mapping[str, Reading], devices: Mapping[str, Device]
) -> dict[str, Reading]:
    """The last readings of devices that are still there, silent ones included."""
    return {uuid: reading for uuid, reading in readings.items() if uuid in devices}
