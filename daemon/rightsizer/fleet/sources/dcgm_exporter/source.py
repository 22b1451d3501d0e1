"""An estate by what its dcgm-exporters export, where no agent is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rightsizer.accounting.books import BooksSettings
from rightsizer.catalogue.catalogue import Catalogue, built_in
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.domain.workload import Allocator
from rightsizer.fleet.estate import Day, Estate, EstateDevice, Held
from rightsizer.fleet.kept.grid import Grid
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.dcgm_exporter.census import holder_names, take_census
from rightsizer.fleet.sources.dcgm_exporter.day_tracks import DayTracks
from rightsizer.fleet.sources.dcgm_exporter.fields import DIVIDED_NAMES, presence_names
from rightsizer.fleet.sources.dcgm_exporter.holders import HolderNames, workloads_of
from rightsizer.fleet.sources.dcgm_exporter.holdings import Presence, held_runs, presences
from rightsizer.fleet.sources.dcgm_exporter.labels import UUID_LABELS
from rightsizer.fleet.sources.dcgm_exporter.pressure import give_pressure, pods_of
from rightsizer.fleet.sources.dcgm_exporter.probe import NAME, probe
from rightsizer.fleet.sources.dcgm_exporter.queries import DayQueries, whole_uuids
from rightsizer.fleet.sources.dcgm_exporter.readings import DeviceDay, read_devices
from rightsizer.fleet.sources.kubernetes_owners import KubernetesOwners
from rightsizer.fleet.sources.kubernetes_series import Pod, Span
from rightsizer.fleet.sources.labels import one_of
from rightsizer.fleet.sources.serving import ServingMetrics
from rightsizer.fleet.store import Store

__all__ = ["DcgmExporterSource"]

_USUAL_RESOLUTION_SECONDS: Final = 30.0
"""Between two collections of a dcgm-exporter, unless it is told otherwise."""
_DAY_SPAN: Final[Nanoseconds] = 86400 * NANOSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class _Spelling:
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
        books: BooksSettings | None = None,
        catalogue: Catalogue | None = None,
        owners: KubernetesOwners | None = None,
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
        self._owners = owners or KubernetesOwners()
        self._serving = serving or ServingMetrics()
        self._spelling: _Spelling | None = None

    def probe(self, store: Store, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
        """What there is, how far back and at which resolution."""
        return probe(store, now, lookback)

    def estate(
        self, store: Store, report: SourceReport, now: Nanoseconds, lookback: Nanoseconds
    ) -> Estate:
        """The devices that had samples within the lookback, and who holds them now."""
        if not presence_names(report.metrics):
            return Estate()
        census = take_census(
            store,
            report,
            Span(now, lookback),
            self._catalogue,
            self._settings,
        )
        holders = {each for held in census.holders.values() for each in held}
        span = Span(now, min(lookback, _DAY_SPAN))
        found = workloads_of(store, self._owners, holders, span)
        return Estate(
            devices=census.devices,
            workloads={workload.key: workload for workload in found.values()},
        )

    def day(
        self, store: Store, report: SourceReport, devices: Sequence[EstateDevice], grid: Grid
    ) -> Day:
        """One day of some devices, duplicates of a scrape taken once."""
        names = presence_names(report.metrics)
        chosen = [each.device for each in devices if not each.device.has_mig_instances]
        if not names or not chosen:
            return Day({})
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
        tracks = DayTracks(grid, self._books).of(watched, read, known, held)
        return Day(tracks, {uuid: held[uuid] for uuid in tracks if held.get(uuid)})

    def _held(
        self,
        store: Store,
        grid: Grid,
        present: Mapping[str, Presence],
        read: Mapping[str, DeviceDay],
    ) -> dict[str, tuple[Held, ...]]:
        """Who held each device; what their engines tell is given to the devices on the way."""
        holders = {each for one in present.values() for each in one.counts if each is not None}
        told = self._serving.signals(store, pods_of(holders), grid)
        give_pressure(read, present, told)
        found = workloads_of(store, self._owners, holders, Span(grid.end, _DAY_SPAN))
        for holder, workload in found.items():
            if Pod(holder.namespace, holder.pod) in told:
                # Engines take their memory at the start, so that full says nothing.
                found[holder] = replace(workload, allocator=Allocator.PREALLOCATING)
        return {uuid: held_runs(one, found, grid) for uuid, one in present.items()}

    def _spelled(self, store: Store, names: Sequence[str], at: Nanoseconds) -> _Spelling:
        """Found out once, by the newest day that is asked for."""
        if self._spelling is None:
            series = one_of("__name__", names)
            labels = tuple(
                label
                for label in UUID_LABELS
                if store.instant(f'count({{{series},{label}!=""}})', at)
            )
            if not labels:
                return _Spelling(UUID_LABELS, holder_names(store, names, at))
            self._spelling = _Spelling(labels, holder_names(store, names, at))
        return self._spelling
