"""Protocols of a metric store and of a source of a fleet's metrics."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from operator import add, sub
from typing import Final, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import Grid
from rightsizer.fleet.model import Cluster, FleetDay, FleetDevice, FleetInventory
from rightsizer.model.values import Nanoseconds, State, Tier


class StoreUse(Struct, frozen=True):
    """Usage of a store so far; values of several processes add up."""

    queries: int = 0
    """Requests sent, including retries and halves."""
    retries: int = 0
    """Of these, tries after a failure."""
    halvings: int = 0
    """How often a span was halved because of the store's limits."""
    series: int = 0
    samples: int = 0
    received_bytes: int = 0
    """Uncompressed."""
    store_seconds: float = 0.0
    """Spent in requests, summed over threads."""
    parse_seconds: float = 0.0
    """Spent parsing answers, summed over threads."""

    def since(self, before: StoreUse) -> StoreUse:
        """Return the difference from an earlier value."""
        return StoreUse(*map(sub, astuple(self), astuple(before)))

    def __add__(self, other: StoreUse) -> StoreUse:
        return StoreUse(*map(add, astuple(self), astuple(other)))


class StoreUseCounter:
    """Thread-safe counter."""

    def __init__(self) -> None:
        self._use = StoreUse()
        self._lock = threading.Lock()

    def add(self, more: StoreUse) -> None:
        """Add to the counts."""
        with self._lock:
            self._use += more

    @property
    def use(self) -> StoreUse:
        """Counts so far."""
        with self._lock:
            return self._use


class SampledSeries(Struct, frozen=True):
    """One series of an answer."""

    labels: Mapping[str, str]
    times: NDArray[np.int64]
    """Nanoseconds of wall time, ascending."""
    values: Floats
    """One per time; `NaN` samples are dropped by the parser."""

    @property
    def value(self) -> float:
        """Latest value; the only one of an instant query."""
        return float(self.values[-1])

    @property
    def span(self) -> tuple[Nanoseconds, Nanoseconds]:
        """Wall time of the first and last sample."""
        return int(self.times[0]), int(self.times[-1])


class MetricStore(Protocol):
    """Safe access to Prometheus's HTTP API; both queries raise `StoreError`."""

    @property
    def use(self) -> StoreUse:
        """Usage so far."""

    def range(
        self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
    ) -> Sequence[SampledSeries]:
        """Run a range query; samples at `start`, `start + step`, ... up to and including `end`.

        Queries refused as too large are halved by time; `StoreLimitError` is raised if a single
        step is too large, so that the caller asks about fewer devices.
        """

    def instant(self, promql: str, time: Nanoseconds) -> Sequence[SampledSeries]:
        """Run a query at one moment; each series has one sample."""

    def within(self, matchers: str) -> MetricStore:
        """Return the same store, limited to matching series."""


DAYS_AT_ONCE: Final = 7
"""A week by the hour has fewer samples than a day by five minutes. A distribution covers all days
of a grid, and rules use three and fourteen days."""


class SourceReport(Struct, frozen=True):
    """Result of probing one source."""

    source: str
    """`rightsizer`, `dcgm-exporter`, `kube-state-metrics`, `slurm`, `serving`."""
    devices: int = 0
    """With current series."""
    oldest: Nanoseconds | None = None
    """Time of the first sample within the lookback, `None` without any."""
    resolution_seconds: float | None = None
    """Median time between two samples."""
    tier: Tier = Tier.NONE
    metrics: frozenset[str] = frozenset()
    """Names found, including recording rules."""
    can: tuple[str, ...] = ()
    """What can be concluded, one sentence each."""
    cannot: tuple[str, ...] = ()
    """What cannot be concluded, and why, one sentence each."""
    names_by_day: Mapping[int, frozenset[str]] = {}
    """Names present at the start of each UTC day, by its number; rules outlive their inputs."""
    resolution_by_day: Mapping[int, float] = {}
    """Seconds between two samples on each UTC day, by its number; old ones may be downsampled."""
    days_at_once: int = 1
    """Number of hourly days that one grid may cover."""
    series_at_once: int = len(State)
    """Maximum series per device in one query, approximately."""
    time: Nanoseconds | None = None
    """Of the probe; what is later is not known yet."""
    warnings: tuple[str, ...] = ()
    """Duplicate scrapers, clock skew, gaps: problems for the operator."""
    cluster: Cluster = Cluster()

    @property
    def key(self) -> str:
        """Key of its cached days: the source, and its cluster if there are several."""
        return f"{self.source}@{self.cluster.prefix}" if self.cluster.prefix else self.source


class FleetSource(Protocol):
    """One way to read devices from a store."""

    @property
    def name(self) -> str:
        """See `SourceReport.source`."""

    def probe(self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
        """Find what there is, how far back and at which resolution; raises only `StoreError`."""

    def inventory(
        self, store: MetricStore, report: SourceReport, now: Nanoseconds, lookback: Nanoseconds
    ) -> FleetInventory:
        """Return the devices with samples within the lookback, and their holders.

        It comes before `queries` and `day`, which read by the labels that it finds.
        """

    def queries(self, report: SourceReport, grids: Sequence[Grid]) -> int:
        """Return how many queries shards on these days take, in one process.

        Beside them, owners of pods are asked for, and engines where there are any.
        """

    def day(
        self, store: MetricStore, report: SourceReport, devices: Sequence[FleetDevice], grid: Grid
    ) -> FleetDay:
        """Return a day of some devices, or several by the hour, with duplicate scrapes merged."""
