"""Accounts of all devices and workloads of a node."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from rightsizer.accounting.accounts_snapshot import (
    AccountsSnapshot,
    CaseDevice,
    CaseInput,
    allocator_of,
)
from rightsizer.accounting.device_account import DeviceAccount
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.rings import WindowReader
from rightsizer.accounting.rollup_store import WindowQuery
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.accounting.workload_accounts import WorkloadAccounts
from rightsizer.model.values import (
    RATIO_SIGNALS,
    Device,
    Entry,
    Nanoseconds,
    Node,
    Provisioning,
    Signal,
    Snapshot,
    Window,
    WorkloadReport,
)

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
