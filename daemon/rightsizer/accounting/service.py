"""AccountingService: NodeAccounts under a lock; the coordinator posts, jobs and HTTP read."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from rightsizer.accounting.accounts_snapshot import AccountsSnapshot
from rightsizer.accounting.device_account import DeviceRecord
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.accounting.window_query import WindowQuery, device_span
from rightsizer.model.advice import Advice
from rightsizer.model.device import Device
from rightsizer.model.report import (
    AgentReport,
    DeviceReport,
    NodeReport,
    Report,
    StripCell,
    WorkloadReport,
)
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.span import DeviceSpan, Span
from rightsizer.model.state import State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.window import Provisioning, Window

Enrich = Callable[[Snapshot], Snapshot]
"""Adds to the holders of a snapshot what operators say of them."""

_GAUGES_EVERY: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND


class AccountingService:
    """Holds a lock around the accounts, and the latest report for whoever asks."""

    def __init__(
        self,
        settings: AccountingSettings,
        enrich: Enrich = lambda snapshot: snapshot,
        gauges_every: Nanoseconds = _GAUGES_EVERY,
    ) -> None:
        """Accounts that are empty.

        Args:
            settings: Thresholds.
            enrich: Adds to each snapshot what operators know of their workloads.
            gauges_every: How often derived gauges and strips are made anew.
        """
        self._accounts = NodeAccounts(settings)
        self._enrich = enrich
        self._gauges_every = gauges_every
        self._lock = threading.Lock()
        self._generation = 0
        self._gauges: dict[str, tuple[dict[str, Provisioning], tuple[StripCell, ...]]] = {}
        self._gauges_due: Nanoseconds = 0
        self._workloads: tuple[WorkloadReport, ...] = ()
        self._last_sample: dict[str, Nanoseconds] = {}
        self._latest: Report | None = None

    def latest(self) -> Report | None:
        """The last report, `None` before the first snapshot."""
        return self._latest

    def post(
        self, snapshot: Snapshot, advice: Sequence[Advice], agent: Callable[[], AgentReport]
    ) -> Report:
        """Account for a snapshot and publish what follows from it."""
        snapshot = self._enrich(snapshot)
        with self._lock:
            self._accounts.post(snapshot)
            # By the steady clock: the wall clock may step back by hours.
            if snapshot.time >= self._gauges_due:
                self._make_gauges(snapshot)
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
            )
        self._latest = report
        return report

    def follow(self, enrich: Enrich) -> None:
        """Enrich otherwise from the next snapshot on."""
        self._enrich = enrich

    def remember(self, snapshots: Iterable[Snapshot]) -> None:
        """Account for the past without publishing it; counters start at 0 after it."""
        with self._lock:
            for snapshot in snapshots:
                self._accounts.post(self._enrich(snapshot))
            self._accounts.drain_closed()
            self._accounts.begin()

    def restore(self, devices: Iterable[DeviceRecord], windows: Iterable[Window]) -> int:
        """Put back devices and windows from a history; how many windows."""
        restored = 0
        with self._lock:
            for known in devices:
                self._accounts.restore_record(known)
            for window in windows:
                self._accounts.restore(window)
                restored += 1
        return restored

    def look(self, now: Nanoseconds) -> AccountsSnapshot:
        """The accounts as they are, for the cases of several spans up to a wall time."""
        # A month of windows takes a while to read; sampling need not wait for it.
        with self._lock:
            return self._accounts.look(now)

    def remembered(self) -> tuple[Nanoseconds, tuple[WindowQuery, ...]]:
        """The latest snapshot's time, and what is remembered of its devices."""
        with self._lock:
            now = self._latest.wall_time if self._latest is not None else 0
            return now, self._accounts.device_queries()

    def known(self) -> tuple[DeviceRecord, ...]:
        """The devices of the last snapshot with who holds them."""
        with self._lock:
            return self._accounts.device_records()

    def take_windows(self) -> tuple[list[Window], list[Window], tuple[DeviceRecord, ...]]:
        """What a history should keep: windows closed since the last call, running ones, devices."""
        with self._lock:
            return (
                self._accounts.drain_closed(),
                self._accounts.open_windows(),
                self._accounts.device_records(),
            )

    def _make_gauges(self, snapshot: Snapshot) -> None:
        present = {device.uuid for device in snapshot.devices}
        self._last_sample = {
            uuid: time for uuid, time in self._last_sample.items() if uuid in present
        }
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
        reading = snapshot.readings.get(uuid)
        if reading is not None:
            self._last_sample[uuid] = snapshot.wall_time_of(reading.time)
        # A GPU that is cut keeps no books, but draws power, gets warm and counts errors itself.
        entry = None if device.has_mig_instances else self._accounts.device(uuid).last
        is_present = reading is not None and entry is not None
        of_parent = reading.values if reading is not None and device.has_mig_instances else {}
        provisioning, strip = self._gauges.get(uuid, ({}, ()))
        return DeviceReport(
            device=device,
            down=snapshot.down.get(uuid),
            last_sample=self._last_sample.get(uuid),
            reading=reading,
            signals=entry.signals if is_present and entry else of_parent,
            state=entry.state if is_present and entry else State.UNKNOWN,
            conditions=entry.conditions if is_present and entry else frozenset(),
            tier=entry.tier if is_present and entry else Tier.NONE,
            totals=self._accounts.device(uuid).totals.totals(),
            provisioning=provisioning,
            strip=strip,
            holdings=snapshot.holdings.get(uuid, ()),
            xids=snapshot.xids.get(uuid),
        )


_RENEWED: Final = 24
"""A span is put together anew when this part of a cell has gone by: what changes is not seen."""
_LEAST: Final[Nanoseconds] = 10 * NANOSECONDS_PER_SECOND

_Spans: TypeAlias = Mapping[str, DeviceSpan]


class PastBook:
    """Remembers what it worked out, so that no crowd of readers costs more than one."""

    def __init__(self, look: Callable[[], tuple[Nanoseconds, tuple[WindowQuery, ...]]]) -> None:
        """A book over whoever remembers.

        Args:
            look: Gives the present and what is remembered of each device, in no time; it is
                read here, without a lock of theirs.
        """
        self._look = look
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Nanoseconds, _Spans]] = {}

    def __call__(self, span: Span) -> _Spans:
        """What each device did over a span, by uuid."""
        with self._lock:
            now, remembered = self._look()
            made, spans = self._known.get(span.name, (None, {}))
            fresh_for = max(_LEAST, span.cell // _RENEWED)
            if made is not None and 0 <= now - made < fresh_for and _has_all(spans, remembered):
                return spans
            spans = {each.uuid: device_span(each, span, now) for each in remembered}
            self._known[span.name] = now, spans
            return spans


def _has_all(spans: _Spans, remembered: tuple[WindowQuery, ...]) -> bool:
    return {each.uuid for each in remembered} <= set(spans)
