"""DayReader: a day of some devices, or several by the hour, with their holders."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import compress
from typing import Final

import numpy as np
from msgspec.structs import replace

from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.fleet.cache.day_frame import ColumnKind, DayFrame, Floats, frames_of
from rightsizer.fleet.cache.grid import DAY, Grid
from rightsizer.fleet.model import DeviceHolding, FleetDay, FleetDevice
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.fleet.sources.agent import metrics as figures
from rightsizer.fleet.sources.agent.measure_columns import measure_columns, need_power
from rightsizer.fleet.sources.agent.metrics import (
    FIGURE,
    AgentMetric,
    Labels,
    MetricExpression,
    grouped,
)
from rightsizer.fleet.sources.agent.time_columns import (
    Columns,
    DayAnswers,
    TimePresence,
    buckets_of,
    demands_of,
    limits_of,
    presence_of,
    pressure_columns,
    time_columns,
)
from rightsizer.fleet.sources.series import by_label, placed, runs_of, word_of
from rightsizer.model.block import Measure
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Allocator, Workload, WorkloadClass, WorkloadKind
from rightsizer.owners.registry import owner_of

_LEAST: Final = 0.005
"""Half of the rounding of the store's answer."""

_HOLDING_EXPRESSIONS: Final = (
    (
        MetricExpression("uuid_workload:rightsizer_workload_share_ratio:avg5m", "sum_over_time"),
        MetricExpression("uuid:rightsizer_used_seconds:increase5m", "count_over_time"),
    ),
    (
        MetricExpression("rightsizer_workload_share_ratio", "sum_over_time"),
        MetricExpression("rightsizer_device_up", "count_over_time"),
    ),
)
"""Shares of a device, and how often they were known in an interval."""


def held(shares: Floats, workloads: Sequence[Workload]) -> tuple[DeviceHolding, ...]:
    """Return the shares of one device by workload, one row each; equal neighbors are merged."""
    totals = np.where(shares > 0, shares, 0.0).sum(axis=0)
    parts = np.where(shares >= _LEAST, shares / np.maximum(1.0, totals), 0.0)
    holdings = [
        DeviceHolding(workload, *run)
        for workload, part in zip(workloads, parts, strict=True)
        for run in runs_of(part)
    ]
    return tuple(sorted(holdings, key=lambda holding: (holding.first, holding.workload.key)))


_BY_LABEL: Final = {
    "conditions": figures.CONDITIONS,
    "waste": figures.WASTE,
    "idle_joules": figures.IDLE_JOULES,
}
_BY_FIGURE: Final = {
    "totals": figures.TOTALS,
    "means": figures.MEANS,
    "peaks": figures.PEAKS,
    "links": figures.LINKS,
}
"""Queries about all devices, by the fields of `DayAnswers`."""
_PEAKS: Final = {
    measure: ColumnKind.PEAK.column(measure)
    for measure in (Measure.COMPUTE, Measure.MEMORY_BANDWIDTH, Measure.MEMORY)
}
WORKLOAD_LABELS: Final = (
    "workload",
    "kind",
    "class",
    "name",
    "exported_namespace",
    "namespace",
    "exported_pod",
    "pod",
    "exported_container",
    "container",
    "allocator",
)
"""If the scrape sets `namespace`, `pod` and `container` of the agent itself, the workload's
are `exported_*`."""
_KEY: Final = re.compile(r"([a-z]+)[:/](.+)", re.DOTALL)


def workload_query(names: AbstractSet[str], keys: Sequence[str], span: Nanoseconds) -> str | None:
    """Return the query of some workloads over a span; `None` if the store has none."""
    for name in ("workload:rightsizer_workload_info:last5m", "rightsizer_workload_info"):
        if name in names:
            value = MetricExpression(name, "last_over_time").promql({"workload": tuple(keys)}, span)
            # Without labels that vary by pod.
            by = "workload, kind, class, name, exported_namespace, namespace, allocator"
            return f"max by ({by}) ({value})"
    return None


def workload_of(labels: Mapping[str, str]) -> Workload | None:
    """Return the workload of a `rightsizer_workload_info` series; `None` without a key."""
    key = labels.get("workload")
    if not key:
        return None
    usual = workload_by_key(key)
    return Workload(
        key=key,
        kind=word_of(WorkloadKind, labels.get("kind", "")) or usual.kind,
        name=labels.get("name") or usual.name,
        workload_class=word_of(WorkloadClass, labels.get("class", "")) or usual.workload_class,
        allocator=word_of(Allocator, labels.get("allocator", "")) or usual.allocator,
        namespace=_own(labels, "namespace") or usual.namespace,
        pod=_own(labels, "pod"),
        container=_own(labels, "container"),
    )


def workload_by_key(key: str) -> Workload:
    """Parse a workload's key: `kubernetes:NAMESPACE/NAME`, `slurm:JOB`."""
    parts = _KEY.fullmatch(key)
    kind = (parts and word_of(WorkloadKind, parts[1])) or WorkloadKind.OTHER
    return owner_of(kind).workload_by_key(key, kind, parts[2] if parts else key)


def workloads_of(answer: Iterable[SampledSeries]) -> dict[str, Workload]:
    """Return the workloads of an answer by key; pods of one workload are merged."""
    workloads = sorted(
        filter(None, (workload_of(series.labels) for series in answer)),
        key=lambda workload: (
            workload.key,
            # The allocator is only detected some time after the start.
            workload.allocator is Allocator.UNKNOWN,
            workload.namespace,
            workload.pod,
            workload.container,
        ),
    )
    return {workload.key: workload for workload in reversed(workloads)}


def _own(labels: Mapping[str, str], name: str) -> str:
    exported = f"exported_{name}"
    return labels[exported] if exported in labels else labels.get(name, "")


