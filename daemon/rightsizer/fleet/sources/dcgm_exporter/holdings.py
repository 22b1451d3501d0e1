"""Pods and jobs in dcgm-exporter's labels, and which device each held when."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY, Grid
from rightsizer.fleet.model import DeviceHolding
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.fleet.sources.dcgm_names import device_of
from rightsizer.fleet.sources.gpu_requests import GpuUnits, containers_of, requests_within
from rightsizer.fleet.sources.pod_owners import LookbackSpan, Pod, PodOwners, workload_key
from rightsizer.fleet.sources.series import divided, over_time, placed, runs_of, shares_of
from rightsizer.model.dcgm_fields import UUID_LABELS, holder_of
from rightsizer.model.values import Device, Nanoseconds, Workload, seconds

_POD_LABELS = ("pod", "pod_name")
"""Labels of a target, or of a holder."""


def _scrape(labels: Mapping[str, str]) -> tuple[str, str]:
    # A target without a namespace leaves that of the holder as it is.
    is_own = labels.get("exported_namespace") or not labels.get("exported_pod")
    return labels.get("job", ""), labels.get("namespace", "") if is_own else ""


class HolderNames(Struct, frozen=True):
    """How a fleet's series name devices and their holders."""

    exporters: frozenset[tuple[str, str]] = frozenset()
    """Job and namespace of scrapes whose label `pod` is the exporter's own.

    The holder's is `exported_pod`. The job alone may be used by clusters that scrape differently.
    """
    targets: frozenset[str] = frozenset()
    """Pods of exporters, whatever their name: where labels are honored, a free GPU has it."""
    uuids: tuple[str, ...] = UUID_LABELS
    """Labels that name the GPU."""

    @classmethod
    def seen_in(
        cls, series: Sequence[Mapping[str, str]], targets: frozenset[str] = frozenset()
    ) -> Self:
        """Determine the names from labels of a fleet's series, including `job`."""
        exported = (labels for labels in series if labels.get("exported_pod"))
        first = {next(filter(labels.get, UUID_LABELS), "") for labels in series}
        uuids = tuple(label for label in UUID_LABELS if label in first)
        return cls(frozenset(map(_scrape, exported)), targets, uuids or UUID_LABELS)

    def holder(self, labels: Mapping[str, str]) -> Workload | None:
        """Return the pod or job that holds the device, `None` without one."""
        exporter_labels = {"pod"} if _scrape(labels) in self.exporters else set[str]()
        exporter_labels |= {name for name in _POD_LABELS if labels.get(name) in self.targets}
        return holder_of(
            {name: value for name, value in labels.items() if name not in exporter_labels}
        )


def target_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """Return the job and the instance of a series."""
    return labels.get("job", ""), labels.get("instance", "")


def pods_of_exporters(
    store: MetricStore, series: str, times: tuple[Nanoseconds, Nanoseconds]
) -> frozenset[str]:
    """Return the pods of some series' targets, hour by hour: `up` has labels of targets alone.

    Targets are asked for by parts of the devices, and pods by shares of the targets.

    Raises:
        StoreError: the store does not answer, or refuses even a part.
    """
    query = f"group by (job, instance) ({{{series}}})"
    hours = defaultdict[tuple[str, str], set[int]](set)
    for sampled in divided(store, over_time(query, *times, COARSE_STEP), UUID_LABELS):
        hours[target_of(sampled.labels)] |= {*sampled.times.tolist()}
    jobs = tuple(sorted({job for job, _ in hours}))
    pods = set[str]()
    for some in shares_of(sorted({instance for _, instance in hours})):
        labels = {"job": jobs, "instance": some}
        query = f"group by (job, instance, pod, pod_name) ({selector('up', labels)})"
        for sampled in store.range(query, *times, COARSE_STEP):
            if not hours[target_of(sampled.labels)].isdisjoint(sampled.times.tolist()):
                pods |= {sampled.labels.get(label, "") for label in _POD_LABELS} - {""}
    return frozenset(pods)


