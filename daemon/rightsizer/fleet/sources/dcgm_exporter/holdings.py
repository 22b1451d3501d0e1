"""Pods and jobs named by dcgm-exporter's labels, and which device each held when."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, Self

from rightsizer.fleet.cache.day_frame import Grid
from rightsizer.fleet.model import DeviceHolding
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.fleet.sources.dcgm_exporter.probe import device_of
from rightsizer.fleet.sources.kubernetes import LookbackSpan, Pod, PodOwners, workload_of
from rightsizer.fleet.sources.series import placed
from rightsizer.fleet.sources.slurm import workload_of_job
from rightsizer.model.dcgm_exporter import holder_of
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.units import seconds
from rightsizer.model.workload import Workload
from rightsizer.owners.registry import owner_of

_OWN: Final = ("pod", "namespace", "container")


class DeviceHolder(NamedTuple):
    """A pod's container, or a job."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class HolderNames:
    """How an estate's series name who holds a device."""

    exported_jobs: frozenset[str] = frozenset()
    """Scrapes that write their target's `pod`, the exporter's; the holder's is `exported_pod`."""

    @classmethod
    def seen_in(cls, series: Iterable[Mapping[str, str]]) -> Self:
        """By the labels of an estate's series, `job` among them."""
        return cls(
            frozenset(labels.get("job", "") for labels in series if labels.get("exported_pod"))
        )

    def holder(self, labels: Mapping[str, str]) -> DeviceHolder | None:
        """Who held the device; `None` for nobody."""
        if labels.get("job", "") in self.exported_jobs:
            labels = {name: value for name, value in labels.items() if name not in _OWN}
        found = holder_of(labels)
        if found is None:
            return None
        if job := owner_of(found.kind).job_of(found):
            return DeviceHolder(job=job)
        return DeviceHolder(found.namespace, found.pod, found.container)


def workloads_of(
    store: MetricStore, owners: PodOwners, holders: Iterable[DeviceHolder], span: LookbackSpan
) -> dict[DeviceHolder, Workload]:
    """The workload that each holder is a part of, under the key that its successors have."""
    named = set(holders)
    pods = {holder: Pod(holder.namespace, holder.pod) for holder in named if holder.pod}
    made_by = owners.of(store, pods.values(), span)
    found = {
        holder: workload_of(pod, made_by[pod], holder.container) for holder, pod in pods.items()
    }
    jobs = {holder: workload_of_job(holder.job) for holder in named - found.keys()}
    return {**found, **jobs}


_WHOLE = 0.9
"""Of the expected samples of a stretch, from which on it is known wholly: scrapes drift."""
_SLOWEST = 8.0
"""How many times the estate's usual interval a scrape may take: 15 s, and two minutes."""
_HUNDREDTHS = 100
_ROUNDING = 1e-6
_TWICE = 1.5
"""Of the samples of a stretch, from which on nobody's and a holder's are of the same time."""


@dataclass(slots=True)
class ExporterPresence:
    """Of one device, how many samples there were in each stretch, by holder."""

    counts: dict[DeviceHolder | None, array[float]] = field(default_factory=dict)
    """`None` for the time in which nobody held it."""
    usual_samples: float = 0.0
    """Of a stretch, at the estate's usual interval."""

    @property
    def fullest(self) -> float:
        """The most samples of one holder in a stretch, or of nobody."""
        return max(
            (count for column in self.counts.values() for count in column if count > 0.0),
            default=0.0,
        )

    @property
    def is_told_twice(self) -> bool:
        """Whether the device has a series of its own while others hold it.

        dcgm-exporter writes it since 4.6.0-4.8.3 with `--kubernetes-virtual-gpus`, for the fields
        whose value it divides among the pods (dcgm-exporter#594).

        A device that short jobs held for a part of every stretch has no full one to tell how many
        samples are all of them, so that the usual number counts too.
        """
        nobody = self.counts.get(None)
        if nobody is None:
            return False
        held = [column for holder, column in self.counts.items() if holder is not None]
        fullest = self.fullest
        most = _TWICE * max(fullest, self.usual_samples)
        # Gaps are `nan`, which is above nothing.
        return any(
            own > most - fullest and any(column[at] > most - own for column in held)
            for at, own in enumerate(nobody)
        )

    def known_seconds(self, grid: Grid, resolution_seconds: float) -> array[float]:
        """How much of each stretch was watched.

        Exporters of one estate may be scraped at different intervals, so that the fullest
        stretch of a device tells how many samples are all of them.

        Args:
            grid: The stretches.
            resolution_seconds: Usual time between two samples in the estate.
        """
        length = seconds(grid.step)
        expected = max(self.fullest, length / (_SLOWEST * resolution_seconds))
        known = array("d", bytes(8 * grid.count))
        together = max if self.is_told_twice else sum
        for at, columns in enumerate(zip(*self.counts.values(), strict=True)):
            part = together(map(_number, columns)) / expected
            known[at] = length if part >= _WHOLE else part * length
        return known


def presences(
    answer: Iterable[SampledSeries],
    grid: Grid,
    names: HolderNames,
    resolution_seconds: float = math.inf,
) -> dict[str, ExporterPresence]:
    """The samples of each device, by holder. Of two scrapes of the same, the larger counts."""
    usual = seconds(grid.step) / resolution_seconds
    found: dict[str, ExporterPresence] = {}
    for series in answer:
        entity = device_of(series.labels)
        if entity is None:
            continue
        counts = found.setdefault(entity.device, ExporterPresence(usual_samples=usual)).counts
        holder, column = names.holder(series.labels), placed(series, grid)
        former = counts.get(holder)
        if former is not None:
            pairs = zip(column, former, strict=True)
            column = array("d", (max(_number(a), _number(b)) for a, b in pairs))
        counts[holder] = column
    return found


def held_runs(
    presence: ExporterPresence, workloads: Mapping[DeviceHolder, Workload], grid: Grid
) -> tuple[DeviceHolding, ...]:
    """Each workload's part of the device, as runs of stretches with the same share.

    Pods of one workload that follow each other are one workload. Of holders that share a
    stretch, each has the part of its samples, for an exporter says nothing of what each takes.
    """
    shares: dict[str, array[float]] = {}
    known: dict[str, Workload] = {}
    is_told_twice = presence.is_told_twice
    for at, columns in enumerate(zip(*presence.counts.values(), strict=True)):
        counts = dict(zip(presence.counts, map(_number, columns), strict=True))
        if is_told_twice:
            nobodys = counts.pop(None)
            counts[None] = max(0.0, nobodys - max(counts.values()))
        total = sum(counts.values())
        if total <= 0.0:
            continue
        for holder, count in counts.items():
            workload = None if holder is None else workloads.get(holder)
            if workload is None or not count:
                continue
            known[workload.key] = workload  # The latest pod stands for it.
            column = shares.setdefault(workload.key, array("d", bytes(8 * grid.count)))
            column[at] += count / total
    return tuple(run for key in sorted(shares) for run in _runs(known[key], shares[key]))


def _runs(workload: Workload, shares: Collection[float]) -> Iterable[DeviceHolding]:
    first, share = 0, 0.0
    for at, each in enumerate((*shares, 0.0)):
        # Rounded down, so that the parts of a stretch are never more than all of it.
        now = math.floor(each * _HUNDREDTHS + _ROUNDING) / _HUNDREDTHS
        if now == share:
            continue
        if share > 0.0:
            yield DeviceHolding(workload, first, at - 1, share)
        first, share = at, now


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else value