class DayReader:
    """Reads the days of a grid, for some devices, from metrics and rules that the store has.

    Daily exports are read by the day.
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
        self._usage = usage
        self._devices = {device.device.uuid: device.device for device in devices}
        self._rows: dict[str, int] = {}
        """Devices present at that time."""
        self._whole = self._grid = grid

    def read(self) -> FleetDay:
        """Read the days; devices absent at that time are omitted."""
        if not self._devices:
            return FleetDay({})
        labels: Labels = {"uuid": tuple(self._devices)}
        answer = self._positive(figures.STATES, labels)
        seen = sorted({series.labels.get("uuid", "") for series in answer} & self._devices.keys())
        if not seen:
            return FleetDay({})
        self._rows = {uuid: row for row, uuid in enumerate(seen)}
        if self._whole.days == 1:
            # No device is there later, so later samples are not read.
            place = self._whole.places(max(series.span[1] for series in answer))
            if 0 <= place < self._whole.count:
                self._grid = replace(self._whole, clipped=place + 1)
        labels = {"uuid": tuple(seen)}
        states = self._columns(answer, figures.STATES.labels[0], 0.0)
        presence = presence_of(states, self._grid)
        frames = self._frames(presence, self._answers(labels, states))
        holdings = self._holdings(labels)
        return FleetDay(frames, {uuid: held for uuid, held in holdings.items() if uuid in frames})

    def _answers(self, labels: Labels, states: Columns) -> DayAnswers:
        grid = self._grid
        names = self._names
        rows = self._rows
        columns: dict[str, Columns] = {"states": states}
        for field, figure in _BY_LABEL.items():
            columns[field] = self._columns(self._positive(figure, labels), figure.labels[0], 0.0)
        for field, wanted in _BY_FIGURE.items():
            answer = self._range(grouped(wanted, names, labels, grid.step))
            columns[field] = self._columns(answer, FIGURE)
        buckets = [*self._daily(grouped(figures.BUCKETS, names, labels, self._day_span))]
        if weighed := tuple(compress(rows, need_power(columns["means"]))):
            weighed_labels: Labels = {"uuid": weighed}
            answer = self._range(grouped(figures.POWER, names, weighed_labels, grid.step))
            columns["power"] = self._columns(answer, FIGURE)
            buckets += self._daily(
                grouped(figures.POWER_BUCKETS, names, weighed_labels, self._day_span)
            )
        limits = self._daily(grouped(figures.LIMITS, names, labels, grid.step))
        columns |= {"buckets": buckets_of(buckets, rows), "limits": limits_of(limits, rows, grid)}
        return DayAnswers(**columns)

    def _columns(
        self, answer: Iterable[SampledSeries], label: str, blank: float = math.nan
    ) -> Columns:
        return by_label(answer, self._grid, label, self._rows, blank)

    def _frames(self, presence: TimePresence, answers: DayAnswers) -> dict[str, DayFrame]:
        seconds = presence.known_seconds
        usage = self._usage
        devices = [self._devices[uuid] for uuid in self._rows]
        columns = time_columns(answers, presence, self._grid)
        columns |= measure_columns(answers, presence, devices, usage)
        columns |= pressure_columns(answers.limits, seconds, self._grid)
        peaks = {
            measure: columns[column] for measure, column in _PEAKS.items() if column in columns
        }
        demands = demands_of(answers.buckets, peaks, seconds, usage.working_power_ratio)
        return dict(zip(self._rows, frames_of(self._whole, columns, demands), strict=True))

    def _holdings(self, labels: Labels) -> dict[str, tuple[DeviceHolding, ...]]:
        answer = [e for e in self._range(self._shares_query(labels)) if e.labels.get("workload")]
        keys = sorted({sampled_series.labels["workload"] for sampled_series in answer})
        workloads = {key: workload_by_key(key) for key in keys}
        if keys:
            query = workload_query(self._names, keys, self._day_span)
            workloads |= workloads_of(self._daily(query))
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, series in enumerate(answer):
            rows[series.labels.get("uuid", "")].append(row)
        shares = placed(answer, self._grid, 0.0)
        return {
            uuid: held(
                shares[held_rows], [workloads[answer[row].labels["workload"]] for row in held_rows]
            )
            for uuid, held_rows in rows.items()
        }

    def _shares_query(self, labels: Labels) -> str | None:
        """Return the mean share per interval by device and workload; `None` if not stored."""
        for parts, times in _HOLDING_EXPRESSIONS:
            if parts.names <= self._names:
                whole, part = (
                    expression.promql(labels, self._grid.step) for expression in (times, parts)
                )
                return (
                    f"round(max by (uuid, workload) ({part}) / on (uuid) group_left () "
                    f"max by (uuid) ({whole}), 0.01)"
                )
        return None

    def _positive(self, figure: AgentMetric, labels: Labels) -> Sequence[SampledSeries]:
        query = figure.promql(self._names, labels, self._grid.step)
        # Omit series that are 0 throughout.
        return self._range(None if query is None else f"{query} > 0")

    @property
    def _day_span(self) -> Nanoseconds:
        """Return the lookback of queries for a day's sample."""
        return self._grid.end - self._grid.start if self._grid.days == 1 else DAY

    def _range(self, query: str | None, step: Nanoseconds = 0) -> Sequence[SampledSeries]:
        """Query a sample per interval, or per `step`."""
        grid = self._grid
        step = step or self._grid.step
        if query is None:
            return ()
        return self._store.range(query, grid.start + step, grid.end, step)

    def _daily(self, query: str | None) -> Sequence[SampledSeries]:
        """Query a sample per day; for a single day, the last known moment."""
        if query is None or self._grid.days > 1:
            return self._range(query, DAY)
        return self._store.instant(query, self._grid.end)
