"""Source of a fleet's metrics: dcgm-exporter, with tracks of who held each device."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rightsizer.accounting.settings import EntrySettings
from rightsizer.accounting.window_builder import entry_measures
from rightsizer.catalogue.catalogue import Catalogue, built_in
from rightsizer.fleet.cache.day_frame import (
    FINE_STEP,
    ColumnKind,
    DayColumn,
    Grid,
    SubjectDay,
    empty_column,
)
from rightsizer.fleet.model import DeviceHolding, FleetDay, FleetDevice, FleetInventory
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources.dcgm_exporter.booking import AccountedStep, DayAccounting, Peaks
from rightsizer.fleet.sources.dcgm_exporter.holdings import (
    DeviceHolder,
    ExporterPresence,
    HolderNames,
    held_runs,
    presences,
    workloads_of,
)
from rightsizer.fleet.sources.dcgm_exporter.inventory import holder_names, read_inventory
from rightsizer.fleet.sources.dcgm_exporter.probe import (
    DIVIDED_NAMES,
    NAME,
    UUID_LABELS,
    presence_names,
    probe,
)
from rightsizer.fleet.sources.dcgm_exporter.readings import (
    DayQueries,
    DeviceDay,
    read_devices,
    whole_uuids,
)
from rightsizer.fleet.sources.kubernetes import LookbackSpan, Pod, PodOwners
from rightsizer.fleet.sources.series import one_of
from rightsizer.fleet.sources.serving import ServingMetrics, ServingSignals
from rightsizer.model.block import Measure
from rightsizer.model.device import Device
from rightsizer.model.entry import Entry
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, Resource, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.model.workload import Allocator

_STATES: Final = tuple(state for state in State if state is not State.UNKNOWN)
_SECONDS, _JOULES = "seconds", "joules"


class SubjectDayBuilder:
    """Takes in the stretches of one device."""

    def __init__(
        self,
        device: Device,
        grid: Grid,
        known_seconds: Sequence[float],
        tellable: Iterable[Condition],
    ) -> None:
        """Nothing is known yet.

        Args:
            device: Whose track it is.
            grid: The stretches.
            known_seconds: How much of each was watched.
            tellable: Conditions that the device's metrics can show; of others nothing is said.
        """
        self._device = device
        self._grid = grid
        self._known_seconds = known_seconds
        self._known = bytearray(grid.count)
        self._sums: dict[ColumnKind, dict[str, array[float]]] = {kind: {} for kind in ColumnKind}
        self._values: dict[ColumnKind, dict[str, array[float]]] = {kind: {} for kind in ColumnKind}
        for state in _STATES:
            self._add(ColumnKind.STATE, state, 0, 0.0)
        for condition in tellable:
            self._add(ColumnKind.CONDITION, condition, 0, 0.0)
            if condition is Condition.NEAR_OUT_OF_MEMORY:
                self._add(ColumnKind.PRESSED, Resource.MEMORY, 0, 0.0)

    def add(
        self,
        booked: AccountedStep,
        most: Mapping[Measure, float],
        throttled: Mapping[Condition, float],
    ) -> None:
        """Count one stretch.

        Args:
            booked: What it is in the books.
            most: The peak of each measure.
            throttled: For how much of it a condition held that did not hold for all of it.
        """
        entry, stretch = booked.entry, booked.stretch
        if entry.state is State.UNKNOWN:
            return
        self._known[stretch] = 1
        length = self._known_seconds[stretch]
        self._add(ColumnKind.STATE, entry.state, stretch, length)
        self._add(ColumnKind.TIER, entry.tier, stretch, length)
        tellable = self._sums[ColumnKind.CONDITION]
        for condition in entry.conditions:
            if condition in tellable:
                tellable[condition][stretch] = length * throttled.get(condition, 1.0)
        for resource in entry.shares:
            at_limit = length if resource in entry.saturated else 0.0
            self._add(ColumnKind.SATURATED, resource, stretch, at_limit)
        for resource in entry.pressed:
            self._add(ColumnKind.PRESSED, resource, stretch, length)
        self._add_waste(entry, stretch, length)
        for measure, value in entry_measures(entry).items():
            self._set(ColumnKind.MEAN, measure, stretch, value)
            self._set(ColumnKind.PEAK, measure, stretch, max(value, most.get(measure, value)))

    def track(self) -> SubjectDay:
        """The day."""
        unknown = [stretch for stretch, known in enumerate(self._known) if not known]
        for columns in self._sums.values():
            for column in columns.values():
                for stretch in unknown:
                    column[stretch] = math.nan
        named = {
            DayColumn(kind, str(name)): column
            for part in (self._sums, self._values)
            for kind, columns in part.items()
            for name, column in columns.items()
        }
        return SubjectDay(self._device.uuid, self._grid, named)

    def _add_waste(self, entry: Entry, stretch: int, length: float) -> None:
        part = length / seconds(self._grid.step)
        joules = None if entry.energy_joules is None else entry.energy_joules * part
        if joules is not None:
            self._set(ColumnKind.ENERGY, _JOULES, stretch, joules)
        if entry.used_ratio is None:
            return
        self._set(ColumnKind.USED, _SECONDS, stretch, entry.used_ratio * length)
        if joules is not None:
            self._set(ColumnKind.USED, _JOULES, stretch, entry.used_ratio * joules)
        for cause, ratio in entry.waste.items():
            self._add(ColumnKind.WASTE, cause, stretch, ratio * length)
            if joules is not None:
                self._add(ColumnKind.WASTE_JOULES, cause, stretch, ratio * joules)

    def _add(self, kind: ColumnKind, name: str, stretch: int, value: float) -> None:
        """To a column of seconds or joules, which is 0 where nothing was to tell."""
        columns = self._sums[kind]
        if name not in columns:
            columns[name] = array("f", bytes(4 * self._grid.count))
        columns[name][stretch] = value

    def _set(self, kind: ColumnKind, name: str, stretch: int, value: float) -> None:
        """In a column that is unknown where nothing was to tell."""
        columns = self._values[kind]
        if name not in columns:
            columns[name] = empty_column(self._grid)
        columns[name][stretch] = value


_THROTTLES: Final = (
    Condition.POWER_THROTTLED,
    Condition.THERMAL_THROTTLED,
    Condition.HARDWARE_SLOWDOWN,
)
_TENSOR_SIGNALS: Final = frozenset({Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.FP32_ACTIVE})


class DayBuilder:
    """Judges a day as an agent would."""

    def __init__(self, grid: Grid, settings: EntrySettings | None = None) -> None:
        """Nothing is judged yet."""
        self._grid = grid
        self._books = DayAccounting(grid, settings)

    def of(
        self,
        devices: Sequence[Device],
        read: Mapping[str, DeviceDay],
        known: Mapping[str, Sequence[float]],
        held: Mapping[str, Sequence[DeviceHolding]],
    ) -> dict[str, SubjectDay]:
        """The track of each device.

        Args:
            devices: Those that were read.
            read: What was read of each.
            known: Seconds of each stretch that were watched.
            held: Who held each.
        """
        builders = {
            device.uuid: SubjectDayBuilder(
                device,
                self._grid,
                known[device.uuid],
                _tellable(device, read[device.uuid], tells_ranks=self._tells_ranks(device, held)),
            )
            for device in devices
        }
        peaks = {device.uuid: Peaks(device, self._books) for device in devices}
        for uuid, booked in self._books.post(devices, read, known, held):
            throttled = _throttled(read[uuid], booked.stretch)
            builders[uuid].add(booked, peaks[uuid].of(booked), throttled)
        return {uuid: builder.track() for uuid, builder in builders.items()}

    def _tells_ranks(self, device: Device, held: Mapping[str, Sequence[DeviceHolding]]) -> bool:
        """Whether unequal work would show: the judgement is over ten minutes."""
        return self._grid.step == FINE_STEP and bool(held.get(device.uuid))


def _tellable(device: Device, read: DeviceDay, *, tells_ranks: bool) -> Iterable[Condition]:
    """The conditions that would show; of others nobody can say that they did not hold."""
    found = set(read.violations)
    if read.reasons is not None:
        found |= set(_THROTTLES)
    if Signal.MEMORY_USED_BYTES in read.means and device.memory_total_bytes:
        found.add(Condition.NEAR_OUT_OF_MEMORY)
    if read.means.keys() >= _TENSOR_SIGNALS:
        found.add(Condition.NO_TENSOR_CORES)
    if tells_ranks:
        found.add(Condition.RANK_IMBALANCE)
    return sorted(found)


def _throttled(read: DeviceDay, stretch: int) -> Mapping[Condition, float]:
    """For how much of a stretch the clocks were held down, where that is known."""
    found: dict[Condition, float] = {}
    if read.reasons is not None:
        found = dict.fromkeys(_THROTTLES, read.reasons.at(stretch)[1])
    for condition, column in read.violations.items():
        share = column[stretch]
        if share >= 0.0:
            found[condition] = min(1.0, share)
    return found


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
