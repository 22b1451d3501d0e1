"""DayReader: a day of some devices, or several by the hour, with their holders."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import compress
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.fleet.cache.day_frame import Floats, frames_of
from rightsizer.fleet.cache.grid import DAY, Grid
from rightsizer.fleet.model import DeviceHolding, FleetDay, FleetDevice
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.fleet.sources.agent.columns import (
    buckets_of,
    demands_of,
    limit_columns,
    measure_columns,
    need_power,
    presence_of,
    time_columns,
)
from rightsizer.fleet.sources.figures import (
    BUCKETS,
    BY_LABEL,
    FIGURE,
    LIMITS,
    LINKS,
    MEANS,
    PEAKS,
    POWER,
    POWER_BUCKETS,
    SHARES,
    STATES,
    TOTALS,
    WORKLOADS,
    DeviceFigure,
    Labels,
    grouped,
)
from rightsizer.fleet.sources.series import by_label, placed, runs_of, word_of
from rightsizer.model.values import (
    Allocator,
    Device,
    Nanoseconds,
    Tier,
    Workload,
    WorkloadClass,
    WorkloadKind,
    kind_of,
)
from rightsizer.owners.registry import owner_of

_LEAST: Final = 0.005
"""Half of the rounding of the store's answer."""


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


def workload_of(labels: Mapping[str, str]) -> Workload | None:
    """Return the workload of a `rightsizer_workload_info` series; `None` without a key."""
    key = labels.get("workload")
    if not key:
        return None
    usual = workload_by_key(key)
    return Workload(
        key=key,
        kind=labels.get("kind") or usual.kind,
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
    kind = parts[1] if parts and parts[1] == kind_of(key) else WorkloadKind.OTHER
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


_BY_HOUR: Final = (TOTALS, MEANS, PEAKS, LINKS)
_QUERIES: Final = (
    (STATES,),
    *((figure,) for figure in BY_LABEL),
    *_BY_HOUR,
    BUCKETS,
    LIMITS,
    (SHARES,),
    (WORKLOADS,),
)
"""Figures of each query about devices with profiling that are held."""


def queries_of(names: AbstractSet[str], tier: Tier) -> int:
    """Return how many queries a shard takes of a store with some metrics."""
    groups = _QUERIES if tier is Tier.PROFILING else (*_QUERIES, POWER, POWER_BUCKETS)
    return sum(grouped(figures, names, {}, DAY) is not None for figures in groups)


class DayReader(Struct, frozen=True):
    """Reads the days of a grid, for some devices, from metrics and rules that the store has.

    Daily exports are read by the day.
    """

    store: MetricStore
    names: AbstractSet[str]
    devices: Sequence[FleetDevice]
    grid: Grid
    usage: UsageSettings

    def read(self) -> FleetDay:
        """Read the days; devices absent at that time are omitted."""
        devices = {device.device.uuid: device.device for device in self.devices}
        answer = self._positive(STATES, {"uuid": tuple(devices)}) if devices else ()
        seen = sorted({series.labels.get("uuid", "") for series in answer} & devices.keys())
        if not seen:
            return FleetDay({})
        reader = self
        if self.grid.days == 1:
            # No device is there later, so later samples are not read.
            place = self.grid.places(max(series.span[1] for series in answer))
            if 0 <= place < self.grid.count:
                reader = replace(self, grid=replace(self.grid, clipped=place + 1))
        return reader.read_present([devices[uuid] for uuid in seen], answer)

    def read_present(self, devices: Sequence[Device], states: Sequence[SampledSeries]) -> FleetDay:
        """Read some devices, given the answer about their states."""
        rows = {device.uuid: row for row, device in enumerate(devices)}
        labels: Labels = {"uuid": tuple(rows)}
        grid = self.grid
        answers = (
            (STATES, states),
            *((figure, self._positive(figure, labels)) for figure in BY_LABEL),
        )
        by_kind = {
            figure.name: by_label(answer, grid, figure.by[1], rows, 0.0)
            for figure, answer in answers
        }
        presence = presence_of(by_kind[STATES.name], grid)
        columns = {
            f"{kind}:{word}": column
            for kind, by_word in by_kind.items()
            for word, column in by_word.items()
        }
        for figures in _BY_HOUR:
            columns |= self._columns(figures, labels, rows)
        buckets = [*self._daily(grouped(BUCKETS, self.names, labels, self._day_span))]
        if weighed := tuple(compress(rows, need_power(columns))):
            of_weighed: Labels = {"uuid": weighed}
            columns |= self._columns(POWER, of_weighed, rows)
            query = grouped(POWER_BUCKETS, self.names, of_weighed, self._day_span)
            buckets += self._daily(query)
        limits = self._daily(grouped(LIMITS, self.names, labels, self.grid.step))
        seconds = presence.known_seconds
        columns = {
            **time_columns(columns, presence, self.grid),
            **measure_columns(columns, presence, devices, self.usage),
            **limit_columns(limits, rows, seconds, self.grid),
        }
        full = self.usage.working_power_ratio
        demands = demands_of(buckets_of(buckets, rows), columns, seconds, full)
        whole = self.grid.by(self.grid.step)
        frames = dict(zip(rows, frames_of(whole, columns, demands), strict=True))
        holdings = self._holdings(labels)
        return FleetDay(frames, {uuid: some for uuid, some in holdings.items() if uuid in frames})

    def _columns(
        self, figures: Iterable[DeviceFigure], labels: Labels, rows: Mapping[str, int]
    ) -> dict[str, Floats]:
        answer = self._range(grouped(figures, self.names, labels, self.grid.step))
        return by_label(answer, self.grid, FIGURE, rows)

    def _holdings(self, labels: Labels) -> dict[str, tuple[DeviceHolding, ...]]:
        query = SHARES.promql(self.names, labels, self.grid.step)
        answer = [e for e in self._range(query) if e.labels.get("workload")]
        keys = sorted({sampled_series.labels["workload"] for sampled_series in answer})
        workloads = {key: workload_by_key(key) for key in keys}
        if keys:
            query = WORKLOADS.promql(self.names, {"workload": tuple(keys)}, self._day_span)
            workloads |= workloads_of(self._daily(query))
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, series in enumerate(answer):
            rows[series.labels.get("uuid", "")].append(row)
        shares = placed(answer, self.grid, 0.0)
        return {
            uuid: held(
                shares[held_rows], [workloads[answer[row].labels["workload"]] for row in held_rows]
            )
            for uuid, held_rows in rows.items()
        }

    def _positive(self, figure: DeviceFigure, labels: Labels) -> Sequence[SampledSeries]:
        query = figure.promql(self.names, labels, self.grid.step)
        # Omit series that are 0 throughout.
        return self._range(query and f"{query} > 0")

    @property
    def _day_span(self) -> Nanoseconds:
        """Return the lookback of queries for a day's sample."""
        return self.grid.end - self.grid.start if self.grid.days == 1 else DAY

    def _range(self, query: str | None, step: Nanoseconds = 0) -> Sequence[SampledSeries]:
        """Query a sample per interval, or per `step`."""
        step = step or self.grid.step
        start = self.grid.start + step
        return self.store.range(query, start, self.grid.end, step) if query else ()

    def _daily(self, query: str | None) -> Sequence[SampledSeries]:
        """Query a sample per day; for a single day, the last known moment."""
        if query is None or self.grid.days > 1:
            return self._range(query, DAY)
        return self.store.instant(query, self.grid.end)
