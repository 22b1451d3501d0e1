"""Protocols of a store of samples and of a source of a fleet's metrics."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from operator import add, sub
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import Grid
from rightsizer.fleet.model import Cluster, FleetDay, FleetDevice, FleetInventory
from rightsizer.model.frozen import astuple, dataclass, field
from rightsizer.model.state import Tier
from rightsizer.model.units import Nanoseconds


@dataclass(frozen=True, slots=True)
class StoreUse:
    """What a store was asked for so far; those of several processes add up."""

    queries: int = 0
    """Requests that were sent, the further tries and the halves among them."""
    retries: int = 0
    """Of these, the tries after one that failed."""
    halvings: int = 0
    """How often a span was cut in two, as the store allows less."""
    series: int = 0
    samples: int = 0
    received_bytes: int = 0
    """Unpacked."""
    store_seconds: float = 0.0
    """Spent in requests, all threads together."""
    parse_seconds: float = 0.0
    """Spent on answers once they were there, all threads together."""

    def since(self, before: StoreUse) -> StoreUse:
        """What came on top of what there was before."""
        return StoreUse(*map(sub, astuple(self), astuple(before)))

    def __add__(self, other: StoreUse) -> StoreUse:
        return StoreUse(*map(add, astuple(self), astuple(other)))


class StoreUseCounter:
    """Counts for many threads."""

    def __init__(self) -> None:
        self._use = StoreUse()
        self._lock = threading.Lock()

    def add(self, more: StoreUse) -> None:
        """Count this too."""
        with self._lock:
            self._use += more

    @property
    def use(self) -> StoreUse:
        """All that was counted until now."""
        with self._lock:
            return self._use


@dataclass(frozen=True, slots=True)
class SampledSeries:
    """One series of an answer."""

    labels: Mapping[str, str]
    times: NDArray[np.int64]
    """Nanoseconds of wall time, ascending."""
    values: Floats
    """As many as there are times; `NaN` samples are left out by the parser."""

    @property
    def value(self) -> float:
        """The latest; the only one of an instant query."""
        return float(self.values[-1])

    @property
    def span(self) -> tuple[Nanoseconds, Nanoseconds]:
        """Wall time of the first and of the last sample."""
        return int(self.times[0]), int(self.times[-1])


class MetricStore(Protocol):
    """Prometheus's HTTP API, made safe to ask: both raise `StoreError`."""

    @property
    def use(self) -> StoreUse:
        """What it was asked for so far."""

    def range(
        self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
    ) -> Sequence[SampledSeries]:
        """A range query; samples at `start`, `start + step`, ... up to and with `end`.

        What a store refuses as too much is asked in halves of the time; `StoreLimitError` is
        raised where a single step is too much, for the caller to ask about fewer devices.
        """

    def instant(self, promql: str, time: Nanoseconds) -> Sequence[SampledSeries]:
        """A query at one moment; each series has one sample."""

    def within(self, matchers: str) -> MetricStore:
        """The same store, of which no other series are asked for."""


DAYS_AT_ONCE: Final = 7
"""A week by the hour has fewer samples than a day by five minutes. A distribution is one of all
days of a grid, and rules look at three and at fourteen days."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What a probe found of one source."""

    source: str
    """`rightsizer`, `dcgm-exporter`, `kube-state-metrics`, `slurm`, `serving`."""
    devices: int = 0
    """That have series now."""
    oldest: Nanoseconds | None = None
    """Of the first sample within the lookback, `None` where there is none."""
    resolution_seconds: float | None = None
    """Between two samples, as a median."""
    tier: Tier = Tier.NONE
    metrics: frozenset[str] = frozenset()
    """Names that were found, recording rules included."""
    can: tuple[str, ...] = ()
    """What can be concluded, a sentence each."""
    cannot: tuple[str, ...] = ()
    """What cannot, and why, a sentence each."""
    names_by_day: Mapping[int, frozenset[str]] = field(default_factory=dict, hash=False)
    """Names that were there when a UTC day began, by its number; rules outlive what they record."""
    resolution_by_day: Mapping[int, float] = field(default_factory=dict, hash=False)
    """Seconds between two samples on a UTC day, by its number; older ones may be downsampled."""
    days_at_once: int = 1
    """Days by the hour that it can be asked for with one grid."""
    warnings: tuple[str, ...] = ()
    """Duplicate scrapers, clocks that disagree, gaps: what an operator should look at."""
    cluster: Cluster = field(default_factory=Cluster)

    @property
    def key(self) -> str:
        """By which its days are kept: the source, and its cluster where there are several."""
        return f"{self.source}@{self.cluster.prefix}" if self.cluster.prefix else self.source


class FleetSource(Protocol):
    """One way to read devices from a store."""

    @property
    def name(self) -> str:
        """As in `SourceReport.source`."""

    def probe(self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
        """What there is, how far back and at which resolution; raises `StoreError` alone."""

    def inventory(
        self, store: MetricStore, report: SourceReport, now: Nanoseconds, lookback: Nanoseconds
    ) -> FleetInventory:
        """The devices that had samples within the lookback, and their holders."""

    def day(
        self, store: MetricStore, report: SourceReport, devices: Sequence[FleetDevice], grid: Grid
    ) -> FleetDay:
        """A day of some devices, or several by the hour, duplicates of a scrape taken once."""
