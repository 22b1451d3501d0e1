"""DayReader: a day of some devices, or several by the hour, with their holders."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.fleet.cache.day_frame import DAY, ClippedGrid, DayColumn, Grid, SubjectDay
from rightsizer.fleet.model import DeviceHolding, FleetDay, FleetDevice
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.fleet.sources.agent import metrics as figures
from rightsizer.fleet.sources.agent.devices import workload_by_key, workload_query, workloads_of
from rightsizer.fleet.sources.agent.measure_columns import (
    MeasureInputs,
    measure_columns,
    needs_power,
)
from rightsizer.fleet.sources.agent.metrics import FIGURE, AgentMetric, Labels, MetricForm, grouped
from rightsizer.fleet.sources.agent.time_columns import (
    Buckets,
    TimePresence,
    buckets_of,
    demands_of,
    energy_columns,
    limits_query,
    presence_of,
    pressure_columns,
    seconds_columns,
    state_columns,
)
from rightsizer.fleet.sources.series import by_label, placed
from rightsizer.model.block import Measure
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Workload

_LEAST: Final = 0.005
"""Half of what the store's answer is rounded to."""

_FORMS: Final = (
    (
        MetricForm("uuid_workload:rightsizer_workload_share_ratio:avg5m", "sum_over_time"),
        MetricForm("uuid:rightsizer_used_seconds:increase5m", "count_over_time"),
    ),
    (
        MetricForm("rightsizer_workload_share_ratio", "sum_over_time"),
        MetricForm("rightsizer_device_up", "count_over_time"),
    ),
)
"""Parts of a device, and how often there was anything to say of it: who held it for half of a
stretch has half of his part there."""


def shares_query(names: AbstractSet[str], labels: Labels, span: Nanoseconds) -> str | None:
    """The mean part over a span by device and workload; `None` where none is kept."""
    for parts, times in _FORMS:
        if parts.names <= names:
            whole = f"max by (uuid) ({times.promql(labels, span)})"
            part = f"max by (uuid, workload) ({parts.promql(labels, span)})"
            return f"round({part} / on (uuid) group_left () {whole}, 0.01)"
    return None


def held(
    shares: Mapping[str, array[float]], workloads: Mapping[str, Workload]
) -> tuple[DeviceHolding, ...]:
    """The parts of one device by workload, stretches with the same part as one.

    Args:
        shares: By key, the mean part over each stretch.
        workloads: By key.
    """
    totals = _totals(list(shares.values()))
    found = [
        DeviceHolding(workloads[key], first, last, share)
        for key, parts in shares.items()
        for first, last, share in _runs(parts, totals)
    ]
    return tuple(sorted(found, key=lambda each: (each.first, each.workload.key)))


def _totals(columns: Sequence[array[float]]) -> Sequence[float]:
    if len(columns) == 1:
        return columns[0]
    return [sum(part for part in each if part > 0) for each in zip(*columns, strict=True)]


def _runs(parts: array[float], totals: Sequence[float]) -> Iterator[tuple[int, int, float]]:
    """First and last stretch of each run of the same share; those of one stretch sum to 1."""
    first, running = 0, 0.0
    is_even = totals is parts and parts.count(parts[0]) == len(parts)
    # The same holder all along, which is what most devices have, is one stretch's work.
    for place, part in enumerate(parts[:1] if is_even else parts):
        share = part / max(1.0, totals[place]) if part >= _LEAST else 0.0
        if share != running:
            if running:
                yield first, place - 1, running
            first, running = place, share
    if running:
        yield first, len(parts) - 1, running


ByDevice: TypeAlias = "Mapping[str, Mapping[str, array[float]]]"

_PEAKS: Final = {
    measure: DayColumn.peak(measure)
    for measure in (Measure.COMPUTE, Measure.MEMORY_BANDWIDTH, Measure.MEMORY)
}
"""Of what has a distribution."""
_NOTHING: Final[Mapping[str, array[float]]] = {}
_ZERO: Final = 0.0