def workloads_of(
    store: MetricStore, owners: PodOwners, holders: Iterable[Workload], span: LookbackSpan
) -> dict[Workload, Workload]:
    """Return the workload of each holder, with a key shared by its successors."""
    workloads = {holder: holder for holder in holders}
    pods = {holder: Pod(holder.namespace, holder.pod) for holder in workloads if holder.pod}
    owned = owners.of(store, pods.values(), span)
    return workloads | {
        holder: replace(
            holder,
            key=workload_key(pod, owned[pod]),
            name=owned[pod].name,
            workload_class=owned[pod].workload_class,
            controller=owned[pod].controller,
        )
        for holder, pod in pods.items()
    }


_WHOLE = 0.9
"""Share of an interval's expected samples that makes it fully known: scrapes drift."""
_REGULAR = 0.2
"""Share of intervals: if this many lack the same scrape, the rate is regular."""
_COMPARED = 24
"""Number of intervals nearby: two hours, or a day by the hour."""
_FEW = 3
_SLOWEST = 8.0
"""Maximum ratio of a scrape interval to the fleet's usual one: 15 s, and two minutes."""
_ROUNDING = 1e-6
_PARTS = 840
"""Of a device: of up to eight equal shares each is a whole number of them."""
_ROUNDED_SAMPLES = 1.5
"""By how many samples the intervals of a series differ at most, between one and two."""
_TWICE = 1.5
"""Share of an interval's samples from which those without and with a holder overlap."""


@dataclass(slots=True)
class ExporterPresence:
    """Number of samples of one device in each interval, by holder."""

    counts: dict[Workload | None, Floats] = field(default_factory=dict)
    """`None` for time without a holder; 0 for no samples."""
    usual_samples: float = 0.0
    """Per interval, at the fleet's usual scrape interval."""

    @property
    def has_own_series(self) -> bool:
        """Whether the device has a separate series while workloads hold it.

        dcgm-exporter writes it since 4.6.0-4.8.3 with `--kubernetes-virtual-gpus`, for the fields
        whose value it divides among the pods (dcgm-exporter#594).

        A device that short jobs held for a part of every interval has no full one to show the
        number of expected samples, so that the usual number counts too.
        """
        unnamed = self.counts.get(None)
        held = [column for holder, column in self.counts.items() if holder is not None]
        if unnamed is None or not held:
            return False
        fullest = max(float(column.max()) for column in self.counts.values())
        twice_full = _TWICE * max(fullest, self.usual_samples)
        return bool(
            np.any((unnamed > twice_full - fullest) & (np.max(held, axis=0) > twice_full - unnamed))
        )

    def series_at_once(self) -> Floats:
        """Return how many holders' series a scrape has at a time, by interval; at least 1.

        Each repeats the counters of the device. Of samples two minutes apart, an interval has one
        less than the fullest where a series lasts throughout.
        """
        held = [column for holder, column in self.counts.items() if holder is not None]
        columns = held if self.has_own_series else [*self.counts.values()]
        if len(columns) == 1:
            return np.ones_like(columns[0])
        fullest = max(float(column.max()) for column in self.counts.values())
        full = max(fullest, self.usual_samples)
        longest = np.max(columns, axis=0)
        scrapes = np.where(longest > full - _ROUNDED_SAMPLES, longest, full)
        return np.maximum(1.0, np.sum(columns, axis=0) / scrapes)


