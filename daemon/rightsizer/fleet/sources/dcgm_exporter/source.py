"""Fleet source: dcgm-exporter, with the holders of each device."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from rightsizer.accounting.settings import EntrySettings
from rightsizer.catalogue.catalogue import Catalogue, built_in
from rightsizer.fleet.cache.grid import DAY, Grid
from rightsizer.fleet.model import FleetDay, FleetDevice, FleetInventory
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources import dcgm_names as dcgm
from rightsizer.fleet.sources.day_accounting import (
    DeviceReadings,
    WatchedDevices,
    accounted_days,
)
from rightsizer.fleet.sources.dcgm_exporter.holdings import (
    ExporterPresence,
    HolderNames,
    begun,
    held_runs,
    known_seconds,
    presences,
    requested_shares,
    workloads_of,
)
from rightsizer.fleet.sources.dcgm_exporter.inventory import read_inventory
from rightsizer.fleet.sources.dcgm_exporter.probe import NAME, probe
from rightsizer.fleet.sources.dcgm_exporter.readings import (
    DayQueries,
    boards_of,
    part_watts,
    read_devices,
)
from rightsizer.fleet.sources.figures import COUNTED, recorded_series
from rightsizer.fleet.sources.pod_owners import LookbackSpan, Pod, PodOwners
from rightsizer.fleet.sources.series import names_of, together
from rightsizer.fleet.sources.serving import ServingMetrics
from rightsizer.model.dcgm_fields import UUID_LABELS
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Allocator,
    Device,
    Nanoseconds,
    Signal,
    Workload,
    seconds,
)


def pods_of(holders: Collection[Workload | None]) -> frozenset[Pod]:
    """Return the pods among some holders."""
    return frozenset(
        Pod(holder.namespace, holder.pod) for holder in holders if holder and holder.pod
    )


def _limited(device: FleetDevice) -> Device:
    """Return the device with its present power limit, to which its draw is related."""
    limit = device.readings.get(Signal.POWER_LIMIT_WATTS, device.device.power_limit_watts)
    return replace(device.device, power_limit_watts=limit)


def _counted(report: SourceReport) -> frozenset[str]:
    """Return the recorded series that show when there are any."""
    names = dcgm.presence_names(report.metrics)
    return report.metrics & {COUNTED.of(name).recorded_name for name in names}


_USUAL_RESOLUTION_SECONDS: Final = 30.0
"""Default time between two collections of dcgm-exporter."""
_LOOK: Final = 900 * NANOSECONDS_PER_SECOND
"""Recorded samples are five minutes apart, so an instant query might miss them."""
_SHOWN: Final = 3
_RECORDED: Final = (
    "Long spans at little cost to the store: {} series of each GPU are recorded, of {} that are "
    "read."
)
_NOT_RECORDED: Final = (
    "Recorded series are missing ({}: {}), which are read from samples: write the rules again "
    "(`rightsizer fleet rules --store.url ...`), and check that the ruler evaluates every group."
)


class DcgmExporterSource(Struct):
    """Reads dcgm-exporters of all versions; evaluates each interval as an agent would.

    An interval is judged by its mean, as one state. It is idle only if nothing ran in all of it,
    so that idle time is never overestimated; alternation within it is not visible.
    """

    settings: FleetSettings = FleetSettings()
    books: EntrySettings = EntrySettings()
    catalogue: Catalogue = field(default_factory=built_in)
    _owners: PodOwners = field(default_factory=PodOwners)
    _serving: ServingMetrics = field(default_factory=ServingMetrics)
    _names: HolderNames = field(default_factory=HolderNames)
    """As the latest inventory found them, by which days are read."""
    name: ClassVar[str] = NAME

    def probe(self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
        """Find what there is, how far back, at which resolution, and which series are recorded."""
        report = probe(store, now, lookback)
        wanted = [figure.recorded_name for figure in recorded_series(report.metrics)]
        names = names_of(store, wanted, now, UUID_LABELS, over=_LOOK)
        if not names:
            return report
        warnings = report.warnings
        if missing := sorted({*wanted} - names):
            shown = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
            warnings = *warnings, _NOT_RECORDED.format(len(missing), shown)
        can = *report.can, _RECORDED.format(len(names), len(wanted))
        return replace(report, metrics=report.metrics | names, can=can, warnings=warnings)

    def inventory(
        self, store: MetricStore, report: SourceReport, now: Nanoseconds, lookback: Nanoseconds
    ) -> FleetInventory:
        """Return the devices with samples within the lookback, and their current holders."""
        if not dcgm.presence_names(report.metrics):
            return FleetInventory()
        span = LookbackSpan(now, lookback)
        devices, holders, names = read_inventory(store, report, span, self.catalogue, self.settings)
        self._names = names
        span = LookbackSpan(now, min(lookback, DAY))
        workloads = workloads_of(store, self._owners, holders, span)
        return FleetInventory(
            devices=devices, workloads={workload.key: workload for workload in workloads.values()}
        )

    def queries(self, report: SourceReport, grids: Sequence[Grid]) -> int:
        """See `FleetSource`."""
        figures = len(recorded_series(report.metrics)) + len(_counted(report))
        labels = len(self._names.uuids)
        return len(grids) * figures * labels + len({*grids}) * self._serving.queries_of_days

    def day(
        self, store: MetricStore, report: SourceReport, devices: Sequence[FleetDevice], grid: Grid
    ) -> FleetDay:
        """Return some devices on the days of a grid, with duplicate scrapes merged.

        Recorded series replace samples; devices without them are read from samples.
        """
        names = dcgm.presence_names(report.metrics)
        chosen = [_limited(device) for device in devices]
        slots = {device.device.uuid: device.slot_ratio for device in devices if device.is_shareable}
        if not names or not chosen:
            return FleetDay({})
        queries = DayQueries(store, begun(grid, report.time), boards_of(chosen), self._names.uuids)
        of_recorded, uuids = queries.where_recorded(_counted(report))
        of_recorded = replace(of_recorded, recorded=report.metrics)
        some = [device for device in chosen if device.uuid in uuids]
        rest = [device for device in chosen if device.uuid not in uuids]
        ones = self._day(report, some, of_recorded, slots)
        others = self._day(report, rest, queries, slots)
        return FleetDay({**ones.frames, **others.frames}, {**ones.holdings, **others.holdings})

    def _day(
        self,
        report: SourceReport,
        chosen: Sequence[Device],
        queries: DayQueries,
        slots: Mapping[str, float],
    ) -> FleetDay:
        if not chosen:
            return FleetDay({})
        queries = replace(queries, uuids=boards_of(chosen))
        store = queries.store
        grid = queries.grid
        names = dcgm.presence_names(report.metrics)
        holder_names = self._names
        resolution = report.resolution_seconds or _USUAL_RESOLUTION_SECONDS
        present = presences(queries.read(COUNTED, names), grid, holder_names, resolution)
        lacking = [device for device in chosen if device.uuid not in present]
        if lacking and (others := dcgm.other_presence_names(report.metrics)):
            of_lacking = replace(queries, uuids=boards_of(lacking))
            answer = of_lacking.read(COUNTED, others)
            present |= presences(answer, grid, holder_names, resolution)
        if any(one.has_own_series for one in present.values()):
            queries = replace(queries, divided=dcgm.DIVIDED_NAMES)
        chosen = [device for device in chosen if device.uuid in present]
        rows = {device.uuid: row for row, device in enumerate(chosen)}
        if not rows:
            return FleetDay({})
        exporter_presences = [present[uuid] for uuid in rows]
        at_once = np.array([presence.series_at_once() for presence in exporter_presences])
        length = known_seconds(exporter_presences, grid, resolution)
        if report.time is not None:  # The last interval may have just begun.
            past = np.clip((report.time - grid.start) / grid.step - np.arange(grid.count), 0, 1)
            length = np.minimum(length, past * seconds(grid.step))
        read = read_devices(queries, report.metrics, chosen, at_once, length > 0.0)
        parts = {rows[device.uuid]: device for device in chosen if device.mig is not None}
        if parts:
            read.part_watts = part_watts(queries, report.metrics, parts, len(rows))
        workloads = self._workloads(store, grid, present, read, rows)
        requested = requested_shares(store, grid, chosen, present, slots)
        holdings = [
            held_runs(present[uuid], workloads, grid.step, requested.get(uuid, {})) for uuid in rows
        ]
        watched = WatchedDevices(chosen, holdings, length, grid)
        frames = zip(rows, accounted_days(watched, read, self.books), strict=True)
        is_read = read.is_read
        days = {uuid: frame for uuid, frame in frames if is_read[rows[uuid]]}
        held = {uuid: holdings[row] for uuid, row in rows.items() if uuid in days and holdings[row]}
        return FleetDay(days, held)

    def _workloads(
        self,
        store: MetricStore,
        grid: Grid,
        present: Mapping[str, ExporterPresence],
        read: DeviceReadings,
        rows: Mapping[str, int],
    ) -> dict[Workload, Workload]:
        """Return the workloads of holders, after adding their engines' signals to the devices."""
        holders = {
            pod for presence in present.values() for pod in presence.counts if pod is not None
        }
        signals = self._serving.signals(store, pods_of(holders), grid)
        blank = np.full((len(rows), grid.count), np.nan)
        for uuid, row in rows.items():
            for pod in sorted(pods_of(present[uuid].counts.keys())):
                for signal, column in signals.get(pod, {}).items():
                    # The pressure belongs to the application: all GPUs of an engine share it. Of
                    # several engines on one device the fullest cache counts, and the sum of
                    # everything else.
                    both = np.maximum if signal is Signal.KV_CACHE_USED else np.add
                    total = read.means.setdefault(signal, blank.copy())[row]
                    total[:] = together(column, total, both)
        workloads = workloads_of(
            store, self._owners, holders, LookbackSpan(grid.by(grid.step).end, grid.days * DAY)
        )
        for holder, workload in workloads.items():
            if Pod(holder.namespace, holder.pod) in signals:
                # Engines allocate their memory at the start, so that its usage is meaningless.
                workloads[holder] = replace(workload, allocator=Allocator.PREALLOCATING)
        return workloads