@dataclass(frozen=True, slots=True)
class _Answers:
    """What the store said of all the devices, by uuid and label."""

    states: ByDevice
    conditions: ByDevice
    waste: ByDevice
    idle_joules: ByDevice
    totals: ByDevice
    means: ByDevice
    peaks: ByDevice
    links: ByDevice
    power: ByDevice
    buckets: Mapping[str, Buckets]
    limits: Mapping[str, Mapping[str, list[SampledSeries]]] = field(default_factory=dict)

    def figures(self, uuid: str) -> MeasureInputs:
        """What was said of one device's use."""
        found = (self.means, self.peaks, self.links, self.power, self.totals)
        return MeasureInputs(*(each.get(uuid, _NOTHING) for each in found))


class DayReader:
    """Asks for the days of a grid, of some devices.

    What is kept of a whole day is asked for by the day.

    Args:
        store: Who is asked.
        names: Metrics and recording rules that the store has of these days.
        devices: Of which they are read.
        grid: The days.
        usage: What counts as all of a resource.
    """

    def __init__(
        self,
        store: MetricStore,
        names: AbstractSet[str],
        devices: Sequence[FleetDevice],
        grid: Grid,
        usage: UsageSettings,
    ) -> None:
        self._store = store
        self._names = names
        self._devices = {each.device.uuid: each.device for each in devices}
        self._whole = self._grid = grid
        self._usage = usage

    def read(self) -> FleetDay:
        """The days; devices that were not there then are left out."""
        if not self._devices:
            return FleetDay({})
        told = self._told(figures.STATES, _labels(self._devices))
        # Nobody is there later: nothing else is asked for of that time, and nothing looked at.
        self._grid = _cut(self._whole, told)
        states = by_label(told, self._grid, figures.STATES.labels[0], _ZERO)
        presences = {
            uuid: presence_of(columns, self._grid)
            for uuid, columns in states.items()
            if uuid in self._devices
        }
        if not presences:
            return FleetDay({})
        # The same question of every part of the days that are asked for at once.
        labels = _labels(self._devices if 2 * len(presences) >= len(self._devices) else presences)
        answers = self._ask(labels, states)
        tracks = {
            uuid: self._track(uuid, presence, answers) for uuid, presence in presences.items()
        }
        holdings = self._holdings(labels)
        return FleetDay(tracks, {uuid: held for uuid, held in holdings.items() if uuid in tracks})

    def _ask(self, labels: Labels, states: ByDevice) -> _Answers:
        means = self._group(figures.MEANS, labels)
        weighed = [uuid for uuid in means if uuid in states and needs_power(means[uuid])]
        span = self._day_span()
        buckets = grouped(figures.BUCKETS, self._names, labels, span)
        power_buckets = grouped(figures.POWER_BUCKETS, self._names, _labels(weighed), span)
        found = self._daily(buckets)
        if weighed:
            found = [*found, *self._daily(power_buckets)]
        return _Answers(
            states=states,
            conditions=self._columns(figures.CONDITIONS, labels),
            waste=self._columns(figures.WASTE, labels),
            idle_joules=self._columns(figures.IDLE_JOULES, labels),
            totals=self._group(figures.TOTALS, labels),
            means=means,
            peaks=self._group(figures.PEAKS, labels),
            links=self._group(figures.LINKS, labels),
            power=self._group(figures.POWER, _labels(weighed)) if weighed else {},
            buckets=buckets_of(found),
            limits=self._limits(labels),
        )

    def _track(self, uuid: str, presence: TimePresence, answers: _Answers) -> SubjectDay:
        grid, known = self._grid, presence.known_seconds
        columns = state_columns(answers.states[uuid], presence, grid)
        conditions = answers.conditions.get(uuid, _NOTHING)
        columns |= seconds_columns(conditions, answers.waste.get(uuid, _NOTHING), presence)
        joules = answers.idle_joules.get(uuid, _NOTHING)
        columns |= energy_columns(joules, answers.totals.get(uuid, _NOTHING), presence)
        columns |= measure_columns(
            answers.figures(uuid), presence, self._devices[uuid], self._usage
        )
        columns |= pressure_columns(answers.limits.get(uuid, {}), known, grid)
        peaks = {
            measure: columns[column] for measure, column in _PEAKS.items() if column in columns
        }
        demands = demands_of(
            answers.buckets.get(uuid, {}), peaks, known, self._usage.working_power_ratio
        )
        return SubjectDay(uuid, self._whole, self._filled(columns), demands)

    def _filled(self, columns: dict[DayColumn, array[float]]) -> dict[DayColumn, array[float]]:
        """To the end of the day."""
        left = self._whole.count - self._grid.count
        if not left:
            return columns
        rest = array("f", [math.nan]) * left
        return {column: values + rest for column, values in columns.items()}

    def _limits(self, labels: Labels) -> dict[str, dict[str, list[SampledSeries]]]:
        found: dict[str, dict[str, list[SampledSeries]]] = {}
        query = limits_query(self._names, labels, self._grid.step)
        for series in self._daily(query):
            kinds = found.setdefault(series.labels.get("uuid", ""), {})
            kinds.setdefault(series.labels.get(FIGURE, ""), []).append(series)
        return found

    def _holdings(self, labels: Labels) -> dict[str, tuple[DeviceHolding, ...]]:
        answer = self._range(shares_query(self._names, labels, self._grid.step))
        shares: dict[str, dict[str, array[float]]] = {}
        for series in answer:
            uuid, key = series.labels.get("uuid", ""), series.labels.get("workload", "")
            if key and uuid in self._devices:
                shares.setdefault(uuid, {})[key] = placed(series, self._grid, _ZERO)
        keys = sorted({key for parts in shares.values() for key in parts})
        workloads = self._workloads(keys)
        return {uuid: held(parts, workloads) for uuid, parts in shares.items()}

    def _workloads(self, keys: Sequence[str]) -> dict[str, Workload]:
        known = {key: workload_by_key(key) for key in keys}
        if not keys:
            return known
        query = workload_query(self._names, keys, self._day_span())
        return known | workloads_of(self._daily(query))

    def _columns(self, figure: AgentMetric, labels: Labels) -> dict[str, dict[str, array[float]]]:
        return by_label(self._told(figure, labels), self._grid, figure.labels[0], _ZERO)

    def _told(self, figure: AgentMetric, labels: Labels) -> Sequence[SampledSeries]:
        query = figure.promql(self._names, labels, self._grid.step)
        # What is 0 all along is not worth its way.
        return self._range(None if query is None else f"{query} > 0")

    def _group(
        self, wanted: Iterable[AgentMetric], labels: Labels
    ) -> dict[str, dict[str, array[float]]]:
        query = grouped(wanted, self._names, labels, self._grid.step)
        return by_label(self._range(query), self._grid, FIGURE)

    def _range(self, query: str | None) -> Sequence[SampledSeries]:
        if query is None:
            return ()
        grid = self._grid
        return self._store.range(query, grid.start + grid.step, grid.end, grid.step)

    def _day_span(self) -> Nanoseconds:
        """What a query for a day's sample looks back over."""
        grid = self._grid
        return grid.end - grid.start if grid.days == 1 else DAY

    def _daily(self, query: str | None) -> Sequence[SampledSeries]:
        """A sample a day; of a single day as of the last moment of which anything is known."""
        if query is None:
            return ()
        grid = self._grid
        if grid.days == 1:
            return self._store.instant(query, grid.end)
        return self._store.range(query, grid.start + DAY, grid.end, DAY)


def _cut(grid: Grid, told: Iterable[SampledSeries]) -> Grid:
    """A day up to its last sample; several days as they are."""
    last = max((series.times[-1] for series in told if series.times), default=grid.end)
    place = grid.place(last)
    if grid.days > 1 or place is None:
        return grid
    return ClippedGrid(grid.day, grid.step, first=place + 1)


def _labels(uuids: Iterable[str]) -> Labels:
    return {"uuid": tuple(uuids)}
