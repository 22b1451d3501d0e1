"""DayReader: a day of some devices, or several by the hour, with their holders."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.fleet.cache.day_frame import DAY, ColumnKind, DayFrame, Grid
from rightsizer.fleet.model import DeviceHolding, FleetDay, FleetDevice
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.fleet.sources.agent import metrics as figures
from rightsizer.fleet.sources.agent.devices import workload_by_key, workload_query, workloads_of
from rightsizer.fleet.sources.agent.measure_columns import measure_columns, needs_power
from rightsizer.fleet.sources.agent.metrics import FIGURE, AgentMetric, Labels, MetricForm, grouped
from rightsizer.fleet.sources.agent.time_columns import (
    DeviceAnswers,
    TimePresence,
    buckets_of,
    demands_of,
    presence_of,
    pressure_columns,
    time_columns,
)
from rightsizer.fleet.sources.series import by_label, placed, runs_of
from rightsizer.model.block import Measure
from rightsizer.model.frozen import replace
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
interval has half of his part there."""


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
    """The parts of one device by workload, equal ones of neighboring intervals as one."""
    columns = list(shares.values())
    totals = columns[0] if len(columns) == 1 else [*map(_total, zip(*columns, strict=True))]
    found = [
        DeviceHolding(workloads[key], first, last, share)
        for key, parts in shares.items()
        for first, last, share in runs_of(
            part / max(1.0, total) if part >= _LEAST else 0.0
            for part, total in zip(parts, totals, strict=True)
        )
    ]
    return tuple(sorted(found, key=lambda each: (each.first, each.workload.key)))


def _total(parts: Iterable[float]) -> float:
    return sum(part for part in parts if part > 0)


_PEAKS: Final = {
    measure: ColumnKind.PEAK.column(measure)
    for measure in (Measure.COMPUTE, Measure.MEMORY_BANDWIDTH, Measure.MEMORY)
}
"""Of what has a distribution."""
_ZERO: Final = 0.0
_ByDevice = Mapping[str, Mapping[str, Any]]


class DayReader:
    """Reads the days of a grid, of some devices, from metrics and rules that the store has.

    What is exported of a whole day is read by the day.
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
        answer = self._positive(figures.STATES, _labels(self._devices))
        # No device is there later: nothing else is read of that time.
        self._grid = _cut(self._whole, answer)
        states = by_label(answer, self._grid, figures.STATES.labels[0], _ZERO)
        presences = {
            uuid: presence_of(columns, self._grid)
            for uuid, columns in states.items()
            if uuid in self._devices
        }
        if not presences:
            return FleetDay({})
        # The same query for every part of the days that are read at once.
        labels = _labels(self._devices if 2 * len(presences) >= len(self._devices) else presences)
        answers = self._answers(labels, states)
        frames = {}
        for uuid, presence in presences.items():
            own = {name: each[uuid] for name, each in answers.items() if uuid in each}
            frames[uuid] = self._frame(uuid, presence, DeviceAnswers(**own))
        holdings = self._holdings(labels)
        return FleetDay(frames, {uuid: held for uuid, held in holdings.items() if uuid in frames})

    def _answers(self, labels: Labels, states: _ByDevice) -> dict[str, _ByDevice]:
        """What the store says of all the devices, by the fields of `DeviceAnswers` and uuid."""
        means = self._group(figures.MEANS, labels)
        weighed = [uuid for uuid in means if uuid in states and needs_power(means[uuid])]
        of_weighed = _labels(weighed)
        span = self._day_span()
        buckets = [*self._daily(grouped(figures.BUCKETS, self._names, labels, span))]
        if weighed:
            power = grouped(figures.POWER_BUCKETS, self._names, of_weighed, span)
            buckets += self._daily(power)
        return {
            "states": states,
            "conditions": self._columns(figures.CONDITIONS, labels),
            "waste": self._columns(figures.WASTE, labels),
            "idle_joules": self._columns(figures.IDLE_JOULES, labels),
            "totals": self._group(figures.TOTALS, labels),
            "means": means,
            "peaks": self._group(figures.PEAKS, labels),
            "links": self._group(figures.LINKS, labels),
            "power": self._group(figures.POWER, of_weighed) if weighed else {},
            "buckets": buckets_of(buckets),
            "limits": self._limits(labels),
        }

    def _frame(self, uuid: str, presence: TimePresence, answers: DeviceAnswers) -> DayFrame:
        grid, known = self._grid, presence.known_seconds
        columns = time_columns(answers, presence, grid)
        columns |= measure_columns(answers, presence, self._devices[uuid], self._usage)
        columns |= pressure_columns(answers.limits, known, grid)
        peaks = {
            measure: columns[column] for measure, column in _PEAKS.items() if column in columns
        }
        full = self._usage.working_power_ratio
        demands = demands_of(answers.buckets, peaks, known, full)
        return DayFrame.of(self._whole, self._filled(columns), demands)

    def _filled(self, columns: dict[str, array[float]]) -> dict[str, array[float]]:
        """To the end of the day."""
        left = self._whole.count - self._grid.count
        if not left:
            return columns
        rest = array("f", [math.nan]) * left
        return {column: values + rest for column, values in columns.items()}

    def _limits(self, labels: Labels) -> dict[str, dict[str, list[SampledSeries]]]:
        found: dict[str, dict[str, list[SampledSeries]]] = {}
        for series in self._daily(grouped(figures.LIMITS, self._names, labels, self._grid.step)):
            kinds = found.setdefault(series.labels.get("uuid", ""), {})
            kinds.setdefault(series.labels.get(FIGURE, ""), []).append(series)
        return found

    def _holdings(self, labels: Labels) -> dict[str, tuple[DeviceHolding, ...]]:
        shares: dict[str, dict[str, array[float]]] = {}
        for series in self._range(shares_query(self._names, labels, self._grid.step)):
            uuid, key = series.labels.get("uuid", ""), series.labels.get("workload", "")
            if key and uuid in self._devices:
                shares.setdefault(uuid, {})[key] = placed(series, self._grid, _ZERO)
        keys = sorted({key for parts in shares.values() for key in parts})
        workloads = {key: workload_by_key(key) for key in keys}
        if keys:
            query = workload_query(self._names, keys, self._day_span())
            workloads |= workloads_of(self._daily(query))
        return {uuid: held(parts, workloads) for uuid, parts in shares.items()}

    def _columns(self, figure: AgentMetric, labels: Labels) -> dict[str, dict[str, array[float]]]:
        return by_label(self._positive(figure, labels), self._grid, figure.labels[0], _ZERO)

    def _positive(self, figure: AgentMetric, labels: Labels) -> Sequence[SampledSeries]:
        query = figure.promql(self._names, labels, self._grid.step)
        # Series that are 0 throughout stay in the store.
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


def _cut(grid: Grid, answer: Iterable[SampledSeries]) -> Grid:
    """A day up to its last sample; several days as they are."""
    last = max((series.times[-1] for series in answer if series.times), default=grid.end)
    place = grid.place(last)
    if grid.days > 1 or place is None:
        return grid
    return replace(grid, clipped=place + 1)


def _labels(uuids: Iterable[str]) -> Labels:
    return {"uuid": tuple(uuids)}
