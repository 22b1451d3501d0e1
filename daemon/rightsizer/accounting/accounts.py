"""The accounts of all devices: entries go in, totals, windows and cases for the rules come out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rightsizer.accounting.books import Books, BooksSettings
from rightsizer.accounting.builder import WindowBuilder
from rightsizer.accounting.case_view import CaseView, DeviceView, allocator_of
from rightsizer.accounting.decay import DecaySettings
from rightsizer.accounting.known import KnownDevice
from rightsizer.accounting.look import Look
from rightsizer.accounting.past import PastSettings
from rightsizer.accounting.provisioning import ProvisioningSettings, provision
from rightsizer.accounting.recollection import Recollection
from rightsizer.accounting.tenancy import Tenancy
from rightsizer.accounting.totals import RunningTotals
from rightsizer.accounting.windows import DeviceWindows
from rightsizer.accounting.workloads import Workloads, WorkloadsSettings
from rightsizer.domain.device import Device
from rightsizer.domain.entry import Entry
from rightsizer.domain.finding import Case
from rightsizer.domain.node import Node
from rightsizer.domain.reading import Reading
from rightsizer.domain.report import StripCell, Totals, WorkloadReport
from rightsizer.domain.settings import setting
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.state import Resource
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.domain.window import Provisioning, Window

__all__ = ["CURRENT", "DAY", "WEEK", "AccountingSettings", "Accounts"]

DAY: Final = "24h"
WEEK: Final = "7d"
CURRENT: Final = "current"
_ABSENT_KEPT: Final = 64
"""Accounts of devices that are not there; MIG reconfiguration makes new uuids each time."""


@dataclass(frozen=True, slots=True)
class AccountingSettings:
    """How time becomes states, and states become gauges."""

    holder_gap_seconds: float = setting(
        600.0,
        help="How long a GPU may stand empty before its holder has left it.",
        unit="seconds",
        minimum=0,
        maximum=86400,
        source="a restart of a service is no end of it",
    )
    books: BooksSettings = field(default_factory=BooksSettings)
    decay: DecaySettings = field(default_factory=DecaySettings)
    provisioning: ProvisioningSettings = field(default_factory=ProvisioningSettings)
    workloads: WorkloadsSettings = field(default_factory=WorkloadsSettings)
    past: PastSettings = field(default_factory=PastSettings)


class _Account:
    """One device's."""

    def __init__(self, uuid: str, settings: AccountingSettings) -> None:
        self.windows = DeviceWindows(uuid, settings.decay)
        self.totals = RunningTotals()
        self.whole = WindowBuilder(uuid)
        self.last: Entry | None = None
        self.tenancy = Tenancy(nanoseconds(settings.holder_gap_seconds))

    def current_demands(self) -> dict[Resource, float]:
        """What is needed now. Memory does not fade: what was needed once may be needed again."""
        demands = self.windows.demands.demand()
        return {
            resource: share
            for resource, share in demands.items()
            if resource is not Resource.MEMORY
        }


