"""Source of a fleet's metrics: dcgm-exporter, with who held each device."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from operator import add
from typing import Final

from rightsizer.accounting.settings import EntrySettings
from rightsizer.accounting.window_builder import entry_measures
from rightsizer.catalogue.catalogue import Catalogue, built_in
from rightsizer.fleet.cache.day_frame import DAY, FINE_STEP, ColumnKind, DayFrame, Grid
from rightsizer.fleet.model import FleetDay, FleetDevice, FleetInventory
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources.dcgm_exporter.day_accounting import AccountedStep, DayAccounting
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
    COUNTED,
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
from rightsizer.model.frozen import replace
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, Resource, State
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.model.workload import Allocator, Workload

_STATES: Final = tuple(state for state in State if state is not State.UNKNOWN)
_SECONDS, _JOULES = "seconds", "joules"
_MEASURED: Final = {ColumnKind.MEAN, ColumnKind.PEAK, ColumnKind.ENERGY, ColumnKind.USED}
"""Columns that are unknown, not 0, where there is no reading."""


class DayFrameBuilder:
    """The frame of one device, interval by interval.

    Of conditions that are not `visible` in the device's metrics nothing is said.
    """

    def __init__(
        self, grid: Grid, known_seconds: Sequence[float], visible: Collection[Condition]
    ) -> None:
        self._grid, self._known_seconds, self._visible = grid, known_seconds, visible
        self._known = bytearray(grid.count)
        self._columns: dict[str, array[float]] = {}
        for state in _STATES:
            self._add(ColumnKind.STATE, state, 0, 0.0)
        for condition in visible:
            self._add(ColumnKind.CONDITION, condition, 0, 0.0)
        if Condition.NEAR_OUT_OF_MEMORY in visible:
            self._add(ColumnKind.PRESSED, Resource.MEMORY, 0, 0.0)

    def add(
        self,
        step: AccountedStep,
        peaks: Mapping[Measure, float],
        throttled: Mapping[Condition, float],
    ) -> None:
        """Count one interval, with the peaks of its measures.

        `throttled` says for how much of it a condition held that did not hold for all of it.
        """
        entry, place = step.entry, step.place
        if entry.state is State.UNKNOWN:
            return
        self._known[place] = 1
        length = self._known_seconds[place]
        self._add(ColumnKind.STATE, entry.state, place, length)
        self._add(ColumnKind.TIER, entry.tier, place, length)
        for condition in entry.conditions:
            if condition in self._visible:
                part = throttled.get(condition, 1.0)
                self._add(ColumnKind.CONDITION, condition, place, length * part)
        for resource in entry.shares:
            at_limit = length if resource in entry.saturated else 0.0
            self._add(ColumnKind.SATURATED, resource, place, at_limit)
        for resource in entry.pressed:
            self._add(ColumnKind.PRESSED, resource, place, length)
        self._add_waste(entry, place, length)
        for measure, value in entry_measures(entry).items():
            self._add(ColumnKind.MEAN, measure, place, value)
            self._add(ColumnKind.PEAK, measure, place, max(value, peaks.get(measure, value)))

    def frame(self) -> DayFrame:
        """The day."""
        unknown = [place for place, known in enumerate(self._known) if not known]
        for column in self._columns.values():
            for place in unknown:
                column[place] = math.nan
        return DayFrame.of(self._grid, self._columns)

    def _add_waste(self, entry: Entry, place: int, length: float) -> None:
        part = length / seconds(self._grid.step)
        joules = None if entry.energy_joules is None else entry.energy_joules * part
        if joules is not None:
            self._add(ColumnKind.ENERGY, _JOULES, place, joules)
        if entry.used_ratio is None:
            return
        self._add(ColumnKind.USED, _SECONDS, place, entry.used_ratio * length)
        if joules is not None:
            self._add(ColumnKind.USED, _JOULES, place, entry.used_ratio * joules)
        for cause, ratio in entry.waste.items():
            self._add(ColumnKind.WASTE, cause, place, ratio * length)
            if joules is not None:
                self._add(ColumnKind.WASTE_JOULES, cause, place, ratio * joules)

    def _add(self, kind: ColumnKind, name: str, place: int, value: float) -> None:
        """In a column that is 0, or unknown, in other intervals that are known."""
        column = kind.column(name)
        if column not in self._columns:
            blank = math.nan if kind in _MEASURED else 0.0
            self._columns[column] = array("f", [blank]) * self._grid.count
        self._columns[column][place] = value


_THROTTLES: Final = (
    Condition.POWER_THROTTLED,
    Condition.THERMAL_THROTTLED,
    Condition.HARDWARE_SLOWDOWN,
)
_TENSOR_SIGNALS: Final = frozenset({Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.FP32_ACTIVE})


def accounted_days(
    accounts: DayAccounting, devices: Sequence[Device], days: Mapping[str, DeviceDay]
) -> dict[str, DayFrame]:
    """The frame of each device from what was read of it, accounted for as an agent would."""
    grid = accounts.grid
    builders = {}
    for device in devices:
        day = days[device.uuid]
        # Unequal work of a job's ranks is judged over ten minutes.
        has_ranks = grid.step == FINE_STEP and bool(day.holdings)
        visible = _visible(device, day, has_ranks=has_ranks)
        builders[device.uuid] = DayFrameBuilder(grid, day.known_seconds, visible)
    for uuid, step in accounts.post(devices, days):
        throttled = _throttled(days[uuid], step.place)
        builders[uuid].add(step, accounts.peaks(step), throttled)
    return {uuid: builder.frame() for uuid, builder in builders.items()}


def _visible(device: Device, read: DeviceDay, *, has_ranks: bool) -> Sequence[Condition]:
    """The conditions that would show; whether others held is unknown."""
    found = set(read.violations)
    if read.reasons is not None:
        found |= set(_THROTTLES)
    if Signal.MEMORY_USED_BYTES in read.means and device.memory_total_bytes:
        found.add(Condition.NEAR_OUT_OF_MEMORY)
    if read.means.keys() >= _TENSOR_SIGNALS:
        found.add(Condition.NO_TENSOR_CORES)
    if has_ranks:
        found.add(Condition.RANK_IMBALANCE)
    return sorted(found)


def _throttled(read: DeviceDay, place: int) -> Mapping[Condition, float]:
    """For how much of an interval the clocks were held down, where that is known."""
    found: dict[Condition, float] = {}
    if read.reasons is not None:
        found = dict.fromkeys(_THROTTLES, read.reasons.at(place)[1])
    for condition, column in read.violations.items():
        if column[place] >= 0.0:
            found[condition] = min(1.0, column[place])
    return found


def pods_of(holders: Collection[DeviceHolder | None]) -> frozenset[Pod]:
    """The pods among some holders."""
    return frozenset(Pod(each.namespace, each.pod) for each in holders if each and each.pod)


def add_serving_signals(
    days: Mapping[str, DeviceDay],
    presences: Mapping[str, ExporterPresence],
    signals: Mapping[Pod, ServingSignals],
) -> None:
    """Add to each device the signals of the engines on it.

    The pressure is the application's: each GPU of an engine on several has the same.
    """
    for device, presence in presences.items():
        if device not in days:
            continue
        means = days[device].means
        for pod in sorted(pods_of(presence.counts.keys())):
            for signal, column in signals.get(pod, {}).items():
                former = means.get(signal)
                means[signal] = column if former is None else _together(signal, former, column)


def _together(signal: Signal, one: array[float], other: array[float]) -> array[float]:
    """Several engines on one device: the fullest cache, the sum of all else."""
    both = max if signal is Signal.KV_CACHE_USED else add
    return array(
        "d",
        (
            (b if math.isnan(a) else a) if math.isnan(a) or math.isnan(b) else both(a, b)
            for a, b in zip(one, other, strict=True)
        ),
    )


_USUAL_RESOLUTION_SECONDS: Final = 30.0
"""Between two collections of a dcgm-exporter, by default."""


class DcgmExporterSource:
    """Reads dcgm-exporters of all versions; judges each interval as an agent would.

    An interval is judged by its mean, as one state. It is idle only where nothing ran in all of
    it, so that idle time is never put too high, and alternation within it is not seen.
    """

    name: Final = NAME

    def __init__(
        self,
        settings: FleetSettings | None = None,
        *,
        books: EntrySettings | None = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        self._settings = settings or FleetSettings()
        self._books = books
        self._catalogue = catalogue or built_in()
        self._owners = PodOwners()
        self._serving = ServingMetrics()
        self._labels: tuple[tuple[str, ...], HolderNames] | None = None

    def probe(self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
        """What there is, how far back and at which resolution."""
        return probe(store, now, lookback)

    def inventory(
        self, store: MetricStore, report: SourceReport, now: Nanoseconds, lookback: Nanoseconds
    ) -> FleetInventory:
        """The devices that had samples within the lookback, and who holds them now."""
        if not presence_names(report.metrics):
            return FleetInventory()
        span = LookbackSpan(now, lookback)
        devices, holders = read_inventory(store, report, span, self._catalogue, self._settings)
        span = LookbackSpan(now, min(lookback, DAY))
        found = workloads_of(store, self._owners, holders, span)
        return FleetInventory(
            devices=devices, workloads={workload.key: workload for workload in found.values()}
        )

    def day(
        self, store: MetricStore, report: SourceReport, devices: Sequence[FleetDevice], grid: Grid
    ) -> FleetDay:
        """One day of some devices, duplicates of a scrape taken once."""
        names = presence_names(report.metrics)
        chosen = [each.device for each in devices if not each.device.has_mig_instances]
        if not names or not chosen:
            return FleetDay({})
        uuid_labels, holder_labels = self._labels_of(store, names, grid.end)
        queries = DayQueries(store, grid, whole_uuids(chosen), uuid_labels)
        resolution = report.resolution_seconds or _USUAL_RESOLUTION_SECONDS
        present = presences(queries.read(COUNTED, names), grid, holder_labels, resolution)
        if any(one.has_own_series for one in present.values()):
            queries = replace(queries, divided=DIVIDED_NAMES)
        read = read_devices(queries, report.metrics)
        workloads = self._workloads(store, grid, present, read)
        watched = [device for device in chosen if device.uuid in present and device.uuid in read]
        for device in watched:
            day, presence = read[device.uuid], present[device.uuid]
            day.known_seconds = presence.known_seconds(grid, resolution)
            day.holdings = held_runs(presence, workloads, grid)
        frames = accounted_days(DayAccounting(grid, self._books), watched, read)
        return FleetDay(frames, {uuid: held for uuid in frames if (held := read[uuid].holdings)})

    def _workloads(
        self,
        store: MetricStore,
        grid: Grid,
        present: Mapping[str, ExporterPresence],
        read: Mapping[str, DeviceDay],
    ) -> dict[DeviceHolder, Workload]:
        """The workloads of holders; their engines' signals are added to the devices."""
        holders = {each for one in present.values() for each in one.counts if each is not None}
        signals = self._serving.signals(store, pods_of(holders), grid)
        add_serving_signals(read, present, signals)
        found = workloads_of(store, self._owners, holders, LookbackSpan(grid.end, DAY))
        for holder, workload in found.items():
            if Pod(holder.namespace, holder.pod) in signals:
                # Engines take their memory at the start, so that full says nothing.
                found[holder] = replace(workload, allocator=Allocator.PREALLOCATING)
        return found

    def _labels_of(
        self, store: MetricStore, names: Sequence[str], at: Nanoseconds
    ) -> tuple[tuple[str, ...], HolderNames]:
        """The labels of uuids and holders, found once, by the newest day that is read."""
        if self._labels is not None:
            return self._labels
        series = one_of("__name__", names)
        labels = tuple(
            label for label in UUID_LABELS if store.instant(f'count({{{series},{label}!=""}})', at)
        )
        found = labels or UUID_LABELS, holder_names(store, names, at)
        if labels:
            self._labels = found
        return found
