"""DcgmExporterSource: a fleet as dcgm-exporter describes it, with pressure from serving engines."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rightsizer.accounting.settings import EntrySettings
from rightsizer.catalogue.catalogue import Catalogue, built_in
from rightsizer.fleet.cache.grid import Grid
from rightsizer.fleet.model import DeviceHolding, FleetDay, FleetDevice, FleetInventory
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.dcgm_exporter.fields import DIVIDED_NAMES, UUID_LABELS, presence_names
from rightsizer.fleet.sources.dcgm_exporter.holdings import (
    DeviceHolder,
    ExporterPresence,
    HolderNames,
    held_runs,
    presences,
    workloads_of,
)
from rightsizer.fleet.sources.dcgm_exporter.inventory import holder_names, read_inventory
from rightsizer.fleet.sources.dcgm_exporter.probe import NAME, probe
from rightsizer.fleet.sources.dcgm_exporter.readings import (
    DayQueries,
    DeviceDay,
    read_devices,
    whole_uuids,
)
from rightsizer.fleet.sources.dcgm_exporter.tracks import DayBuilder
from rightsizer.fleet.sources.kubernetes_pods import LookbackSpan, Pod, PodOwners
from rightsizer.fleet.sources.series import one_of
from rightsizer.fleet.sources.serving import ServingMetrics, ServingSignals
from rightsizer.fleet.store import MetricStore
from rightsizer.model.signal import Signal
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.workload import Allocator

_WORST: Final = frozenset({Signal.KV_CACHE_USED})
"""Of several engines on one device the fullest counts; of all else they add up."""


def pods_of(holders: Collection[DeviceHolder | None]) -> frozenset[Pod]:
    """The pods among some holders."""
    return frozenset(Pod(each.namespace, each.pod) for each in holders if each and each.pod)


def give_pressure(
    days: Mapping[str, DeviceDay],
    presences: Mapping[str, ExporterPresence],
    told: Mapping[Pod, ServingSignals],
) -> None:
    """Add to each device what the engines on it tell.

    The pressure is the application's: each GPU of an engine on several has the same.
    """
    for device, day in days.items():
        presence = presences.get(device)
        if presence is None:
            continue
        for pod in sorted(pods_of(presence.counts.keys())):
            for signal, column in told.get(pod, {}).items():
                former = day.means.get(signal)
                day.means[signal] = column if former is None else _together(signal, former, column)


def _together(signal: Signal, one: array[float], other: array[float]) -> array[float]:
    is_worst = signal in _WORST

    def both(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return b if math.isnan(a) else a
        return max(a, b) if is_worst else a + b

    return array("d", map(both, one, other))


_USUAL_RESOLUTION_SECONDS: Final = 30.0
"""Between two collections of a dcgm-exporter, unless it is told otherwise."""
_DAY_SPAN: Final[Nanoseconds] = 86400 * NANOSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class _ExporterSpelling:
    """How an estate writes what several versions write differently."""

    uuid_labels: tuple[str, ...]
    holders: HolderNames


class DcgmExporterSource:
    """Reads dcgm-exporters of all versions; judges each stretch as an agent would.

    A stretch is judged by its mean, as one state. It is idle only where nothing ran in all of
    it, so that idle time is never put too high, and alternation within it is not seen.
    """

    name: Final = NAME

    def __init__(
        self,
        settings: FleetSettings | None = None,
        *,
        books: EntrySettings | None = None,
        catalogue: Catalogue | None = None,
        owners: PodOwners | None = None,
        serving: ServingMetrics | None = None,
    ) -> None:
        """Asks nobody yet.

        Args:
            settings: How much is asked for at once, and which label tells clusters apart.
            books: The thresholds that the agents have too.
            catalogue: What boards can do; the packaged one without.
            owners: Who made the pods, shared with whoever else asks.
            serving: Engines' queues.
        """
        self._settings = settings or FleetSettings()
        self._books = books
        self._catalogue = catalogue or built_in()
        self._owners = owners or PodOwners()
        self._serving = serving or ServingMetrics()
        self._spelling: _ExporterSpelling | None = None

    def probe(self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
        """What there is, how far back and at which resolution."""
        return probe(store, now, lookback)

    def estate(
        self, store: MetricStore, report: SourceReport, now: Nanoseconds, lookback: Nanoseconds
    ) -> FleetInventory:
        """The devices that had samples within the lookback, and who holds them now."""
        if not presence_names(report.metrics):
            return FleetInventory()
        census = read_inventory(
            store,
            report,
            LookbackSpan(now, lookback),
            self._catalogue,
            self._settings,
        )
        holders = {each for held in census.holders.values() for each in held}
        span = LookbackSpan(now, min(lookback, _DAY_SPAN))
        found = workloads_of(store, self._owners, holders, span)
        return FleetInventory(
            devices=census.devices,
            workloads={workload.key: workload for workload in found.values()},
        )

    def day(
        self, store: MetricStore, report: SourceReport, devices: Sequence[FleetDevice], grid: Grid
    ) -> FleetDay:
        """One day of some devices, duplicates of a scrape taken once."""
        names = presence_names(report.metrics)
        chosen = [each.device for each in devices if not each.device.has_mig_instances]
        if not names or not chosen:
            return FleetDay({})
        spelling = self._spelled(store, names, grid.end)
        queries = DayQueries(store, grid, whole_uuids(chosen), spelling.uuid_labels)
        resolution = report.resolution_seconds or _USUAL_RESOLUTION_SECONDS
        present = presences(queries.counted(names), grid, spelling.holders, resolution)
        if any(one.is_told_twice for one in present.values()):
            queries = replace(queries, divided=DIVIDED_NAMES)
        read = read_devices(queries, report.metrics)
        held = self._held(store, grid, present, read)
        watched = [device for device in chosen if device.uuid in present and device.uuid in read]
        known = {
            device.uuid: present[device.uuid].known_seconds(grid, resolution) for device in watched
        }
        tracks = DayBuilder(grid, self._books).of(watched, read, known, held)
        return FleetDay(tracks, {uuid: held[uuid] for uuid in tracks if held.get(uuid)})

    def _held(
        self,
        store: MetricStore,
        grid: Grid,
        present: Mapping[str, ExporterPresence],
        read: Mapping[str, DeviceDay],
    ) -> dict[str, tuple[DeviceHolding, ...]]:
        """Who held each device; what their engines tell is given to the devices on the way."""
        holders = {each for one in present.values() for each in one.counts if each is not None}
        told = self._serving.signals(store, pods_of(holders), grid)
        give_pressure(read, present, told)
        found = workloads_of(store, self._owners, holders, LookbackSpan(grid.end, _DAY_SPAN))
        for holder, workload in found.items():
            if Pod(holder.namespace, holder.pod) in told:
                # Engines take their memory at the start, so that full says nothing.
                found[holder] = replace(workload, allocator=Allocator.PREALLOCATING)
        return {uuid: held_runs(one, found, grid) for uuid, one in present.items()}

    def _spelled(
        self, store: MetricStore, names: Sequence[str], at: Nanoseconds
    ) -> _ExporterSpelling:
        """Found out once, by the newest day that is asked for."""
        if self._spelling is None:
            series = one_of("__name__", names)
            labels = tuple(
                label
                for label in UUID_LABELS
                if store.instant(f'count({{{series},{label}!=""}})', at)
            )
            if not labels:
                return _ExporterSpelling(UUID_LABELS, holder_names(store, names, at))
            self._spelling = _ExporterSpelling(labels, holder_names(store, names, at))
        return self._spelling