class Accounts:
    """Every device's account. Not safe for threads: whoever shares it brings a lock."""

    def __init__(self, settings: AccountingSettings | None = None) -> None:
        self._settings = settings or AccountingSettings()
        self._books = Books(self._settings.books)
        self._accounts: dict[str, _Account] = {}
        self._devices: dict[str, Device] = {}
        self._workloads = Workloads(self._settings.workloads)
        self._closed: list[Window] = []
        self._node = Node()

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices of the last snapshot."""
        return tuple(self._devices.values())

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
            self._account(device.uuid)
        entries = self._books.post(snapshot)
        for entry in entries:
            account = self._account(entry.uuid)
            account.totals.add(entry)
            account.whole.add(entry)
            if account.tenancy.see(snapshot.holdings.get(entry.uuid, ()), entry):
                account.windows.forget_demands()
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
        account = self._account(window.uuid)
        account.windows.restore(window)
        if window.end <= account.tenancy.since:
            account.windows.forget_demands()

    def restore_device(self, known: KnownDevice) -> None:
        """Put back a device and its holder from a history."""
        self._devices.setdefault(known.device.uuid, known.device)
        account = self._account(known.device.uuid)
        account.tenancy.restore(known.holder, known.held_since)
        self._books.restore_power(known.device.uuid, known.power)
        if known.holder is not None:
            self._workloads.know(known.holder)

    def known_devices(self) -> tuple[KnownDevice, ...]:
        """The devices of the last snapshot with their holders."""
        return tuple(
            KnownDevice(
                device,
                self._account(uuid).tenancy.holder,
                self._account(uuid).tenancy.since,
                self._books.learned_power(uuid),
            )
            for uuid, device in self._devices.items()
        )

    def take_closed(self) -> list[Window]:
        """The five-minute windows that were closed since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def open_windows(self) -> list[Window]:
        """The five-minute windows that are still running."""
        found = (account.windows.open_window() for account in self._accounts.values())
        running = [window for window in found if window is not None]
        return [*running, *self._workloads.open_windows()]

    def last(self, uuid: str) -> Entry | None:
        """The latest entry of a device, `None` before there is one."""
        return self._account(uuid).last

    def totals(self, uuid: str) -> Totals:
        """The counters of a device."""
        return self._account(uuid).totals.totals()

    def workloads(self) -> tuple[WorkloadReport, ...]:
        """The counters of workloads over all their devices, seen longest ago first."""
        return self._workloads.reports()

    def whole(self, uuid: str) -> Window:
        """Everything that was posted of a device, as one window."""
        return self._account(uuid).whole.window()

    def strip(self, uuid: str, now: Nanoseconds) -> tuple[StripCell, ...]:
        """The last day of a device in five-minute cells, oldest first."""
        return self._account(uuid).windows.strip(now)

    def recollections(self) -> tuple[Recollection, ...]:
        """What is remembered of the devices of the last snapshot that have states of their own."""
        return tuple(
            self._account(uuid).windows.recollection()
            for uuid, device in self._devices.items()
            if not device.has_mig_instances
        )

    def provisioning(self, uuid: str) -> Mapping[str, Provisioning]:
        """The derived gauges of a device by exported window."""
        account, settings = self._account(uuid), self._settings.provisioning
        allocator = allocator_of(account.tenancy.holder)
        day, week = account.windows.day(), account.windows.week()
        return {
            DAY: provision(day, allocator, settings),
            WEEK: provision(week, allocator, settings),
            CURRENT: provision(week, allocator, settings, account.current_demands()),
        }

    def window(self, uuid: str, start: Nanoseconds, end: Nanoseconds) -> Window:
        """Any span of a device's past, of up to thirty days."""
        return self._account(uuid).windows.window(start, end)

    def cases(self, span: Nanoseconds | None, now: Nanoseconds) -> tuple[Case, ...]:
        """What the rules judge: the devices of each holder over the last span of time.

        Args:
            span: How far back, at most to when the holder took the device; `None` for
                everything that was posted.
            now: The end of the span, wall time.
        """
        return self.look(now).cases(span)

    def node(self) -> Node:
        """The machine as the last snapshot showed it."""
        return self._node

    def look(self, now: Nanoseconds) -> Look:
        """What `cases` are made of, at once; whoever holds a lock makes them when it is free."""
        groups: dict[str, list[str]] = {}
        for uuid, device in self._devices.items():
            if not device.has_mig_instances:
                holder = self._account(uuid).tenancy.holder
                groups.setdefault(holder.key if holder else uuid, []).append(uuid)
        views = [self._case_view(key, uuids) for key, uuids in groups.items()]
        return Look(views, self.node(), now)

    def _case_view(self, key: str, uuids: list[str]) -> CaseView:
        workload = self._account(uuids[0]).tenancy.holder
        return CaseView(
            key=key,
            workload=workload,
            devices=tuple(self._device_view(uuid) for uuid in uuids),
            group=None if workload is None else self._workloads.recollection(workload.key),
            provisioning=self._settings.provisioning,
            past=self._settings.past,
        )

    def _device_view(self, uuid: str) -> DeviceView:
        account = self._account(uuid)
        return DeviceView(
            device=self._devices[uuid],
            recollection=account.windows.recollection(),
            whole=account.whole.window(),
            since=account.tenancy.since,
            demands=account.current_demands(),
        )

    def _forget_absent(self) -> None:
        """Keep a device's account while it is away, but only so many of them."""
        absent = [uuid for uuid in self._accounts if uuid not in self._devices]
        for uuid in absent[: max(0, len(absent) - _ABSENT_KEPT)]:
            del self._accounts[uuid]

    def _account(self, uuid: str) -> _Account:
        if uuid not in self._accounts:
            self._accounts[uuid] = _Account(uuid, self._settings)
        return self._accounts[uuid]


def _of_present(
    readings: Mapping[str, Reading], devices: Mapping[str, Device]
) -> dict[str, Reading]:
    """The last readings of devices that are still there, silent ones included."""
    return {uuid: reading for uuid, reading in readings.items() if uuid in devices}