def known_seconds(
    exporter_presences: Sequence[ExporterPresence], grid: Grid, resolution_seconds: float
) -> Floats:
    """Return how much of each interval was watched, by the fleet's usual sample interval.

    Exporters may be scraped at different intervals, and rarer later, so the expected number of
    samples is that of a device's fullest interval nearby; or of the second fullest, if that
    occurs regularly: two of three, every two minutes.
    """
    length = seconds(grid.step)
    columns = [[*presence.counts.values()] for presence in exporter_presences]
    merges = [np.maximum if presence.has_own_series else np.add for presence in exporter_presences]
    counts = np.array(
        [reduce(merge, holders) for merge, holders in zip(merges, columns, strict=True)]
    )
    by_holder = np.array([reduce(np.maximum, holders) for holders in columns])
    compared_shape = len(counts), -1, _COMPARED
    parts = counts.reshape(compared_shape)
    fullest = by_holder.reshape(compared_shape).max(axis=2, keepdims=True)
    watched = (parts > 0).sum(axis=2, keepdims=True)
    second = (parts == fullest - 1).sum(axis=2, keepdims=True)
    at_least = (parts >= fullest - 1).sum(axis=2, keepdims=True)
    is_regular = (second >= _REGULAR * watched) & (at_least >= _WHOLE * watched) & (fullest >= _FEW)
    expected = np.maximum(fullest - is_regular, length / (_SLOWEST * resolution_seconds))
    ratios = (parts / expected).reshape(counts.shape)
    return length * np.where(ratios >= _WHOLE, 1.0, ratios)


def begun(grid: Grid, time: Nanoseconds | None) -> Grid:
    """Return the part of a day that has begun at a time, in whole groups of compared intervals."""
    if time is None or grid.days > 1:
        return grid
    groups = -(-(time - grid.start) // (_COMPARED * grid.step))
    return replace(grid, clipped=min(grid.count, _COMPARED * max(1, groups)))


def presences(
    answer: Sequence[SampledSeries],
    grid: Grid,
    names: HolderNames,
    resolution_seconds: float = math.inf,
) -> dict[str, ExporterPresence]:
    """Return the samples of each device, by holder; of duplicate scrapes, the larger counts.

    While a GPU has MIG instances, only these count.
    """
    new = partial(ExporterPresence, usual_samples=seconds(grid.step) / resolution_seconds)
    exporter_presences: defaultdict[str, ExporterPresence] = defaultdict(new)
    parts: defaultdict[str | None, Floats] = defaultdict(lambda: np.zeros(grid.count))
    for series, column in zip(answer, placed(answer, grid, 0.0), strict=True):
        if (entity := device_of(series.labels)) is not None:
            counts = exporter_presences[entity.device].counts
            holder = names.holder(series.labels)
            counts[holder] = np.maximum(column, counts.get(holder, 0.0))
            if entity.is_instance:
                parts[entity.whole] += column
    for whole in exporter_presences.keys() & parts.keys():
        counts = exporter_presences[whole].counts
        counts |= {
            workload: np.where(parts[whole], 0.0, column) for workload, column in counts.items()
        }
    return {
        uuid: one for uuid, one in exporter_presences.items() if np.any(list(one.counts.values()))
    }


def _without_lapses(
    counts: Mapping[Workload | None, Floats], step: Nanoseconds
) -> dict[Workload | None, Floats]:
    """Give a pod the samples without a holder between two of its own, up to an hour apart.

    A pod has its devices for life, while exporters lose its labels for a while
    (dcgm-exporter#428).
    """
    lapses = dict(counts)
    unnamed = lapses.get(None)
    others = [holder for holder in counts if holder is not None]
    if unnamed is None:
        return lapses
    for holder in others:
        lapsed = _between(counts[holder], step)
        for other in others:
            if other != holder:
                lapsed &= counts[other] == 0
        lapses[holder] = np.where(lapsed, counts[holder] + unnamed, counts[holder])
        unnamed = np.where(lapsed, 0.0, unnamed)
    return {**lapses, None: unnamed}


def _between(column: Floats, step: Nanoseconds) -> Floats:
    """Return the intervals between sightings that are at most an hour apart.

    Of the first sighting, what is unnamed may be the time before; of the last, the time after.
    """
    seen = np.flatnonzero(column)
    is_near = np.pad((np.diff(seen) - 1) * step <= COARSE_STEP, 1)
    before, after = (
        is_near[np.searchsorted(seen, np.arange(len(column)), side)] for side in ("left", "right")
    )
    return np.asarray(before & after)


def _held_at_once(exporter_presences: Iterable[ExporterPresence], grid: Grid) -> dict[Pod, float]:
    """Return how many devices each pod held at once at most: names return on other devices."""
    held: defaultdict[Pod, Floats] = defaultdict(lambda: np.zeros(grid.count))
    for presence in exporter_presences:
        for holder, column in presence.counts.items():
            if holder is not None:
                held[Pod(holder.namespace, holder.pod)] += column > 0
    return {pod: float(counts.max()) for pod, counts in held.items()}


def requested_shares(
    store: MetricStore,
    grid: Grid,
    devices: Iterable[Device],
    exporter_presences: Mapping[str, ExporterPresence],
    slots: Mapping[str, float],
) -> dict[str, dict[Workload, float]]:
    """Return which part of each device its pods requested, where GPUs are offered several times.

    `slots` has these GPUs, with the part of them that one `nvidia.com/gpu` is.
    """
    sliced = [device for device in devices if device.uuid in slots and device.mig is None]
    if not sliced:
        return {}
    day_end = grid.by(grid.step).end
    containers = containers_of(store.instant(requests_within(grid.days * DAY), day_end))
    gpus_held = _held_at_once(exporter_presences.values(), grid)
    shares: dict[str, dict[Workload, float]] = {}
    for device in sliced:
        units = GpuUnits(slots[device.uuid], memory_bytes=device.memory_total_bytes)
        holders = filter(None, exporter_presences[device.uuid].counts)
        pods = {holder: Pod(holder.namespace, holder.pod) for holder in holders}
        shares[device.uuid] = {
            holder: min(1.0, units.gpus_of(containers[pod]) / max(1.0, gpus_held[pod]))
            for holder, pod in pods.items()
            if pod in containers
        }
    return shares


def held_runs(
    presence: ExporterPresence,
    workloads: Mapping[Workload, Workload],
    step: Nanoseconds = COARSE_STEP,
    requested: Mapping[Workload, float] | None = None,
) -> tuple[DeviceHolding, ...]:
    """Return each workload's share of the device, as runs of intervals with the same share.

    Consecutive pods of one workload are merged. Holders that share an interval divide it by
    their samples, as an exporter does not report what each uses; a holder that requested a part
    of the device has no more, and the rest is free.
    """
    counts = dict(presence.counts)
    if presence.has_own_series:
        unnamed = counts.pop(None)
        counts[None] = np.maximum(0.0, unnamed - np.max(list(counts.values()), axis=0))
    else:
        counts = _without_lapses(counts, step)
    total: Floats = sum(counts.values(), np.zeros(()))
    at_once = presence.series_at_once() if requested else np.ones(())
    parts = {
        holder: column
        * (1.0 if holder is None or not requested else at_once * requested.get(holder, 1.0))
        for holder, column in counts.items()
    }
    whole = np.maximum(total, sum(parts.values(), np.zeros(())))
    shares: dict[str, Floats] = {}
    latest: dict[str, Workload] = {}
    held = {holder: column for holder, column in parts.items() if holder and column.any()}
    for holder in sorted(held, key=lambda holder: -np.flatnonzero(held[holder])[-1]):
        if (workload := workloads.get(holder)) is not None:
            part = held[holder] / np.where(whole > 0, whole, 1.0)
            shares[workload.key] = shares.get(workload.key, 0.0) + part
            latest.setdefault(workload.key, workload)  # The latest pod represents it.
    return tuple(
        DeviceHolding(latest[key], *run)
        for key in sorted(shares)
        # Rounded down, so that the shares of an interval never exceed the whole.
        for run in runs_of(np.floor(shares[key] * _PARTS + _ROUNDING) / _PARTS)
    )
